"""Runs the cells of an experiment on all cores, and keeps what is finished when it is interrupted."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from fssim.errors import ProtocolError, RunError, UserError
from fssim.experiment.cells import CellFailure, CellResult, Cells, Name, Task, length_of_run, run_cell, simulate
from fssim.experiment.loading import Cell, Experiment, fits
from fssim.experiment.overrides import with_overrides
from fssim.profile import Machine

ONE_THREAD_A_LIBRARY = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass
class Outcome:
    """The cells that were run.  `interrupted`: Ctrl-C came before all were.

    `alternatives`: the cells that were run for other values of something unknown, by the alternative's name.
    """

    cells: dict[Name, CellResult] = field(default_factory=dict)
    alternatives: dict[str, dict[Name, CellResult]] = field(default_factory=dict)
    failures: list[CellFailure] = field(default_factory=list)
    planned: int = 0
    finished: int = 0
    events: int = 0
    seconds: float = 0.0
    interrupted: bool = False

    def add(self, result: CellResult | CellFailure) -> None:
        """Take a finished cell in."""
        if isinstance(result, CellFailure):
            self.failures.append(result)
            return
        cells = self.alternatives.setdefault(result.alternative, {}) if result.alternative else self.cells
        cells[result.label, result.key] = result
        self.finished += 1
        self.events += result.events

    def with_alternative(self, name: str) -> Cells:
        """Return all cells as they are with an alternative; what does not depend on it is as it was."""
        return {**self.cells, **self.alternatives.get(name, {})}


def plan(experiment: Experiment, engine: str) -> list[Task]:
    """Return the tasks of an experiment: what is compared beside each other, with the same random numbers."""
    # Stable: the variants of a cell of a grid stay in order, and so do cases.
    cells = experiment.cells
    if experiment.definition.grid is not None:
        order = {key: n for n, key in enumerate(dict.fromkeys(cell.key for cell in cells))}
        cells = tuple(sorted(cells, key=lambda cell: order[cell.key]))
    tasks = [_task(experiment, cell, cell.machine, engine) for cell in cells]
    for unknown in experiment.definition.unknowns:
        concerned = [cell for cell in cells if fits(cell.name, unknown.cells)]
        for alternative in unknown.alternatives:
            changed: dict[int, Machine] = {}
            for cell in concerned:
                machine = changed.get(id(cell.machine))
                if machine is None:
                    where = f"{experiment.file}: alternative {alternative.name!r}"
                    machine = changed[id(cell.machine)] = with_overrides(cell.machine, alternative.overrides, where)
                task = _task(experiment, cell, machine, engine)
                tasks.append(
                    dataclasses.replace(task, alternative=alternative.name, constants=dict(alternative.constants))
                )
    return tasks


def _task(experiment: Experiment, cell: Cell, machine: Machine, engine: str) -> Task:
    run = experiment.definition.run
    wanted = next((rule.ios for rule in reversed(run.lengths) if fits(cell.name, rule.cells)), run.ios)
    ios, warmup_ios = length_of_run(wanted, run.ios_per_thread, run.warmup_fraction, cell.key.threads)
    return Task(
        filesystem=cell.filesystem,
        key=cell.key,
        machine=machine,
        workload=cell.workload,
        seed=run.seed,
        ios=ios,
        warmup_ios=warmup_ios,
        engine=engine,
        volume=cell.volume,
        case="" if experiment.definition.grid is not None else cell.label,
    )


class Workers:
    """A pool of processes, or this process if one job is wanted.

    On Linux the processes are forked after the engine has been jitted here once, and inherit the machine code;
    elsewhere they are spawned and load it from numba's cache.
    """

    def __init__(self, jobs: int) -> None:
        for name in ONE_THREAD_A_LIBRARY:
            os.environ.setdefault(name, "1")
        self.jobs = jobs
        self.pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            method = "fork" if sys.platform == "linux" else "spawn"
            context = multiprocessing.get_context(method)
            self.pool = ProcessPoolExecutor(jobs, mp_context=context)

    def run_all(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Generator[Any, None, None]:
        """Begin the tasks and return their results as they come; an exception of a task is raised there.

        Without processes the tasks are run when the results are asked for.
        """
        if self.pool is None:
            return (function(task) for task in tasks)
        with _interrupts_held_back():
            futures = [self.pool.submit(function, task) for task in tasks]
        return _results(futures)

    def close(self) -> None:
        """End the processes; tasks that have not begun are dropped."""
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C wait until processes have been made; they inherit the mask, so that the parent alone gets it.

    The mask is not enough: another thread of the process may take the signal, and an exception raised in the middle of
    a fork is swallowed.  So the handler only remembers it until the end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if seen:
        raise KeyboardInterrupt


def _results(futures: Sequence[Future[Any]]) -> Generator[Any, None, None]:
    """Yield results as they come; tasks that have not begun are dropped if nobody wants the rest."""
    try:
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def workers(jobs: int) -> Iterator[Workers]:
    """A pool that is closed at the end."""
    pool = Workers(jobs)
    try:
        yield pool
    finally:
        pool.close()


def run_cells(tasks: Sequence[Task], pool: Workers, progress: Callable[[Outcome], None]) -> Outcome:
    """Run the tasks; `progress` is called with the state after every cell.  Ctrl-C ends it with what is finished."""
    outcome = Outcome(planned=len(tasks))
    begin = time.monotonic()
    with closing(pool.run_all(run_cell, tasks)) as results:
        try:
            for result in results:
                outcome.add(result)
                outcome.seconds = time.monotonic() - begin
                progress(outcome)
        except KeyboardInterrupt:
            outcome.interrupted = True
    outcome.seconds = time.monotonic() - begin
    return outcome


def warm_up(tasks: Sequence[Task]) -> None:
    """Run one I/O of every filesystem, pattern and machine.

    It jits the engine before processes are forked, or loads it from numba's cache; and a protocol that cannot run on
    this machine says so before anything else has been done.
    """
    kinds = {(task.filesystem, task.key.pattern, task.case, task.alternative): task for task in reversed(tasks)}
    for task in kinds.values():
        try:
            simulate(dataclasses.replace(task, ios=1, warmup_ios=0))
        except RunError:  # reported with its cell
            continue
        except ProtocolError:  # says where
            raise
        except UserError as error:
            raise UserError(f"{task.name}: {error}") from None
