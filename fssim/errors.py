"""Every error fssim raises on purpose.

`UserError` and its children are mistakes in what a person wrote or asked for; the command line prints them as one line
and exits with 2.  `RunError` and its children end a simulated run: the protocol under test did something no kernel may
do, or can make no progress.  They carry the thread, lock, simulated time and seed, so that the run can be repeated.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import partial
from typing import Any


class FssimError(Exception):
    """Base of all errors of this package."""


class UserError(FssimError):
    """A person's mistake: the message says what was given, what is allowed and what to do."""


class ProtocolError(UserError):
    """A protocol uses something outside the language.  `filename` and `line` point at it."""

    def __init__(self, filename: str, line: int, message: str) -> None:
        super().__init__(f"{filename}:{line}: {message}")
        self.filename = filename
        self.line = line
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # `args` is the text made of the arguments, which `Exception` would pass to `__init__` in their place.
        return type(self), (self.filename, self.line, self._message), self.__dict__


class RunError(FssimError):
    """A simulated run ended by an error.  All fields are the same in both engines.

    `thread`: number of the thread, -1 if none is to blame; `lock`: name of the lock or counter, "" if none;
    `time_ns`: simulated time; `seed`: seed of the run; `line`: source line of the effect.
    """

    def __init__(
        self, detail: str, *, thread: int = -1, lock: str = "", time_ns: int = 0, seed: int = 0, line: int = 0
    ) -> None:
        where = f" in thread {thread}" if thread >= 0 else ""
        where += f" on {lock}" if lock else ""
        super().__init__(f"{detail}{where} at {time_ns} ns (line {line}, seed {seed})")
        self.detail = detail
        self.thread = thread
        self.lock = lock
        self.time_ns = time_ns
        self.seed = seed
        self.line = line

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self)
        make = partial(kind, thread=self.thread, lock=self.lock, time_ns=self.time_ns, seed=self.seed, line=self.line)
        return make, (self.detail,), self.__dict__


class Deadlock(RunError):
    """Threads wait and nothing can ever wake them.  The message lists who waits for what, and who holds it."""


class NotHeld(RunError):
    """A lock was released that the thread does not hold (or holds in the other mode)."""


class DoubleRelease(NotHeld):
    """A lock was released a second time by the thread that released it last."""


class DemoteNotHeld(RunError):
    """A lock was demoted by a thread that does not hold it exclusively."""


class RecursiveAcquire(RunError):
    """A thread asked for a lock it already holds."""


class HeldAtExit(RunError):
    """A thread's program returned while it still held a lock."""


class NoProgress(RunError):
    """Events keep happening and the clock does not move."""


class StepLimit(RunError):
    """The run executed more instructions than its limit without reaching its goal."""


class SleepInAtomic(RunError):
    """A thread that holds a spinlock asked for something that may sleep."""


class AssertionFailed(RunError):
    """An `assert` of the protocol is false."""


class BadValue(RunError):
    """A value out of range: division by zero, index outside a list, negative time, counter below zero, lock mode."""


def nearest(given: str, allowed: Iterable[str]) -> str:
    """Return " (did you mean ...?)" with up to three names near `given`, or the allowed names if none is near."""
    names = sorted(allowed)
    close = difflib.get_close_matches(given, names, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; known: {', '.join(names)}" if names else ""
