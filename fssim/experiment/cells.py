"""One cell of a matrix: what to run, and what came out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, get_origin, get_type_hints

from fssim.errors import FssimError
from fssim.experiment.tables import Key
from fssim.filesystem import Geometry
from fssim.protocol.language import Queue
from fssim.statistics import BATCHES, Interval, LittlesLawViolated, batch_durations_ns, check_littles_law, iops_interval

if TYPE_CHECKING:
    import numpy as np

    from fssim.experiment.workloads import Workload
    from fssim.profile import Machine
    from fssim.system import LockUse, RunResult, System


ENDS_OF_A_WINDOW = 0.05  # part of the I/Os in flight: a few may wait for a jiffy at an end of the window
MOST_EFFECTS_OF_A_START = 1_000_000
MOST_EFFECTS_PER_IO = 1_000  # a read has some 30: one that needs more than this runs in circles


Name = tuple[str, Key]
"""What a cell is found by: its label, that is its filesystem in a grid and its own name as a case, and its key."""

Cells = Mapping[Name, "CellResult"]


@dataclass(frozen=True)
class Task:
    """A cell to run: which filesystem, which cell, on what, how long.

    `case`: its name, if it is no cell of a grid.  `alternative`: which value of something unknown it is run for; "":
    what the machine and the filesystem assume.  `constants`: of the filesystem's protocols, that this changes.
    """

    filesystem: str
    key: Key
    machine: Machine
    workload: Workload
    seed: int
    ios: int
    warmup_ios: int
    engine: str
    volume: Geometry = field(default_factory=Geometry)
    case: str = ""
    alternative: str = ""
    constants: Mapping[str, int] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What it is called in tables."""
        return self.case or self.filesystem

    @property
    def name(self) -> str:
        """How messages call the cell."""
        pattern, block_size_bytes, threads = self.key
        where = self.case or f"{self.filesystem} {pattern} {block_size_bytes} B x {threads}"
        return f"{where} ({self.alternative})" if self.alternative else where


@dataclass(frozen=True)
class CellResult:
    """What a cell's run gave.

    `durations_ns`: of its batches.  `starving`: I/Os that are in flight in the whole window and never end.  The other
    fields are as in `RunResult`, of the window.
    """

    label: str
    filesystem: str
    key: Key
    alternative: str
    seed: int
    iops: Interval
    ios: int
    window_ns: int
    latency_ns: float
    durations_ns: np.ndarray
    time_by_category_ns: Mapping[str, int]
    locks: tuple[LockUse, ...]
    busy_ns: Mapping[str, tuple[int, int]]
    events: int
    starving: float = 0.0


@dataclass(frozen=True)
class CellFailure:
    """A cell without a result: its run ended by an error, or completed no I/O, or contradicts itself."""

    name: str
    filesystem: str
    key: Key
    seed: int
    message: str


def length_of_run(ios: int, ios_per_thread: int, warmup_fraction: float, threads: int) -> tuple[int, int]:
    """Return the I/Os in the window, a multiple of the number of batches, and those of the warm-up."""
    wanted = max(ios, ios_per_thread * threads)
    in_window = -(-wanted // BATCHES) * BATCHES
    return in_window, max(int(in_window * warmup_fraction), 2 * threads)


def run_cell(task: Task) -> CellResult | CellFailure:
    """Run a cell; an error of this cell is its result, so that the other cells are kept."""
    try:
        system = system_of(task)
        result = _run(task, system)
        starving = check_and_count_starving(result, task)
    except FssimError as error:
        return CellFailure(task.name, task.filesystem, task.key, task.seed, f"{type(error).__name__}: {error}")
    durations = batch_durations_ns(result)
    return CellResult(
        label=task.label,
        filesystem=task.filesystem,
        key=task.key,
        alternative=task.alternative,
        seed=task.seed,
        iops=iops_interval(durations, task.ios // BATCHES),
        ios=result.ios,
        window_ns=result.window_ns,
        latency_ns=result.latency_ns / result.ios,
        durations_ns=durations,
        time_by_category_ns=_without_idle(result, system),
        locks=result.locks,
        busy_ns=dict(result.busy_ns),
        events=result.events,
        starving=starving,
    )


def check_and_count_starving(result: RunResult, task: Task) -> float:
    """Check Little's law, which knows only I/Os that end; return how many more are in flight all the time.

    A lock that can be overtaken, or processors that nobody leaves, let threads wait longer than a run lasts.
    """
    try:
        check_littles_law(result, task.key.threads, task.name)
    except LittlesLawViolated:
        more_ns = result.in_flight_ns - result.latency_ns
        if not result.ios or more_ns < -ENDS_OF_A_WINDOW * result.in_flight_ns:
            raise
        return more_ns / result.window_ns if more_ns > ENDS_OF_A_WINDOW * result.in_flight_ns else 0.0
    return 0.0


def simulate(task: Task, *, log: bool = False) -> RunResult:
    """Run a cell's system; `log` keeps the event log."""
    return _run(task, system_of(task, log=log))


def _run(task: Task, system: System) -> RunResult:
    from fssim import engine

    return engine.run(system, engine=task.engine)


def _without_idle(result: RunResult, system: System) -> dict[str, int]:
    """Thread time by category without that of daemons that have nothing to do: they wait at the queues of a volume."""
    volumes = {type(argument) for thread in system.threads if thread.daemon for argument in thread.arguments}
    idle = {
        f"wait {volume.__name__}.{name}"
        for volume in volumes
        for name, kind in get_type_hints(volume).items()
        if (get_origin(kind) or kind) is Queue
    }
    return {name: spent for name, spent in result.time_by_category_ns.items() if name not in idle}


def system_of(task: Task, *, log: bool = False) -> System:
    """Return the system of a cell, with a limit on its effects, so that a protocol that runs in circles ends."""
    from fssim.experiment.workloads import system_of_workload
    from fssim.filesystem import load_filesystem

    system = system_of_workload(
        task.workload,
        task.key,
        load_filesystem(task.filesystem),
        task.machine,
        geometry=task.volume,
        ios=task.ios,
        warmup_ios=task.warmup_ios,
        batch_ios=max(task.ios // BATCHES, 1),
        seed=task.seed,
        log=log,
    )
    ios = task.ios + task.warmup_ios + task.key.threads  # every thread may have one in flight at the end
    return replace(
        system,
        version={**system.version, **task.constants},
        max_effects=most_effects(ios),
    )


def most_effects(ios: int) -> int:
    """Return how many effects a run of so many I/Os may have, before it counts as one that runs in circles."""
    return MOST_EFFECTS_OF_A_START + MOST_EFFECTS_PER_IO * ios


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of everything that could change a result."""
    import platform
    from importlib import metadata

    names = ("fssim", "numba", "numpy", "simpy")
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # a checkout that is not installed
            found[name] = "unknown"
    return found
