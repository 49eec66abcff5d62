"""Which figures an experiment has, and their data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fssim.errors import FssimError
from fssim.experiment.cells import Task, simulate
from fssim.experiment.comparison import Comparison
from fssim.experiment.definition import Grid
from fssim.experiment.loading import number_text
from fssim.experiment.report import Report, size_text
from fssim.experiment.tables import Key
from fssim.plot.bars import TimePerIo
from fssim.plot.dots import MeasuredFigure, MeasuredFigures
from fssim.plot.heatmap import MatrixComparison, RatioMatrix
from fssim.plot.scaling import Curve, ScalingCurves
from fssim.plot.spans import completions_of, holds_of, spans_of
from fssim.plot.style import Drawable, render
from fssim.plot.timeline import Lanes, LockTimeline

if TYPE_CHECKING:
    import numpy as np

ROLES = {
    "prediction": "a prediction: never used in a fit",
    "calibration": "calibration: the machine was fitted to it",
    "comparison": "a comparison: of another machine",
}

TIMELINE_THREADS = 4
TIMELINE_SKIP_IOS = 8  # the start, where all threads begin at once, is not typical
TIMELINE_IOS = 6


@dataclass(frozen=True)
class TimelineTask:
    """The runs of a lock timeline: a cell with few threads, before and after, drawn where they are run."""

    tasks: tuple[Task, ...]
    name: str
    title: str
    caption: str

    def figure(self) -> LockTimeline:
        """Run the cells with their event logs and cut out a few I/Os; the first run decides how long that is."""
        results = [simulate(task, log=True) for task in self.tasks]
        first = completions_of(results[0])
        if min(len(completions_of(result)) for result in results) <= TIMELINE_SKIP_IOS + TIMELINE_IOS:
            raise FssimError("too few I/Os for a timeline")
        length_ns = first[TIMELINE_SKIP_IOS + TIMELINE_IOS] - first[TIMELINE_SKIP_IOS]
        panels = []
        for task, result in zip(self.tasks, results, strict=True):
            completions = completions_of(result)
            start = completions[TIMELINE_SKIP_IOS]
            end = start + length_ns
            count = sum(start < time <= end for time in completions)
            panels.append(
                Lanes(
                    title=f"{task.filesystem}: {count} I/Os complete in {length_ns / 1000:.0f} µs",
                    threads=task.key.threads,
                    start_ns=start,
                    spans=tuple(span for span in spans_of(result) if span.end_ns > start and span.start_ns < end),
                    holds=tuple(hold for hold in holds_of(result) if hold.end_ns > start and hold.start_ns < end),
                    lock="iolock",
                )
            )
        return LockTimeline(self.name, self.caption, self.title, length_ns, tuple(panels))


def figure_tasks(report: Report, tasks: Sequence[Task]) -> list[Drawable | TimelineTask]:
    """Return the figures of a report in the order in which a reader wants them."""
    figures: list[Drawable | TimelineTask] = list(_scaling(report))
    figures += _ratios(report)
    figures += _timeline(report, tasks)
    figures += _time_per_io(report)
    figures += _measured_figures(report)
    figures += [_matrix_comparison(report, comparison) for comparison in report.findings.comparisons]
    return figures


def draw(figure: Drawable | TimelineTask) -> tuple[str, str, bytes, bytes] | None:
    """Draw one figure; return its name, caption, PNG and SVG, or None if its own run ends by an error."""
    try:
        drawable = figure.figure() if isinstance(figure, TimelineTask) else figure
    except FssimError:
        return None
    name, png, svg = render(drawable)
    return name, drawable.caption, png, svg


def _grid(report: Report) -> Grid:
    """The grid of an experiment that has one."""
    grid = report.experiment.definition.grid
    assert grid is not None
    return grid


def _array(report: Report, pattern: str, value: Callable[[Key], float | None]) -> np.ndarray:
    import numpy as np

    grid = _grid(report)
    values = [
        [value(Key(pattern, size, threads)) for threads in grid.threads] for size in sorted(grid.block_sizes_bytes)
    ]
    return np.array([[np.nan if v is None else v for v in row] for row in values], dtype=float)


def _axes(report: Report) -> tuple[tuple[str, ...], tuple[str, ...]]:
    grid = _grid(report)
    return tuple(size_text(size) for size in sorted(grid.block_sizes_bytes)), tuple(map(str, grid.threads))


def _matrix_comparison(report: Report, comparison: Comparison) -> MatrixComparison:
    rows, columns = _axes(report)
    role = ROLES[comparison.role]
    found = comparison.summary
    return MatrixComparison(
        name=f"matrix-{comparison.filesystem}-{comparison.pattern}-{comparison.reference.label}",
        caption=f"{comparison.filesystem}, {comparison.pattern}: predicted and measured IOPS and the error in per cent "
        f"(median {found.median:.1f}, p90 {found.p90:.1f}, max {found.max:.1f}). "
        f"Measured: {comparison.reference.label}, {comparison.reference.reference.source}; {role}.",
        title=f"{comparison.filesystem}, {comparison.pattern} ({role})",
        rows=rows,
        columns=columns,
        predicted=_array(report, comparison.pattern, comparison.predicted.get),
        measured=_array(report, comparison.pattern, comparison.measured.get),
    )


def _ratios(report: Report) -> Iterator[RatioMatrix]:
    if report.experiment.definition.grid is None:
        return
    rows, columns = _axes(report)
    for number, found in enumerate(report.findings.changes):
        ratios = found.ratios
        # The change that the experiment is about needs no name.
        name = f"{found.change.after}-" if number else ""
        for pattern in _grid(report).patterns:
            if not any(key.pattern == pattern for key in ratios):
                continue
            values = {key: ratio.value for key, ratio in ratios.items()}
            yield RatioMatrix(
                name=f"ratio-{name}{pattern}",
                caption=f"IOPS of {found.change.after} over IOPS of {found.change.before}, {pattern}.",
                title=f"{found.change.name}: IOPS after / before, {pattern}",
                rows=rows,
                columns=columns,
                predicted=_array(report, pattern, values.get),
                measured=_array(report, pattern, found.measured_ratios.get),
            )


def _scaling(report: Report) -> Iterator[ScalingCurves]:
    """Curves with a band: the larger of the run's own interval and what the fit missed by in its own tables."""
    grid = report.experiment.definition.grid
    if grid is None:
        return
    # The calibration error is the least that a prediction for another filesystem may be trusted with.
    fitted = [c.summary.p90 for c in report.findings.comparisons if c.is_calibration]
    margin = max(fitted, default=0.0) / 100
    band = f"± {margin:.0%}, the 90th percentile of the calibration error" if fitted else "95 % interval of the run"
    for pattern in grid.patterns:
        panels = tuple(
            (size_text(size), tuple(_curves(report, pattern, size, margin))) for size in sorted(grid.block_sizes_bytes)
        )
        if all(curves for _, curves in panels):
            yield ScalingCurves(
                name=f"scaling-{pattern}",
                caption=f"IOPS over threads by block size, {pattern}: lines predicted, points measured; band: {band}.",
                title=f"IOPS over threads, {pattern}",
                panels=panels,
                band=band,
            )


