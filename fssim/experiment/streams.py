"""What is done with standard output when it takes no more."""

from __future__ import annotations

import os
import sys


def discard_output() -> None:
    """Send what is still to come nowhere, also what the interpreter flushes when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def cannot_print(error: OSError) -> str:
    """One line that says why nothing can be printed."""
    return f"cannot write to standard output: {error.strerror}"
