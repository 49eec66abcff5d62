"""Where the time of an I/O goes: path cost and waiting kept apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fssim.explain.states import CPU, DEVICE, POLLED, READY, SLEEP, SPIN, SWITCH, WAIT, WAKING
from fssim.explain.timeline import Timeline

PATH = "path"  # CPU time that the I/O itself costs
IN_DEVICE = "device"  # off the CPU, the device's own queues included
WAITING = "waiting"  # for a lock, counter, queue or space
LATENCY = "latency"  # between being allowed to run and running
ASLEEP = "sleep"
DAEMONS = "daemons"

GROUPS = (PATH, IN_DEVICE, ASLEEP, WAITING, LATENCY)

_CATEGORIES = {
    CPU: "cpu",
    POLLED: "cpu",
    SWITCH: "cpu",
    DEVICE: "device",
    SLEEP: "sleep",
    WAKING: "wakeup",
    READY: "ready",
}


@dataclass(frozen=True)
class Item:
    """A line of the budget: `kind` of expense within its group, `what` names the sub-protocol or the lock."""

    group: str
    kind: str
    what: str


Budget = dict[Item, float]
"""Nanoseconds per I/O.  They add up to the threads' time: number of threads * window / completed I/Os."""


def budget_of(timeline: Timeline) -> Budget:
    """Divide the time of the workload's threads by what it went into.

    Sums come from the run's own statistics, their division among sub-protocols from the log.  What the statistics call
    CPU and no line of a protocol asked for is hand-overs, retries and cache lines.
    """
    spent = _segments(timeline, timeline.workload)
    totals = _totals(timeline)
    items: Counter[Item] = Counter()
    known = 0
    for (state, what), time in spent.items():
        if state in (CPU, POLLED, SWITCH):
            known += time
        if state == CPU:
            items[Item(PATH, "CPU", what)] += time
        elif state == POLLED:
            items[Item(PATH, "polled write", what)] += time
        elif state == DEVICE:
            items[Item(IN_DEVICE, "device", what)] += time
        elif state == SLEEP:
            items[Item(ASLEEP, "timer", what)] += time
    switches = sum(time for (state, _), time in spent.items() if state == SWITCH)
    items[Item(LATENCY, "CPU", "context switches")] += switches
    items[Item(LATENCY, "CPU", "hand-overs, retries, cache lines")] += max(totals["cpu"] - known, 0)
    items[Item(LATENCY, "no CPU", "wake-up")] += totals["wakeup"]
    items[Item(LATENCY, "no CPU", "queue for a CPU")] += totals["ready"]
    for name, time in totals.items():
        if name.startswith("wait "):
            items[Item(WAITING, "for", name.removeprefix("wait "))] += time
    ios = max(timeline.result.ios, 1)
    return {item: time / ios for item, time in items.items() if time}


def daemons_budget_of(timeline: Timeline) -> Budget:
    """What daemons do for the I/Os, per completed I/O; it is not part of the threads' time."""
    kinds = {CPU: "CPU", POLLED: "polled write", DEVICE: "device"}
    ios = max(timeline.result.ios, 1)
    return {
        Item(DAEMONS, kinds[state], what): time / ios
        for (state, what), time in _segments(timeline, timeline.daemons).items()
        if state in kinds
    }


def _totals(timeline: Timeline) -> Counter[str]:
    """Thread time by category as the run counted it, without the daemons."""
    totals = Counter(dict(timeline.result.time_by_category_ns))
    for thread in timeline.daemons:
        for segment in timeline.segments[thread]:
            time = timeline.inside(segment.start, segment.end)
            if segment.state in (WAIT, SPIN):
                mode = timeline.waits[segment.wait].mode
                lock = timeline.class_of(segment.obj)
                totals[f"wait {lock} {('', 'shared', 'exclusive')[mode]}".rstrip()] -= time
            else:
                totals[_CATEGORIES[segment.state]] -= time
    return +totals


def _segments(timeline: Timeline, threads: list[int]) -> Counter[tuple[str, str]]:
    spent: Counter[tuple[str, str]] = Counter()
    for thread in threads:
        for segment in timeline.segments[thread]:
            time = timeline.inside(segment.start, segment.end)
            if time:
                spent[segment.state, segment.place.function] += time
    return spent


def total(budget: Budget, group: str | None = None) -> float:
    """Sum a budget, or one group of it."""
    return sum(time for item, time in budget.items() if group is None or item.group == group)
