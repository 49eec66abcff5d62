"""The clock, the event queue, the event log and the named errors of one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import simpy

from fssim.engine import messages
from fssim.engine.reference.thread import SimThread
from fssim.errors import NoProgress, RunError
from fssim.machine.host import Host
from fssim.protocol.language import StandsStill, running

Subject = TypeVar("Subject", covariant=True)


class Due(Protocol[Subject]):
    """A SimPy event that has come due; its value is the subject that was scheduled."""

    @property
    def value(self) -> Subject: ...


WAITS = object()
"""What an operation returns when its thread must wait; anything else is the result of the operation."""


class Finished(Exception):
    """The run has reached its goal; it ends in this very step."""


class Simulation:
    """What every part of the engine needs: time, events, log, errors."""

    def __init__(self, host: Host, seed: int, log: bool) -> None:
        self.environment = simpy.Environment()
        self.host = host
        self.seed = seed
        self.now = 0
        self.events = 0
        self.rows: list[tuple[int, int, int, int, int, int]] | None = [] if log else None

    def schedule(self, delay: int, action: Callable[[Any], None], subject: Any) -> None:
        """Call `action` in `delay` nanoseconds with a `Due` event whose value is `subject`.

        SimPy orders events of one instant by the order in which they were scheduled, which is the rule of section 1.
        """
        event = self.environment.timeout(delay, subject)
        event.callbacks.append(action)

    def run(self, time_limit_ns: int) -> bool:
        """Process events until none is left or the time limit; return True for the limit.

        `Finished` or a `RunError` may end it earlier.
        """
        environment = self.environment
        running.time_ns = 0
        running.ticks = 0
        while (when := environment.peek()) != simpy.core.Infinity:
            if time_limit_ns and when >= time_limit_ns:
                self.now = time_limit_ns
                return True
            if when != self.now:
                self.now = running.time_ns = int(when)
                running.ticks = 0
            self.events += 1
            try:
                running.tick()
            except StandsStill:
                raise self._stuck_event() from None
            environment.step()
        return False

    def log(self, thread: SimThread, kind: int, number: int, value: int, line: int | None = None) -> None:
        """Add a row to the event log, if one is kept; `line` unless it is that of the thread's effect."""
        if self.rows is not None:
            line = thread.line if line is None else line
            self.rows.append((self.now, thread.number, line, kind, number, value))

    def error(
        self, kind: type[RunError], detail: str, thread: SimThread, lock: str = "", line: int | None = None
    ) -> RunError:
        """Make the error that ends the run; `line` unless it is that of the thread's effect."""
        line = thread.line if line is None else line
        return kind(detail, thread=thread.number, lock=lock, time_ns=self.now, seed=self.seed, line=line)

    def _stuck_event(self) -> RunError:
        # SimPy has no public look at the next event; its value is the subject given to `schedule`.
        subject = self.environment._queue[0][3].value
        thread = subject.number if isinstance(subject, SimThread) else -1
        return NoProgress(messages.NO_PROGRESS, thread=thread, time_ns=self.now, seed=self.seed)
