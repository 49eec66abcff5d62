"""Cuts an event log into what every thread did, held and waited for (`docs/semantics.md` section 9)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from fssim.engine.objects import Objects, walk
from fssim.engine.programs import compile_programs, program_key
from fssim.explain.places import Place, Route, Row
from fssim.explain.states import (
    CPU,
    DEVICE,
    DEVICE_WAKE,
    POLLED,
    READY,
    SLEEP,
    TIMER_WAKE,
    WAIT,
    WAKING,
    Hold,
    Segment,
    Wait,
)
from fssim.machine.device import FlashDevice
from fssim.protocol.bytecode import LOG_DEVICE_DONE, LOG_END, LOG_GRANT, OPCODES
from fssim.system import RunResult, System

_O = OPCODES
_WAITS_FOR_GRANT = (_O["ACQUIRE"], _O["GET"], _O["TAKE"])


@dataclass
class Timeline:
    """A run as an explanation reads it.  Lists by thread are in order of time, without gaps.

    `steps`: the rows of every thread, each with the place where it was written.  `zeroed`: when a counter came to zero.
    `told`: of a counter, queue or space: when somebody may have ended a wait for it, and which thread.
    """

    system: System
    result: RunResult
    objects: Objects
    workload: list[int]
    daemons: list[int]
    segments: list[list[Segment]] = field(default_factory=list)
    steps: list[list[tuple[Row, Place]]] = field(default_factory=list)
    holds: dict[int, list[Hold]] = field(default_factory=lambda: defaultdict(list))
    waits: list[Wait] = field(default_factory=list)
    zeroed: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    told: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def start_ns(self) -> int:
        """The beginning of the window of the statistics."""
        return self.result.time_ns - self.result.window_ns

    @property
    def end_ns(self) -> int:
        return self.result.time_ns

    def class_of(self, obj: int) -> str:
        return self.objects.classes[self.objects.primitives[obj].class_index].name

    def kind_of(self, obj: int) -> type:
        return self.objects.classes[self.objects.primitives[obj].class_index].kind

    def inside(self, start: int, end: int) -> int:
        """How much of an interval lies in the window."""
        return max(0, min(end, self.end_ns) - max(start, self.start_ns))


def timeline_of(system: System, result: RunResult) -> Timeline:
    """Read a run's log; what its waits were like in detail is for `fssim.explain.waiting`."""
    assert result.log is not None
    numbers = range(len(system.threads))
    timeline = Timeline(
        system,
        result,
        walk(system.threads),
        workload=[number for number in numbers if not system.threads[number].daemon],
        daemons=[number for number in numbers if system.threads[number].daemon],
    )
    log = result.log
    zeroed = (log[:, 3] == _O["DEC"]) & (log[:, 5] == 0)
    for time_ns, obj in log[zeroed][:, [0, 4]].tolist():
        timeline.zeroed[obj].append(time_ns)
    for time_ns, thread, obj in log[zeroed | np.isin(log[:, 3], (_O["PUT"], _O["GIVE"]))][:, [0, 1, 4]].tolist():
        timeline.told[obj][time_ns] = thread
    programs = compile_programs(system)
    routes = {key: Route(program, result.objects) for key, program in programs.items()}
    by_thread = log[np.argsort(log[:, 1], kind="stable")]
    bounds = np.searchsorted(by_thread[:, 1], np.arange(len(system.threads) + 1))
    for number in numbers:
        rows = by_thread[bounds[number] : bounds[number + 1]][:, [0, 2, 3, 4, 5]].tolist()
        _Walk(timeline, number, routes[program_key(system.threads[number])]).walk(_synchronous(rows))
    for holds in timeline.holds.values():
        holds.sort()
    return timeline


def _synchronous(rows: list[Row]) -> list[Row]:
    """Leave out the completions of I/Os for which the thread does not wait: they stand between its rows anywhere."""
    kept: list[Row] = []
    for row in rows:
        if row[2] == LOG_DEVICE_DONE and not (
            kept and kept[-1][2] in (_O["READ"], _O["WRITE"]) and kept[-1][1] == row[1]
        ):
            continue
        kept.append(row)
    return kept


