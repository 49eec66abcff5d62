"""Reads an experiment with everything it refers to, and finds what is wrong with it before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from fssim import profile, resources
from fssim.errors import UserError, nearest
from fssim.experiment.definition import (
    Change,
    Definition,
    ErrorClaim,
    FigureClaim,
    FlatClaim,
    NotModelled,
    Reference,
    cell_name,
)
from fssim.experiment.overrides import with_overrides
from fssim.experiment.tables import Key, Table, read_table
from fssim.experiment.workloads import Workload, check, key_of
from fssim.filesystem import Filesystem, Geometry, filesystems
from fssim.workload.sysbench import Sysbench

MOST_NAMES_LISTED = 30


@dataclass(frozen=True)
class MeasuredReference:
    """A reference with its table."""

    reference: Reference
    table: Table

    @property
    def label(self) -> str:
        """Short name for tables and figures."""
        return Path(self.reference.file).stem


@dataclass(frozen=True)
class Cell:
    """A cell to simulate.  `label`: the filesystem in a grid, the case's name otherwise; with `key` it is unique."""

    name: str
    label: str
    filesystem: str
    key: Key
    machine: profile.Machine
    workload: Workload
    volume: Geometry


@dataclass(frozen=True)
class Experiment:
    """An experiment ready to run.

    `machine`: the experiment's; `machines`: those of its cases, by the case's name.  `facts`: figures of its file of
    facts by their keys, such as "mason_2016_nvme.overwrite[1]".
    """

    name: str
    file: str
    definition: Definition
    machine: profile.Machine
    machines: Mapping[str, profile.Machine]
    references: tuple[MeasuredReference, ...]
    noise: tuple[Table, Table] | None
    trivial_rule: Table | None
    facts: Mapping[str, Any]

    @property
    def change(self) -> Change | None:
        """The change that the experiment is about: its first."""
        return next(iter(self.definition.changes), None)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells in the order of the report."""
        return tuple(self._cells())

    def _cells(self) -> Iterator[Cell]:
        definition = self.definition
        if definition.grid is not None:
            grid = definition.grid
            for variant in definition.variants:
                for pattern in grid.patterns:
                    for size in grid.block_sizes_bytes:
                        for threads in grid.threads:
                            name, key = variant.filesystem, Key(pattern, size, threads)
                            yield Cell(
                                cell_name(name, key),
                                name,
                                name,
                                key,
                                self.machine,
                                definition.workload,
                                definition.volume,
                            )
        for case in definition.cases:
            yield Cell(
                case.name,
                case.name,
                case.filesystem,
                key_of(case.workload),
                self.machines[case.name],
                case.workload,
                case.volume or definition.volume,
            )


def fits(name: str, names: Sequence[str]) -> bool:
    """Whether a cell's name is one of these, which may have wildcards."""
    return any(fnmatchcase(name, pattern) for pattern in names)


def load_experiment(given: str, machine: str | None = None) -> Experiment:
    """Return the experiment that a name of `experiments/`, a TOML file or an earlier run's `results.json` states.

    `machine` overrides all machines.  Raises `UserError` for an unknown name, key, value, machine or filesystem, for a
    cell that cannot run, and for a data file that is missing.
    """
    recorded: Mapping[str, profile.Machine] = {}
    if given.endswith(".json"):
        path = Path(given)
        name, definition, recorded = _read_results(path)
    else:
        path = resources.find(given, resources.experiments(), "experiment")
        name, definition = path.stem, read_definition(path)
    _check_names(definition, str(path))
    noise = rule = None
    if definition.noise is not None:
        noise = (
            read_table(resources.data_file(path, definition.noise.first)),
            read_table(resources.data_file(path, definition.noise.second)),
        )
    if definition.trivial_rule is not None:
        rule = read_table(resources.data_file(path, definition.trivial_rule.file))
    own, machines = _machines(definition, path, machine, recorded)
    experiment = Experiment(
        name=name,
        file=str(path),
        definition=definition,
        machine=own,
        machines=machines,
        references=tuple(_references(definition, path)),
        noise=noise,
        trivial_rule=rule,
        facts=_facts(definition, path),
    )
    _check_cells(experiment)
    _check_claims(experiment)
    return experiment


def read_definition(path: Path) -> Definition:
    """Return what an experiment's TOML file states; a case's workload adds to the experiment's of the same kind."""
    return profile.convert(_with_common_workload(profile.read_toml(path)), Definition, str(path))


def _with_common_workload(raw: dict[str, Any]) -> dict[str, Any]:
    common = raw.get("workload")
    if not isinstance(common, dict) or not isinstance(raw.get("cases"), list):
        return raw

    def completed(case: Any) -> Any:
        if not isinstance(case, dict):
            return case
        own = case.get("workload", {})
        if not isinstance(own, dict) or own.get("kind", common.get("kind")) != common.get("kind"):
            return case
        return {**case, "workload": {**common, **own}}

    return {**raw, "cases": [completed(case) for case in raw["cases"]]}


