"""Time, order and processors: `docs/semantics.md` sections 1 to 3, with times computed by hand."""

from __future__ import annotations

import pytest

from fssim.engine.random import draw, exponential
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.protocol import EXCLUSIVE, SHARED, begin_io, complete_io, cpu, device, protocol, sleep
from tests.engine.scenes import (
    ENGINES,
    Box,
    compute,
    play,
    rest,
    rows,
    sleep_with_rwlock,
    times,
    use_mutex,
    use_rwlock,
    use_spin,
)

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def test_events_of_one_instant_run_in_the_order_in_which_they_were_scheduled(engine: str) -> None:
    # Both threads end at 10; the event of thread 1 was scheduled at 0, that of thread 0 at 5.
    result = play(engine, (compute, 5, 5), (compute, 10, 0))
    assert times(result, "END") == [(10, 1), (10, 0)]


def test_what_can_go_on_at_once_does_not_pass_through_the_event_queue(engine: str) -> None:
    result = play(engine, (compute, 0, 0), (compute, 0, 0))
    assert [thread for _, thread, _, _ in rows(result)] == [0, 0, 0, 1, 1, 1]
    assert result.events == 2


def test_a_thread_without_a_cpu_waits_until_one_is_given_up(engine: str) -> None:
    result = play(engine, (compute, 3, 4), (compute, 1, 1), (compute, 1, 1), host=Host(cpus=1))
    assert times(result, "END") == [(7, 0), (9, 1), (11, 2)]


def test_a_sleeping_thread_gives_its_cpu_to_the_head_of_the_ready_queue(engine: str) -> None:
    result = play(engine, (rest, 5), (compute, 20, 0), host=Host(cpus=1))
    # Thread 0 is ready at 5 and gets the CPU when thread 1 ends at 20.
    assert times(result, "RESUME") == [(20, 0)]
    assert times(result, "END") == [(20, 1), (20, 0)]


def test_a_sleep_ends_after_its_time_and_the_wakeup_latency(engine: str) -> None:
    assert times(play(engine, (rest, 100), host=Host(cpus=1, wakeup_ns=7)), "RESUME") == [(107, 0)]


def test_a_sleep_of_zero_goes_on_at_once(engine: str) -> None:
    result = play(engine, (rest, 0), host=Host(cpus=1, wakeup_ns=7))
    assert rows(result) == [(0, 0, "SLEEP", 0), (0, 0, "END", 0)]


def test_the_spread_of_the_wakeup_is_drawn_from_the_stream_of_the_woken_thread(engine: str) -> None:
    result = play(engine, (compute, 0, 0), (rest, 100), host=Host(cpus=2, wakeup_ns=7, wakeup_spread_ns=1000), seed=5)
    assert times(result, "RESUME") == [(107 + exponential(draw(5, 1, 0), 1000), 1)]


def test_a_context_switch_follows_the_wait_for_a_lock_but_not_a_sleep(engine: str) -> None:
    host = Host(cpus=2, wakeup_ns=3, switch_ns=4)
    result = play(engine, (use_rwlock, 0, EXCLUSIVE, 10), (use_rwlock, 1, EXCLUSIVE, 10), host=host)
    assert times(result, "GRANT") == [(10, 1)]
    assert times(result, "RESUME") == [(17, 1)]
    assert times(play(engine, (rest, 10), host=host), "RESUME") == [(13, 0)]


def test_a_thread_that_gets_its_cpu_late_still_switches(engine: str) -> None:
    # One CPU: thread 1 waits for the lock of the sleeping thread 0, is granted it at 10, but thread 2 runs until 31.
    result = play(
        engine,
        (sleep_with_rwlock, 0, EXCLUSIVE, 10),
        (use_rwlock, 0, SHARED, 0),
        (compute, 31, 0),
        host=Host(cpus=1, switch_ns=4),
    )
    assert times(result, "RESUME") == [(31, 0), (35, 1)]
    assert times(result, "GRANT") == [(31, 1)]


