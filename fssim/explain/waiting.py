"""What the log does not say about a wait: spinning or asleep, on the way to a CPU or queueing for one.

The rules of `docs/semantics.md` (sections 2 and 4) give it back.  Three things stay estimates: how long leaving idle
took when the thread then had to queue for a CPU, when a mutex woke a thread that was overtaken (it counts as waiting),
and which of the spinning rwlock's writers was turned away by a hand-off.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict

import numpy as np

from fssim.explain.states import (
    DEVICE_WAKE,
    ON_CPU,
    READY,
    SPIN,
    SWITCH,
    TIMER_WAKE,
    WAIT,
    WAKING,
    Segment,
    Wait,
)
from fssim.explain.timeline import Timeline
from fssim.protocol.language import Counter, Mutex, Queue, RWLock, SpinLock


def refine(timeline: Timeline) -> None:
    """Divide waits into spinning and sleeping, and wake-ups into latency, ready queue and context switch."""
    _Refinement(timeline).run()


class _Refinement:
    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.host = timeline.system.host
        self.starts = [[segment.start for segment in segments] for segments in timeline.segments]
        self.releases: dict[int, list[int]] = {}
        for obj, holds in timeline.holds.items():
            self.releases[obj] = sorted(hold.end for hold in holds)
        self.hold_starts = {obj: [hold.start for hold in holds] for obj, holds in timeline.holds.items()}

    def run(self) -> None:
        timeline = self.timeline
        for wait in timeline.waits:
            self.spun_until(wait)
        for thread, segments in enumerate(timeline.segments):
            timeline.segments[thread] = [
                part for segment in segments for part in self.parts(segment) if part.end > part.start
            ]
        self.find_ready()

    def may_spin(self, wait: Wait) -> bool:
        kind = self.timeline.kind_of(wait.obj)
        return (
            kind is SpinLock
            or (kind is Mutex and self.host.mutex == "barging")
            or (kind is RWLock and self.host.rwlock == "spinning" and wait.mode == 2)
        )

    def spun_until(self, wait: Wait) -> int:
        """Until when a waiter spun: as long as whoever held the lock was on a CPU."""
        if wait.spun_until < 0:
            wait.spun_until = wait.start
            if self.timeline.kind_of(wait.obj) is SpinLock:
                wait.spun_until = wait.grant
            elif self.may_spin(wait):
                wait.spun_until = self.first_off_cpu(wait)
        return wait.spun_until

    def first_off_cpu(self, wait: Wait) -> int:
        """When a holder of the lock first leaves its CPU during the wait; the end of the wait if none does."""
        holds = self.timeline.holds[wait.obj]
        first = max(bisect_right(self.hold_starts[wait.obj], wait.start) - 1, 0)
        for hold in holds[first:]:
            if hold.start >= wait.grant:
                break
            if hold.end <= wait.start or hold.thread == wait.thread:
                continue
            off = self.leaves_cpu(hold.thread, max(hold.start, wait.start), min(hold.end, wait.grant))
            if off >= 0:
                return off
        return wait.grant

    def leaves_cpu(self, thread: int, start: int, end: int) -> int:
        """When a thread is first off its CPU between two instants; -1 if never.  Its segments are not yet refined."""
        segments = self.timeline.segments[thread]
        number = max(bisect_right(self.starts[thread], start) - 1, 0)
        while number < len(segments) and segments[number].start < end:
            segment = segments[number]
            number += 1
            if segment.end <= start or segment.state in ON_CPU:
                continue
            off = max(segment.start, start)
            if segment.state == WAIT and self.may_spin(wait := self.timeline.waits[segment.wait]):
                off = max(off, self.spun_until(wait))
            elif segment.state == WAKING and segment.wait >= 0:
                wait = self.timeline.waits[segment.wait]
                if self.may_spin(wait) and self.spun_until(wait) == wait.grant:
                    continue  # it is handed a lock for which it spins
                if segment.end - off <= self.host.switch_ns:
                    continue
            if off < min(segment.end, end):
                return off
        return -1

    def parts(self, segment: Segment) -> list[Segment]:
        if segment.wait < 0:
            return [segment]
        wait = self.timeline.waits[segment.wait]
        spun = self.spun_until(wait) if self.may_spin(wait) else wait.start
        if segment.state == WAIT:
            return self.parts_of_wait(segment, wait, spun)
        if segment.state != WAKING:
            return [segment]
        if spun == wait.grant and spun > wait.start:
            return [segment._replace(state=SPIN)]
        switched = max(segment.start, segment.end - self.host.switch_ns)
        return [segment._replace(end=switched), segment._replace(start=switched, state=SWITCH)]

    def parts_of_wait(self, segment: Segment, wait: Wait, spun: int) -> list[Segment]:
        parts = [segment._replace(end=spun, state=SPIN)] if spun > wait.start else []
        asleep = segment._replace(start=spun)
        if spun >= wait.grant:
            return parts
        if self.may_spin(wait) and wait.granted and wait.resume == wait.grant:
            # It was woken by a release, and took the lock when it ran.
            latest = wait.grant - self.host.wakeup_ns - self.host.switch_ns
            number = bisect_right(self.releases.get(wait.obj, []), latest) - 1
            woken = max(self.releases[wait.obj][number], spun) if number >= 0 else wait.grant
            if woken <= latest:
                switched = wait.grant - self.host.switch_ns
                return [
                    *parts,
                    asleep._replace(end=woken),
                    asleep._replace(start=woken, end=switched, state=WAKING),
                    asleep._replace(start=switched, state=SWITCH),
                ]
        return [*parts, asleep]

    def find_ready(self) -> None:
        """A woken thread queued for a CPU if all of them were taken when it came to run."""
        changes: dict[int, int] = defaultdict(int)
        for segments in self.timeline.segments:
            for segment in segments:
                if segment.state in ON_CPU:
                    changes[segment.start] += 1
                    changes[segment.end] -= 1
        times = sorted(changes)
        taken = np.cumsum([changes[time] for time in times]).tolist()
        cpus = self.host.cpus
        for thread, segments in enumerate(self.timeline.segments):
            refined: list[Segment] = []
            for segment in segments:
                if segment.state == WAKING:
                    number = bisect_left(times, segment.end) - 1
                    while number >= 0 and taken[number] >= cpus and times[number] > segment.start:
                        number -= 1
                    # From `full` on there was no CPU for it.
                    full = times[number + 1] if number + 1 < len(times) else segment.end
                    queued = max(full, segment.start + self.least_latency(segment))
                    if queued < segment.end:
                        refined += [segment._replace(end=queued), segment._replace(start=queued, state=READY)]
                        continue
                refined.append(segment)
            self.timeline.segments[thread] = refined

    def least_latency(self, segment: Segment) -> int:
        if segment.obj == DEVICE_WAKE:
            return self.host.interrupt_ns
        if segment.obj == TIMER_WAKE:
            return self.host.wakeup_ns
        told_by_device = self.timeline.kind_of(segment.obj) in (Queue, Counter)
        return min(self.host.wakeup_ns, self.host.interrupt_ns) if told_by_device else self.host.wakeup_ns
