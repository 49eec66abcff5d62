"""Predicted against measured: errors over tables, and what a change does to IOPS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fssim.experiment.cells import Cells
from fssim.experiment.definition import Change
from fssim.experiment.loading import Experiment, MeasuredReference
from fssim.experiment.tables import Key, Table
from fssim.statistics import Interval, ratio_interval


@dataclass(frozen=True)
class ErrorSummary:
    """Median, 90th percentile and maximum of absolute errors in per cent over so many cells."""

    median: float
    p90: float
    max: float
    cells: int


@dataclass(frozen=True)
class Comparison:
    """Predicted against measured IOPS of one table and pattern.

    `role`: that of the reference, or "comparison" if the machine is not the experiment's own: nothing is known about
    what such a machine was fitted to.  `error_percent`: by cell, positive where the prediction is too high.
    `trivial`: the errors of the trivial rule in the same cells, None if the table is the rule's own.
    """

    filesystem: str
    pattern: str
    reference: MeasuredReference
    role: str
    measured: Table
    predicted: Table
    error_percent: Mapping[Key, float]
    summary: ErrorSummary
    trivial: ErrorSummary | None

    @property
    def is_calibration(self) -> bool:
        """Whether the machine was fitted to the table."""
        return self.role == "calibration"


@dataclass(frozen=True)
class ChangeResult:
    """What a change does: predicted and measured IOPS after it over those before it, by cell."""

    change: Change
    ratios: Mapping[Key, Interval]
    measured_ratios: Mapping[Key, float]


def summarise(errors_percent: Iterable[float]) -> ErrorSummary:
    """Summarise absolute errors; the 90th percentile interpolates linearly between order statistics."""
    import numpy as np

    absolute = np.abs(np.fromiter(errors_percent, dtype=float))
    return ErrorSummary(
        float(np.median(absolute)), float(np.percentile(absolute, 90)), float(absolute.max()), len(absolute)
    )


def compare(experiment: Experiment, cells: Cells, own_machine: bool) -> Iterable[Comparison]:
    """Yield the comparison of every measured table and pattern with cells that were run."""
    if experiment.definition.grid is None:
        return
    for reference in experiment.references:
        filesystem = reference.reference.filesystem
        for pattern in experiment.definition.grid.patterns:
            measured = {
                key: iops
                for key, iops in reference.table.items()
                if key.pattern == pattern and (filesystem, key) in cells
            }
            if not measured:
                continue
            predicted = {key: cells[filesystem, key].iops.value for key in measured}
            errors = {key: (predicted[key] / measured[key] - 1) * 100 for key in measured}
            yield Comparison(
                filesystem=filesystem,
                pattern=pattern,
                reference=reference,
                role=reference.reference.role if own_machine else "comparison",
                measured=measured,
                predicted=predicted,
                error_percent=errors,
                summary=summarise(errors.values()),
                trivial=_trivial(experiment, reference, measured),
            )


def _trivial(experiment: Experiment, reference: MeasuredReference, measured: Table) -> ErrorSummary | None:
    definition, rule = experiment.definition, experiment.trivial_rule
    if rule is None or definition.trivial_rule is None or reference.reference.file == definition.trivial_rule.file:
        return None
    errors = [(rule[key] / iops - 1) * 100 for key, iops in measured.items() if key in rule]
    return summarise(errors) if errors else None


def repeat_noise(experiment: Experiment) -> dict[str, ErrorSummary]:
    """Differences between two measurements of the same thing, by pattern, over the cells of the grid."""
    grid = experiment.definition.grid
    if experiment.noise is None or grid is None:
        return {}
    first, second = experiment.noise
    found: dict[str, ErrorSummary] = {}
    for pattern in grid.patterns:
        differences = [
            (second[key] / iops - 1) * 100
            for key, iops in first.items()
            if key in second
            and key.pattern == pattern
            and key.block_size_bytes in grid.block_sizes_bytes
            and key.threads in grid.threads
        ]
        if differences:
            found[pattern] = summarise(differences)
    return found


def compare_change(experiment: Experiment, change: Change, cells: Cells) -> ChangeResult:
    """Return what a change does in the cells that were run before and after it."""
    ratios = {
        key: ratio_interval(result.durations_ns, cells[change.after, key].durations_ns)
        for (filesystem, key), result in cells.items()
        if filesystem == change.before and (change.after, key) in cells
    }
    before, after = (_measured(experiment, filesystem) for filesystem in (change.before, change.after))
    measured = {key: after[key] / before[key] for key in ratios if key in before and key in after}
    return ChangeResult(change, ratios, measured)


def _measured(experiment: Experiment, filesystem: str) -> Table:
    """The tables of a filesystem; of several that have a cell the first named counts."""
    tables = [r.table for r in experiment.references if r.reference.filesystem == filesystem]
    return {key: iops for table in reversed(tables) for key, iops in table.items()}
