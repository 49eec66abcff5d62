"""What the cells of an experiment say: errors, what changes are worth, where the time goes, claims, unknowns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fssim.errors import UserError
from fssim.experiment.cells import CellResult, Cells
from fssim.experiment.claims import ClaimResult, View, cells_of, judge
from fssim.experiment.comparison import ChangeResult, Comparison, ErrorSummary, compare, compare_change, repeat_noise
from fssim.experiment.definition import Unknown
from fssim.experiment.loading import Experiment
from fssim.experiment.runner import Outcome
from fssim.experiment.tables import Key
from fssim.profile import Machine, load_machine

COMPLETIONS = "ring.done"
"""Where a program waits for asynchronous I/O: not a lock."""

HELD_ALL_THE_TIME = 0.8
NOTICEABLE = 0.05  # part of a prediction; a smaller difference between alternatives is not worth a line


@dataclass(frozen=True)
class Breakdown:
    """Where an I/O of a cell spends its time.

    `per_io_ns`: thread time by category, largest first.  `utilisation`: share of the window in which a resource is
    busy, largest first.  `binding`: what limits IOPS, in words.
    """

    label: str
    key: Key
    latency_ns: float
    per_io_ns: Mapping[str, float]
    utilisation: Mapping[str, float]
    binding: str


@dataclass(frozen=True)
class UnknownResult:
    """What something unknown is worth.

    `names`: what is assumed, then the alternatives.  `cells`: IOPS of the cells with a noticeable difference, in the
    order of `names` (None: not run), the largest difference first; `concerned`: of so many cells.  `claims`: those
    that depend on it.  `verdict`: what the measured figures say about it, and what would say more.
    """

    unknown: Unknown
    names: tuple[str, ...]
    cells: Mapping[tuple[str, Key], tuple[float | None, ...]]
    concerned: int
    claims: tuple[ClaimResult, ...]
    verdict: str


@dataclass(frozen=True)
class Findings:
    """Everything the report shows that is computed from the cells.

    `claims_not_judged`: why there are no claims, though the experiment states some; "" if they are judged.
    """

    changes: tuple[ChangeResult, ...]
    comparisons: tuple[Comparison, ...]
    noise: Mapping[str, ErrorSummary]
    breakdowns: tuple[Breakdown, ...]
    claims: tuple[ClaimResult, ...]
    unknowns: tuple[UnknownResult, ...]
    claims_not_judged: str = ""


def analyse(experiment: Experiment, outcome: Outcome, cell: Key | None) -> Findings:
    """Draw all conclusions from finished cells; missing cells (after Ctrl-C) are left out.

    `cell`: the cell of the grid that is taken apart; of cases, all are.
    """
    own = has_own_machine(experiment)
    view = _view(experiment, outcome.cells, own)
    claims = tuple(_claims(experiment, outcome, view)) if own else ()
    return Findings(
        changes=view.changes,
        comparisons=view.comparisons,
        noise=repeat_noise(experiment),
        breakdowns=tuple(
            breakdown(outcome.cells[each.label, each.key])
            for each in experiment.cells
            if (each.label, each.key) in outcome.cells and (cell is None or each.key == cell)
        ),
        claims=claims,
        unknowns=tuple(_unknown(experiment, outcome, unknown, claims) for unknown in experiment.definition.unknowns),
        claims_not_judged=_why_not_judged(experiment) if not own and experiment.definition.claims else "",
    )


def _view(experiment: Experiment, cells: Cells, own: bool) -> View:
    return View(
        cells,
        tuple(compare(experiment, cells, own)),
        tuple(compare_change(experiment, change, cells) for change in experiment.definition.changes),
    )


def has_own_machine(experiment: Experiment) -> bool:
    """Whether the machines have the host and the device of those that the experiment names."""
    path = Path(experiment.file)
    try:
        named = [(load_machine(experiment.definition.machine, path), experiment.machine)]
        for case in experiment.definition.cases:
            if case.machine is not None and not case.overrides:
                named.append((load_machine(case.machine, path), experiment.machines[case.name]))
    except UserError:  # a results.json whose machine is not on this computer
        return False
    return all(_same(own, used) for own, used in named)


def _same(one: Machine, other: Machine) -> bool:
    return (one.host, one.device) == (other.host, other.device)


def _why_not_judged(experiment: Experiment) -> str:
    return f"not judged: they are about the machine {experiment.definition.machine}, and this is another one"


def _claims(experiment: Experiment, outcome: Outcome, view: View) -> Iterable[ClaimResult]:
    views = {name: _view(experiment, outcome.with_alternative(name), True) for name in outcome.alternatives}
    for claim in experiment.definition.claims:
        names = set(cells_of(experiment, claim))
        yield dataclasses.replace(
            judge(experiment, claim, view),
            alternatives={
                name: judge(experiment, claim, other)
                for name, other in views.items()
                if not names.isdisjoint(outcome.alternatives[name])
            },
        )


def _unknown(
    experiment: Experiment, outcome: Outcome, unknown: Unknown, claims: Sequence[ClaimResult]
) -> UnknownResult:
    others = [alternative.name for alternative in unknown.alternatives]
    results = [outcome.cells, *(outcome.alternatives.get(name, {}) for name in others)]
    concerned = [name for name in outcome.cells if any(name in other for other in results[1:])]
    rates = {name: tuple(cells[name].iops.value if name in cells else None for cells in results) for name in concerned}
    moved = {name: _spread(values) for name, values in rates.items()}
    noticeable = sorted((name for name in concerned if moved[name] > NOTICEABLE), key=lambda name: -moved[name])
    touched = tuple(claim for claim in claims if _differs(claim, others))
    return UnknownResult(
        unknown=unknown,
        names=(unknown.as_is, *others),
        cells={name: rates[name] for name in noticeable},
        concerned=len(concerned),
        claims=touched,
        verdict=(f"{_verdict(unknown, touched, others)}. " if claims else "")
        + f"What would tell: {unknown.measurement}",
    )


def _spread(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return max(known) / min(known) - 1


def _differs(claim: ClaimResult, others: Sequence[str]) -> bool:
    return any(name in claim.alternatives and claim.alternatives[name].found != claim.found for name in others)


def _verdict(unknown: Unknown, claims: Sequence[ClaimResult], others: Sequence[str]) -> str:
    """Say which alternatives the claims tell apart: those that they judge differently."""
    held: dict[str, tuple[bool | None, ...]] = {unknown.as_is: tuple(claim.holds for claim in claims)}
    for name in others:
        held[name] = tuple(
            claim.alternatives[name].holds if name in claim.alternatives else claim.holds for claim in claims
        )
    groups: dict[tuple[bool | None, ...], list[str]] = {}
    for name, verdicts in held.items():
        groups.setdefault(verdicts, []).append(name)
    parts = []
    if not claims:
        parts.append("no claim depends on it")
    else:
        parts += [
            f"the measured figures cannot tell apart {_list(names)}" for names in groups.values() if len(names) > 1
        ]
        if len(groups) > 1:
            held_with = (f"{sum(map(bool, verdicts))} hold with {_list(names)}" for verdicts, names in groups.items())
            parts.append(f"of the {len(claims)} claims that depend on it {', '.join(held_with)}")
    return "; ".join(parts)


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
        label=result.label,
        key=result.key,
        latency_ns=result.latency_ns,
        per_io_ns=per_io,
        utilisation=utilisation,
        binding=_binding(per_io, utilisation, _held(result)),
    )


def _category(name: str, all_names: Mapping[str, int]) -> str:
    """A lock that has one mode only is called by its name alone."""
    plain = name.removesuffix(" exclusive")
    return plain if name.startswith("wait ") and f"{plain} shared" not in all_names else name


def _held(result: CellResult) -> tuple[str, float]:
    """Return the lock class that is held exclusively most of the time, and how many of it are, on average."""
    held = [(lock.name, lock.hold_total_ns / result.window_ns) for lock in result.locks if lock.mode == "exclusive"]
    return max(held, key=lambda lock: lock[1], default=("", 0.0))


def _binding(per_io_ns: Mapping[str, float], utilisation: Mapping[str, float], held: tuple[str, float]) -> str:
    """Name what limits IOPS.

    A resource that is busy nearly all the time does.  Else the locks for which an I/O waits more than half of its time;
    else a lock that is held nearly all the time, where completions may queue that no thread waits for; else nothing is
    full, and more threads give more IOPS.
    """
    total = sum(per_io_ns.values()) or 1.0
    busiest, busy = next(iter(utilisation.items()), ("", 0.0))
    waits = {name.removeprefix("wait "): ns for name, ns in per_io_ns.items() if name.startswith("wait ")}
    waits.pop(COMPLETIONS, None)
    waited = sum(waits.values()) / total
    if busy >= 0.9:
        return f"{busiest} ({busy:.0%} busy)"
    if waited >= 0.5:
        lock = max(waits, key=lambda name: waits[name])
        beside = f"; {busiest} is {busy:.0%} busy" if busiest else ""
        return f"locks ({waited:.0%} of an I/O's time is waiting for them, most for {lock}{beside})"
    if held[1] >= HELD_ALL_THE_TIME:
        return f"{held[0]} ({held[1]:.2g} held exclusively all the time)"
    return f"nothing is full (busiest: {busiest}, {busy:.0%}); latency decides"
