"""Counters that can be drained, such as an inode's count of direct I/Os (section 5)."""

from __future__ import annotations

from collections import deque
from typing import Any

from fssim.engine import messages
from fssim.engine.reference.cache_line import CacheLine
from fssim.engine.reference.devices import Request
from fssim.engine.reference.simulation import WAITS
from fssim.engine.reference.thread import SimThread
from fssim.engine.reference.waited import Waited, Wake
from fssim.errors import BadValue
from fssim.protocol.bytecode import OPCODES


class WaitedCounter(Waited):
    """A count, and the threads that wait until it is zero."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.line = CacheLine(self._simulation.host.cache_line_ns)
        self.value = 0
        self._waiters: deque[SimThread] = deque()

    def increment(self, thread: SimThread, _: int) -> None:
        self.value += 1
        self._simulation.log(thread, OPCODES["INC"], self.number, 0)

    def decrement(self, thread: SimThread, _: int) -> int:
        if self.value == 0:
            raise self._simulation.error(BadValue, messages.COUNTER_BELOW_ZERO, thread, self.name)
        self.value -= 1
        self._simulation.log(thread, OPCODES["DEC"], self.number, self.value)
        self._wake_if_zero(self._scheduler.wake)
        return self.value

    def tell(self, request: Request) -> None:
        """A request that this counter counts is done."""
        if self.value == 0:
            raise self._simulation.error(
                BadValue, messages.COUNTER_BELOW_ZERO, request.thread, self.name, line=request.line
            )
        self.value -= 1
        self._wake_if_zero(self._scheduler.interrupt)

    def wait_zero(self, thread: SimThread) -> Any:
        """Return None if the count is zero, else let the thread wait; a woken thread looks again."""
        self._simulation.log(thread, OPCODES["WAITZERO"], self.number, self.value)
        if self.value == 0:
            return None
        self._waiters.append(thread)
        return self._wait(thread, self._look_again)

    def _wake_if_zero(self, wake: Wake) -> None:
        while self._waiters and self.value == 0:
            waiter = self._waiters.popleft()
            waiter.waits_for = None
            wake(waiter)

    def _look_again(self, thread: SimThread) -> None:
        if self.wait_zero(thread) is not WAITS:
            self._goes_on(thread)
