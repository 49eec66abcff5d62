"""What the cells of an experiment say: ratios, comparison with measurements, where the time goes, claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fssim.errors import UserError
from fssim.experiment.cells import CellResult
from fssim.experiment.definition import DirectionClaim, ErrorClaim, Experiment, MeasuredReference
from fssim.experiment.runner import Outcome
from fssim.experiment.tables import Key, Table
from fssim.profile import load_machine
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
class Breakdown:
    """Where an I/O of a cell spends its time.

    `per_io_ns`: thread time by category, largest first.  `utilisation`: share of the window in which a resource is
    busy, largest first.  `binding`: what limits IOPS, in words.
    """

    filesystem: str
    key: Key
    latency_ns: float
    per_io_ns: Mapping[str, float]
    utilisation: Mapping[str, float]
    binding: str


@dataclass(frozen=True)
class ClaimResult:
    """A claim, what came out, and whether it holds; `holds` is None if the cells it is about were not run."""

    text: str
    found: str
    holds: bool | None


@dataclass(frozen=True)
class Findings:
    """Everything the report shows that is computed from the cells.

    `claims_not_judged`: why there are no claims, though the experiment states some; "" if they are judged.
    """

    ratios: Mapping[Key, Interval]
    measured_ratios: Mapping[Key, float]
    comparisons: tuple[Comparison, ...]
    noise: Mapping[str, ErrorSummary]
    breakdowns: tuple[Breakdown, ...]
    claims: tuple[ClaimResult, ...]
    claims_not_judged: str = ""


def analyse(experiment: Experiment, outcome: Outcome, cell: Key) -> Findings:
    """Draw all conclusions from finished cells; missing cells (after Ctrl-C) are left out."""
    own = has_own_machine(experiment)
    comparisons = tuple(_comparisons(experiment, outcome, own))
    ratios, measured_ratios = _ratios(experiment, outcome)
    return Findings(
        ratios=ratios,
        measured_ratios=measured_ratios,
        comparisons=comparisons,
        noise=_noise(experiment),
        breakdowns=tuple(
            breakdown(outcome.cells[variant.filesystem, cell])
            for variant in experiment.definition.variants
            if (variant.filesystem, cell) in outcome.cells
        ),
        claims=tuple(_claims(experiment, comparisons, ratios, measured_ratios)) if own else (),
        claims_not_judged=_why_not_judged(experiment) if not own and experiment.definition.claims else "",
    )


def has_own_machine(experiment: Experiment) -> bool:
    """Whether the machine has the host and the device of the one that the experiment names."""
    try:
        own = load_machine(experiment.definition.machine, Path(experiment.file))
    except UserError:  # a results.json whose machine is not on this computer
        return False
    return (own.host, own.device) == (experiment.machine.host, experiment.machine.device)


def _why_not_judged(experiment: Experiment) -> str:
    return f"not judged: they are about the machine {experiment.definition.machine}, and this is another one"


def summarise(errors_percent: Iterable[float]) -> ErrorSummary:
    """Summarise absolute errors; the 90th percentile interpolates linearly between order statistics."""
    import numpy as np

    absolute = np.abs(np.fromiter(errors_percent, dtype=float))
    return ErrorSummary(
        float(np.median(absolute)), float(np.percentile(absolute, 90)), float(absolute.max()), len(absolute)
    )


def _comparisons(experiment: Experiment, outcome: Outcome, own_machine: bool) -> Iterable[Comparison]:
    for reference in experiment.references:
        filesystem = reference.reference.filesystem
        for pattern in experiment.definition.grid.patterns:
            measured = {
                key: iops
                for key, iops in reference.table.items()
                if key.pattern == pattern and (filesystem, key) in outcome.cells
            }
            if not measured:
                continue
            predicted = {key: outcome.cells[filesystem, key].iops.value for key in measured}
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


def _noise(experiment: Experiment) -> dict[str, ErrorSummary]:
    """Differences between two measurements of the same thing, by pattern, over the cells of the grid."""
    if experiment.noise is None:
        return {}
    first, second = experiment.noise
    grid = experiment.definition.grid
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


def _ratios(experiment: Experiment, outcome: Outcome) -> tuple[dict[Key, Interval], dict[Key, float]]:
    """Predicted and measured IOPS of "after" over "before", by cell."""
    before, after = experiment.variant("before"), experiment.variant("after")
    if before is None or after is None:
        return {}, {}
    ratios = {
        key: ratio_interval(result.durations_ns, outcome.cells[after, key].durations_ns)
        for (filesystem, key), result in outcome.cells.items()
        if filesystem == before and (after, key) in outcome.cells
    }
    tables = [
        next((r.table for r in experiment.references if r.reference.filesystem == filesystem), {})
        for filesystem in (before, after)
    ]
    measured = {key: tables[1][key] / tables[0][key] for key in ratios if key in tables[0] and key in tables[1]}
    return ratios, measured


def breakdown(result: CellResult) -> Breakdown:
    """Say where an I/O of a cell spends its time, and what limits IOPS."""
    spent = result.time_by_category_ns
    per_io = {_category(name, spent): total / result.ios for name, total in spent.items() if total}
    per_io = dict(sorted(per_io.items(), key=lambda item: -item[1]))
    utilisation = {
        name: busy / (servers * result.window_ns) for name, (busy, servers) in result.busy_ns.items() if servers
    }
    utilisation = dict(sorted(utilisation.items(), key=lambda item: -item[1]))
    return Breakdown(
        filesystem=result.filesystem,
        key=result.key,
        latency_ns=result.latency_ns,
        per_io_ns=per_io,
        utilisation=utilisation,
        binding=_binding(per_io, utilisation),
    )


def _category(name: str, all_names: Mapping[str, int]) -> str:
    """A lock that has one mode only is called by its name alone."""
    plain = name.removesuffix(" exclusive")
    return plain if name.startswith("wait ") and f"{plain} shared" not in all_names else name


def _binding(per_io_ns: Mapping[str, float], utilisation: Mapping[str, float]) -> str:
    """Name what limits IOPS.

    A resource that is busy nearly all the time does.  Else the locks for which an I/O waits more than half of its time;
    else nothing is full, and more threads give more IOPS.
    """
    total = sum(per_io_ns.values()) or 1.0
    busiest, busy = next(iter(utilisation.items()), ("", 0.0))
    waits = {name.removeprefix("wait "): ns for name, ns in per_io_ns.items() if name.startswith("wait ")}
    waited = sum(waits.values()) / total
    if busy >= 0.9:
        return f"{busiest} ({busy:.0%} busy)"
    if waited >= 0.5:
        lock = max(waits, key=lambda name: waits[name])
        beside = f"; {busiest} is {busy:.0%} busy" if busiest else ""
        return f"locks ({waited:.0%} of an I/O's time is waiting for them, most for {lock}{beside})"
    return f"nothing is full (busiest: {busiest}, {busy:.0%}); latency decides"


def _claims(
    experiment: Experiment,
    comparisons: Sequence[Comparison],
    ratios: Mapping[Key, Interval],
    measured_ratios: Mapping[Key, float],
) -> Iterable[ClaimResult]:
    for claim in experiment.definition.claims:
        if isinstance(claim, ErrorClaim):
            yield _error_claim(claim, comparisons)
        else:
            yield _direction_claim(claim, ratios, measured_ratios)


def _error_claim(claim: ErrorClaim, comparisons: Sequence[Comparison]) -> ClaimResult:
    # Of several tables of one variant the first named is the one the claim is about.
    about = next((c for c in comparisons if (c.filesystem, c.pattern) == (claim.filesystem, claim.pattern)), None)
    role = about.role if about else "error"
    text = f"{claim.filesystem} {claim.pattern}: {claim.statistic} {role} error at most {claim.at_most_percent:g} %"
    if about is None:
        return ClaimResult(text, "not run", None)
    value = getattr(about.summary, claim.statistic)
    return ClaimResult(text, f"{value:.2f} % over {about.summary.cells} cells", value <= claim.at_most_percent)


def _direction_claim(
    claim: DirectionClaim, ratios: Mapping[Key, Interval], measured_ratios: Mapping[Key, float]
) -> ClaimResult:
    text = f"{claim.pattern}: the change moves IOPS in the measured direction from {claim.from_threads} threads on"
    cells = [key for key in measured_ratios if key.pattern == claim.pattern and key.threads >= claim.from_threads]
    if not cells:
        return ClaimResult(text, "not run", None)
    right = sum((ratios[key].value > 1) == (measured_ratios[key] > 1) for key in cells)
    return ClaimResult(text, f"right in {right} of {len(cells)} cells", right == len(cells))
