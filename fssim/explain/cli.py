"""The command line of explanations.  Nothing heavy is imported before a cell is run: `--help` answers at once."""

from __future__ import annotations

import sys
from typing import Any

import click

from fssim.command_line import SIZES, Command, positive, run

EXIT_CODES = """\b
Exit codes:
  0    explained
  2    a mistake in what was asked for, or an output that cannot be written
  3    the cell's run ended by an error, such as a deadlock
  130  Ctrl-C
"""


class Size(click.ParamType):
    """Bytes, with a suffix k or m."""

    name = "BYTES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return positive(str(value).strip().lower(), SIZES)
        except ValueError:
            self.fail(f"{value!r}: must be an integer >= 1, such as 512 or 4k")


@click.command(
    cls=Command,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.argument("filesystem")
@click.argument("pattern")
@click.argument("block_size", type=Size())
@click.argument("threads", type=int)
@click.option("--machine", default="engel-2011", show_default=True, metavar="NAME|FILE.toml", help="On which machine.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--seed", type=click.IntRange(min=0), default=2011, show_default=True, help="Seed of the random numbers.")
@click.option(
    "--ios", type=int, default=4096, show_default=True, help="I/Os in the window; the warm-up is a quarter more."
)
@click.option("--file-size", type=Size(), default="64m", show_default=True, help="Bytes of each of the 128 files.")
@click.version_option(package_name="fssim")
def command(as_json: bool, filesystem: str, pattern: str, block_size: int, threads: int, **options: Any) -> int:
    """Explain a cell of a matrix: why has it the IOPS that it has?

    Example: python -m fssim.explain xfs-2.6.39 seqwr 4096 16

    Path cost and waiting are kept apart: the cell is compared with one thread in its own order, and with one thread
    that transfers the very same blocks in the same order.
    """
    from fssim.explain.cell import make_cell
    from fssim.explain.explanation import explain

    cell = make_cell(
        filesystem,
        pattern,
        block_size,
        threads,
        machine=options["machine"],
        file_size_bytes=options["file_size"],
        seed=options["seed"],
        ios=options["ios"],
    )
    found = explain(cell)
    if as_json:
        from fssim.explain.output import as_json as text

        sys.stdout.write(text(found))
    else:
        from fssim.explain.terminal import print_explanation

        print_explanation(found)
    return 0


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit."""
    run(command, arguments)
