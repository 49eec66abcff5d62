"""Claims judged: what was measured, what is predicted, and whether that is near enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fssim.experiment.cells import CellResult, Cells, Name
from fssim.experiment.comparison import ChangeResult, Comparison
from fssim.experiment.definition import Claim, DirectionClaim, ErrorClaim, FigureClaim, FlatClaim, NotModelled
from fssim.experiment.loading import Bounds, Experiment, bounds, fits, number_text

CPU = "cpu"
"""How a run's utilisations call the processors; the other resources are the device's."""

QUANTITIES = {
    "iops": "IOPS",
    "mb_s": "MB/s",
    "device_busy": "share of time the device is busy",
    "cpu_per_byte": "CPU a byte",
}


@dataclass(frozen=True)
class ClaimResult:
    """A claim, what came out, and whether it holds; `holds` is None if the cells it is about were not run.

    `measured`: what it allows, in words.  `role`: whether the machine was fitted to it.  `reason`: why it is missed,
    as far as the author of the claim knows.  `value`, `bounds`: the prediction and what is allowed, of a figure.
    `alternatives`: the same for other values of something unknown that it depends on, by the alternative's name.
    """

    text: str
    measured: str
    found: str
    holds: bool | None
    role: str = ""
    source: str = ""
    reason: str = ""
    value: float | None = None
    bounds: Bounds | None = None
    alternatives: Mapping[str, ClaimResult] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """The cells, and what is concluded from them, for one set of assumptions."""

    cells: Cells
    comparisons: tuple[Comparison, ...]
    changes: tuple[ChangeResult, ...]


def judge(experiment: Experiment, claim: Claim, view: View) -> ClaimResult:
    """Say whether a claim holds."""
    match claim:
        case ErrorClaim():
            return _error(claim, view)
        case DirectionClaim():
            return _direction(claim, view)
        case FlatClaim():
            return _flat(experiment, claim, view.cells)
        case FigureClaim():
            return _figure(experiment, claim, view.cells)
        case NotModelled():
            measured = (
                number_text(fact) if isinstance(fact := experiment.facts.get(claim.fact), int | float) else str(fact)
            )
            return ClaimResult(claim.text, measured, "not modelled", None, source=claim.source, reason=claim.reason)


def cells_of(experiment: Experiment, claim: Claim) -> Iterator[Name]:
    """Yield the cells that a claim is about."""
    for cell in experiment.cells:
        match claim:
            case ErrorClaim():
                concerned = (cell.filesystem, cell.key.pattern) == (claim.filesystem, claim.pattern)
            case DirectionClaim():
                change = next(c for c in experiment.definition.changes if not claim.change or c.name == claim.change)
                concerned = cell.key.pattern == claim.pattern and cell.label in (change.before, change.after)
            case FlatClaim():
                concerned = fits(cell.name, claim.cells)
            case FigureClaim():
                concerned = cell.name in (claim.cell, claim.over)
            case NotModelled():
                concerned = False
        if concerned:
            yield cell.label, cell.key


def _error(claim: ErrorClaim, view: View) -> ClaimResult:
    # Of several tables of one variant the first named is the one the claim is about.
    about = next((c for c in view.comparisons if (c.filesystem, c.pattern) == (claim.filesystem, claim.pattern)), None)
    role = about.role if about else ""
    text = f"{claim.filesystem} {claim.pattern}: {claim.statistic} error"
    allowed = f"at most {claim.at_most_percent:g} %"
    if about is None:
        return ClaimResult(text, allowed, _why_nothing(claim.filesystem, claim.pattern, view), None)
    value = getattr(about.summary, claim.statistic)
    return ClaimResult(
        text,
        allowed,
        f"{value:.2f} % over {about.summary.cells} cells",
        value <= claim.at_most_percent,
        role=role,
        source=about.reference.reference.source,
        reason=claim.reason,
    )


def _why_nothing(filesystem: str, pattern: str, view: View) -> str:
    """Say why there is nothing to compare: the cells were not run, or nobody has measured them."""
    return (
        "not measured" if any(name == filesystem and key.pattern == pattern for name, key in view.cells) else "not run"
    )


def _direction(claim: DirectionClaim, view: View) -> ClaimResult:
    about = next((c for c in view.changes if not claim.change or c.change.name == claim.change), None)
    named = f"{about.change.name}, {claim.pattern}" if about and claim.change else claim.pattern
    text = f"{named}: the change moves IOPS in the measured direction from {claim.from_threads} threads on"
    measured = about.measured_ratios if about else {}
    cells = [key for key in measured if key.pattern == claim.pattern and key.threads >= claim.from_threads]
    if about is None or not cells:
        after = about.change.after if about else ""
        return ClaimResult(text, "in every cell", _why_nothing(after, claim.pattern, view), None)
    right = sum((about.ratios[key].value > 1) == (measured[key] > 1) for key in cells)
    return ClaimResult(
        text, "in every cell", f"right in {right} of {len(cells)} cells", right == len(cells), reason=claim.reason
    )


def _flat(experiment: Experiment, claim: FlatClaim, cells: Cells) -> ClaimResult:
    names = [(cell.label, cell.key) for cell in experiment.cells if fits(cell.name, claim.cells)]
    text = claim.text or f"flat: {', '.join(claim.cells)}"
    allowed = f"differ by at most {claim.within_percent:g} %"
    if len(names) < 2 or not all(name in cells for name in names):
        return ClaimResult(text, allowed, "not run", None)
    rates = [cells[name].iops.value for name in names]
    spread = (max(rates) / min(rates) - 1) * 100
    return ClaimResult(
        text,
        allowed,
        f"{number_text(min(rates))} to {number_text(max(rates))} IOPS: differ by {spread:.0f} %",
        spread <= claim.within_percent,
        role=claim.role,
        source=claim.source,
        reason=claim.reason,
    )


def _figure(experiment: Experiment, claim: FigureClaim, cells: Cells) -> ClaimResult:
    allowed = bounds(claim, experiment.facts)
    text = claim.text or f"{claim.cell}{' over ' + claim.over if claim.over else ''}: {QUANTITIES[claim.quantity]}"
    names = [name for name in (claim.cell, claim.over) if name]
    found = [cells.get((cell.label, cell.key)) for name in names for cell in experiment.cells if cell.name == name]
    values = [quantity(result, claim.quantity) for result in found if result is not None]
    if len(values) < len(names):
        return ClaimResult(text, allowed.text, "not run", None)
    value = values[0] / values[1] if claim.over else values[0]
    return ClaimResult(
        text,
        allowed.text,
        number_text(value) + _away(value, allowed),
        allowed.low <= value <= allowed.high,
        role=claim.role,
        source=claim.source,
        reason=claim.reason,
        value=value,
        bounds=allowed,
    )


def _away(value: float, allowed: Bounds) -> str:
    """How far a prediction is from the measurement."""
    return f" ({(value / allowed.measured - 1) * 100:+.0f} %)" if allowed.measured else ""


def quantity(result: CellResult, name: str) -> float:
    """Return what a cell gives of a quantity; the device is as busy as the busiest of its parts."""
    match name:
        case "iops":
            return result.iops.value
        case "mb_s":
            return result.iops.value * result.key.block_size_bytes / 1e6
        case "cpu_per_byte":
            busy_ns, _ = result.busy_ns[CPU]
            return busy_ns / (result.ios * result.key.block_size_bytes)
        case "device_busy":
            parts = [
                busy / (servers * result.window_ns)
                for part, (busy, servers) in result.busy_ns.items()
                if part != CPU and servers
            ]
            return max(parts, default=0.0)
        case _:
            raise ValueError(name)
