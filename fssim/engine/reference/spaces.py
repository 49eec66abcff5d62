"""Spaces, of which threads take and give back units, such as the space of a log (section 5)."""

from __future__ import annotations

from collections import deque
from typing import Any

from fssim.engine.reference.thread import SimThread
from fssim.engine.reference.waited import Waited
from fssim.protocol.bytecode import LOG_GRANT, OPCODES


class WaitedSpace(Waited):
    """Free units, and the threads that wait for some; nobody overtakes, also not who asks for less."""

    def __init__(self, capacity: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.capacity = capacity
        self.free = capacity
        self._waiters: deque[tuple[SimThread, int]] = deque()

    def take(self, thread: SimThread, units: int) -> Any:
        """Return None if the thread has its units, else let it wait."""
        self._simulation.log(thread, OPCODES["TAKE"], self.number, units)
        if not self._waiters and units <= self.free:
            self.free -= units
            return None
        self._waiters.append((thread, units))
        return self._wait(thread, self._goes_on)

    def give(self, thread: SimThread, units: int) -> None:
        self._simulation.log(thread, OPCODES["GIVE"], self.number, units)
        self.free += units
        while self._waiters and self._waiters[0][1] <= self.free:
            waiter, wanted = self._waiters.popleft()
            self.free -= wanted
            waiter.waits_for = None
            self._simulation.log(waiter, LOG_GRANT, self.number, wanted)
            self._scheduler.wake(waiter)
