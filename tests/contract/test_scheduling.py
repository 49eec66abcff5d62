"""Order of events, processors, wake-ups and the device: sections 1, 2 and 6 by hand."""

from __future__ import annotations

import pytest

from fssim.engine.random import draw, exponential
from fssim.machine.device import SimpleDevice
from tests.contract.scene import instants, play, rows


def test_threads_start_in_order_of_number_and_the_ready_queue_is_first_come_first_served(engine):
    result = play(engine, "yield cpu(100)", *["yield cpu(10)"] * 4, cpus=1)
    assert instants(result, "END") == [(100, 0), (110, 1), (120, 2), (130, 3), (140, 4)]


def test_timers_go_before_wakeups_that_come_due_at_the_same_instant(engine):
    """At 100 thread 0 wakes thread 1 without delay; the end of thread 2's 100 ns was scheduled long before."""
    result = play(
        engine,
        "yield place.count.inc(); yield cpu(100); x = yield place.count.dec()",
        "yield place.count.wait_zero()",
        "yield cpu(100)",
        wakeup_ns=0,
        switch_ns=0,
    )
    assert instants(result, "END") == [(100, 0), (100, 2), (100, 1)]


def test_an_event_without_delay_waits_for_those_scheduled_before_it(engine):
    """Thread 1 wakes thread 0 at 0; thread 2, whose start was scheduled before, starts first."""
    result = play(
        engine,
        "yield place.count.inc(); yield place.count.wait_zero()",
        "x = yield place.count.dec()",
        "yield cpu(0)",
        wakeup_ns=0,
        switch_ns=0,
    )
    assert instants(result, "END") == [(0, 1), (0, 2), (0, 0)]


def test_computing_for_no_time_is_no_event(engine):
    result = play(engine, "for turn in range(10):\n    yield cpu(0)\n    yield sleep(0)")
    assert (result.events, result.time_ns) == (1, 0)


def test_a_release_does_not_switch(engine):
    """The releaser goes on at the same instant, before the woken thread although wake-ups take no time."""
    result = play(
        engine,
        "TAKE; yield cpu(100); DROP; place.entries = 7; yield cpu(0)",
        "yield cpu(10); TAKE; assert place.entries == 7; DROP",
        wakeup_ns=0,
        switch_ns=0,
    )
    assert rows(result, "RELEASE", "GRANT", "CPU", "RESUME")[2:6] == [
        (100, 0, "RELEASE", 2),
        (100, 1, "GRANT", 2),
        (100, 0, "CPU", 0),
        (100, 1, "RESUME", 0),
    ]


def test_a_thread_is_preempted_when_its_time_slice_is_over_and_another_waits(engine):
    """One processor.  At 150 the slice of 100 is over: thread 1 runs its 5 ns, then thread 0 the rest."""
    result = play(engine, "yield cpu(150); yield cpu(10)", "yield cpu(5)", cpus=1, timeslice_ns=100)
    assert instants(result, "END") == [(155, 1), (165, 0)]
    assert result.time_by_category_ns["ready"] == 150 + 5


def test_a_thread_is_not_preempted_before_its_time_slice_is_over_or_if_nobody_waits(engine):
    result = play(engine, "yield cpu(50); yield cpu(49)", "yield cpu(5)", cpus=1, timeslice_ns=100)
    assert instants(result, "END") == [(99, 0), (104, 1)]
    alone = play(engine, "for turn in range(9):\n    yield cpu(150)", cpus=1, timeslice_ns=100)
    assert (alone.events, alone.time_ns) == (1 + 9, 9 * 150)