def _curves(report: Report, pattern: str, size: int, margin: float) -> Iterator[Curve]:
    changed = {name for change in report.experiment.definition.changes for name in (change.before, change.after)}
    for variant in report.experiment.definition.variants:
        cells = {
            key.threads: result.iops
            for (filesystem, key), result in report.outcome.cells.items()
            if filesystem == variant.filesystem and key.pattern == pattern and key.block_size_bytes == size
        }
        if not cells:
            continue
        measured = next(
            (
                c.measured
                for c in report.findings.comparisons
                if c.filesystem == variant.filesystem and c.pattern == pattern
            ),
            {},
        )
        yield Curve(
            label=variant.filesystem,
            predicted={n: iops.value for n, iops in cells.items()},
            low={n: min(iops.low, iops.value / (1 + margin)) for n, iops in cells.items()},
            high={n: max(min(iops.high, iops.value * 10), iops.value * (1 + margin)) for n, iops in cells.items()},
            measured={key.threads: value for key, value in measured.items() if key.block_size_bytes == size},
            secondary=variant.filesystem not in changed,
        )


def _time_per_io(report: Report) -> Iterator[TimePerIo]:
    breakdowns = report.findings.breakdowns
    if not breakdowns:
        return
    title = "Where the time of an I/O goes"
    if report.cell is not None:
        pattern, size, threads = report.cell
        title += f": {pattern}, {size_text(size)}, {threads} threads"
    yield TimePerIo(
        name="time-per-io",
        caption="Thread time of one I/O by what it is spent on. "
        + " ".join(f"{b.label}: limited by {b.binding}." for b in breakdowns),
        title=title,
        labels=tuple(b.label for b in breakdowns),
        per_io_ns=tuple(dict(b.per_io_ns) for b in breakdowns),
    )


def _timeline(report: Report, tasks: Sequence[Task]) -> Iterator[TimelineTask]:
    names = report.before_and_after
    if not names or report.cell is None:
        return
    key = Key(report.cell.pattern, report.cell.block_size_bytes, TIMELINE_THREADS)
    runs = tuple(
        dataclasses.replace(tasks[0], filesystem=name, key=key, ios=10 * TIMELINE_IOS * TIMELINE_THREADS, warmup_ios=0)
        for name in names
    )
    yield TimelineTask(
        tasks=runs,
        name="timeline",
        title=f"What {key.threads} threads do: {key.pattern}, {size_text(key.block_size_bytes)}",
        caption="What four threads do over a few I/Os. Bars: the state of a thread; strips: how it holds the iolock.",
    )


def _measured_figures(report: Report) -> Iterator[MeasuredFigures]:
    """Claims about single figures, drawn on one scale: predicted over measured."""
    figures = tuple(
        MeasuredFigure(
            label=claim.text,
            ratio=claim.value / claim.bounds.measured,
            low=claim.bounds.low / claim.bounds.measured,
            high=claim.bounds.high / claim.bounds.measured,
            text=f"{number_text(claim.value)} / {number_text(claim.bounds.measured)}",
        )
        for claim in report.findings.claims
        if claim.value and claim.bounds is not None and claim.bounds.measured
    )
    if figures:
        yield MeasuredFigures(
            name="figures",
            caption="Figures of the mails: predicted over measured (dot), and what is allowed (bar).",
            title=f"Predicted over measured: {report.experiment.name}",
            figures=figures,
        )