def test_preemption_at_the_end_of_a_cpu_effect_when_the_slice_is_used_up_and_another_is_ready(engine: str) -> None:
    host = Host(cpus=1, timeslice_ns=10)
    # Thread 0 is within its slice at 6 and beyond it at 12; so is thread 1 at 18 and at 24, where thread 0 ends first.
    result = play(engine, (compute, 6, 6), (compute, 6, 6), host=host)
    assert times(result, "CPU") == [(0, 0), (6, 0), (12, 1), (18, 1)]
    assert times(result, "END") == [(24, 0), (24, 1)]
    assert times(play(engine, (compute, 6, 60), host=host), "END") == [(66, 0)]


def test_a_preempted_thread_goes_on_without_a_row_of_its_own(engine: str) -> None:
    result = play(engine, (compute, 10, 5), (compute, 10, 5), host=Host(cpus=1, timeslice_ns=10))
    assert times(result, "CPU") == [(0, 0), (10, 1), (20, 0), (25, 1)]
    assert times(result, "RESUME") == []


def test_the_holder_of_a_spinlock_is_not_preempted(engine: str) -> None:
    host = Host(cpus=1, timeslice_ns=10)
    result = play(engine, (use_spin, 0, 20), (compute, 1, 0), host=host)
    assert times(result, "END") == [(20, 0), (21, 1)]
    # With a mutex it is, and goes on behind the other.
    result = play(engine, (use_mutex, 0, 20), (compute, 1, 0), host=host)
    assert times(result, "END") == [(21, 1), (21, 0)]


def test_the_time_limit_ends_the_run_before_the_events_of_that_instant(engine: str) -> None:
    result = play(engine, (compute, 10, 10), time_limit_ns=20)
    assert (result.time_ns, result.error, times(result, "END")) == (20, None, [])
    result = play(engine, (compute, 10, 9), time_limit_ns=20)
    assert (result.time_ns, times(result, "END")) == (19, [(19, 0)])


@protocol
def one_io(box: Box, work: int):
    yield begin_io()
    yield cpu(work)
    yield complete_io()
    yield cpu(1)


def test_the_goal_ends_the_run_in_the_step_that_reaches_it(engine: str) -> None:
    result = play(engine, (one_io, 10), (one_io, 10), (one_io, 20), ios=2)
    assert rows(result)[-1] == (10, 1, "COMPLETE", 0)
    assert (result.time_ns, result.ios, result.error) == (10, 2, None)


@protocol
def tick_forever(box: Box):
    while True:
        yield sleep(10)


def test_a_daemon_does_not_keep_the_run_alive(engine: str) -> None:
    from dataclasses import replace

    from fssim.engine import run
    from fssim.system import System, Thread

    box = Box()
    system = System(
        threads=[Thread(tick_forever, (box,), daemon=True), Thread(compute, (box, 10, 15))], host=Host(cpus=2)
    )
    assert run(system, engine=engine).time_ns == 25
    # A run of daemons only goes on until no event is left, or to its limit.
    assert run(replace(system, threads=system.threads[:1], time_limit_ns=100), engine=engine).time_ns == 100


@protocol
def read_twice(box: Box):
    yield device.read(0, 512)
    yield box.count.inc()
    yield device.write(512, 1024)


def test_a_cache_line_costs_its_transfer_when_another_thread_touched_it_last(engine: str) -> None:
    host = Host(cpus=4, cache_line_ns=5)
    # Thread 0 has the first touch free; 1 and 2 fetch one after the other; the releases fetch it back.
    result = play(
        engine, (use_rwlock, 0, SHARED, 0), (use_rwlock, 0, SHARED, 100), (use_rwlock, 0, SHARED, 100), host=host
    )
    assert times(result, "ACQUIRE") == [(0, 0), (0, 1), (0, 2)]
    assert times(result, "CPU") == [(0, 0), (0, 0), (0, 1), (0, 2), (5, 1), (10, 2)]
    assert times(result, "RELEASE") == [(0, 0), (105, 1), (110, 2)]
    # 1 fetches the line from 2 (105 to 110); then 2 fetches it from 1 (110 to 115).
    assert times(result, "END") == [(0, 0), (110, 1), (115, 2)]


