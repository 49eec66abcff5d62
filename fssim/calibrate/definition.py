"""A calibration as its TOML file states it: the machine, the measured tables, the free parameters and their bounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fssim import profile, resources
from fssim.errors import UserError, nearest
from fssim.experiment.definition import Run
from fssim.experiment.tables import Key, read_table
from fssim.workload.sysbench import Sysbench


class FittedTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measured table, relative to the calibration, what was measured, and the patterns that are used.

    `weight`: of its cells in the loss.  Cells that measure the same thing many times over, such as reads that a lock
    makes serial with any number of threads, deserve less than others.
    """

    filesystem: str
    file: str
    patterns: Annotated[list[str], Meta(min_length=1)]
    weight: Annotated[float, Meta(gt=0)] = 1.0


class Parameter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A free parameter: its key in the machine profile, such as "device.page_load_ns", and where it may lie.

    `filesystems`, `patterns`: those whose cells can depend on it, if not all do; it saves their runs.
    """

    name: str
    low: Annotated[float, Meta(gt=0)]
    high: Annotated[float, Meta(gt=0)]
    filesystems: list[str] | None = None
    patterns: list[str] | None = None

    def affects(self, cell: Cell) -> bool:
        """Can the cell depend on it?"""
        return (self.filesystems is None or cell.filesystem in self.filesystems) and (
            self.patterns is None or cell.key.pattern in self.patterns
        )


class Definition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file.

    `outlier_scale`: a logarithmic error above it weighs linearly, not quadratically.  `replications`: runs of every
    cell whose mean is compared with the measurement.  `starts`: the profile's own values, and random ones near them.
    """

    machine: str
    workload: Sysbench = Sysbench()
    tables: Annotated[list[FittedTable], Meta(min_length=1)]
    parameters: Annotated[list[Parameter], Meta(min_length=1)]
    run: Run = Run()
    outlier_scale: Annotated[float, Meta(gt=0)] = 0.03
    starts: Annotated[int, Meta(ge=1)] = 1
    replications: Annotated[int, Meta(ge=1)] = 1


@dataclass(frozen=True)
class Cell:
    """One measured cell of the fit."""

    filesystem: str
    key: Key
    iops: float
    weight: float


@dataclass(frozen=True)
class Calibration:
    """A calibration ready to run.  `raw`: the machine profile as plain data, fixed values and where the fit starts."""

    name: str
    definition: Definition
    raw: dict[str, Any]
    file: Path
    cells: tuple[Cell, ...]

    @property
    def start(self) -> list[float]:
        """Values of the free parameters in the profile."""
        return [float(get(self.raw, parameter.name, str(self.file))) for parameter in self.definition.parameters]

    def profile_with(self, values: list[float]) -> dict[str, Any]:
        """Return the plain profile with these values of the free parameters, rounded to integers."""
        raw: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.raw))
        for parameter, value in zip(self.definition.parameters, values, strict=True):
            put(raw, parameter.name, round(value))
        return raw

    def machine_with(self, values: list[float]) -> profile.Machine:
        """Return the machine with these values of the free parameters."""
        return machine_of(self.profile_with(values), str(self.file))


def machine_of(raw: dict[str, Any], file: str) -> profile.Machine:
    """Return the machine that a plain profile with embedded host and device describes."""
    made = profile.convert(raw, profile.MachineProfile, file)
    if isinstance(made.host, str) or isinstance(made.device, str):
        raise UserError(f"{file}: a calibration needs [host] and [device] as tables in the machine's own file")
    return profile.Machine(made.name, made.description, made.source, made.host, made.device, made.calibration, file)


def get(raw: dict[str, Any], name: str, file: str) -> Any:
    """Return the value of a dotted key; an unknown one is a `UserError` with the nearest key."""
    table: Any = raw
    for part in name.split("."):
        if not isinstance(table, dict) or part not in table:
            known = table if isinstance(table, dict) else {}
            raise UserError(f"{file}: parameter {name} is not in the profile{nearest(part, known)}")
        table = table[part]
    return table


def put(raw: dict[str, Any], name: str, value: int) -> None:
    """Set the value of a dotted key that exists."""
    *path, last = name.split(".")
    table = raw
    for part in path:
        table = table[part]
    table[last] = value


def load_calibration(given: str) -> Calibration:
    """Return the calibration that a name of `experiments/calibrations` or a TOML file states.

    Raises `UserError` for an unknown name, key or parameter, and for a data file that is missing.
    """
    path = resources.find(given, resources.experiments() / "calibrations", "calibration")
    definition = profile.load(path, Definition)
    machine_file = resources.find(definition.machine, resources.models("machines"), "machine", path)
    raw = profile.read_toml(machine_file)
    machine_of(raw, str(machine_file))
    cells = []
    for table in definition.tables:
        measured = read_table(resources.data_file(path, table.file))
        for key, iops in measured.items():
            if key.pattern in table.patterns:
                cells.append(Cell(table.filesystem, key, iops, table.weight))
        if missing := [pattern for pattern in table.patterns if all(key.pattern != pattern for key in measured)]:
            raise UserError(f"{path}: {table.file} has no cells of pattern {', '.join(missing)}")
    calibration = Calibration(path.stem, definition, raw, machine_file, tuple(cells))
    for parameter, value in zip(definition.parameters, calibration.start, strict=True):
        if not parameter.low <= value <= parameter.high:
            raise UserError(
                f"{path}: {parameter.name} starts at {value:g}, outside {parameter.low:g} ... {parameter.high:g}"
            )
    return calibration
