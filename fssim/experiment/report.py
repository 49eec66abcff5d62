"""An experiment's results as one object, and the sentences that sum them up."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from fssim import resources
from fssim.experiment.analysis import Findings
from fssim.experiment.comparison import ChangeResult, Comparison
from fssim.experiment.loading import Experiment
from fssim.experiment.runner import Outcome
from fssim.experiment.tables import Key

MOST_MISSES_NAMED = 3
ABOUT_INTERVALS = (
    "the 95 % intervals are those of the simulation only: how far another seed would move a number, "
    "not how far the model is from the world"
)


@dataclass(frozen=True)
class Report:
    """Everything that is printed, drawn and written.  `cell`: the one that is taken apart; None: cases, and all are."""

    experiment: Experiment
    outcome: Outcome
    cell: Key | None
    findings: Findings
    engine: str
    versions: Mapping[str, str]

    @property
    def before_and_after(self) -> tuple[str, ...]:
        """The filesystems before and after the change that the experiment is about."""
        change = self.experiment.change
        return (change.before, change.after) if change is not None else ()

    @property
    def command(self) -> str:
        """The command that gives these results again."""
        definition = self.experiment.definition
        parts = ["python", "-m", "fssim.experiment", _name_or_file(self.experiment.name, self.experiment.file)]
        parts += ["--seed", str(definition.run.seed)]
        grid = definition.grid
        if grid is not None and self.cell is not None:
            parts += ["--threads", ",".join(map(str, grid.threads))]
            parts += ["--block-sizes", ",".join(map(str, grid.block_sizes_bytes))]
            parts += ["--patterns", ",".join(grid.patterns), "--cell", ",".join(map(str, self.cell))]
        parts += ["--engine", self.engine]
        if grid is not None or self.findings.claims_not_judged:  # else every case has the machine it names
            parts += ["--machine", _name_or_file(self.experiment.machine.name, self.experiment.machine.file)]
        return shlex.join(parts)


def _name_or_file(name: str, file: str) -> str:
    """A name finds what comes with the package; anything else is found by its path."""
    path = Path(file).resolve()
    comes_along = path.parent in (resources.experiments().resolve(), resources.models("machines").resolve())
    return name if comes_along and path.stem == name else str(path)


@dataclass(frozen=True)
class Sentence:
    """One line of the summary: what it is about, and what it says."""

    about: str
    text: str


def summary(report: Report) -> list[Sentence]:
    """Return what a busy person reads first."""
    sentences = [Sentence("Question", report.experiment.definition.question)]
    sentences += _answers(report)
    sentences += _why(report)
    sentences += _trust(report)
    sentences.append(Sentence("Intervals", ABOUT_INTERVALS))
    if report.findings.claims:
        sentences.append(Sentence("Claims", _claims(report)))
    elif report.findings.claims_not_judged:
        sentences.append(Sentence("Claims", report.findings.claims_not_judged))
    sentences += [
        Sentence(f"Not known: {found.unknown.name}", f"{found.unknown.why}: {found.verdict}")
        for found in report.findings.unknowns
    ]
    sentences += [Sentence("Caution", text) for text in _cautions(report)]
    return sentences


def _answers(report: Report) -> Iterable[Sentence]:
    """What the change does, in some detail; of several changes in a line each."""
    grid = report.experiment.definition.grid
    if grid is None:
        return
    for found in report.findings.changes:
        patterns = [pattern for pattern in grid.patterns if any(key.pattern == pattern for key in found.ratios)]
        if len(report.findings.changes) == 1:
            for pattern in patterns:
                yield Sentence(f"Answer, {pattern}", _answer(found, pattern))
        elif patterns:
            worth = "; ".join(f"{pattern} x {worth_text(found, pattern)}" for pattern in patterns)
            yield Sentence("Answer", f"{found.change.name}: {worth}")


def worth_text(found: ChangeResult, pattern: str) -> str:
    """Write what a change does to a pattern: the median of the ratio of IOPS, its smallest and its largest."""
    ratios = [ratio.value for key, ratio in found.ratios.items() if key.pattern == pattern]
    return f"{ratio_text(median(ratios))} ({_range_text(ratios)})" if ratios else "-"


def _answer(found: ChangeResult, pattern: str) -> str:
    """The change in IOPS with one thread and with several, and the largest."""
    ratios = {key: ratio for key, ratio in found.ratios.items() if key.pattern == pattern}
    one = [ratio.value for key, ratio in ratios.items() if key.threads == 1]
    several = {key: ratio.value for key, ratio in ratios.items() if key.threads > 1}
    parts = []
    if several:
        best = max(several, key=lambda key: several[key])
        parts.append(
            f"IOPS x {_range_text(several.values())} with two or more threads "
            f"(median {ratio_text(median(several.values()))}; "
            f"most at {size_text(best.block_size_bytes)} x {best.threads} threads)"
        )
    if one:
        parts.append(f"x {_range_text(one)} with one")
    return "; ".join(parts)


def _range_text(ratios: Collection[float]) -> str:
    low, high = ratio_text(min(ratios)), ratio_text(max(ratios))
    return low if low == high else f"{low} to {high}"


def ratio_text(ratio: float) -> str:
    """Write a ratio with three significant digits."""
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}"


def _why(report: Report) -> Iterable[Sentence]:
    if report.cell is None:
        return
    pattern, block_size_bytes, threads = report.cell
    where = f"{pattern} {size_text(block_size_bytes)} x {threads}"
    for role, filesystem in zip(("before", "after"), report.before_and_after, strict=False):
        for breakdown in report.findings.breakdowns:
            if breakdown.label == filesystem:
                iops = report.outcome.cells[filesystem, report.cell].iops.value
                yield Sentence(f"What limits, {role}", f"{where}: {iops:,.0f} IOPS; {breakdown.binding}")


def _trust(report: Report) -> Iterable[Sentence]:
    for comparison in report.findings.comparisons:
        if not comparison.is_calibration:
            what = "never used in the fit" if comparison.role == "prediction" else "measured on another machine"
            text = f"{comparison.filesystem}, {comparison.pattern}, {what}: {_errors(comparison)}"
            if comparison.trivial is not None and report.experiment.definition.trivial_rule is not None:
                rule = report.experiment.definition.trivial_rule.name
                text += (
                    f"; the rule '{rule}': median {comparison.trivial.median:.1f} %, p90 {comparison.trivial.p90:.1f} %"
                )
            yield Sentence("Against measurement", text)
    fitted = [c.summary.median for c in report.findings.comparisons if c.is_calibration]
    if fitted:
        noise = [summary.median for summary in report.findings.noise.values()]
        text = f"median error {min(fitted):.1f} to {max(fitted):.1f} % in the {len(fitted)} tables "
        text += "that the machine was fitted to"
        if noise:
            text += f"; a repeat of the measurement differs by {max(noise):.1f} %"
        yield Sentence("Calibration", text)


def _errors(comparison: Comparison) -> str:
    found = comparison.summary
    worst = max(comparison.error_percent, key=lambda key: abs(comparison.error_percent[key]))
    return (
        f"median error {found.median:.1f} %, p90 {found.p90:.1f} % over {found.cells} cells, "
        f"worst {comparison.error_percent[worst]:+.1f} % at {size_text(worst.block_size_bytes)} x {worst.threads}"
    )


def _claims(report: Report) -> str:
    held = [claim for claim in report.findings.claims if claim.holds]
    missed = [claim for claim in report.findings.claims if claim.holds is False]
    text = f"{len(held)} of {len(held) + len(missed)} hold"
    if missed:
        text += "; missed: " + "; ".join(
            f"{claim.text} ({claim.found}; {claim.measured})" for claim in missed[:MOST_MISSES_NAMED]
        )
        if len(missed) > MOST_MISSES_NAMED:
            text += f"; and {len(missed) - MOST_MISSES_NAMED} more, see the claims below"
    return text


def _cautions(report: Report) -> Iterable[str]:
    outcome = report.outcome
    if outcome.interrupted:
        yield interruption(outcome)
    if outcome.failures:
        first = outcome.failures[0]
        yield f"{len(outcome.failures)} cells ended by an error, the first {first.name}: {first.message}"
    starving = {name: result.starving for name, result in outcome.cells.items() if result.starving}
    if starving:
        worst = max(starving, key=lambda name: starving[name])
        yield (
            f"in {len(starving)} cells threads starve, overtaken at a lock or never given a processor: "
            f"in {worst[0]} {worst[1].pattern} {size_text(worst[1].block_size_bytes)} x {worst[1].threads} "
            f"{starving[worst]:.0f} I/Os never end"
        )
    for reference in report.experiment.references:
        if reference.reference.remark:
            yield f"{reference.label}: {reference.reference.remark}"
    calibration = report.experiment.machine.calibration
    if calibration is not None and calibration.unidentified:
        yield f"the data do not identify {', '.join(calibration.unidentified)}"


def interruption(outcome: Outcome) -> str:
    """Say how far an interrupted run came."""
    return f"interrupted: {outcome.finished} of {outcome.planned} cells are finished and reported"


def size_text(size_bytes: int) -> str:
    """Write a block size as people say it: 512 B, 4 KiB."""
    return f"{size_bytes // 1024} KiB" if size_bytes % 1024 == 0 else f"{size_bytes} B"
