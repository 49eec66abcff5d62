"""What is counted during a run (section 10): thread time and sleeps by category, use of lock classes, I/Os, busy time.

Everything is counted from the start; when the warm-up is over it is all set to zero, and intervals that are open begin
anew at that instant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from fssim.engine.objects import PrimitiveClass, lock_uses, time_by_category
from fssim.engine.reference.thread import SimThread
from fssim.system import LockUse


class Category:
    """A way in which threads spend time.  `sleeps`: how often they began to while they submitted an I/O."""

    __slots__ = ("sleeps", "total_ns")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.sleeps = self.total_ns = 0


class Durations:
    """Count, sum and range of durations."""

    __slots__ = ("count", "maximum_ns", "minimum_ns", "total_ns")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.count = self.total_ns = self.minimum_ns = self.maximum_ns = 0

    def add(self, duration_ns: int) -> None:
        if self.count == 0 or duration_ns < self.minimum_ns:
            self.minimum_ns = duration_ns
        if duration_ns > self.maximum_ns:
            self.maximum_ns = duration_ns
        self.count += 1
        self.total_ns += duration_ns


class Use:
    """Use of one lock class in one mode; `waiting` is the time of those who wait for it."""

    __slots__ = ("acquisitions", "bounces", "holds", "waiting", "waits")

    def __init__(self) -> None:
        self.waiting = Category()
        self.waits = Durations()
        self.holds = Durations()
        self.reset()

    def reset(self) -> None:
        self.acquisitions = self.bounces = 0
        self.waiting.reset()
        self.waits.reset()
        self.holds.reset()

    def row(self) -> tuple[int, ...]:
        """The columns `objects.USE_FIELDS`."""
        waits, holds = self.waits, self.holds
        return (
            *(self.acquisitions, waits.count, self.bounces),
            *(waits.total_ns, waits.minimum_ns, waits.maximum_ns),
            *(holds.total_ns, holds.minimum_ns, holds.maximum_ns, holds.count),
        )


class Occupancy:
    """Integral over time of how many of something are busy or in flight."""

    __slots__ = ("level", "since", "total_ns")

    def __init__(self) -> None:
        self.level = 0
        self.total_ns = 0
        self.since = 0

    def change(self, now: int, by: int) -> None:
        self.total_ns += self.level * (now - self.since)
        self.since = now
        self.level += by

    def reset(self, now: int) -> None:
        self.total_ns = 0
        self.since = now

    def busy_ns(self, now: int) -> int:
        return self.total_ns + self.level * (now - self.since)


class Reservations:
    """A server whose time is booked ahead, first come, first served, without gaps between what is booked."""

    __slots__ = ("_before_window_ns", "_booked_ns", "_gaps", "free_at")

    def __init__(self) -> None:
        self.free_at = 0
        self._gaps: deque[tuple[int, int]] = deque()  # between now and the end of what is booked
        self._booked_ns = 0
        self._before_window_ns = 0

    def book(self, now: int, duration_ns: int, not_before: int = 0) -> int:
        """Book the next free time; return when it begins."""
        idle_from = max(now, self.free_at)
        start = max(idle_from, not_before)
        if start > idle_from:
            while self._gaps and self._gaps[0][1] <= now:
                self._gaps.popleft()
            self._gaps.append((idle_from, start))
        self.free_at = start + duration_ns
        self._booked_ns += duration_ns
        return start

    def reset(self, now: int) -> None:
        self._before_window_ns = self._booked_until(now)

    def busy_ns(self, now: int) -> int:
        return self._booked_until(now) - self._before_window_ns

    def _booked_until(self, now: int) -> int:
        gaps_ns = sum(max(0, end - max(begin, now)) for begin, end in self._gaps)
        return self._booked_ns - max(0, self.free_at - now) + gaps_ns


Resource = Occupancy | Reservations


class Statistics:
    """The counts of one run; `resources` maps a name to (what counts its busy time, number of servers)."""

    def __init__(
        self, threads: Sequence[SimThread], classes: Sequence[PrimitiveClass], warmup_ios: int, ios: int, batch_ios: int
    ) -> None:
        self.cpu = Category()
        self.ready = Category()
        self.wakeup = Category()
        self.device = Category()
        self.sleep = Category()
        self.resources: dict[str, tuple[Resource, int]] = {}
        self.batch_ends: list[int] = []
        self.latency_ns = 0
        # Two a class, shared and exclusive; what has no modes uses the first.
        self.uses = [(Use(), Use()) for _ in classes]
        self._classes = classes
        self._in_flight = Occupancy()
        self._threads = threads
        self._warmup_ios = warmup_ios
        self._goal_ios = warmup_ios + ios if ios else -1
        self._batch_ios = batch_ios
        self._completed = 0
        self._window_start = 0 if warmup_ios == 0 else -1

    def enter(self, thread: SimThread, category: Category | None, now: int) -> None:
        """The thread spends its time in this category from now on; None: it has ended."""
        self._charge(thread, now)
        thread.category = category

    def count_sleep(self, thread: SimThread, category: Category) -> None:
        """The thread blocks or is preempted, and is about to enter this category."""
        category.sleeps += thread.submits_io

    def begin_io(self, thread: SimThread, now: int) -> None:
        self._in_flight.change(now, +1)
        thread.io_since = now
        thread.submits_io = True

    def complete_io(self, thread: SimThread, since: int, now: int) -> bool:
        """Count an I/O that began at `since`, or if that is negative when the thread's clock was started.

        Return True if it was the last one of the run's goal.
        """
        thread.submits_io = False
        if self._in_flight.level > 0:
            self._in_flight.change(now, -1)
        if since < 0:
            since, thread.io_since = thread.io_since, -1
        latency = now - since if since >= 0 else 0
        self._completed += 1
        if self._window_start >= 0:
            self.latency_ns += latency
            if self._batch_ios and self.ios % self._batch_ios == 0:
                self.batch_ends.append(now)
        elif self._completed == self._warmup_ios:
            self._open_window(now)
        return self._completed == self._goal_ios

    @property
    def ios(self) -> int:
        """I/Os completed in the window."""
        return max(0, self._completed - self._warmup_ios)

    def close(self, now: int) -> None:
        """Book what is open at the end of the run.  A window that never opened is empty."""
        if self._window_start < 0:
            self._open_window(now)
        for thread in self._threads:
            self._charge(thread, now)

    def window_ns(self, now: int) -> int:
        return now - self._window_start

    def in_flight_ns(self, now: int) -> int:
        return self._in_flight.busy_ns(now)

    def time_by_category_ns(self) -> Mapping[str, int]:
        return time_by_category(self._classes, [category.total_ns for category in self._categories()])

    def sleeps_in_submission(self) -> Mapping[str, int]:
        return time_by_category(self._classes, [category.sleeps for category in self._categories()])

    def lock_uses(self) -> tuple[LockUse, ...]:
        return lock_uses(self._classes, [use.row() for uses in self.uses for use in uses])

    def busy_ns(self, now: int) -> Mapping[str, tuple[int, int]]:
        return {name: (resource.busy_ns(now), servers) for name, (resource, servers) in self.resources.items()}

    def _categories(self) -> list[Category]:
        """In the order of `objects.time_by_category`."""
        waiting = [use.waiting for uses in self.uses for use in uses]
        return [self.cpu, self.ready, self.wakeup, self.device, self.sleep, *waiting]

    def _charge(self, thread: SimThread, now: int) -> None:
        category, since = thread.category, thread.category_since
        thread.category_since = now
        if category is self.sleep and now > thread.sleeps_until:
            # The expiry of the timer is not an event of its own: what follows it is the wake-up latency.
            expiry = max(since, thread.sleeps_until)
            self.sleep.total_ns += expiry - since
            self.wakeup.total_ns += now - expiry
        elif category is not None:
            category.total_ns += now - since

    def _open_window(self, now: int) -> None:
        self._window_start = now
        for thread in self._threads:
            self._charge(thread, now)
        for category in self._categories():
            category.reset()
        for shared, exclusive in self.uses:
            shared.reset()
            exclusive.reset()
        self._in_flight.reset(now)
        for resource, _ in self.resources.values():
            resource.reset(now)
