"""An experiment as its TOML file states it: question, grid, variants, measured references and claims."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from fssim import profile, resources
from fssim.errors import UserError, nearest
from fssim.experiment.tables import Table, read_table
from fssim.machine.host import Count
from fssim.workload.sysbench import Sysbench

Pattern = Literal["seqrd", "rndrd"]
BlockSize = Annotated[int, Meta(ge=512, multiple_of=512)]
Ios = Annotated[int, Meta(ge=1, le=10**9)]
Percent = Annotated[float, Meta(gt=0)]


class Grid(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cells: every pattern with every block size and number of threads."""

    patterns: Annotated[list[Pattern], Meta(min_length=1)]
    block_sizes_bytes: Annotated[list[BlockSize], Meta(min_length=1)]
    threads: Annotated[list[Count], Meta(min_length=1)]


class Run(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a cell runs: `ios` in the window, but at least `ios_per_thread` of every thread, after a warm-up."""

    seed: Annotated[int, Meta(ge=0)] = 0
    ios: Ios = 2000
    ios_per_thread: Ios = 16
    warmup_fraction: Annotated[float, Meta(ge=0, le=10)] = 0.25


class CellChoice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cell whose I/Os are taken apart."""

    pattern: Pattern
    block_size_bytes: BlockSize
    threads: Count


class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filesystem version that is simulated.  The ratio is that of "after" over "before"."""

    filesystem: str
    role: Literal["before", "after", "context"] = "context"


class Reference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measured table, relative to the experiment, and whether the machine was fitted to it."""

    filesystem: str
    file: str
    role: Literal["calibration", "prediction"]
    source: str
    remark: str = ""
    optional: bool = False


class Noise(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two measurements of the same thing."""

    first: str
    second: str


class TrivialRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one would guess without a simulator: the measured table of something else."""

    name: str
    file: str


class ErrorClaim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="error"):
    """The absolute error over the cells of a reference is at most so large."""

    filesystem: str
    pattern: Pattern
    statistic: Literal["median", "p90", "max"]
    at_most_percent: Percent


class DirectionClaim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="direction"):
    """The change moves IOPS in the measured direction in every cell with at least so many threads."""

    pattern: Pattern
    from_threads: Count = 1


class Definition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    question: str
    machine: str
    workload: Sysbench = Sysbench()
    grid: Grid
    cell: CellChoice
    variants: Annotated[list[Variant], Meta(min_length=1)]
    run: Run = Run()
    references: list[Reference] = []
    noise: Noise | None = None
    trivial_rule: TrivialRule | None = None
    claims: list[ErrorClaim | DirectionClaim] = []


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
class Experiment:
    """An experiment ready to run: the definition, the machine, and the measured tables it compares with."""

    name: str
    file: str
    definition: Definition
    machine: profile.Machine
    references: tuple[MeasuredReference, ...]
    noise: tuple[Table, Table] | None
    trivial_rule: Table | None

    def variant(self, role: str) -> str | None:
        """Return the filesystem with this role, None if there is none."""
        return next((variant.filesystem for variant in self.definition.variants if variant.role == role), None)


def load_experiment(given: str, machine: str | None = None) -> Experiment:
    """Return the experiment that a name of `experiments/`, a TOML file or an earlier run's `results.json` states.

    `machine` overrides the machine.  Raises `UserError` for an unknown name, key, value, machine or filesystem, and for
    a data file that is missing.
    """
    if given.endswith(".json"):
        path = Path(given)
        name, definition, recorded = _read_results(path)
    else:
        path = resources.find(given, resources.experiments(), "experiment")
        name, definition, recorded = path.stem, profile.load(path, Definition), None
    _check_names(definition, str(path))
    noise = rule = None
    if definition.noise is not None:
        noise = (
            read_table(resources.data_file(path, definition.noise.first)),
            read_table(resources.data_file(path, definition.noise.second)),
        )
    if definition.trivial_rule is not None:
        rule = read_table(resources.data_file(path, definition.trivial_rule.file))
    if machine is not None or recorded is None:
        recorded = profile.load_machine(machine) if machine else profile.load_machine(definition.machine, path)
    return Experiment(
        name=name,
        file=str(path),
        definition=definition,
        machine=recorded,
        references=tuple(_references(definition, path)),
        noise=noise,
        trivial_rule=rule,
    )


def _read_results(path: Path) -> tuple[str, Definition, profile.Machine]:
    """Return name, definition and machine of the run that wrote a `results.json`."""
    import json

    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        name, definition, machine = raw["experiment"], raw["definition"], raw["machine"]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: not the results.json of an experiment") from None
    file = str(path)
    return name, profile.convert(definition, Definition, file), profile.convert_machine(machine, file)


def _references(definition: Definition, path: Path) -> list[MeasuredReference]:
    found = []
    for reference in definition.references:
        file = resources.data_file(path, reference.file)
        if reference.optional and not file.exists():
            continue
        found.append(MeasuredReference(reference, read_table(file)))
    return found


def _check_names(definition: Definition, file: str) -> None:
    from fssim.filesystem import filesystems

    known = filesystems()
    simulated = [variant.filesystem for variant in definition.variants]
    for number, name in enumerate(simulated):
        if name not in known:
            raise UserError(f"{file}: variants[{number}].filesystem = {name!r} is not known{nearest(name, known)}")
    for role in ("before", "after"):
        if sum(variant.role == role for variant in definition.variants) > 1:
            raise UserError(f"{file}: variants: only one may have role = {role!r}")
    named = [(f"references[{n}]", reference.filesystem) for n, reference in enumerate(definition.references)]
    named += [(f"claims[{n}]", c.filesystem) for n, c in enumerate(definition.claims) if isinstance(c, ErrorClaim)]
    for key, name in named:
        if name not in simulated:
            raise UserError(f"{file}: {key}.filesystem = {name!r} is no variant{nearest(name, simulated)}")


def as_plain(definition: Definition) -> dict[str, object]:
    """Return the definition as plain data, for a result's own record of its configuration."""
    plain = msgspec.to_builtins(definition)
    assert isinstance(plain, dict)
    return plain
