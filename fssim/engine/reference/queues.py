"""Queues, through which threads and the device hand each other integers and objects (section 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

from fssim.engine.reference.devices import Request
from fssim.engine.reference.thread import SimThread
from fssim.engine.reference.waited import Waited, Wake
from fssim.protocol.bytecode import LOG_GRANT, OPCODES


class WaitedQueue(Waited):
    """Items in order of arrival, or else the threads that wait for one, in order of arrival."""

    def __init__(self, items: Iterable[Any], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._items = deque(items)
        self._waiters: deque[SimThread] = deque()

    @property
    def length(self) -> int:
        return len(self._items)

    def put(self, thread: SimThread, item: Any) -> None:
        self._simulation.log(thread, OPCODES["PUT"], self.number, self.length)
        self._hand_on(item, self._scheduler.wake)

    def tell(self, request: Request) -> None:
        """A request whose tag this queue is to get is done."""
        self._hand_on(request.tag, self._scheduler.interrupt)

    def get(self, thread: SimThread) -> Any:
        """Return the head, or let the thread wait; it then goes on with the item that it is given."""
        self._simulation.log(thread, OPCODES["GET"], self.number, self.length)
        if self._items:
            return self._items.popleft()
        self._waiters.append(thread)
        return self._wait(thread, self._goes_on)

    def _hand_on(self, item: Any, wake: Wake) -> None:
        if not self._waiters:
            self._items.append(item)
            return
        # The item is the waiter's from now on: who asks before the waiter runs does not get it.
        waiter = self._waiters.popleft()
        waiter.waits_for = None
        waiter.then = partial(self._goes_on, result=item)
        self._simulation.log(waiter, LOG_GRANT, self.number, 0)
        wake(waiter)
