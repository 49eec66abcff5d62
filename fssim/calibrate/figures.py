"""`python -m fssim.calibrate.figures NAME`: find the parameters of a machine at which it gives single figures.

Where there is no table to fit, one parameter is determined by one figure: by halving the interval in which it lies, as
the figure falls or rises with it all the way.  The figures come one after the other, each with the values found before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from msgspec import Meta, Struct

from fssim import profile, resources
from fssim.atomic import write_text
from fssim.command_line import Command, run
from fssim.errors import UserError
from fssim.experiment.definition import CellChoice
from fssim.experiment.overrides import with_overrides
from fssim.experiment.tables import Key
from fssim.experiment.workloads import Workload, key_of, system_of_workload
from fssim.filesystem import Geometry, load_filesystem
from fssim.workload.sysbench import Sysbench

if TYPE_CHECKING:
    from fssim.system import RunResult

Ios = Annotated[int, Meta(ge=1, le=10**8)]


class FittedFigure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter, its bounds, and the figure that determines it.

    `quantity`: "device_busy" is the share of the time that the busiest part of the device works.  `cell`: for the
    workload of sysbench only.
    """

    parameter: str
    low: Annotated[int, Meta(ge=0)]
    high: Annotated[int, Meta(ge=1)]
    figure: Annotated[float, Meta(gt=0)]
    quantity: Literal["iops", "mb_s", "device_busy"] = "iops"
    source: str
    filesystem: str
    workload: Workload
    cell: CellChoice | None = None
    volume: Geometry = Geometry()
    ios: Ios = 40_000
    warmup_ios: Ios = 10_000
    constants: dict[str, int] = {}


class Definition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file: a machine, and its figures in the order in which they are used."""

    machine: str
    seed: Annotated[int, Meta(ge=0)] = 0
    fits: Annotated[list[FittedFigure], Meta(min_length=1)]


def load_fits(given: str) -> tuple[Definition, Path]:
    """Return the fits that a name of `experiments/fits` or a TOML file states, and the file."""
    path = resources.find(given, resources.experiments() / "fits", "fit")
    return profile.load(path, Definition), path


def measure(fit: FittedFigure, machine: profile.Machine, seed: int) -> float:
    """Return what the simulator gives for the figure."""
    from fssim.engine import run

    system = system_of_workload(
        fit.workload,
        _key(fit),
        load_filesystem(fit.filesystem),
        machine,
        geometry=fit.volume,
        ios=fit.ios,
        warmup_ios=fit.warmup_ios,
        seed=seed,
    )
    system = replace(system, version={**system.version, **fit.constants})
    return _value(fit, run(system, engine="compiled"))


def solve(fit: FittedFigure, machine: profile.Machine, seed: int, where: str) -> tuple[int, float]:
    """Return the value of the parameter at which the machine gives the figure, and what it gives there.

    Raises `UserError` if the figure does not lie between those at the bounds.
    """

    def at(value: int) -> float:
        return measure(fit, with_overrides(machine, {fit.parameter: value}, where), seed)

    ends = at(fit.low), at(fit.high)
    if not min(ends) <= fit.figure <= max(ends):
        raise UserError(
            f"{where}: {fit.parameter} = {fit.low} ... {fit.high} gives {ends[0]:g} ... {ends[1]:g}, not {fit.figure:g}"
        )
    return _halve(at, fit.low, fit.high, fit.figure, rises=ends[1] > ends[0])


def _halve(at: Callable[[int], float], low: int, high: int, figure: float, *, rises: bool) -> tuple[int, float]:
    """Halve the interval until it is a thousandth of the value."""
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        if (at(middle) < figure) == rises:
            low = middle
        else:
            high = middle
    return high, at(high)


def _key(fit: FittedFigure) -> Key:
    if not isinstance(fit.workload, Sysbench):
        return key_of(fit.workload)
    if fit.cell is None:
        raise UserError(f"{fit.parameter}: state the cell of sysbench's matrix")
    return Key(fit.cell.pattern, fit.cell.block_size_bytes, fit.cell.threads)


def _value(fit: FittedFigure, result: RunResult) -> float:
    match fit.quantity:
        case "iops":
            return result.iops
        case "mb_s":
            return result.iops * _key(fit).block_size_bytes / 1e6
        case _:
            parts = (busy / servers for name, (busy, servers) in result.busy_ns.items() if name != "cpu")
            return max(parts) / result.window_ns


def _text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}"


def put_number(path: Path, parameter: str, value: int) -> bool:
    """Replace the number of a parameter in a profile and leave its comment; return whether the profile states it."""
    changed = _with_number(path, parameter, value)
    if changed is not None:
        write_text(path, changed)
    return changed is not None


def _with_number(path: Path, parameter: str, value: int) -> str | None:
    """Return the text of a profile with another number of a parameter, None if it does not state it once."""
    key = parameter.split(".")[-1]
    text = path.read_text(encoding="utf-8")
    changed, count = re.subn(rf"^{re.escape(key)} = [0-9_]+", f"{key} = {value:_}", text, flags=re.MULTILINE)
    return changed if count == 1 else None


@click.command(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@click.option("--write", is_flag=True, help="Put the numbers into the profiles that state them.")
def command(name: str, write: bool) -> None:
    """Find the parameters of a machine at which it gives the figures of NAME, a file of experiments/fits."""
    definition, path = load_fits(name)
    machine = profile.load_machine(definition.machine, path)
    stated_in = {fit.parameter: _stated_in(fit.parameter, definition.machine, path) for fit in definition.fits if write}
    values: dict[str, int] = {}
    for number, fit in enumerate(definition.fits):
        value, found = solve(fit, machine, definition.seed, f"{path}: fits[{number}]")
        machine = with_overrides(machine, {fit.parameter: value}, str(path))
        values[fit.parameter] = value
        click.echo(f"{fit.parameter:32s} {value:>12,d}   gives {_text(found)}, measured {fit.figure:,g}: {fit.source}")
    for parameter, file in stated_in.items():
        put_number(file, parameter, values[parameter])


def _stated_in(parameter: str, machine: str, named_in: Path) -> Path:
    """Return the profile of a machine that states the parameter; raises `UserError` if there is none."""
    for file in _profiles(machine, named_in):
        if _with_number(file, parameter, 0) is not None:
            return file
    raise UserError(f"{named_in}: no profile of {machine} states {parameter} once")


def _profiles(given: str, named_in: Path) -> list[Path]:
    """Return the files that describe a machine: its own, and those of the host and the device that it names."""
    path = resources.find(given, resources.models("machines"), "machine", named_in)
    made = profile.load(path, profile.MachineProfile)
    found = [path]
    for kind, part in (("host", made.host), ("device", made.device)):
        if isinstance(part, str):
            found.append(resources.find(part, resources.models(f"{kind}s"), kind))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit."""
    run(command, arguments, program="fssim.calibrate.figures")


if __name__ == "__main__":
    main()
