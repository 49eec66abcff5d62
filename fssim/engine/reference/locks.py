"""What all locks share, and the kinds that serve in order of arrival: "fifo" rwlock and mutex, spinlock (section 4).

An acquire that is granted at once returns None and its thread runs on.  Otherwise it returns `WAITS`; the lock later
grants itself to the thread and brings it back to the processors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from fssim.engine.objects import NamedPrimitive
from fssim.engine.reference.cache_line import CacheLine
from fssim.engine.reference.scheduler import Scheduler
from fssim.engine.reference.simulation import WAITS
from fssim.engine.reference.statistics import Use
from fssim.engine.reference.thread import SimThread
from fssim.protocol.bytecode import LOG_GRANT
from fssim.protocol.language import EXCLUSIVE, SHARED


class Lock(ABC):
    """A lock of any kind: bookkeeping of holders, waiters and their statistics.

    `goes_on` continues a thread's program after its wait.
    """

    sleeps = True
    """Whether waiting threads may give up their CPU, which a thread that holds a spinlock must not."""

    def __init__(
        self,
        named: NamedPrimitive,
        uses: Mapping[int, Use],
        scheduler: Scheduler,
        goes_on: Callable[[SimThread], None],
    ) -> None:
        self.name = named.name
        self.number = named.number
        self.line = CacheLine(scheduler.simulation.host.cache_line_ns)
        self.last_released_by: SimThread | None = None
        self._last_acquired_by: SimThread | None = None
        self._uses = uses
        self._scheduler = scheduler
        self._simulation = scheduler.simulation
        self._goes_on = goes_on

    @abstractmethod
    def acquire(self, thread: SimThread, mode: int) -> Any:
        """Grant the lock or make the thread wait; return None or `WAITS`."""

    @abstractmethod
    def try_acquire(self, thread: SimThread, mode: int) -> int:
        """Grant the lock if that is possible at once; return 1 or 0."""

    @abstractmethod
    def release(self, thread: SimThread, mode: int) -> None:
        """Release a hold and pass the lock on."""

    def demote(self, thread: SimThread, _: int) -> None:
        """Turn the exclusive hold into a shared one."""
        raise NotImplementedError(f"{self.name} has no shared mode")

    def owner_stops(self, thread: SimThread) -> None:  # noqa: B027 - most kinds have no one who spins on a running owner
        """The thread, which holds this lock, is about to block or to be preempted."""

    def _take(self, thread: SimThread, mode: int) -> None:
        """The thread holds the lock from now on."""
        thread.held[self] = (mode, self._simulation.now)
        use = self._uses[mode]
        use.acquisitions += 1
        if self._last_acquired_by is not thread:
            if self._last_acquired_by is not None:
                use.bounces += 1
            self._last_acquired_by = thread

    def _grant(self, thread: SimThread, mode: int) -> None:
        """The thread, which has waited, holds the lock from now on."""
        self._take(thread, mode)
        self._uses[mode].waits.add(self._simulation.now - thread.wait_since)
        thread.waits_for = None
        self._simulation.log(thread, LOG_GRANT, self.number, mode)

    def _drop(self, thread: SimThread, mode: int) -> None:
        """The thread holds the lock no longer."""
        _, since = thread.held.pop(self)
        self._uses[mode].holds.add(self._simulation.now - since)
        self.last_released_by = thread

    def _drop_to_shared(self, thread: SimThread) -> None:
        """The thread's exclusive hold ends and a shared one begins, without a gap."""
        _, since = thread.held[self]
        now = self._simulation.now
        thread.held[self] = (SHARED, now)
        self._uses[EXCLUSIVE].holds.add(now - since)

    def _begin_wait(self, thread: SimThread, mode: int) -> None:
        thread.waits_for = self
        thread.wait_mode = mode
        thread.wait_since = self._simulation.now

    def _block(self, thread: SimThread, then: Callable[[SimThread], None]) -> Any:
        """Block a waiting thread; `then` is what it does when it is woken."""
        thread.then = then
        self._scheduler.block(thread, self._uses[thread.wait_mode].waiting)
        return WAITS

    def _spin(self, thread: SimThread) -> Any:
        thread.then = self._goes_on
        self._scheduler.spin(thread, self._uses[thread.wait_mode].waiting)
        return WAITS

    def _grant_to_spinner(self, thread: SimThread) -> None:
        self._grant(thread, EXCLUSIVE)
        self._scheduler.stop_spinning(thread)

    def _grant_and_wake(self, thread: SimThread, mode: int) -> None:
        self._grant(thread, mode)
        self._scheduler.wake(thread)


