"""What counters, queues and spaces share: threads wait for them without a mode (section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fssim.engine.objects import NamedPrimitive
from fssim.engine.reference.scheduler import Scheduler
from fssim.engine.reference.simulation import WAITS
from fssim.engine.reference.statistics import Category
from fssim.engine.reference.thread import SimThread

Wake = Callable[[SimThread], None]
"""How a thread is woken: `Scheduler.wake` by another thread, `Scheduler.interrupt` by the device."""


class Waited:
    """A primitive on which threads wait; `waiting` is the time of those who do.

    `goes_on` continues a thread's program after its wait; the result of the effect is its second argument.
    """

    def __init__(
        self,
        named: NamedPrimitive,
        waiting: Category,
        scheduler: Scheduler,
        goes_on: Callable[..., None],
    ) -> None:
        self.name = named.name
        self.number = named.number
        self._waiting = waiting
        self._scheduler = scheduler
        self._simulation = scheduler.simulation
        self._goes_on = goes_on

    def _wait(self, thread: SimThread, then: Callable[[SimThread], None]) -> Any:
        """Block a thread; `then` is what it does when it has been woken."""
        thread.waits_for = self
        thread.wait_mode = 0
        thread.then = then
        self._scheduler.block(thread, self._waiting)
        return WAITS
