"""What all command lines share.

A person's mistake is one line on standard error and exit code 2, never a traceback; a run that ended by an error of the
simulated system is 3, Ctrl-C 130.  A reader that stops early, such as `head`, has seen enough: that is no error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from fssim.errors import FssimError, RunError

MISTAKE, RUN_ERROR, INTERRUPTED = 2, 3, 130  # exit codes
SIZES: Mapping[str, int] = {"k": 1024, "m": 1024**2}


class _Interrupted(Exception):
    """Ctrl-C."""


class _ReaderGone(Exception):
    """Standard output is a pipe that nobody reads any more."""


class Command(click.Command):
    """A command of which Ctrl-C and a closed pipe reach `run`; click would print an empty line, and exit with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command's function."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Interrupted from None
        except BrokenPipeError:
            raise _ReaderGone from None


def run(
    command: click.Command, arguments: list[str] | None = None, program: str = "fssim", interrupted: str = "interrupted"
) -> NoReturn:
    """Run a command and exit with the code that it returns, or with that of its error, said in one line."""
    message, code = "", 0
    try:
        code = command.main(args=arguments, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        message, code = error.format_message(), error.exit_code
    except (_Interrupted, KeyboardInterrupt, click.Abort):
        message, code = interrupted, INTERRUPTED
    except RunError as error:
        message, code = f"{type(error).__name__}: {error}", RUN_ERROR
    except FssimError as error:
        message, code = str(error), MISTAKE
    except MemoryError as error:
        message, code = f"not enough memory: {error}", MISTAKE
    except (_ReaderGone, BrokenPipeError):
        discard_output()
    except OSError as error:  # those of files are `UserError`s
        if error.filename is not None:
            raise
        discard_output()
        message, code = cannot_print(error), MISTAKE
    if message:
        print(f"{program}: {message}", file=sys.stderr)
    sys.exit(code)


def discard_output() -> None:
    """Send what is still to come nowhere, also what the interpreter flushes when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def cannot_print(error: OSError) -> str:
    """One line that says why nothing can be printed."""
    return f"cannot write to standard output: {error.strerror}"


def positive(text: str, suffixes: Mapping[str, int] = {}) -> int:
    """Return the integer >= 1 that a text states, times what its suffix stands for; a `ValueError` if it does not."""
    factor = suffixes.get(text[-1:], 1)
    digits = text[:-1] if factor > 1 else text
    if not digits.isdecimal() or int(digits) < 1:
        raise ValueError(text)
    return int(digits) * factor
