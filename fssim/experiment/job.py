"""The whole of an experiment's run: read, simulate, draw, report."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fssim import resources
from fssim.atomic import Folder, write_text
from fssim.command_line import INTERRUPTED, MISTAKE, RUN_ERROR, SIZES, cannot_print, discard_output, positive
from fssim.engine import ENGINES
from fssim.errors import UserError, nearest
from fssim.experiment.analysis import analyse
from fssim.experiment.cells import versions
from fssim.experiment.figures import draw, figure_tasks
from fssim.experiment.loading import Experiment, load_experiment, read_definition
from fssim.experiment.output import results_csv, results_json
from fssim.experiment.progress import show_progress
from fssim.experiment.report import Report, interruption
from fssim.experiment.runner import Outcome, plan, run_cells, warm_up, workers
from fssim.experiment.tables import Key
from fssim.experiment.terminal import print_claims, print_report
from fssim.filesystem import load_filesystem
from fssim.report.lock_stat import lock_stat
from fssim.report.page import Picture, page
from fssim.workload.sysbench import PATTERNS, READS, Sysbench, check_block_size, check_threads

MOST_FAILURES_NAMED = 3


def list_experiments() -> None:
    """Print every experiment with its question."""
    for name in resources.names(resources.experiments()):
        definition = read_definition(resources.experiments() / f"{name}.toml")
        print(f"{name:<24}{definition.question}")


def run_all(*, out: Path | None = None, **options: Any) -> int:
    """Run every experiment into a folder of its own in `out`, or in "results"; returns the highest exit code.

    A mistake in one of them does not cost the others.
    """
    codes = [0]
    for name in resources.names(resources.experiments()):
        try:
            codes.append(run_job(name, out=(out or Path("results")) / name, **options))
        except UserError as error:
            codes.append(_mistake(name, error))
        if codes[-1] == INTERRUPTED:
            break
    return max(codes)


def run_claims(
    names: Sequence[str] | None,
    *,
    seed: int | None = None,
    threads: Sequence[int] | None = None,
    block_sizes: Sequence[int] | None = None,
    patterns: Sequence[str] | None = None,
    machine: str | None = None,
    engine: str = "compiled",
    jobs: int | None = None,
    strict: bool = False,
) -> int:
    """Run experiments, all if none is named, and print one table of their claims; nothing is written.

    Returns the exit code of the command line, the highest of all.  A mistake in one of several experiments does not
    cost the others.
    """
    reports, codes = [], [0]
    for name in resources.names(resources.experiments()) if names is None else names:
        try:
            reports.append(_simulated(_load(name, machine, engine, seed, threads, block_sizes, patterns), engine, jobs))
        except UserError as error:
            if names is not None:
                raise
            codes.append(_mistake(name, error))
            continue
        codes.append(_exit_code(reports[-1], strict))
        if codes[-1] == INTERRUPTED:
            break
    print_claims([(report.experiment.name, report.findings.claims) for report in reports])
    return max(codes)


def _simulated(loaded: Experiment, engine: str, jobs: int | None) -> Report:
    """Run the cells of an experiment and say on standard error what is not in its claims."""
    cell, tasks = choose_cell(loaded, None), plan(loaded, engine)
    warm_up(tasks)
    with workers(min(jobs or available_cores(), len(tasks))) as pool, show_progress(len(tasks)) as progress:
        outcome = run_cells(tasks, pool, progress)
    report = _report(loaded, outcome, cell, engine)
    for failure in outcome.failures[:MOST_FAILURES_NAMED]:
        print(f"fssim: {loaded.name}: {failure.name}: {failure.message}", file=sys.stderr)
    if len(outcome.failures) > MOST_FAILURES_NAMED:
        more = len(outcome.failures) - MOST_FAILURES_NAMED
        print(f"fssim: {loaded.name}: and {more} more cells ended by an error", file=sys.stderr)
    if report.findings.claims_not_judged:
        print(f"fssim: {loaded.name}: claims {report.findings.claims_not_judged}", file=sys.stderr)
    return report


def _mistake(name: str, error: UserError) -> int:
    print(f"fssim: {name}: {error}", file=sys.stderr)
    return MISTAKE


def run_job(
    experiment: str,
    *,
    out: Path | None = None,
    csv_file: Path | None = None,
    json_file: Path | None = None,
    seed: int | None = None,
    threads: Sequence[int] | None = None,
    block_sizes: Sequence[int] | None = None,
    patterns: Sequence[str] | None = None,
    cell: str | None = None,
    machine: str | None = None,
    engine: str = "compiled",
    jobs: int | None = None,
    strict: bool = False,
) -> int:
    """Run an experiment and write everything; returns the exit code of the command line.

    Raises `UserError` for a mistake in what was asked for, and for an output that cannot be written.
    """
    loaded = _load(experiment, machine, engine, seed, threads, block_sizes, patterns)
    chosen = choose_cell(loaded, cell)
    folder = Folder(out or Path("results") / loaded.name)
    folder.prepare()
    for file in (csv_file, json_file):
        if file is not None:
            if file.is_dir():
                raise UserError(f"{file}: is a folder; give the name of a file")
            Folder(file.parent).prepare()
    if csv_file is not None and csv_file == json_file:
        raise UserError(f"--csv and --json are both {csv_file}; one would overwrite the other")

    tasks = plan(loaded, engine)
    warm_up(tasks)
    with workers(min(jobs or available_cores(), len(tasks))) as pool:
        with show_progress(len(tasks)) as progress:
            outcome = run_cells(tasks, pool, progress)
        if not outcome.cells:
            return _nothing(outcome)
        report = _report(loaded, outcome, chosen, engine)
        figures = figure_tasks(report, tasks)
        drawn = pool.run_all(draw, figures)  # in the other processes, while this one prints and writes
        try:
            _write(report, folder, csv_file, json_file)
        finally:  # a full disk or Ctrl-C must not lose what was computed
            unprinted = _print(report, folder)
        _write_figures(report, folder, [figure.name for figure in figures], drawn)
    if unprinted is not None:
        raise UserError(cannot_print(unprinted))
    return _exit_code(report, strict)


def _exit_code(report: Report, strict: bool) -> int:
    outcome = report.outcome
    if outcome.interrupted:
        print(f"fssim: {interruption(outcome)}", file=sys.stderr)
        return INTERRUPTED
    if outcome.failures:
        return RUN_ERROR
    return 1 if strict and any(claim.holds is False for claim in report.findings.claims) else 0


def run_experiment(
    experiment: str,
    *,
    seed: int | None = None,
    threads: Sequence[int] | None = None,
    block_sizes: Sequence[int] | None = None,
    patterns: Sequence[str] | None = None,
    cell: str | None = None,
    machine: str | None = None,
    engine: str = "compiled",
    jobs: int | None = None,
) -> Report:
    """Run an experiment and return its report: for notebooks and scripts, writes and prints nothing.

    `fssim.experiment.output.records(report)` gives rows for a data frame.  Raises `UserError` for a mistake in what was
    asked for, and the first cell's error if no cell could be run.
    """
    loaded = _load(experiment, machine, engine, seed, threads, block_sizes, patterns)
    chosen = choose_cell(loaded, cell)
    tasks = plan(loaded, engine)
    warm_up(tasks)
    with workers(min(jobs or available_cores(), len(tasks))) as pool:
        outcome = run_cells(tasks, pool, lambda state: None)
    if not outcome.cells:
        raise UserError(outcome.failures[0].message if outcome.failures else "interrupted before the first cell")
    return _report(loaded, outcome, chosen, engine)


def _load(
    experiment: str,
    machine: str | None,
    engine: str,
    seed: int | None,
    threads: Sequence[int] | None,
    block_sizes: Sequence[int] | None,
    patterns: Sequence[str] | None,
) -> Experiment:
    """Read the experiment and check what was asked for."""
    if engine not in ENGINES:
        raise UserError(f"engine {engine!r} does not exist{nearest(engine, ENGINES)}")
    asked = restrict(load_experiment(experiment, machine), seed, threads, block_sizes, patterns)
    check_grid(asked)
    return asked


def _report(experiment: Experiment, outcome: Outcome, cell: Key | None, engine: str) -> Report:
    return Report(
        experiment=experiment,
        outcome=outcome,
        cell=cell,
        findings=analyse(experiment, outcome, cell),
        engine=engine,
        versions=versions(),
    )


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_grid(experiment: Experiment) -> None:
    """Raise `UserError` for a number of threads, a block size or a pattern that cannot run."""
    grid, workload = experiment.definition.grid, experiment.definition.workload
    if grid is None or not isinstance(workload, Sysbench):
        return
    for pattern in grid.patterns:
        if pattern not in PATTERNS:
            raise UserError(f"unknown pattern {pattern!r}{nearest(pattern, PATTERNS)}")
        for variant in experiment.definition.variants:
            if pattern not in READS and load_filesystem(variant.filesystem).write is None:
                raise UserError(f"{pattern}: {variant.filesystem} describes reads only; use {' or '.join(READS)}")
    for block_size_bytes in grid.block_sizes_bytes:
        check_block_size(block_size_bytes, workload)
    for count in grid.threads:
        check_threads(count)


def restrict(
    experiment: Experiment,
    seed: int | None = None,
    threads: Sequence[int] | None = None,
    block_sizes: Sequence[int] | None = None,
    patterns: Sequence[str] | None = None,
) -> Experiment:
    """Return the experiment with what the command line overrides."""
    definition = experiment.definition
    grid = definition.grid
    if grid is not None:
        grid = msgspec.structs.replace(
            grid,
            patterns=list(patterns or grid.patterns),
            block_sizes_bytes=list(block_sizes or grid.block_sizes_bytes),
            threads=list(threads or grid.threads),
        )
    elif threads or block_sizes or patterns:
        raise UserError(
            f"{experiment.name} has cases, not a grid: --threads, --block-sizes and --patterns choose nothing"
        )
    run = definition.run if seed is None else msgspec.structs.replace(definition.run, seed=seed)
    return dataclasses.replace(experiment, definition=msgspec.structs.replace(definition, grid=grid, run=run))


def choose_cell(experiment: Experiment, given: str | None) -> Key | None:
    """Return the cell of the grid to take apart: the one given, which must be in it, or the nearest to the file's own.

    Of an experiment with cases all are taken apart: None.
    """
    grid, wanted = experiment.definition.grid, experiment.definition.cell
    if grid is None or wanted is None:
        if given is not None:
            raise UserError(f"--cell {given}: {experiment.name} has cases, not a grid; all of them are taken apart")
        return None
    if given is None:
        own = wanted.pattern if wanted.pattern in grid.patterns else grid.patterns[0]
        return Key(
            own,
            min(grid.block_sizes_bytes, key=lambda size: abs(size - wanted.block_size_bytes)),
            min(grid.threads, key=lambda count: abs(count - wanted.threads)),
        )
    parts = [part.strip().lower() for part in given.split(",")]
    try:
        pattern, size, count = parts
        key = Key(pattern, positive(size, SIZES), positive(count))
    except ValueError:
        raise UserError(f"--cell {given}: write PATTERN,BYTES,THREADS, such as seqrd,4096,16") from None
    if (
        key.pattern not in grid.patterns
        or key.block_size_bytes not in grid.block_sizes_bytes
        or key.threads not in grid.threads
    ):
        raise UserError(
            f"--cell {given}: not in the grid; patterns {', '.join(grid.patterns)}; "
            f"block sizes {', '.join(map(str, grid.block_sizes_bytes))}; threads {', '.join(map(str, grid.threads))}"
        )
    return key


def _nothing(outcome: Outcome) -> int:
    """Say why there is nothing to report."""
    if outcome.failures:
        failure = outcome.failures[0]
        print(f"fssim: {failure.name}: {failure.message}", file=sys.stderr)
        return RUN_ERROR
    print("fssim: interrupted before the first cell was finished", file=sys.stderr)
    return INTERRUPTED


def _print(report: Report, folder: Folder) -> OSError | None:
    """Print the report; what prevents that is returned, because the files are to be written all the same."""
    try:
        print_report(report, folder.path)
    except OSError as error:
        discard_output()
        return error
    return None


def _write(report: Report, folder: Folder, csv_file: Path | None, json_file: Path | None) -> None:
    """Write the data files; the figures and the page that embeds them come later."""
    table, everything = results_csv(report), results_json(report)
    folder.write("results.csv", table)
    folder.write("results.json", everything)
    for breakdown in report.findings.breakdowns:
        result = report.outcome.cells[breakdown.label, breakdown.key]
        folder.write(f"lock_stat-{re.sub(r'[^a-zA-Z0-9.+]+', '-', breakdown.label)}.txt", lock_stat(result.locks))
    if csv_file is not None:
        write_text(csv_file, table)
    if json_file is not None:
        write_text(json_file, everything)


def _write_figures(
    report: Report, folder: Folder, order: Sequence[str], drawn: Iterable[tuple[str, str, bytes, bytes] | None]
) -> None:
    """Write the figures as they are drawn, then the page that embeds them."""
    pictures = []
    for figure in drawn:
        if figure is None:
            continue
        name, caption, png, svg = figure
        folder.write_bytes(f"{name}.png", png)
        folder.write_bytes(f"{name}.svg", svg)
        pictures.append(Picture(name, caption, svg.decode()))
    folder.write("report.html", page(report, sorted(pictures, key=lambda picture: order.index(picture.name))))
