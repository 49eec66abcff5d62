"""Who waits for whom, and what the holder does meanwhile.

At every instant a wait is charged to one holder: of several readers to the one that lets go last.  Counters, queues and
spaces have no holders; there it is the thread that ends the wait, or the device if that does.  Where the holder itself
waits, the chain is followed to one that does not: the root.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fssim.explain.places import Place
from fssim.explain.states import (
    CPU,
    DEVICE,
    DEVICE_WAKE,
    MODES,
    POLLED,
    READY,
    SLEEP,
    SPIN,
    SWITCH,
    TIMER_WAKE,
    WAIT,
    WAKING,
    Hold,
    Segment,
    Wait,
)
from fssim.explain.timeline import Timeline
from fssim.protocol.language import WAITED

TELLS = "tells"
LONGEST_CHAIN = 16  # holders that wait for holders; a cycle would be a deadlock


class Phase(NamedTuple):
    """What a holder does.  `kind`: a state of `states.py`, "free" or "told"; `what`: where, or after what."""

    kind: str
    what: str

    @property
    def text(self) -> str:
        return _TEXTS[self.kind].format(self.what)


_TEXTS = {
    CPU: "computes in {}",
    POLLED: "hands a write to the device in {}",
    DEVICE: "waits for the device in {}",
    SLEEP: "sleeps on a timer in {}",
    WAIT: "waits for {}",
    SPIN: "spins for {}",
    WAKING: "is being woken after {}",
    SWITCH: "is being woken after {}",
    READY: "has no CPU",
    "free": "nobody holds it: the next owner of {} is being woken",
    "told": "the device has yet to complete an I/O, of which it tells {}",
}


class Piece(NamedTuple):
    """From `start` to `end` a lock is held by `hold`, the last to let go, which is in this segment; None: by nobody."""

    start: int
    end: int
    hold: Hold | None
    segment: Segment | None


@dataclass(frozen=True)
class Blame:
    """Waiting for locks of a class in one mode while the holder, in another, is in a phase.

    `waited_ns`: the waiting of all threads in the window.  `begun`: waits that began then.
    """

    lock: str
    wanted: str
    held: str
    phase: Phase
    waited_ns: int
    begun: int


class Root(NamedTuple):
    """The end of a chain of holders: what the last of them does, and the lock that it holds; "": it holds none.

    `held`: in which mode; `TELLS` if it is a counter, queue or space, the wait for which it will end.
    """

    phase: Phase
    lock: str
    held: str

    @property
    def text(self) -> str:
        if not self.lock:
            return self.phase.text
        if self.held == TELLS:
            return f"who ends the wait for {self.lock} {self.phase.text}"
        return f"a holder of {self.lock}{f' ({self.held})' if self.held else ''} {self.phase.text}"


@dataclass(frozen=True)
class Blames:
    """`roots`: waiting time by what is at the end of the chain.  `root_places`: the same, by the place of the root."""

    direct: tuple[Blame, ...]
    roots: dict[Root, int]
    root_places: dict[tuple[Phase, Place], int]
    total_ns: int


class Holders:
    """The holder of every lock for whom others wait, at every instant."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._pieces: dict[int, list[Piece]] = {}
        self._starts: dict[int, list[int]] = {}
        self._segment_starts = [[segment.start for segment in segments] for segments in timeline.segments]

    def during(self, wait: Wait, start: int, end: int) -> Iterator[Piece]:
        """Yield the pieces of an interval of a wait, without gaps."""
        if wait.mode:
            yield from self.between(wait.obj, start, end)
        elif (thread := self.timeline.told[wait.obj].get(wait.grant)) is None:
            yield Piece(start, end, None, None)
        else:
            hold = Hold(wait.start, wait.grant, thread, 0)
            for segment in self._segments(thread, start, end):
                yield Piece(segment.start, segment.end, hold, segment)

    def between(self, obj: int, start: int, end: int) -> Iterator[Piece]:
        """Yield the pieces of an interval of a lock's time, without gaps."""
        if obj not in self._pieces:
            self._pieces[obj] = list(self._all_pieces(obj))
            self._starts[obj] = [piece.start for piece in self._pieces[obj]]
        pieces = self._pieces[obj]
        number = max(bisect_right(self._starts[obj], start) - 1, 0)
        while number < len(pieces) and pieces[number].start < end:
            piece = pieces[number]
            if piece.end > start:
                yield piece._replace(start=max(piece.start, start), end=min(piece.end, end))
            number += 1

    def _all_pieces(self, obj: int) -> Iterator[Piece]:
        now = 0
        for hold in _last_to_let_go(self.timeline.holds[obj]):
            if hold.start > now:
                yield Piece(now, hold.start, None, None)
            for segment in self._segments(hold.thread, hold.start, hold.end):
                yield Piece(segment.start, segment.end, hold, segment)
            now = hold.end
        if now < self.timeline.end_ns:
            yield Piece(now, self.timeline.end_ns, None, None)

    def _segments(self, thread: int, start: int, end: int) -> Iterator[Segment]:
        segments = self.timeline.segments[thread]
        number = max(bisect_right(self._segment_starts[thread], start) - 1, 0)
        while number < len(segments) and segments[number].start < end:
            segment = segments[number]
            if segment.end > start:
                yield segment._replace(start=max(segment.start, start), end=min(segment.end, end))
            number += 1

    def roots(self, obj: int, piece: Piece, depth: int = 0) -> Iterator[tuple[int, int, Root, Place | None]]:
        """Yield (start, end, root, place) of who is at the end of the chain during a piece of a lock's time."""
        segment = piece.segment
        if segment is not None and segment.state in (WAIT, SPIN) and depth < LONGEST_CHAIN:
            for inner in self.during(self.timeline.waits[segment.wait], piece.start, piece.end):
                yield from self.roots(segment.obj, inner, depth + 1)
            return
        phase = phase_of(self.timeline, obj, piece)
        if segment is None:
            yield piece.start, piece.end, Root(phase, "", ""), None
        else:
            held = _held(piece) or TELLS
            yield piece.start, piece.end, Root(phase, self.timeline.class_of(obj), held), segment.place


