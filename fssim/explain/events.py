"""What happened in the I/Os of a run's window, counted by line of the protocols."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fssim.explain.places import Place
from fssim.explain.states import MODES
from fssim.explain.timeline import Timeline
from fssim.protocol.bytecode import OPCODES

_O = OPCODES
FIRST_LOG_ROW = 100  # rows from here on are no effects


@dataclass
class Events:
    """Counts in the window, of the workload's threads.

    `ios`: completed I/Os.  `idle_threads`: threads that completed none.  `used`: (lock class, mode) to the number of
    I/Os that took it so; the mode "demoted" too.  `tries`, `failed`: try-locks and those that failed, by place and lock
    class.  `sleeps`: number and total nanoseconds of sleeps on a timer, by place.  `lines`: effects issued, by line.
    """

    ios: int = 0
    idle_threads: int = 0
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    tries: Counter[tuple[Place, str]] = field(default_factory=Counter)
    failed: Counter[tuple[Place, str]] = field(default_factory=Counter)
    sleeps: dict[Place, tuple[int, int]] = field(default_factory=dict)
    lines: Counter[Place] = field(default_factory=Counter)


def events_of(timeline: Timeline) -> Events:
    """Count."""
    events = Events()
    for thread in timeline.workload:
        before = events.ios
        _count(timeline, thread, events)
        events.idle_threads += events.ios == before
    return events


def _count(timeline: Timeline, thread: int, events: Events) -> None:
    held: dict[int, int] = {}
    used: set[tuple[str, str]] = set()
    for (time, _, kind, obj, value), place in timeline.steps[thread]:
        inside = time > timeline.start_ns or timeline.start_ns == 0
        if inside and kind < FIRST_LOG_ROW:
            events.lines[place] += 1
        if kind == _O["BEGIN"]:
            used = set()
        elif kind == _O["COMPLETE"]:
            if inside:
                events.ios += 1
                events.used.update(used)
        elif kind == _O["ACQUIRE"]:
            used.add((timeline.class_of(obj), MODES[value]))
        elif kind == _O["DEMOTE"]:
            used.add((timeline.class_of(obj), "demoted"))
        elif kind == _O["TRY"]:
            held[obj] = value
            if inside:
                events.tries[place, timeline.class_of(obj)] += 1
                events.failed[place, timeline.class_of(obj)] += 1 - value
        elif kind == _O["RELEASE"] and held.pop(obj, 0):
            used.add((timeline.class_of(obj), MODES[value]))  # the row of a try has no mode
        elif kind == _O["SLEEP"] and inside and value > 0:
            count, total = events.sleeps.get(place, (0, 0))
            events.sleeps[place] = count + 1, total + value