def _read_results(path: Path) -> tuple[str, Definition, dict[str, profile.Machine]]:
    """Return name, definition and machines ("": the experiment's) of the run that wrote a `results.json`."""
    import json

    file = str(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        name, definition = raw["experiment"], raw["definition"]
        machines = {"": raw["machine"], **raw["machines"]}
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: not the results.json of an experiment") from None
    return (
        name,
        profile.convert(definition, Definition, file),
        {case: profile.convert_machine(plain, file) for case, plain in machines.items()},
    )


def _machines(
    definition: Definition, path: Path, given: str | None, recorded: Mapping[str, profile.Machine]
) -> tuple[profile.Machine, dict[str, profile.Machine]]:
    """Return the experiment's machine, and that of every case."""
    if given is None and recorded:
        return recorded[""], {case.name: recorded[case.name] for case in definition.cases}
    own = profile.load_machine(given) if given else profile.load_machine(definition.machine, path)
    machines = {}
    for number, case in enumerate(definition.cases):
        named = own if given or case.machine is None else profile.load_machine(case.machine, path)
        # Another machine need not have the parameters, and means its own values.
        overrides = {} if given else case.overrides
        machines[case.name] = with_overrides(named, overrides, f"{path}: cases[{number}].overrides")
    return own, machines


def _references(definition: Definition, path: Path) -> list[MeasuredReference]:
    found = []
    for reference in definition.references:
        file = resources.data_file(path, reference.file)
        if reference.optional and not file.exists():
            continue
        found.append(MeasuredReference(reference, read_table(file)))
    return found


def _facts(definition: Definition, path: Path) -> dict[str, Any]:
    if not definition.facts:
        return {}
    return dict(_flat(profile.read_toml(resources.data_file(path, definition.facts)), ""))


def _flat(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(item, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _flat(item, f"{key}[{number}]")
    else:
        yield key, value


def _check_names(definition: Definition, file: str) -> None:
    """Check every name that one part of the file gives and another one uses."""
    if (definition.grid is None) == (not definition.cases):
        raise UserError(f"{file}: state either grid, or at least one of cases")
    if definition.grid is not None:
        if not isinstance(definition.workload, Sysbench):
            raise UserError(f"{file}: a grid is one of sysbench; state other workloads as cases")
        if definition.cell is None:
            raise UserError(f"{file}: key cell is missing: which cell's I/Os are taken apart?")
        if not definition.variants:
            raise UserError(f"{file}: variants is empty: which filesystems are simulated?")
    known = filesystems()
    simulated = [variant.filesystem for variant in definition.variants]
    used = [(f"variants[{n}].filesystem", name) for n, name in enumerate(simulated)]
    used += [(f"cases[{n}].filesystem", case.filesystem) for n, case in enumerate(definition.cases)]
    for key, name in used:
        if name not in known:
            raise UserError(f"{file}: {key} = {name!r} is not known{nearest(name, known)}")
    for number, case in enumerate(definition.cases):
        if isinstance(case.workload, Sysbench):
            raise UserError(f"{file}: cases[{number}].workload.kind: sysbench is run in a grid, not in cases")
    for what, names in (
        ("variants", simulated),
        ("cases", [case.name for case in definition.cases]),
        ("changes", [change.name for change in definition.changes]),
        ("alternatives", [each.name for unknown in definition.unknowns for each in unknown.alternatives]),
    ):
        for number, name in enumerate(names):
            if name in names[:number]:
                raise UserError(f"{file}: {what}: {name!r} is named twice")
    named = [(f"references[{n}].filesystem", reference.filesystem) for n, reference in enumerate(definition.references)]
    for n, claim in enumerate(definition.claims):
        if isinstance(claim, ErrorClaim):
            named.append((f"claims[{n}].filesystem", claim.filesystem))
    for n, change in enumerate(definition.changes):
        named += [(f"changes[{n}].before", change.before), (f"changes[{n}].after", change.after)]
    for key, name in named:
        if name not in simulated:
            raise UserError(f"{file}: {key} = {name!r} is no variant{nearest(name, simulated)}")


def _check_cells(experiment: Experiment) -> None:
    """Check that the cells can run, and that names of cells are those of some."""
    definition, file = experiment.definition, experiment.file
    known = filesystems()
    for case in definition.cases:
        try:
            check(case.workload, known[case.filesystem])
        except UserError as error:
            raise UserError(f"{file}: case {case.name!r}: {error}") from None
    used = [(f"run.lengths[{n}].cells", rule.cells) for n, rule in enumerate(definition.run.lengths)]
    used += [(f"unknowns[{n}].cells", unknown.cells) for n, unknown in enumerate(definition.unknowns)]
    used += [
        (f"claims[{n}].cells", claim.cells) for n, claim in enumerate(definition.claims) if isinstance(claim, FlatClaim)
    ]
    names = [cell.name for cell in experiment.cells]
    for key, patterns in used:
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise UserError(f"{file}: {key}: {pattern!r} is no cell{_near(pattern, names)}")
    for n, unknown in enumerate(definition.unknowns):
        for k, alternative in enumerate(unknown.alternatives):
            where = f"{file}: unknowns[{n}].alternatives[{k}]"
            about = {cell.filesystem for cell in experiment.cells if fits(cell.name, unknown.cells)}
            constants = {name for filesystem in about for name in constants_of(known[filesystem])}
            for name in alternative.constants:
                if name not in constants:
                    raise UserError(f"{where}.constants: no filesystem has {name}{nearest(name, constants)}")


def _near(name: str, names: Collection[str]) -> str:
    """As `nearest`, but silent if nothing is near and the names are too many to list."""
    text = nearest(name, names)
    return text if len(names) < MOST_NAMES_LISTED or "did you mean" in text else ""


def constants_of(filesystem: Filesystem) -> set[str]:
    """Return the names that a version of a filesystem may override: those of its protocols and of what they call."""
    found, seen = set(filesystem.constants), set()
    waiting: list[Any] = [filesystem.read, filesystem.write, filesystem.submit_read, filesystem.submit_write]
    while waiting:
        each = waiting.pop()
        if each is None or id(each.function.__globals__) in seen:
            continue
        seen.add(id(each.function.__globals__))
        for name, value in each.function.__globals__.items():
            if getattr(value, "is_protocol", False):
                waiting.append(value)
            elif name.isupper() and isinstance(value, int):
                found.add(name)
    return found


def _check_claims(experiment: Experiment) -> None:
    definition, file = experiment.definition, experiment.file
    names = {cell.name for cell in experiment.cells}
    changes = [change.name for change in definition.changes]
    for n, claim in enumerate(definition.claims):
        where = f"{file}: claims[{n}]"
        if isinstance(claim, FigureClaim | FlatClaim | NotModelled):
            if claim.fact and claim.fact not in experiment.facts:
                raise UserError(
                    f"{where}.fact = {claim.fact!r} is not in {definition.facts or 'any file: state facts'}"
                    f"{nearest(claim.fact, experiment.facts)}"
                )
        elif not isinstance(claim, ErrorClaim) and (not changes or (claim.change and claim.change not in changes)):
            raise UserError(f"{where}.change = {claim.change!r} is none of changes{nearest(claim.change, changes)}")
        if isinstance(claim, FigureClaim):
            for key, name in (("cell", claim.cell), ("over", claim.over)):
                if name and name not in names:
                    raise UserError(f"{where}.{key} = {name!r} is no cell{_near(name, names)}")
            bounds(claim, experiment.facts, where)


@dataclass(frozen=True)
class Bounds:
    """What a figure may be.  `measured` None: only bounds are known."""

    measured: float | None
    low: float
    high: float
    text: str


def bounds(claim: FigureClaim, facts: Mapping[str, Any], where: str = "claim") -> Bounds:
    """Return what the figure of a claim may be; raises `UserError` if the claim does not say."""
    measured = claim.measured
    fact = facts.get(claim.fact)
    if measured is None and isinstance(fact, int | float) and not isinstance(fact, bool):
        measured = float(fact)
    if claim.at_least is not None or claim.at_most is not None:
        if claim.tolerance_percent is not None:
            raise UserError(f"{where}: tolerance_percent beside at_least or at_most; one of them decides")
        low = float("-inf") if claim.at_least is None else claim.at_least
        high = float("inf") if claim.at_most is None else claim.at_most
        if low > high:
            raise UserError(f"{where}: at_least {low:g} is more than at_most {high:g}")
        parts = [f"≥ {number_text(low)}"] if claim.at_least is not None else []
        parts += [f"≤ {number_text(high)}"] if claim.at_most is not None else []
        return Bounds(measured, low, high, " and ".join(parts))
    if measured is None or claim.tolerance_percent is None:
        raise UserError(
            f"{where}: state tolerance_percent with measured or a fact that is a number, or at_least or at_most"
        )
    share = claim.tolerance_percent / 100
    # A factor, not a difference: half as much and twice as much are equally wrong.
    return Bounds(
        measured,
        measured / (1 + share),
        measured * (1 + share),
        f"{number_text(measured)} ± {claim.tolerance_percent:g} %",
    )


def number_text(value: float) -> str:
    """Write a number with as many digits as a person wants to compare."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
