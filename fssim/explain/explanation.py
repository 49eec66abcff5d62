"""Runs what an explanation needs, and puts it together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fssim import engine
from fssim.errors import UserError
from fssim.explain import order
from fssim.explain.blame import Blames, blames_of
from fssim.explain.budget import Budget, budget_of, daemons_budget_of
from fssim.explain.cell import Cell
from fssim.explain.events import Events, events_of
from fssim.explain.locks import LockReport, lock_reports
from fssim.explain.places import Place
from fssim.explain.states import SLEEP
from fssim.explain.timeline import Timeline, timeline_of
from fssim.explain.waiting import refine
from fssim.explain.whatif import WhatIf, what_if
from fssim.statistics import BATCHES, batch_durations_ns, iops_interval
from fssim.system import RunResult, System

RARELY = 0.05  # with one thread, against this cell
SELDOM = 0.0005  # an I/O: less often than this says nothing


@dataclass(frozen=True)
class RunSummary:
    """What one of the runs gave.  Times in nanoseconds.

    `uncertainty`: half the confidence interval of the IOPS over their value, None if not estimated.  `between_ns`: from
    one completion to the next.  `utilisation`: busy share of every resource that was used at all.  `daemons`: what
    daemons do, which is no part of the threads' time.
    """

    iops: float
    uncertainty: float | None
    between_ns: float
    latency_ns: float
    in_flight: float
    cpus_busy: float
    spinning: float
    utilisation: Mapping[str, float]
    budget: Budget
    daemons: Budget
    lines: Mapping[Place, float]
    ios: int


@dataclass(frozen=True)
class LineCount:
    """How often an I/O executes an effect of a line: in the cell, and by one thread (same blocks; own order)."""

    place: Place
    cell: float
    same: float
    alone: float


@dataclass(frozen=True)
class Timer:
    """A line that sleeps on a timer.  `causes_ns`: waiting of others, per I/O, that ends at such a sleep."""

    place: Place
    per_io: float
    sleep_ns: float
    causes_ns: float


@dataclass(frozen=True)
class Tries:
    """Try-locks at a line, per I/O."""

    place: Place
    lock: str
    per_io: float
    failed_per_io: float


@dataclass(frozen=True)
class Explanation:
    """Why a cell is what it is.

    `same`: one thread that transfers the cell's blocks in the cell's order.  `alone`: one thread in its own order.
    Both are None if the cell has one thread.  `idle_threads`: threads that complete no I/O in the window.
    """

    cell: Cell
    run: RunSummary
    same: RunSummary | None
    alone: RunSummary | None
    locks: tuple[LockReport, ...]
    blames: Blames
    timers: tuple[Timer, ...]
    tries: tuple[Tries, ...]
    lines: tuple[LineCount, ...]
    what_ifs: tuple[WhatIf, ...]
    idle_threads: int


def explain(cell: Cell, engine_name: str = "compiled") -> Explanation:
    """Explain a cell.  A run that ends by an error raises it, one of which nothing is seen a `UserError`."""
    system = cell.system(record=True)
    result = _result(system, engine_name)
    timeline = _timeline(system, result)
    events = events_of(timeline)
    same = alone = None
    if cell.threads > 1:
        same = _one_thread(cell.in_the_same_order(result))
        alone = _one_thread(cell.system(threads=1))
    run = _summary(timeline, events, batches=True)
    blames = blames_of(timeline)
    return Explanation(
        cell=cell,
        run=run,
        same=same,
        alone=alone,
        locks=tuple(lock_reports(timeline, events)),
        blames=blames,
        timers=tuple(_timers(events, blames, run.ios)),
        tries=tuple(
            Tries(place, lock, count / run.ios, events.failed[place, lock] / run.ios)
            for (place, lock), count in events.tries.items()
        ),
        lines=tuple(_lines(run, same, alone)),
        what_ifs=tuple(what_if(cell, timeline, events)),
        idle_threads=events.idle_threads,
    )


def _result(system: System, engine_name: str) -> RunResult:
    """Run a system; raises `UserError` if nothing is left to transfer before the window opens."""
    result = engine.run(system, engine=engine_name)
    if not result.ios:
        raise UserError(
            f"all files are transferred before the warm-up of {system.warmup_ios} I/Os is over; "
            "use a larger --file-size or fewer --ios"
        )
    return result


def _timeline(system: System, result: RunResult) -> Timeline:
    timeline = timeline_of(system, result)
    refine(timeline)
    return timeline


def _one_thread(system: System) -> RunSummary:
    timeline = _timeline(system, _result(system, "compiled"))
    return _summary(timeline, events_of(timeline))


def _summary(timeline: Timeline, events: Events, *, batches: bool = False) -> RunSummary:
    result = timeline.result
    ios, window = max(result.ios, 1), max(result.window_ns, 1)
    uncertainty = None
    if batches and len(durations := batch_durations_ns(result)) == BATCHES and durations.sum() > 0:
        uncertainty = iops_interval(durations, result.ios // BATCHES).half_width_percent / 100
    on_cpu, _ = result.busy_ns["cpu"]
    return RunSummary(
        iops=result.iops,
        uncertainty=uncertainty,
        between_ns=window / ios,
        latency_ns=result.latency_ns / ios,
        in_flight=result.in_flight_ns / window,
        cpus_busy=on_cpu / window,
        spinning=max(on_cpu - result.time_by_category_ns["cpu"], 0) / window,
        utilisation={
            name: busy / (servers * window) for name, (busy, servers) in result.busy_ns.items() if busy and servers
        },
        budget=budget_of(timeline),
        daemons=daemons_budget_of(timeline),
        lines={place: count / ios for place, count in events.lines.items()},
        ios=ios,
    )


def _timers(events: Events, blames: Blames, ios: int) -> list[Timer]:
    timers = []
    for place, (count, total) in events.sleeps.items():
        causes = sum(
            time for (phase, where), time in blames.root_places.items() if (phase.kind, where) == (SLEEP, place)
        )
        timers.append(Timer(place, count / ios, total / count, causes / ios))
    return sorted(timers, key=lambda timer: -timer.causes_ns)


def _lines(run: RunSummary, same: RunSummary | None, alone: RunSummary | None) -> list[LineCount]:
    """Lines that run in the cell and (nearly) never with one thread, those that run most often first."""
    if same is None or alone is None:
        return []
    found = [
        LineCount(place, count, same.lines.get(place, 0.0), alone.lines.get(place, 0.0))
        for place, count in run.lines.items()
        if place.file != order.__file__
    ]
    only = [line for line in found if line.cell >= SELDOM and line.alone < RARELY * line.cell]
    return sorted(only, key=lambda line: (-line.cell, line.place.file, line.place.line))