def _last_to_let_go(holds: Sequence[Hold]) -> Iterator[Hold]:
    """Cut holds, in order of their start, so that at every instant only the one that ends last is left."""
    current: Hold | None = None
    for hold in holds:
        if current is None or hold.start >= current.end:
            if current is not None:
                yield current
            current = hold
        elif hold.end > current.end:
            if hold.start > current.start:
                yield current._replace(end=hold.start)
            current = hold
    if current is not None:
        yield current


def phase_of(timeline: Timeline, obj: int, piece: Piece) -> Phase:
    """Say what the holder of a lock does in a piece of its time."""
    segment = piece.segment
    if segment is None:
        return Phase("told" if timeline.kind_of(obj) in WAITED else "free", timeline.class_of(obj))
    if segment.state in (WAIT, SPIN):
        return Phase(segment.state, waited_for(timeline, segment))
    if segment.state in (WAKING, SWITCH):
        after = {DEVICE_WAKE: "the device", TIMER_WAKE: "a timer"}.get(segment.obj)
        return Phase(WAKING, after or f"waiting for {timeline.class_of(segment.obj)}")
    if segment.state == READY:
        return Phase(READY, "")
    return Phase(segment.state, segment.place.function)


def waited_for(timeline: Timeline, segment: Segment) -> str:
    """Name class and mode of what a thread waits for."""
    mode = MODES[timeline.waits[segment.wait].mode]
    return f"{timeline.class_of(segment.obj)} {mode}".strip()


def blames_of(timeline: Timeline) -> Blames:
    """Charge all waiting of the workload's threads in the window to the holders' phases."""
    holders = Holders(timeline)
    workload = set(timeline.workload)
    waited: Counter[tuple[str, str, str, Phase]] = Counter()
    begun: Counter[tuple[str, str, str, Phase]] = Counter()
    roots: Counter[Root] = Counter()
    root_places: Counter[tuple[Phase, Place]] = Counter()

    def charge(waits: Sequence[Wait], pieces: Iterator[Piece]) -> None:
        """Charge waits for one object in one mode to these pieces of its time."""
        obj, mode = waits[0].obj, waits[0].mode
        waiting = _Waiting([(wait.start, wait.grant) for wait in waits])
        for piece in pieces:
            if (time := waiting.between(piece.start, piece.end)) == 0:
                continue
            waited[timeline.class_of(obj), MODES[mode], _held(piece), phase_of(timeline, obj, piece)] += time
            for start, end, root, place in holders.roots(obj, piece):
                time = waiting.between(start, end)
                roots[root] += time
                if place is not None:
                    root_places[root.phase, place] += time

    together: dict[tuple[int, int], list[Wait]] = defaultdict(list)
    for wait in timeline.waits:
        if wait.thread not in workload or wait.grant <= max(wait.start, timeline.start_ns):
            continue
        if wait.start >= timeline.start_ns:
            piece = next(holders.during(wait, wait.start, wait.grant))
            begun[timeline.class_of(wait.obj), MODES[wait.mode], _held(piece), phase_of(timeline, wait.obj, piece)] += 1
        if wait.mode:
            together[wait.obj, wait.mode].append(wait)
        else:  # each is ended by a thread of its own
            charge([wait], holders.during(wait, max(wait.start, timeline.start_ns), wait.grant))
    for (obj, _), waits in together.items():
        first, last = min(wait.start for wait in waits), max(wait.grant for wait in waits)
        charge(waits, holders.between(obj, max(first, timeline.start_ns), last))
    keys = sorted(waited.keys() | begun.keys(), key=lambda key: -waited[key])
    direct = tuple(Blame(*key, waited_ns=waited[key], begun=begun[key]) for key in keys)
    return Blames(direct, dict(roots.most_common()), dict(root_places.most_common()), sum(waited.values()))


def _held(piece: Piece) -> str:
    return MODES[piece.hold.mode] if piece.hold is not None else ""


class _Waiting:
    """How many wait at every instant, and its integral."""

    def __init__(self, intervals: Sequence[tuple[int, int]]) -> None:
        changes: Counter[int] = Counter()
        for start, end in intervals:
            changes[start] += 1
            changes[end] -= 1
        self._times = sorted(changes)
        self._levels: list[int] = []
        self._totals = [0]
        level = 0
        for number, time in enumerate(self._times):
            level += changes[time]
            self._levels.append(level)
            if number + 1 < len(self._times):
                self._totals.append(self._totals[-1] + level * (self._times[number + 1] - time))

    def between(self, start: int, end: int) -> int:
        return self._until(end) - self._until(start)

    def _until(self, time: int) -> int:
        number = bisect_right(self._times, time) - 1
        return self._totals[number] + self._levels[number] * (time - self._times[number]) if number >= 0 else 0