def test_a_blocked_thread_gives_its_processor_to_the_head_of_the_ready_queue(engine):
    """One processor: thread 1 runs from 0, when thread 0 goes to sleep, to 70; thread 0 wakes at 5 + 100."""
    result = play(engine, "yield sleep(5)", "yield cpu(70)", "yield cpu(50)", cpus=1)
    assert instants(result, "END") == [(70, 1), (120, 2), (120, 0)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_latency_of_a_wakeup_is_drawn_from_the_stream_of_the_thread_that_is_woken(engine, seed):
    """Section 2: 100 ns plus exponential(draw of t) times 1000; both waiters' streams are at their beginning."""
    waiter = "yield cpu(10); TAKE; DROP"
    result = play(engine, "TAKE; yield cpu(1000); DROP", waiter, waiter, wakeup_spread_ns=1000, seed=seed)
    first = 1000 + 100 + exponential(draw(seed, 1, 0), 1000) + 10
    second = first + 100 + exponential(draw(seed, 2, 0), 1000) + 10
    assert instants(result, "RESUME") == [(first, 1), (second, 2)]


def test_the_latency_after_a_sleep_is_drawn_when_the_sleep_begins(engine):
    """The other draw of the thread comes after it; no switch is paid after a sleep."""
    result = play(engine, "yield sleep(500); x = yield choose(1000); yield sleep(x)", wakeup_spread_ns=1000, seed=7)
    first = 500 + 100 + exponential(draw(7, 0, 0), 1000)
    chosen = (draw(7, 0, 1) >> 32) * 1000 >> 32
    second = first + chosen + 100 + exponential(draw(7, 0, 2), 1000)
    assert rows(result, "RESUME", "CHOOSE") == [
        (first, 0, "RESUME", 0),
        (first, 0, "CHOOSE", chosen),
        (second, 0, "RESUME", 0),
    ]


def test_after_the_device_the_thread_pays_the_interrupt_but_no_switch(engine):
    result = play(engine, "yield device.read(0, 512)", device=SimpleDevice(latency_ns=300), interrupt_ns=40)
    assert rows(result, "DEVICE_DONE", "RESUME") == [(300, 0, "DEVICE_DONE", 512), (340, 0, "RESUME", 0)]
    assert result.time_by_category_ns["device"] == 300
    assert result.time_by_category_ns["wakeup"] == 40


def test_a_completion_gives_its_slot_on_before_it_wakes_its_thread(engine):
    """One slot, 100 ns each.  The second completion and the first wake-up are both due at 200, in that order."""
    result = play(
        engine, *["yield device.read(0, 512)"] * 2, device=SimpleDevice(latency_ns=100, queue_depth=1), interrupt_ns=100
    )
    assert rows(result, "DEVICE_DONE", "RESUME") == [
        (100, 0, "DEVICE_DONE", 512),
        (200, 1, "DEVICE_DONE", 512),
        (200, 0, "RESUME", 0),
        (300, 1, "RESUME", 0),
    ]
    assert result.busy_ns["slots"] == (200, 1)


def test_gate_and_bus_are_passed_one_after_the_other(engine):
    """A gate of 10**9 / 3 * 10**6 = 334 ns (rounded up), 1,000 ns latency, 512 bytes at 1000 MB/s = 512 ns."""
    device = SimpleDevice(latency_ns=1000, iops_cap=3_000_000, bandwidth_mb_s=1000, queue_depth=4)
    result = play(engine, *["yield device.read(0, 512)"] * 3, device=device)
    # Latencies end at 1000, 1334, 1668; the bus is free for them at 1000, 1512, 2024.
    assert instants(result, "DEVICE_DONE") == [(1512, 0), (2024, 1), (2536, 2)]
    assert result.busy_ns["gate"] == (3 * 334, 1)
    assert result.busy_ns["bus"] == (3 * 512, 1)
    assert result.busy_ns["slots"] == (1512 + 2024 + 2536, 4)


def test_the_time_limit_ends_the_run_before_the_events_of_that_instant(engine):
    result = play(engine, "yield cpu(100); yield cpu(100)", time_limit_ns=200)
    assert result.time_ns == 200
    assert rows(result, "CPU", "END") == [(0, 0, "CPU", 100), (100, 0, "CPU", 100)]


def test_the_window_begins_after_the_warmup_and_ends_with_the_last_completion(engine):
    """I/Os of 100 ns one after the other; the first two are the warm-up, three more are wanted, batches of one."""
    result = play(
        engine,
        "while True:\n    yield begin_io()\n    TAKE\n    yield cpu(100)\n    DROP\n    yield complete_io()",
        warmup_ios=2,
        ios=3,
        batch_ios=1,
    )
    assert (result.time_ns, result.window_ns, result.ios) == (500, 300, 3)
    assert (result.latency_ns, result.in_flight_ns) == (300, 300)
    assert result.batch_end_ns.tolist() == [300, 400, 500]
    assert [use.acquisitions for use in result.locks if use.name == "Place.lock"] == [0, 3]
    assert result.busy_ns["cpu"] == (300, 8)
