"""I/O that its thread does not wait for, and what is counted of it: `docs/semantics.md` sections 6 and 10, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fssim.engine import messages, run
from fssim.engine.random import draw, exponential
from fssim.errors import BadValue, Deadlock
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.protocol import (
    EXCLUSIVE,
    Counter,
    Mutex,
    Queue,
    RWLock,
    Shared,
    SpinLock,
    begin_io,
    complete_io,
    cpu,
    device,
    end_submission,
    protocol,
    sleep,
)
from fssim.system import RunResult, System, Thread
from tests.engine.scenes import ENGINES, rows, times

pytestmark = pytest.mark.parametrize("engine", ENGINES)

SLOW_DEVICE = SimpleDevice(latency_ns=100)
LATENCIES = Host(cpus=4, interrupt_ns=7, wakeup_ns=1000, switch_ns=500)


class Request(Shared):
    number: int


class Ring(Shared):
    done: Queue[int]
    requests: Queue[Request]
    pending: Counter
    rwlock: RWLock
    mutex: Mutex
    latch: SpinLock
    request: Request


def play(
    engine: str,
    *programs: tuple[Any, ...],
    host: Host | None = LATENCIES,
    storage: SimpleDevice | None = SLOW_DEVICE,
    **options: Any,
) -> RunResult:
    ring = Ring(request=Request(number=5))
    threads = [Thread(program, (ring, *integers)) for program, *integers in programs]
    check = options.pop("check", True)
    system = System(threads=threads, host=host or Host(cpus=4), device=storage, log=True, **options)
    return run(system, engine=engine, check=check)


def lines(result: RunResult, kind: str) -> list[int]:
    """Source lines of the rows of one kind."""
    assert result.log is not None
    told = zip(result.log.tolist(), rows(result), strict=True)
    return [row[2] for row, (_, _, name, _) in told if name == kind]


@protocol
def submit_to_queue(ring: Ring, after: int, length: int, tag: int, behind: int):
    yield cpu(after)
    yield device.submit_read(0, length, ring.done, tag)
    yield cpu(behind)


@protocol
def submit_to_counter(ring: Ring, after: int, counted: int, behind: int):
    yield cpu(after)
    if counted:
        yield ring.pending.inc()
    yield device.submit_write(0, 512, ring.pending)
    yield cpu(behind)


@protocol
def reap(ring: Ring, after: int):
    """Wait for a tag; the row of the CPU effect says which."""
    yield cpu(after)
    tag = yield ring.done.get()
    yield cpu(tag)


@protocol
def drain(ring: Ring, after: int):
    yield cpu(after)
    yield ring.pending.wait_zero()


# What happens when a request is done


def test_the_thread_goes_on_at_once_and_the_completion_has_the_line_of_the_submission(engine: str) -> None:
    result = play(engine, (submit_to_queue, 0, 512, 9, 150))
    assert rows(result) == [
        (0, 0, "CPU", 0),
        (0, 0, "SUBMITR", 512),
        (0, 0, "CPU", 150),
        (100, 0, "DEVICE_DONE", 512),
        (150, 0, "END", 0),
    ]
    assert lines(result, "DEVICE_DONE") == lines(result, "SUBMITR")
    # The row of the submission names its target, that of the completion none.
    assert result.log is not None
    assert result.log[[1, 3], 4].tolist() == [result.objects.index("ring.done"), -1]


def test_a_tag_stays_in_the_queue_until_somebody_asks(engine: str) -> None:
    # It leaves no row of its own: the GET at 120 finds one item, and does not wait.
    result = play(engine, (submit_to_queue, 0, 512, 9, 0), (reap, 120))
    assert rows(result, "DEVICE_DONE", "GET", "CPU")[-3:] == [
        (100, 0, "DEVICE_DONE", 512),
        (120, 1, "GET", 1),
        (120, 1, "CPU", 9),
    ]
    assert rows(result, "PUT", "GRANT") == []


def test_a_thread_that_waits_for_a_tag_is_woken_by_the_interrupt_without_a_switch(engine: str) -> None:
    result = play(engine, (submit_to_queue, 0, 512, 9, 0), (reap, 0))
    assert rows(result)[-5:] == [
        (100, 0, "DEVICE_DONE", 512),
        (100, 1, "GRANT", 0),
        (107, 1, "RESUME", 0),
        (107, 1, "CPU", 9),
        (116, 1, "END", 0),
    ]
    assert lines(result, "GRANT") == lines(result, "GET")


def test_the_tag_may_be_an_object(engine: str) -> None:
    result = play(engine, (submit_object,))
    assert dict(result.final)["ring.request.number"] == 6


@protocol
def submit_object(ring: Ring):
    yield device.submit_read(0, 512, ring.requests, ring.request)
    request = yield ring.requests.get()
    request.number = request.number + 1


def test_the_request_of_a_thread_that_has_ended_completes_all_the_same(engine: str) -> None:
    result = play(engine, (submit_to_queue, 0, 512, 9, 0), (reap, 0))
    assert times(result, "END")[0] == (0, 0)
    assert rows(result, "DEVICE_DONE") == [(100, 0, "DEVICE_DONE", 512)]
    assert lines(result, "DEVICE_DONE") == lines(result, "SUBMITR")


def test_a_counter_that_reaches_zero_wakes_all_who_wait_by_the_interrupt_without_a_switch(engine: str) -> None:
    result = play(engine, (submit_to_counter, 0, 1, 0), (drain, 0), (drain, 1))
    assert rows(result)[-8:] == [
        (1, 2, "WAITZERO", 1),
        (100, 0, "DEVICE_DONE", 512),
        (107, 1, "WAITZERO", 0),
        (107, 1, "RESUME", 0),
        (107, 1, "END", 0),
        (107, 2, "WAITZERO", 0),
        (107, 2, "RESUME", 0),
        (107, 2, "END", 0),
    ]
    assert rows(result, "DEC") == []


def test_a_counter_above_zero_wakes_nobody(engine: str) -> None:
    # One of the two that are counted is done at 100, the other at 130.
    result = play(engine, (submit_to_counter, 0, 1, 0), (submit_to_counter, 30, 1, 0), (drain, 40))
    assert rows(result, "WAITZERO") == [(40, 2, "WAITZERO", 2), (137, 2, "WAITZERO", 0)]


def test_who_must_wait_again_after_the_interrupt_switches_when_a_thread_wakes_it(engine: str) -> None:
    # The device wakes thread 1 at 100, thread 2 counts again at 103, thread 1 looks at 107, thread 2 counts down at
    # 200: wake-up 1000, switch 500.
    result = play(engine, (submit_to_counter, 0, 1, 0), (drain, 0), (count_up_and_down, 103, 97))
    assert rows(result, "WAITZERO", "RESUME") == [
        (0, 1, "WAITZERO", 1),
        (107, 1, "WAITZERO", 1),
        (1700, 1, "WAITZERO", 0),
        (1700, 1, "RESUME", 0),
    ]


@protocol
def count_up_and_down(ring: Ring, before: int, between: int):
    yield cpu(before)
    yield ring.pending.inc()
    yield cpu(between)
    yield ring.pending.dec()


def test_a_count_below_zero_ends_the_run_in_the_completion(engine: str) -> None:
    result = play(engine, (submit_to_counter, 3, 0, 500), (reap, 103), check=False)
    error = result.error
    assert isinstance(error, BadValue)
    assert (error.detail, error.lock, error.time_ns) == (messages.COUNTER_BELOW_ZERO, "ring.pending", 103)
    # The thread is elsewhere, but it is the submission that is to blame.
    assert (error.thread, error.line) == (0, lines(result, "SUBMITW")[0])
    # Thread 1 computes until 103, too, which was scheduled before the request.
    assert rows(result)[-2:] == [(103, 1, "GET", 0), (103, 0, "DEVICE_DONE", 512)]


def test_a_completion_takes_no_cache_line_from_anybody(engine: str) -> None:
    # Thread 1 took the line of the counter from thread 0 at 50.  The completion at 100 does not touch it: the DEC of
    # thread 1 at 155 is free.
    host = Host(cpus=4, cache_line_ns=5)
    result = play(engine, (submit_to_counter, 0, 1, 0), (count_up_and_down, 50, 100), host=host)
    assert rows(result, "INC", "DEC") == [(0, 0, "INC", 0), (55, 1, "INC", 0), (155, 1, "DEC", 0)]


# Order, processors and chance


def test_at_one_instant_timers_come_first_then_what_was_in_the_ring_then_the_thread_that_was_told(engine: str) -> None:
    # The CPU effect of thread 0 ends at 100 by a timer set before the request was submitted; it wakes thread 1 without
    # a latency, that is through the ring.  The request's timer, set at 0, comes before the ring; thread 2, which is
    # told, comes behind thread 1.
    result = play(
        engine,
        (count_up_and_down, 0, 100),
        (drain, 0),
        (reap, 0),
        (submit_to_queue, 0, 512, 0, 0),
        host=Host(cpus=4),
    )
    assert [row for row in rows(result) if row[0] == 100] == [
        (100, 0, "DEC", 0),
        (100, 0, "END", 0),
        (100, 3, "DEVICE_DONE", 512),
        (100, 2, "GRANT", 0),
        (100, 1, "WAITZERO", 0),
        (100, 1, "RESUME", 0),
        (100, 1, "END", 0),
        (100, 2, "RESUME", 0),
        (100, 2, "CPU", 0),
        (100, 2, "END", 0),
    ]


DEEP = Host(cpus=2, interrupt_ns=7, idle_exit_ns=100, idle_depth_ns=50)


def test_a_thread_that_is_told_pays_for_leaving_idle(engine: str) -> None:
    # Thread 1 leaves CPU 1 at 0.  At 110 it has been idle for 110: 100 * 110**2 / (110**2 + 50**2) = 82.9.
    result = play(engine, (submit_to_queue, 10, 512, 9, 0), (reap, 0), host=DEEP)
    assert times(result, "RESUME") == [(110 + 7 + 82, 1)]


def test_the_cpu_of_the_latest_submission_is_awake(engine: str) -> None:
    # Thread 1 submits on CPU 1 at 10 and waits there for itself; thread 0 submits before, on CPU 0.
    result = play(engine, (submit_to_counter, 0, 1, 0), (submit_and_reap, 10), host=DEEP)
    assert times(result, "RESUME") == [(117, 1)]
    # When thread 0 submits after it, it is not: idle for 100 from 10 to 110, 100 * 100**2 / (100**2 + 50**2), just
    # below 80.
    result = play(engine, (submit_to_counter, 20, 1, 0), (submit_and_reap, 10), host=DEEP)
    assert times(result, "RESUME") == [(117 + 79, 1)]


@protocol
def submit_and_reap(ring: Ring, after: int):
    yield cpu(after)
    yield device.submit_read(0, 512, ring.done, 3)
    yield ring.done.get()


def test_the_service_time_is_drawn_from_the_submitting_thread_and_the_spread_from_the_woken_one(engine: str) -> None:
    host = Host(cpus=2, interrupt_ns=7, wakeup_spread_ns=50)
    storage = SimpleDevice(latency_ns=1000, latency_distribution="exponential")
    result = play(engine, (submit_to_queue, 0, 512, 9, 0), (reap, 0), host=host, storage=storage, seed=3)
    done = exponential(draw(3, 0, 0), 1000)
    assert times(result, "DEVICE_DONE") == [(done, 0)]
    assert times(result, "RESUME") == [(done + 7 + exponential(draw(3, 1, 0), 50), 1)]


def test_a_thread_may_have_more_in_flight_than_the_device_serves_at_a_time(engine: str) -> None:
    result = play(engine, (submit_many, 5), host=Host(cpus=1), storage=SimpleDevice(latency_ns=100, queue_depth=2))
    assert times(result, "SUBMITR") == [(0, 0)] * 5
    assert times(result, "DEVICE_DONE") == [(100, 0), (100, 0), (200, 0), (200, 0), (300, 0)]
    assert [value for _, _, _, value in rows(result, "CPU")] == [10, 11, 12, 13, 14]
    assert result.busy_ns["slots"] == (500, 2)


@protocol
def submit_many(ring: Ring, count: int):
    for number in range(count):
        yield device.submit_read(0, 512, ring.done, 10 + number)
    for _ in range(count):
        tag = yield ring.done.get()
        yield cpu(tag)


# Checks


@protocol
def submit_extent(ring: Ring, offset: int, length: int):
    yield device.submit_write(offset, length, ring.pending)


@pytest.mark.parametrize(("offset", "length"), [(-1, 512), (0, 0), (0, -512)])
def test_a_submission_has_a_length_and_no_negative_offset(engine: str, offset: int, length: int) -> None:
    result = play(engine, (submit_extent, offset, length), check=False)
    assert isinstance(result.error, BadValue)
    # The object of the effect is its target.
    assert (result.error.detail, result.error.lock) == (messages.BAD_RANGE, "ring.pending")
    assert rows(result) == []


def test_a_submission_needs_a_device(engine: str) -> None:
    result = play(engine, (submit_extent, 0, 512), storage=None, check=False)
    assert isinstance(result.error, BadValue)
    assert (result.error.detail, result.error.lock) == (messages.NO_DEVICE, "ring.pending")
    assert rows(result) == []


@protocol
def submit_atomically(ring: Ring):
    yield ring.latch.acquire()
    yield device.submit_read(0, 512, ring.done, 1)
    yield ring.latch.release()


def test_the_holder_of_a_spinlock_may_submit(engine: str) -> None:
    result = play(engine, (submit_atomically,), (reap, 0))
    assert times(result, "RESUME") == [(107, 1)]


def test_a_request_in_flight_is_no_deadlock_but_a_missing_one_is(engine: str) -> None:
    result = play(engine, (submit_to_queue, 0, 512, 9, 0), (reap, 0), (reap, 0), check=False)
    assert isinstance(result.error, Deadlock)
    # Thread 1 gets the tag at 107 and computes until 116.
    assert (result.error.thread, result.error.lock, result.error.time_ns) == (2, "ring.done", 116)


def test_the_run_does_not_wait_for_requests_when_all_threads_have_returned(engine: str) -> None:
    result = play(engine, (submit_to_queue, 0, 512, 9, 20))
    assert (result.time_ns, result.error, rows(result, "DEVICE_DONE")) == (20, None, [])


# What is counted


@protocol
def overlapping_ios(ring: Ring):
    yield cpu(5)
    yield begin_io()
    yield begin_io()
    yield cpu(10)
    yield complete_io(9)
    yield cpu(5)
    yield complete_io()
    yield cpu(5)
    yield complete_io()
    yield begin_io()
    yield cpu(1)
    yield begin_io()
    yield cpu(2)
    yield complete_io()
    yield cpu(4)
    yield complete_io(0)


def test_latencies_count_from_the_instant_given_or_from_the_clock_of_the_thread(engine: str) -> None:
    result = play(engine, (overlapping_ios,))
    # At 15 since 9: 6.  At 20 by the clock of 5, which the first has not stopped: 15.  At 25 nothing is in flight and
    # the clock is stopped: 0.  At 28 by the clock of 26: 2.  At 32 since 0: 32.
    assert (result.ios, result.latency_ns) == (5, 6 + 15 + 0 + 2 + 32)
    # Two from 5 to 15, one to 20, none to 25, one to 26, two to 28, one to 32.
    assert result.in_flight_ns == 20 + 5 + 0 + 1 + 4 + 4


@protocol
def submit_and_sleep(ring: Ring):
    yield sleep(10)
    yield begin_io()
    yield sleep(10)
    yield sleep(0)
    yield ring.rwlock.acquire(EXCLUSIVE)
    yield ring.rwlock.release(EXCLUSIVE)
    yield device.read(0, 512)
    yield device.submit_read(0, 512, ring.done, 1)
    yield ring.done.get()
    yield end_submission()
    yield sleep(10)
    yield complete_io()
    yield sleep(10)


@protocol
def hold_rwlock(ring: Ring, duration: int):
    yield ring.rwlock.acquire(EXCLUSIVE)
    yield cpu(duration)
    yield ring.rwlock.release(EXCLUSIVE)


def sleeps(result: RunResult) -> dict[str, int]:
    """Categories in which threads were put to sleep in a submission."""
    return {name: count for name, count in result.sleeps_in_submission.items() if count}


def test_what_a_submission_sleeps_on_is_counted_from_the_beginning_of_the_io_to_its_end(engine: str) -> None:
    result = play(engine, (submit_and_sleep,), (hold_rwlock, 30), host=Host(cpus=4))
    assert sleeps(result) == {"sleep": 1, "wait Ring.rwlock exclusive": 1, "device": 1, "wait Ring.done": 1}
    assert result.sleeps_in_submission.keys() == result.time_by_category_ns.keys()
    # The row of SUBMITTED: nothing else is seen of it.
    assert rows(result, "SUBMITTED") == [(230, 0, "SUBMITTED", 0)]


@protocol
def submit_until_complete(ring: Ring, since: int):
    yield begin_io()
    yield complete_io(since)
    yield sleep(10)
    yield begin_io()
    yield sleep(10)


def test_the_completion_ends_a_submission_too_also_with_an_instant_of_its_own(engine: str) -> None:
    assert sleeps(play(engine, (submit_until_complete, -1))) == {"sleep": 1}
    assert sleeps(play(engine, (submit_until_complete, 0))) == {"sleep": 1}


@protocol
def begin_and_take_mutex(ring: Ring, after: int):
    yield cpu(after)
    yield begin_io()
    yield ring.mutex.acquire()
    yield ring.mutex.release()


@protocol
def take_mutex_twice(ring: Ring):
    yield ring.mutex.acquire()
    yield cpu(10)
    yield sleep(10)
    yield ring.mutex.release()
    yield ring.mutex.acquire()
    yield cpu(20)
    yield ring.mutex.release()


def test_a_spinner_counts_when_it_is_sent_to_sleep_and_a_woken_thread_when_it_must_block_again(engine: str) -> None:
    # Thread 1 spins from 1 to 10 and is sent to sleep by the sleep of the owner (once).  The owner, back at 25,
    # releases, which wakes thread 1 with 5, and takes the mutex again until 45: thread 1 blocks again at 30 (twice).
    host = Host(cpus=4, wakeup_ns=5, mutex="barging")
    result = play(engine, (take_mutex_twice,), (begin_and_take_mutex, 1), host=host)
    assert sleeps(result) == {"wait Ring.mutex exclusive": 2}
    assert times(result, "RESUME") == [(25, 0), (50, 1)]


def test_a_spinner_that_keeps_its_cpu_does_not_count(engine: str) -> None:
    host = Host(cpus=4, mutex="barging")
    assert sleeps(play(engine, (hold_mutex, 10), (begin_and_take_mutex, 1), host=host)) == {}


@protocol
def hold_mutex(ring: Ring, duration: int):
    yield ring.mutex.acquire()
    yield cpu(duration)
    yield ring.mutex.release()


@protocol
def begin_and_compute(ring: Ring, first: int, second: int):
    yield begin_io()
    yield cpu(first)
    yield cpu(second)


def test_a_preemption_counts_as_ready_and_the_wait_of_a_woken_thread_for_a_cpu_does_not(engine: str) -> None:
    # Thread 0 is preempted at 10; thread 1 ends at 19, within its slice.
    host = Host(cpus=1, timeslice_ns=10)
    result = play(engine, (begin_and_compute, 10, 5), (begin_and_compute, 5, 4), host=host)
    assert sleeps(result) == {"ready": 1}
    # Thread 0 sleeps from 0 to 5 and waits for the CPU until 20.
    result = play(engine, (begin_and_sleep, 5), (begin_and_compute, 10, 10), host=Host(cpus=1))
    assert times(result, "RESUME") == [(20, 0)]
    assert sleeps(result) == {"sleep": 1}


@protocol
def begin_and_sleep(ring: Ring, duration: int):
    yield begin_io()
    yield sleep(duration)


@protocol
def sleepy_ios(ring: Ring, count: int):
    for number in range(count):
        yield begin_io()
        for _ in range(number + 1):
            yield sleep(10)
        yield complete_io()


def test_sleeps_in_submissions_are_counted_in_the_window(engine: str) -> None:
    # I/O number n sleeps n times; the first two are the warm-up.
    assert sleeps(play(engine, (sleepy_ios, 4), warmup_ios=2)) == {"sleep": 3 + 4}
    assert sleeps(play(engine, (sleepy_ios, 4), warmup_ios=5)) == {}
    # Thread 1 begins before the window opens at 10, and sleeps in it, from 15 on.
    result = play(engine, (sleepy_ios, 1), (begin_and_sleep_later, 15), host=Host(cpus=2), warmup_ios=1)
    assert sleeps(result) == {"sleep": 1}


@protocol
def begin_and_sleep_later(ring: Ring, after: int):
    yield begin_io()
    yield cpu(after)
    yield sleep(10)
