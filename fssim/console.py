"""The terminal that reports are printed to."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

from fssim.command_line import discard_output


class _Terminal(Console):
    """A console that falls silent when its reader, such as `head`, has seen enough: the results are still written."""

    def on_broken_pipe(self) -> None:
        """Send what is still to come nowhere."""
        self.quiet = True
        discard_output()


def terminal(width: int, **options: Any) -> Console:
    """Return a console on standard output, of this width where that is no terminal."""
    console = _Terminal(**options)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = width
    return console
