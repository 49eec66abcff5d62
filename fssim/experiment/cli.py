"""The command line of experiments.  Nothing heavy is imported before an experiment runs: `--help` answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fssim.command_line import SIZES, Command, positive, run

EXIT_CODES = """\b
Exit codes:
  0    finished; missed claims are part of the report
  1    finished, and a claim missed (with --strict only)
  2    a mistake in what was asked for, or an output that cannot be written
  3    a cell has no result, such as a deadlock; the other cells are reported
  130  Ctrl-C; the finished cells are reported and kept
"""


class Numbers(click.ParamType):
    """A comma-separated list of positive integers; with a suffix k or m if they are bytes."""

    name = "N,N,..."

    def __init__(self, what: str, suffixes: bool = False) -> None:
        self.what = what
        self.suffixes = SIZES if suffixes else {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse the list; duplicates are dropped, the order is kept."""
        if isinstance(value, tuple):
            return value
        return tuple(dict.fromkeys(self._number(part.strip().lower()) for part in str(value).split(",")))

    def _number(self, text: str) -> int:
        try:
            return positive(text, self.suffixes)
        except ValueError:
            self.fail(f"{self.what} = {text!r}: must be an integer >= 1")


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return tuple(dict.fromkeys(part.strip() for part in value.split(","))) if value is not None else None


@click.command(
    cls=Command,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.argument("experiment", metavar="NAME|FILE.toml|results.json", required=False)
@click.option("--list", "list_all", is_flag=True, help="List the experiments and their questions, and stop.")
@click.option("--all", "run_them_all", is_flag=True, help="Run all experiments, each into a folder of its own.")
@click.option("--claims", is_flag=True, help="Print the claims in one table, with what misses and why; write nothing.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the results.  [default: results/NAME]")
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), help="Write the predicted matrices to this file too."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all results to this file too.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the random numbers.")
@click.option("--threads", type=Numbers("threads"), help="Only these numbers of threads, such as 1,16,128.")
@click.option("--block-sizes", type=Numbers("block size", True), help="Only these block sizes, such as 512,4k,16k.")
@click.option("--patterns", callback=_names, metavar="NAME,...", help="Only these patterns, such as seqrd,seqwr.")
@click.option("--cell", metavar="PATTERN,BYTES,THREADS", help="The cell to take apart, such as seqrd,4k,16.")
@click.option("--machine", metavar="NAME|FILE.toml", help="Predict for another machine.")
@click.option(
    "--engine", default="compiled", show_default=True, metavar="compiled|reference", help="Which engine runs it."
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: one a core]")
@click.option("--strict", is_flag=True, help="Exit with 1 if a claim is missed.")
@click.version_option(package_name="fssim")
def command(**options: Any) -> int:
    """Run an experiment: predict the IOPS matrices of its variants and compare them with what was measured.

    The summary comes first, then the tables behind it.  Figures, report.html, results.json and results.csv go to the
    output folder.
    """
    list_all, run_them_all, claims = (options.pop(name) for name in ("list_all", "run_them_all", "claims"))
    if list_all:
        from fssim.experiment.job import list_experiments

        list_experiments()
        return 0
    experiment = options.pop("experiment")
    _check(experiment, run_them_all, claims, options)
    from fssim.experiment import job

    if claims:
        unused = ("out", "csv_file", "json_file", "cell")
        chosen = {name: value for name, value in options.items() if name not in unused}
        return job.run_claims(None if run_them_all else [experiment], **chosen)
    return job.run_all(**options) if run_them_all else job.run_job(experiment, **options)


def _check(experiment: str | None, run_them_all: bool, claims: bool, options: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    if run_them_all == (experiment is not None):
        given = f"--all, or {experiment} alone" if experiment is not None else "an experiment, or --all"
        raise click.UsageError(f"name {given}; --list shows them")
    flags = {
        "csv_file": "--csv",
        "json_file": "--json",
        "cell": "--cell",
        "threads": "--threads",
        "block_sizes": "--block-sizes",
        "patterns": "--patterns",
        "machine": "--machine",
        "out": "--out",
    }
    of_one, of_files = list(flags)[:-1], ("csv_file", "json_file", "out", "cell")
    for name, flag in flags.items():
        if options[name] is not None and run_them_all and name in of_one:
            raise click.UsageError(f"{flag} is about one experiment; name it instead of --all")
        if options[name] is not None and claims and name in of_files:
            raise click.UsageError(f"{flag} beside --claims, which prints one table and writes nothing")


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit."""
    run(command, arguments)
