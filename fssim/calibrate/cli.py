"""`python -m fssim.calibrate NAME`: fit a machine profile to measured tables."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fssim.command_line import Command, run
from fssim.errors import UserError

if TYPE_CHECKING:
    from fssim.calibrate.definition import Calibration
    from fssim.calibrate.fit import Fit


@click.command(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Profile to write; without it, the one that is read."
)
@click.option(
    "--iterations", default=20, show_default=True, type=click.IntRange(1), help="At most so many steps a start."
)
@click.option("--starts", type=click.IntRange(1), help="Starting points; the file's own number if not given.")
@click.option("--ios", type=click.IntRange(100), help="I/Os in a cell's window; the file's own number if not given.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the runs; the file's own if not given.")
@click.option("--jobs", type=click.IntRange(1), help="Processes; all cores if not given.")
@click.option(
    "--file-size",
    type=click.IntRange(512, 2**40),
    help="Bytes in each of the files that are read; the file's own if not given.",
)
@click.option("--dry-run", is_flag=True, help="Only evaluate the profile as it is; write nothing.")
def command(
    name: str,
    output: Path | None,
    iterations: int,
    starts: int | None,
    ios: int | None,
    seed: int | None,
    jobs: int | None,
    file_size: int | None,
    dry_run: bool,
) -> None:
    """Fit the free parameters of a machine to measured tables.

    NAME is a file of experiments/calibrations, or a TOML file.  The fitted profile says what it was fitted to, the
    loss, and each parameter's standard error; parameters that the data do not determine are marked.
    """
    import dataclasses

    import msgspec

    from fssim.atomic import write_text
    from fssim.calibrate.definition import load_calibration
    from fssim.calibrate.fit import Fitter
    from fssim.experiment.runner import warm_up, workers
    from fssim.workload.sysbench import SECTOR_BYTES

    if output is not None and not dry_run:
        _check_writable(output)
    calibration = load_calibration(name)
    definition = calibration.definition
    run = msgspec.structs.replace(definition.run, ios=ios or definition.run.ios)
    workload = definition.workload
    if file_size is not None:
        if file_size % SECTOR_BYTES:
            raise UserError(f"--file-size {file_size}: must be a multiple of {SECTOR_BYTES}")
        workload = msgspec.structs.replace(workload, file_size_bytes=file_size)
    definition = msgspec.structs.replace(definition, run=run, starts=starts or definition.starts, workload=workload)
    calibration = dataclasses.replace(calibration, definition=definition)
    target = output or calibration.file
    if not dry_run:
        _check_writable(target)

    def progress(text: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)

    count = jobs or os.cpu_count() or 1
    chosen_seed = run.seed if seed is None else seed
    with workers(1) as alone:
        warm_up(Fitter(calibration, alone, progress, chosen_seed).tasks(calibration.start))
    with workers(count) as pool:
        fitter = Fitter(calibration, pool, progress, chosen_seed)
        if dry_run:
            click.echo(_table(calibration, list(fitter.residuals([calibration.start])[0])))
            return
        fit = fitter.fit(iterations)
    progress("")
    write_text(target, _profile(calibration, fit, name))
    click.echo(_table(calibration, list(fit.residuals)))
    for parameter, value, error in zip(definition.parameters, fit.values, fit.standard_error, strict=True):
        click.echo(f"{parameter.name:40s} {value:12.0f}  {_remark(error)}")
    click.echo(f"mean absolute logarithmic error {fit.loss:.5f} after {fit.evaluations} evaluations; wrote {target}")


def _remark(error: float) -> str:
    from fssim.calibrate.fit import UNIDENTIFIED

    shown = f"fitted, ± {100 * error:.1f} %" if error < 10 else "fitted"
    return shown + (", not determined by the data" if error > UNIDENTIFIED else "")


def _profile(calibration: Calibration, fit: Fit, name: str) -> str:
    from fssim.calibrate.fit import UNIDENTIFIED
    from fssim.calibrate.profile_writer import as_toml

    parameters = calibration.definition.parameters
    raw = calibration.profile_with(list(fit.values))
    raw["calibration"] = {
        "fitted_to": [f"{table.file} ({', '.join(table.patterns)})" for table in calibration.definition.tables],
        "command": f"python -m fssim.calibrate {name}",
        "loss": round(fit.loss, 5),
        "unidentified": [
            parameter.name
            for parameter, error in zip(parameters, fit.standard_error, strict=True)
            if error > UNIDENTIFIED
        ],
        "standard_error": {
            parameter.name: round(min(error, 1e6), 4)
            for parameter, error in zip(parameters, fit.standard_error, strict=True)
        },
    }
    remarks = {parameter.name: _remark(error) for parameter, error in zip(parameters, fit.standard_error, strict=True)}
    return as_toml(raw, remarks)


def _table(calibration: Calibration, residuals: list[float]) -> str:
    """Return median, p90 and largest absolute error in per cent, by table and pattern."""
    import numpy as np

    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cell, residual in zip(calibration.cells, residuals, strict=True):
        groups[cell.filesystem, cell.key.pattern].append(100 * abs(float(np.expm1(residual))))
    lines = [f"{'filesystem':28s} {'pattern':8s} {'median %':>9s} {'p90 %':>7s} {'max %':>7s}"]
    for (filesystem, pattern), errors in groups.items():
        median, p90 = np.percentile(errors, [50, 90])
        lines.append(f"{filesystem:28s} {pattern:8s} {median:9.2f} {p90:7.2f} {max(errors):7.2f}")
    return "\n".join(lines)


def _check_writable(target: Path) -> None:
    folder = target.parent
    if target.is_dir():
        raise UserError(f"{target}: is a folder; give a file with -o")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UserError(f"{target}: the folder does not exist or is not writable; give another with -o")


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit."""
    run(command, arguments, program="fssim.calibrate", interrupted="interrupted; nothing was written")