class _Walk:
    """Goes through the rows of one thread."""

    def __init__(self, timeline: Timeline, thread: int, route: Route) -> None:
        self.timeline = timeline
        self.thread = thread
        self.route = route
        self.segments: list[Segment] = []
        self.held: dict[int, list[tuple[int, int]]] = defaultdict(list)  # (mode, since), the last taken at the end
        device = timeline.system.device
        self.polls = isinstance(device, FlashDevice) and device.write_polled

    def walk(self, rows: list[Row]) -> None:
        end_ns = self.timeline.result.time_ns
        self.add(0, rows[0][0] if rows else end_ns, READY)
        steps: list[tuple[Row, Place]] = []
        place = self.route.places[0]
        wait: Wait | None = None
        for number, (row, instruction) in enumerate(zip(rows, self.route.follow(rows), strict=True)):
            start, _, kind, obj, value = row
            if instruction >= 0:
                place = self.route.places[instruction]
            steps.append((row, place))
            following = rows[number + 1] if number + 1 < len(rows) else None
            end = following[0] if following is not None else end_ns
            if kind in _WAITS_FOR_GRANT and (following is None or following[2] == LOG_GRANT):
                wait = self.wait(obj, value if kind == _O["ACQUIRE"] else 0, start, end, following is not None, place)
                self.add(start, end, WAIT, place, obj, len(self.timeline.waits) - 1)
            elif kind == LOG_GRANT:
                assert wait is not None
                wait.resume = end
                if wait.mode:
                    self.take(obj, wait.mode, start)
                self.add(start, end, WAKING, place, obj, len(self.timeline.waits) - 1)
            elif kind == _O["WAITZERO"] and value > 0:
                self.drain(obj, start, end, following, place)
            elif kind == LOG_END:
                break
            else:
                self.plain(kind, obj, value, start, end, place)
        for obj, holds in self.held.items():
            for mode, since in holds:
                self.timeline.holds[obj].append(Hold(since, end_ns, self.thread, mode or 2))
        self.timeline.segments.append(self.segments)
        self.timeline.steps.append(steps)

    def plain(self, kind: int, obj: int, value: int, start: int, end: int, place: Place) -> None:
        """A row after which the thread need not wait for another."""
        if kind == _O["CPU"]:
            worked = min(end, start + value)
            self.add(start, worked, CPU, place)
            self.add(worked, end, READY, place)  # preempted
        elif kind == _O["SLEEP"]:
            expiry = min(end, start + value)
            self.add(start, expiry, SLEEP, place)
            self.add(expiry, end, WAKING, place, TIMER_WAKE)
        elif kind in (_O["READ"], _O["WRITE"]):
            self.add(start, end, POLLED if self.polls and kind == _O["WRITE"] else DEVICE, place)
        elif kind == LOG_DEVICE_DONE:
            self.add(start, end, WAKING, place, DEVICE_WAKE)
        else:
            self.change_hold(kind, obj, value, end)
            self.add(start, end, CPU, place)  # for a cache line

    def change_hold(self, kind: int, obj: int, value: int, now: int) -> None:
        if kind == _O["ACQUIRE"]:
            self.take(obj, value, now)
        elif kind == _O["TRY"] and value:
            self.take(obj, 0, now)  # the mode is that of the release
        elif kind == _O["RELEASE"]:
            self.drop(obj, value, now)
        elif kind == _O["DEMOTE"]:
            self.drop(obj, 2, now)
            self.take(obj, 1, now)

    def take(self, obj: int, mode: int, now: int) -> None:
        self.held[obj].append((mode, now))

    def drop(self, obj: int, mode: int, now: int) -> None:
        _, since = self.held[obj].pop()
        self.timeline.holds[obj].append(Hold(since, now, self.thread, mode))

    def wait(self, obj: int, mode: int, start: int, grant: int, granted: bool, place: Place) -> Wait:
        wait = Wait(self.thread, obj, mode, start, grant, grant, place, granted=granted)
        self.timeline.waits.append(wait)
        return wait

    def drain(self, obj: int, start: int, end: int, following: Row | None, place: Place) -> None:
        """Wait for a counter: it was woken when the counter came to zero for the first time."""
        zeroed = self.timeline.zeroed[obj]
        number = bisect_right(zeroed, start)
        woken = min(zeroed[number], end) if number < len(zeroed) and following is not None else end
        self.wait(obj, 0, start, woken, following is not None, place).resume = end
        number = len(self.timeline.waits) - 1
        self.add(start, woken, WAIT, place, obj, number)
        self.add(woken, end, WAKING, place, obj, number)

    def add(self, start: int, end: int, state: str, place: Place | None = None, obj: int = -1, wait: int = -1) -> None:
        if end > start:
            self.segments.append(Segment(start, end, state, place or self.route.places[0], obj, wait))
