"""Counters that can be drained, such as an inode's count of direct I/Os (section 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from fssim.engine import messages
from fssim.engine.objects import NamedPrimitive
from fssim.engine.reference.cache_line import CacheLine
from fssim.engine.reference.scheduler import Scheduler
from fssim.engine.reference.simulation import WAITS
from fssim.engine.reference.statistics import Category
from fssim.engine.reference.thread import SimThread
from fssim.errors import BadValue
from fssim.protocol.bytecode import OPCODES


class WaitedCounter:
    """A count, and the threads that wait until it is zero.  `goes_on` continues a thread's program after its wait."""

    def __init__(
        self,
        named: NamedPrimitive,
        waiting: Category,
        scheduler: Scheduler,
        goes_on: Callable[[SimThread], None],
    ) -> None:
        self.name = named.name
        self.number = named.number
        self.line = CacheLine(scheduler.simulation.host.cache_line_ns)
        self.value = 0
        self._waiting = waiting
        self._waiters: deque[SimThread] = deque()
        self._scheduler = scheduler
        self._simulation = scheduler.simulation
        self._goes_on = goes_on

    def increment(self, thread: SimThread, _: int) -> None:
        self.value += 1
        self._simulation.log(thread, OPCODES["INC"], self.number, 0)

    def decrement(self, thread: SimThread, _: int) -> int:
        if self.value == 0:
            raise self._simulation.error(BadValue, messages.COUNTER_BELOW_ZERO, thread, self.name)
        self.value -= 1
        self._simulation.log(thread, OPCODES["DEC"], self.number, self.value)
        if self.value == 0:
            while self._waiters:
                waiter = self._waiters.popleft()
                waiter.waits_for = None
                self._scheduler.wake(waiter)
        return self.value

    def wait_zero(self, thread: SimThread) -> Any:
        """Return None if the count is zero, else let the thread wait; a woken thread looks again."""
        self._simulation.log(thread, OPCODES["WAITZERO"], self.number, self.value)
        if self.value == 0:
            return None
        thread.waits_for = self
        thread.wait_mode = 0
        thread.then = self._look_again
        self._waiters.append(thread)
        self._scheduler.block(thread, self._waiting)
        return WAITS

    def _look_again(self, thread: SimThread) -> None:
        if self.wait_zero(thread) is not WAITS:
            self._goes_on(thread)
