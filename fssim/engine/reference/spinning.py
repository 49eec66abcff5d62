"""Locks that may be stolen and whose waiters may spin: rwlock "spinning", mutex "barging" (section 4)."""

from __future__ import annotations

from collections import deque
from typing import Any

from fssim.engine.objects import HANDOFF_AFTER_NS, READER_BATCH
from fssim.engine.random import below
from fssim.engine.reference.locks import Lock, ReaderWriterLock
from fssim.engine.reference.thread import SimThread, State
from fssim.protocol.language import EXCLUSIVE, SHARED


class BargingMutex(Lock):
    """Mutex "barging", 2.6.29 to 3.9: whoever comes takes a free mutex, also past those who sleep."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._owner: SimThread | None = None
        self._spinners: list[SimThread] = []
        self._sleepers: deque[SimThread] = deque()
        self._first_is_woken = False

    def acquire(self, thread: SimThread, mode: int) -> Any:
        if self._owner is None:
            self._take(thread, mode)
            return None
        self._begin_wait(thread, mode)
        if self._owner.state is State.RUNNING:
            self._spinners.append(thread)
            return self._spin(thread)
        self._sleepers.append(thread)
        return self._block(thread, self._retry)

    def try_acquire(self, thread: SimThread, mode: int) -> int:
        if self._owner is not None:
            return 0
        self._take(thread, mode)
        return 1

    def release(self, thread: SimThread, mode: int) -> None:
        self._drop(thread, mode)
        self._owner = None
        if self._sleepers and not self._first_is_woken:
            self._first_is_woken = True
            self._scheduler.wake(self._sleepers[0])
        if self._spinners:
            # All spinners see the release at the same moment; which of them wins is chance.
            count = len(self._spinners)
            winner = below(thread.draw(), count) if count > 1 else 0
            self._grant_to_spinner(self._spinners.pop(winner))

    def owner_stops(self, thread: SimThread) -> None:
        spinners, self._spinners = self._spinners, []
        self._sleepers.extend(spinners)
        for spinner in spinners:
            self._block(spinner, self._retry)

    def _take(self, thread: SimThread, mode: int) -> None:
        super()._take(thread, mode)
        self._owner = thread

    def _retry(self, thread: SimThread) -> None:
        """The first sleeper has been woken and runs."""
        self._first_is_woken = False
        if self._owner is None:
            self._sleepers.popleft()
            self._grant(thread, EXCLUSIVE)
            self._goes_on(thread)
        else:
            self._block(thread, self._retry)


class SpinningRWLock(ReaderWriterLock):
    """Rwlock "spinning", 5.11 and later: writers spin and steal; who has waited for 4 ms forces a hand-off."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._handoff = False
        self._spinners: deque[SimThread] = deque()
        self._waiters: dict[SimThread, int] = {}  # in order of arrival, with the instant of it
        self._first_is_woken = False

    def acquire(self, thread: SimThread, mode: int) -> Any:
        if self._is_grantable(mode):
            self._take(thread, mode)
            return None
        self._begin_wait(thread, mode)
        if mode == EXCLUSIVE and not self._handoff and self._writer is not None and self._writer.state is State.RUNNING:
            self._spinners.append(thread)
            return self._spin(thread)
        return self._join_waiters(thread)

    def owner_stops(self, thread: SimThread) -> None:
        if thread is self._writer:
            self._spinners_must_sleep()

    def _is_grantable(self, mode: int) -> bool:
        if self._handoff or self._writer is not None:
            return False
        if mode == SHARED:
            return self._readers == 0 or not self._waiters
        return self._readers == 0

    def _pass_on(self) -> None:
        if self._spinners and not self._handoff:
            if not (self._first_waits_for(SHARED) and self._has_waited_long(next(iter(self._waiters)))):
                self._grant_to_spinner(self._spinners.popleft())
                return
            self._handoff = True
        if self._first_waits_for(SHARED):
            self._grant_to_readers()
            self._spinners_must_sleep()
        elif self._waiters and not self._first_is_woken:
            self._first_is_woken = True
            self._scheduler.wake(next(iter(self._waiters)))

    def _admit_readers(self) -> None:
        if self._first_waits_for(SHARED):
            self._grant_to_readers()
        self._spinners_must_sleep()

    def _grant_to_readers(self) -> None:
        readers = [thread for thread in self._waiters if thread.wait_mode == SHARED]
        for reader in readers[:READER_BATCH]:
            del self._waiters[reader]
            self._grant_and_wake(reader, SHARED)
        self._handoff = False

    def _spinners_must_sleep(self) -> None:
        spinners, self._spinners = self._spinners, deque()
        for spinner in spinners:
            self._waiters[spinner] = self._simulation.now
        for spinner in spinners:
            self._block(spinner, self._retry)

    def _join_waiters(self, thread: SimThread) -> Any:
        self._waiters[thread] = self._simulation.now
        return self._block(thread, self._goes_on if thread.wait_mode == SHARED else self._retry)

    def _first_waits_for(self, mode: int) -> bool:
        return bool(self._waiters) and next(iter(self._waiters)).wait_mode == mode

    def _has_waited_long(self, thread: SimThread) -> bool:
        return self._simulation.now - self._waiters[thread] > HANDOFF_AFTER_NS

    def _retry(self, thread: SimThread) -> None:
        """The writer at the head of the wait list has been woken and runs."""
        self._first_is_woken = False
        if self._writer is None and self._readers == 0:
            del self._waiters[thread]
            self._handoff = False
            self._grant(thread, EXCLUSIVE)
            self._goes_on(thread)
        else:
            if self._has_waited_long(thread):
                self._handoff = True
            self._block(thread, self._retry)