class ReaderWriterLock(Lock):
    """Who holds a reader-writer lock.  A kind says when it can be granted and to whom it passes on."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._writer: SimThread | None = None
        self._readers = 0

    def try_acquire(self, thread: SimThread, mode: int) -> int:
        if not self._is_grantable(mode):
            return 0
        self._take(thread, mode)
        return 1

    def release(self, thread: SimThread, mode: int) -> None:
        self._drop(thread, mode)
        if mode == EXCLUSIVE:
            self._writer = None
        else:
            self._readers -= 1
        if self._readers == 0:
            self._pass_on()

    def demote(self, thread: SimThread, _: int) -> None:
        self._drop_to_shared(thread)
        self._writer = None
        self._readers = 1
        self._admit_readers()

    def _take(self, thread: SimThread, mode: int) -> None:
        super()._take(thread, mode)
        if mode == EXCLUSIVE:
            self._writer = thread
        else:
            self._readers += 1

    @abstractmethod
    def _is_grantable(self, mode: int) -> bool:
        """Whether a thread that asks now need not wait."""

    @abstractmethod
    def _pass_on(self) -> None:
        """The lock has become free."""

    @abstractmethod
    def _admit_readers(self) -> None:
        """The writer has become a reader: others may join it."""


class FifoRWLock(ReaderWriterLock):
    """Rwlock "fifo", as in 2011: nobody overtakes, the releaser hands over, a run of readers goes together."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._queue: deque[SimThread] = deque()

    def acquire(self, thread: SimThread, mode: int) -> Any:
        if self._is_grantable(mode):
            self._take(thread, mode)
            return None
        self._begin_wait(thread, mode)
        self._queue.append(thread)
        return self._block(thread, self._goes_on)

    def _is_grantable(self, mode: int) -> bool:
        if self._queue or self._writer is not None:
            return False
        return mode == SHARED or self._readers == 0

    def _pass_on(self) -> None:
        if self._queue and self._queue[0].wait_mode == EXCLUSIVE:
            self._grant_and_wake(self._queue.popleft(), EXCLUSIVE)
        else:
            self._admit_readers()

    def _admit_readers(self) -> None:
        while self._queue and self._queue[0].wait_mode == SHARED:
            self._grant_and_wake(self._queue.popleft(), SHARED)


class FifoMutex(FifoRWLock):
    """Mutex "fifo": the fifo rwlock with exclusive holders only."""


class SpinLock(Lock):
    """Waiters spin in order of arrival; the holder is atomic: it must not sleep and is not preempted."""

    sleeps = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._owner: SimThread | None = None
        self._spinners: deque[SimThread] = deque()

    def acquire(self, thread: SimThread, mode: int) -> Any:
        if self._owner is None:
            self._take(thread, mode)
            return None
        self._begin_wait(thread, mode)
        self._spinners.append(thread)
        return self._spin(thread)

    def try_acquire(self, thread: SimThread, mode: int) -> int:
        if self._owner is not None:
            return 0
        self._take(thread, mode)
        return 1

    def release(self, thread: SimThread, mode: int) -> None:
        self._drop(thread, mode)
        self._owner = None
        thread.spinlocks -= 1
        if self._spinners:
            self._grant_to_spinner(self._spinners.popleft())

    def _take(self, thread: SimThread, mode: int) -> None:
        super()._take(thread, mode)
        self._owner = thread
        thread.spinlocks += 1