def test_device_latency_is_followed_by_the_interrupt_latency_without_a_switch(engine: str) -> None:
    host = Host(cpus=1, interrupt_ns=7, wakeup_ns=1000, switch_ns=1000)
    result = play(engine, (read_twice,), host=host, device=SimpleDevice(latency_ns=100))
    assert rows(result) == [
        (0, 0, "READ", 512),
        (100, 0, "DEVICE_DONE", 512),
        (107, 0, "RESUME", 0),
        (107, 0, "INC", 0),
        (107, 0, "WRITE", 1024),
        (207, 0, "DEVICE_DONE", 1024),
        (214, 0, "RESUME", 0),
        (214, 0, "END", 0),
    ]


@protocol
def read_after(box: Box, after: int):
    yield cpu(after)
    yield device.read(0, 512)


DEEP = Host(cpus=2, interrupt_ns=7, idle_exit_ns=100, idle_depth_ns=50)
SLOW_DEVICE = SimpleDevice(latency_ns=100)


def test_a_thread_woken_by_the_device_pays_for_leaving_idle_the_more_the_longer_its_cpu_was_idle(engine: str) -> None:
    # Thread 1 leaves CPU 1 at 0; at 100 it has been idle for 100: 100 * 100**2 / (100**2 + 50**2) is just below 80.
    # CPU 0 takes the interrupts.
    result = play(engine, (read_after, 10), (read_after, 0), host=DEEP, device=SLOW_DEVICE)
    assert times(result, "RESUME") == [(117, 0), (107 + 79, 1)]


def test_without_a_depth_the_whole_cost_of_leaving_idle_is_paid(engine: str) -> None:
    host = Host(cpus=2, interrupt_ns=7, idle_exit_ns=100)
    result = play(engine, (read_after, 10), (read_after, 0), host=host, device=SLOW_DEVICE)
    assert times(result, "RESUME") == [(117, 0), (207, 1)]


def test_the_cpu_of_the_latest_submission_is_awake(engine: str) -> None:
    result = play(engine, (read_after, 0), (read_after, 10), host=DEEP, device=SLOW_DEVICE)
    assert times(result, "RESUME") == [(107, 0), (117, 1)]


def test_a_busy_home_costs_no_idle_exit(engine: str) -> None:
    # Thread 3 is at home on CPU 1, too, and runs there when thread 1's I/O is done; thread 0 submits last.
    result = play(
        engine, (read_after, 10), (read_after, 0), (compute, 0, 0), (compute, 150, 0), host=DEEP, device=SLOW_DEVICE
    )
    # CPU 0 has been free since 10, and thread 1 goes there at 107.
    assert times(result, "RESUME") == [(107, 1), (117, 0)]


def test_a_thread_whose_home_is_taken_goes_to_the_free_cpu_with_the_lowest_number(engine: str) -> None:
    # Thread 1 sleeps from 0 to 20; thread 4, at home on CPU 1, too, runs there from 10 on.  CPU 0 is free and becomes
    # the home of thread 1, so that its read costs no exit from idle, unlike that of thread 2 on CPU 2.
    host = Host(cpus=3, idle_exit_ns=100)
    result = play(
        engine,
        (rest, 0),
        (sleep_then_read, 20),
        (sleep_then_read, 21),
        (sleep_then_read, 30),
        (rest_then_compute, 10, 300),
        host=host,
        device=SLOW_DEVICE,
    )
    assert times(result, "RESUME") == [(10, 4), (20, 1), (21, 2), (30, 3), (120, 1), (130, 3), (221, 2)]


@protocol
def sleep_then_read(box: Box, nanoseconds: int):
    yield sleep(nanoseconds)
    yield device.read(0, 512)


@protocol
def rest_then_compute(box: Box, nanoseconds: int, work: int):
    yield sleep(nanoseconds)
    yield cpu(work)


def test_a_cpu_is_idle_since_the_last_thread_left_it(engine: str) -> None:
    # CPU 0 is kept by thread 0.  At 0 thread 1 leaves CPU 1 to thread 3, which ends at 40 without a successor: at 100
    # CPU 1 has been idle for 60: 100 * 60**2 // (60**2 + 50**2) = 59.
    result = play(
        engine, (compute_then_read, 50), (read_after, 0), (rest, 0), (compute, 40, 0), host=DEEP, device=SLOW_DEVICE
    )
    assert times(result, "RESUME") == [(157, 0), (100 + 7 + 59, 1)]


@protocol
def compute_then_read(box: Box, work: int):
    yield cpu(work)
    yield device.read(0, 512)
