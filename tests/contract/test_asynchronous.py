"""Queues, spaces, block maps, asynchronous I/O and polled writes: sections 5, 6 and 10 and `docs/flash.md` by hand.

Waking up takes 100 ns and the switch 10 after another thread, and an interrupt 20 after the device.
"""

from __future__ import annotations

import pytest

from fssim.engine.random import draw, exponential
from fssim.errors import BadValue, Deadlock, SleepInAtomic
from fssim.machine.device import FlashDevice, SimpleDevice
from tests.contract.scene import FIFO_RWLOCK, final, instants, line_of, play, rows

DISK = SimpleDevice(latency_ns=100)
GET = "x = yield place.queue.get(); yield cpu(x)"
INTERRUPT = {"interrupt_ns": 20}

WRITES = FlashDevice(
    channels=1,
    page_bytes=4096,
    page_load_ns=50,
    channel_ps_per_byte=0,
    bus_ps_per_byte=0,
    write_bus_ps_per_byte=1000,
    write_ns=30,
)


def with_writes(**changes):
    return FlashDevice(**{name: getattr(WRITES, name) for name in FlashDevice.__struct_fields__} | changes)


# Queues


def test_an_item_goes_to_who_has_waited_longest_and_is_not_taken_by_who_comes_before_it_runs(engine):
    """Two wait; 7 is put at 200.  Who asks at 250, before the woken thread runs at 310, waits behind the other."""
    result = play(
        engine,
        f"yield cpu(10); {GET}",
        f"yield cpu(5); {GET}",
        f"yield cpu(250); {GET}",
        "yield cpu(200); yield place.queue.put(7); yield cpu(200); yield place.queue.put(8); yield place.queue.put(9)",
    )
    assert rows(result, "GET", "PUT", "GRANT", "RESUME") == [
        (5, 1, "GET", 0),
        (10, 0, "GET", 0),
        (200, 3, "PUT", 0),
        (200, 1, "GRANT", 0),
        (250, 2, "GET", 0),
        (310, 1, "RESUME", 0),
        (400, 3, "PUT", 0),
        (400, 0, "GRANT", 0),
        (400, 3, "PUT", 0),
        (400, 2, "GRANT", 0),
        (510, 0, "RESUME", 0),
        (510, 2, "RESUME", 0),
    ]
    assert instants(result, "END") == [(317, 1), (400, 3), (518, 0), (519, 2)]


def test_items_are_kept_in_order_until_somebody_asks(engine):
    put = "; ".join(f"yield place.queue.put({item})" for item in (3, 1, 2))
    result = play(engine, f"{put}; yield cpu(50); {GET}; {GET}; place.entries = place.queue.length")
    assert [value for _, _, _, value in rows(result, "PUT", "GET")] == [0, 1, 2, 3, 2]
    assert [value for _, _, _, value in rows(result, "CPU")] == [50, 3, 1]
    assert final(result, "entries") == 1


def test_many_items_through_few_threads_lose_nothing(engine):
    """Sums of what 3 producers put and 2 consumers get, over 600 items that are kept or handed on."""
    producer = """
    for turn in range(200):
        yield place.queue.put(turn + 1)
        pause = yield exponential(40)
        yield sleep(pause)
    """
    consumer = """
    for turn in range(300):
        x = yield place.queue.get()
        place.entries += x
        pause = yield exponential(30)
        yield sleep(pause)
    """
    result = play(engine, *[producer] * 3, *[consumer] * 2, wakeup_ns=0, switch_ns=0, cpus=2)
    assert final(result, "entries") == 3 * 200 * 201 // 2


# Spaces


def test_a_give_grants_to_all_whose_turn_has_come_and_who_fit(engine):
    """All 4 are taken until 300.  Of those who wait for 2, 1, 2 and 1 in this order, the first two fit into 3."""
    takers = [f"yield cpu({at}); yield place.space.take({units})" for at, units in ((10, 2), (20, 1), (30, 2), (40, 1))]
    holder = "yield place.space.take(4); yield cpu(300); yield place.space.give(3); yield cpu(200)"
    result = play(engine, holder, *takers, check=False)
    assert rows(result, "GRANT", "RESUME") == [
        (300, 1, "GRANT", 2),
        (300, 2, "GRANT", 1),
        (410, 1, "RESUME", 0),
        (410, 2, "RESUME", 0),
    ]
    assert isinstance(result.error, Deadlock)  # of those whose units nobody gives back
    assert (result.error.thread, result.error.lock) == (3, "place.space")


def test_nobody_takes_past_those_who_wait_although_enough_is_free(engine):
    """1 unit is free all the time; the thread that wants 1 at 20 waits for the one that wants 2 since 10."""
    result = play(
        engine,
        "yield place.space.take(3); yield cpu(300); yield place.space.give(3)",
        "yield cpu(10); yield place.space.take(2); yield cpu(50); yield place.space.give(2)",
        "yield cpu(20); yield place.space.take(1); yield place.space.give(1)",
    )
    assert instants(result, "GRANT") == [(300, 1), (300, 2)]
    assert result.time_by_category_ns["wait Place.space"] == 290 + 280


def test_what_is_granted_is_taken_before_the_woken_thread_runs(engine):
    """Granted at 300, thread 1 runs at 410; at 350 the space looks, and is, as full as it will be then."""
    result = play(
        engine,
        "yield place.space.take(4); yield cpu(300); yield place.space.give(4); yield cpu(50); "
        "place.entries = place.space.free",
        "yield cpu(10); yield place.space.take(3)",
    )
    assert final(result, "entries") == 1


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("yield place.space.take(0)  # HERE", 0),
        ("yield place.space.take(5)  # HERE", 0),
        ("yield place.space.give(1)  # HERE", 0),
        ("yield place.space.take(2); yield cpu(7); yield place.space.give(2)\nyield place.space.give(1)  # HERE", 7),
        ("yield place.space.take(2)\nyield place.space.give(0)  # HERE", 0),
    ],
)
def test_units_that_nobody_can_have_or_has_taken_end_the_run(engine, text, time_ns):
    result = play(engine, text, check=False, seed=5)
    error = result.error
    assert type(error) is BadValue
    assert (error.thread, error.lock, error.time_ns, error.line) == (
        0,
        "place.space",
        time_ns,
        line_of(FIFO_RWLOCK, [text]),
    )


@pytest.mark.parametrize("effect", ["x = yield place.queue.get()", "yield place.space.take(1)"])
def test_the_holder_of_a_spinlock_must_not_wait_for_a_queue_or_a_space(engine, effect):
    result = play(engine, f"yield place.queue.put(1); yield place.spin.acquire(); {effect}", check=False)
    assert type(result.error) is SleepInAtomic
    assert rows(result, "GET", "TAKE") == []


# Block maps


@pytest.mark.parametrize(
    ("fills", "runs", "present"),
    [
        ([(2, 1, 1)], 1, 1),
        ([(2, 1, 1), (4, 1, 1)], 2, 2),
        ([(2, 1, 1), (4, 1, 1), (3, 1, 1)], 1, 3),  # merges with both neighbours
        ([(2, 1, 1), (4, 1, 1), (3, 1, 2)], 3, 3),  # with none
        ([(2, 4, 1), (3, 1, 2)], 3, 4),  # splits
        ([(2, 4, 1), (3, 1, 0)], 2, 3),
        ([(2, 4, 1), (0, 8, 0)], 0, 0),
        ([(0, 3, 1), (5, 3, 2), (2, 4, 3)], 3, 8),  # over the ends of two
        ([(0, 8, 2), (0, 8, 2)], 1, 8),
        ([(0, 1, 1), (7, 1, 1), (1, 6, 1)], 1, 8),
    ],
)
def test_runs_and_present_blocks_follow_every_merge_and_split(engine, fills, runs, present):
    text = "\n".join(f"yield place.blocks.fill({first}, {count}, {state})" for first, count, state in fills)
    result = play(engine, f"{text}\nplace.readers = place.blocks.runs\nplace.writers = place.blocks.present")
    assert (final(result, "readers"), final(result, "writers")) == (runs, present)


def test_a_lookup_ends_where_the_state_does_and_the_holes_behind_the_last_block_do_not_end(engine):
    looks = ((0, 9), (2, 9), (2, 2), (5, 1), (5, 9), (100, 7))
    text = "\n".join(f"s, r = yield place.blocks.lookup({block}, {count})" for block, count in looks)
    result = play(engine, f"yield place.blocks.fill(2, 3, 1)\n{text}")
    assert [divmod(value, 4) for _, _, _, value in rows(result, "LOOKUP")] == [
        (2, 0),
        (3, 1),
        (2, 1),
        (1, 0),
        (9, 0),
        (7, 0),
    ]


# What the device tells


def test_who_is_told_by_the_device_is_interrupted_and_does_not_switch(engine):
    """Submitted at 10, done at 110: the getter goes on at 130, without the 10 of a switch."""
    submit = "yield cpu(10); yield device.submit_read(0, 512, place.queue, tag=7); yield cpu(300)"
    result = play(engine, GET, submit, device=DISK, **INTERRUPT)
    assert rows(result)[2:] == [
        (10, 1, "SUBMITR", 512),
        (10, 1, "CPU", 300),
        (110, 1, "DEVICE_DONE", 512),
        (110, 0, "GRANT", 0),
        (130, 0, "RESUME", 0),
        (130, 0, "CPU", 7),
        (137, 0, "END", 0),
        (310, 1, "END", 0),
    ]


def test_who_waits_for_a_counter_looks_again_after_the_device_has_told(engine):
    """Zero at 100 for an instant; the waiter looks at 120 and sees 1 again, and 0 after 300 + wake-up and switch."""
    result = play(
        engine,
        "yield place.count.inc(); yield device.submit_write(0, 512, place.count)",
        "yield cpu(5); yield place.count.wait_zero()",
        "yield cpu(110); yield place.count.inc(); yield cpu(190); x = yield place.count.dec()",
        device=DISK,
        **INTERRUPT,
    )
    assert rows(result, "WAITZERO", "RESUME") == [
        (5, 1, "WAITZERO", 1),
        (120, 1, "WAITZERO", 1),
        (410, 1, "WAITZERO", 0),
        (410, 1, "RESUME", 0),
    ]


def test_all_who_wait_for_a_counter_are_interrupted_when_the_last_of_its_ios_is_done(engine):
    submit = "yield place.count.inc(); yield device.submit_write(0, 512, place.count)"
    result = play(
        engine,
        f"{submit}; {submit}; yield cpu(30); {submit}",
        *["yield cpu(40); yield place.count.wait_zero()"] * 2,
        device=DISK,
        **INTERRUPT,
    )
    assert instants(result, "RESUME") == [(150, 1), (150, 2)]


def test_a_count_below_zero_is_the_fault_of_the_submission(engine):
    threads = ["yield cpu(5)\nyield device.submit_write(0, 512, place.count)  # HERE\nyield cpu(500)"]
    result = play(engine, *threads, device=DISK, check=False)
    error = result.error
    assert type(error) is BadValue
    assert (error.thread, error.lock, error.time_ns) == (0, "place.count", 105)
    assert error.line == line_of(FIFO_RWLOCK, threads)


def test_a_slot_is_given_on_before_the_target_is_told(engine):
    """Depth 1: the second I/O starts at 100, before thread 1 is told; at 200 its end is due before the interrupt."""
    submit = "yield device.submit_read(0, 512, place.queue, tag=1)"
    result = play(
        engine,
        f"{submit}; {submit}",
        GET,
        device=SimpleDevice(latency_ns=100, queue_depth=1),
        interrupt_ns=100,
    )
    assert [(time_ns, kind) for time_ns, _, kind, _ in rows(result, "DEVICE_DONE", "RESUME")] == [
        (100, "DEVICE_DONE"),
        (200, "DEVICE_DONE"),
        (200, "RESUME"),
    ]


def test_a_transfer_seeks_unless_it_goes_on_where_the_last_one_ended(engine):
    """1000 bytes take 1 us, and a seek 300 ns; the head is at 0 first, and moves when a transfer begins its turn."""
    device = SimpleDevice(latency_ns=10, bandwidth_mb_s=1000, seek_ns=300)
    result = play(
        engine,
        "yield device.write(0, 1000)",
        "yield device.read(1000, 1000)",
        "yield device.write(1000, 1000)",
        device=device,
    )
    assert instants(result, "DEVICE_DONE") == [(1010, 0), (2010, 1), (3310, 2)]


def test_the_bus_of_the_flash_device_turns_to_the_next_read_after_the_target_is_told(engine):
    """Both reads are of one page, loaded at 50.  The bus carries the first until 562; both ends are due at 1074."""
    bus = with_writes(bus_ps_per_byte=1000)
    submit = "yield device.submit_read(0, 512, place.queue, tag=1)"
    result = play(engine, f"{submit}; {submit}", GET, device=bus, interrupt_ns=512)
    assert [(time_ns, kind) for time_ns, _, kind, _ in rows(result, "DEVICE_DONE", "RESUME")] == [
        (562, "DEVICE_DONE"),
        (1074, "RESUME"),
        (1074, "DEVICE_DONE"),
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_service_time_is_drawn_at_the_submission_also_if_the_io_has_to_wait(engine, seed):
    """Draws of thread 0: two services, then a choice.  Depth 1: the second is done after the sum of both."""
    submit = "yield device.submit_read(0, 512, place.queue, tag=0)"
    device = SimpleDevice(latency_ns=1000, latency_distribution="exponential", queue_depth=1)
    result = play(
        engine, f"{submit}; {submit}; x = yield choose(1000); {GET}; {GET}", device=device, seed=seed, **INTERRUPT
    )
    services = [exponential(draw(seed, 0, n), 1000) for n in (0, 1)]
    assert instants(result, "DEVICE_DONE") == [(services[0], 0), (sum(services), 0)]
    assert [value for _, _, _, value in rows(result, "CHOOSE")] == [(draw(seed, 0, 2) >> 32) * 1000 >> 32]


def test_a_thread_that_is_told_pays_for_leaving_idle_as_one_that_reads(engine):
    """Thread 1's processor is idle from 10 on: at 105, 95 later, it takes 200 * 95**2 / (95**2 + 5**2) more."""
    settings = {"cpus": 2, "idle_exit_ns": 200, "idle_depth_ns": 5, "device": DISK, **INTERRUPT}
    submit = "yield cpu(5); yield device.submit_read(0, 512, place.queue, tag=1); yield cpu(400)"
    result = play(engine, submit, f"yield cpu(10); {GET}", **settings)
    assert instants(result, "RESUME") == [(105 + 20 + 199, 1)]


def test_a_submission_from_a_processor_keeps_it_awake(engine):
    """The getter's own submission was the latest: no exit from idle."""
    settings = {"cpus": 2, "idle_exit_ns": 200, "device": DISK, **INTERRUPT}
    text = f"yield cpu(10); yield device.submit_read(0, 512, place.queue, tag=1); {GET}"
    result = play(engine, "yield cpu(400)", text, **settings)
    assert instants(result, "RESUME") == [(130, 1)]


def test_more_in_flight_than_any_array_begins_with_all_complete_in_order(engine):
    """300 at a time, on one slot of 10 ns each; the tags come back in the order in which they were sent."""
    text = """
    for turn in range(300):
        yield device.submit_read(0, 512, place.queue, tag=turn)
    for turn in range(300):
        x = yield place.queue.get()
        assert x == turn
    """
    result = play(engine, text, device=SimpleDevice(latency_ns=10, queue_depth=1))
    assert instants(result, "DEVICE_DONE")[-1] == (3000, 0)


def test_the_room_of_what_is_done_is_used_again(engine):
    """2,000 I/Os one after the other, to a queue and to a counter, need the room of one."""
    text = """
    for turn in range(1000):
        yield device.submit_read(0, 512, place.queue, tag=turn)
        x = yield place.queue.get()
        yield place.count.inc()
        yield device.submit_write(0, 512, place.count)
        yield place.count.wait_zero()
        yield place.queue.put(x)
        yield sleep(1)
        x = yield place.queue.get()
    """
    seen = []
    if engine == "compiled":
        from fssim.engine import compiled_run

        made = compiled_run._Run
        keep = made._run

        def run_and_look(self):
            error = keep(self)
            seen.append((len(self.arrays.requests), len(self.arrays.nodes)))
            return error

        made._run = run_and_look
        try:
            play(engine, text, device=DISK)
        finally:
            made._run = keep
        assert seen == [(1 + compiled_run.FIRST_ROOM, compiled_run.FIRST_ROOM)]
    else:
        result = play(engine, text, device=DISK)
        assert len(instants(result, "DEVICE_DONE")) == 2000


# Polled writes, segments and inline bytes


def test_a_polled_write_keeps_its_processor_and_is_no_wait(engine):
    """One processor, a slice of 1 ns: at 542, after 512 of transfer and 30, thread 0 goes on; thread 1 runs at 552."""
    result = play(
        engine,
        "yield device.write(0, 512); yield cpu(10)",
        "yield cpu(5)",
        cpus=1,
        timeslice_ns=1,
        device=with_writes(write_polled=True),
        **INTERRUPT,
    )
    assert rows(result) == [
        (0, 0, "WRITE", 512),
        (542, 0, "DEVICE_DONE", 512),
        (542, 0, "CPU", 10),
        (552, 1, "CPU", 5),
        (557, 0, "END", 0),
        (557, 1, "END", 0),
    ]
    assert result.time_by_category_ns["device"] == 0
    assert result.time_by_category_ns["cpu"] == 557


def test_a_polled_write_is_not_counted_as_a_sleep_and_one_with_an_interrupt_is(engine):
    for polled, sleeps in ((True, 0), (False, 1)):
        text = "yield begin_io(); yield device.write(0, 512); yield complete_io(); yield device.write(0, 512)"
        result = play(engine, text, device=with_writes(write_polled=polled))
        assert sum(result.sleeps_in_submission.values()) == sleeps


def test_an_asynchronous_write_is_never_polled(engine):
    device = with_writes(write_polled=True)
    result = play(engine, f"yield device.submit_write(0, 512, place.queue, tag=3); yield cpu(50); {GET}", device=device)
    assert rows(result, "CPU", "DEVICE_DONE", "RESUME")[:3] == [
        (0, 0, "CPU", 50),
        (542, 0, "DEVICE_DONE", 512),
        (542, 0, "RESUME", 0),
    ]


def test_polled_writes_take_turns_on_the_bus_and_at_the_cache(engine):
    """Command 40, transfer 512; a cache of 1,024 bytes that drains 512 in 1,024 ns: the third waits for room.

    Admitted at 40, 40 and 40 + 1,024.  The bus is free at 552, 1,064 and 1,576.
    """
    device = with_writes(write_polled=True, command_ns=40, write_cache_bytes=1024, drain_ps_per_byte=2000)
    result = play(engine, *["yield device.write(0, 512)"] * 3, device=device)
    assert instants(result, "DEVICE_DONE") == [(552 + 30, 0), (1064 + 30, 1), (1576 + 30, 2)]


def test_each_write_has_a_command_on_the_bus(engine):
    for polled in (True, False):
        device = with_writes(write_polled=polled, write_command_ns=7)
        result = play(engine, *["yield device.write(0, 512)"] * 2, device=device)
        assert instants(result, "DEVICE_DONE") == [(519 + 30, 0), (2 * 519 + 30, 1)]


def test_inline_bytes_need_no_draining_and_further_segments_more(engine):
    """A cache of 8,192 bytes drains 1 byte a ns.  Draining: 0 for 512; 8,192 - 512 + 300 for two segments; then 8,192.

    The third is admitted when the cache is empty but for 8,192 - 7,980 of it: at 7,980 of the second, drained.
    """
    device = with_writes(
        write_bus_ps_per_byte=0,
        write_cache_bytes=8192,
        drain_ps_per_byte=1000,
        write_inline_bytes=512,
        write_segment_bytes=4096,
        write_segment_ns=300,
    )
    writes = "yield device.write(0, 512); yield device.write(0, 8192); yield device.write(0, 8192)"
    result = play(engine, writes, device=device)
    # The third drains 7,980 too: it has room when no more than 8,192 - 7,980 = 212 are left, at 30 + 7,980 - 212.
    assert instants(result, "DEVICE_DONE") == [(30, 0), (60, 0), (30 + 7980 - 212 + 30, 0)]
    assert result.busy_ns["drain"] == (result.time_ns - 30, 1)


# What is counted


@pytest.mark.parametrize(
    ("limit", "bus", "drain"), [(20, 0, 0), (100, 60, 60), (600, 512, 560), (2100, 524, 2060), (0, 1024, 2590)]
)
def test_what_a_polled_write_has_booked_ahead_is_busy_only_when_its_turn_comes(engine, limit, bus, drain):
    """Two writes arrive at 40; the cache of 512 bytes drains in 2,048: the bus is busy 40 ... 552 and 2,088 ... 2,600.

    The drain is busy from 40 on, to the end of the run at 2,630 in any case.  With interrupts it is the same.
    """
    for polled in (True, False):
        device = with_writes(write_polled=polled, command_ns=40, write_cache_bytes=512, drain_ps_per_byte=4000)
        result = play(engine, *["yield device.write(0, 512)"] * 2, device=device, time_limit_ns=limit)
        assert (result.busy_ns["write bus"], result.busy_ns["drain"]) == ((bus, 1), (drain, 1))


def test_what_a_polled_write_has_booked_before_the_window_is_busy_in_it(engine):
    """The window opens at 1,000, between the transfers at 40 and 2,088."""
    device = with_writes(write_polled=True, command_ns=40, write_cache_bytes=512, drain_ps_per_byte=4000)
    opens = "yield cpu(1000); yield complete_io(); yield cpu(500)"
    result = play(engine, *["yield device.write(0, 512)"] * 2, opens, device=device, warmup_ios=1)
    assert (result.window_ns, result.busy_ns["write bus"], result.busy_ns["drain"]) == (1630, (512, 1), (1630, 1))


def test_a_completion_without_a_beginning_leaves_nobody_in_flight(engine):
    result = play(engine, "yield complete_io(); yield begin_io(); yield cpu(100); yield complete_io(); yield cpu(9)")
    assert (result.ios, result.in_flight_ns, result.latency_ns) == (2, 100, 100)


def test_several_may_be_in_flight_from_one_thread_each_with_its_own_beginning(engine):
    """In flight: 1 from 0, 2 from 10 to 30, 1 to 60.  Latencies: 30 and 50."""
    result = play(
        engine,
        "yield begin_io(); yield cpu(10); yield begin_io(); yield cpu(20); yield complete_io(0); yield cpu(30); "
        "yield complete_io(10)",
    )
    assert (result.in_flight_ns, result.latency_ns) == (10 + 2 * 20 + 30, 30 + 50)


def test_sleeps_between_the_beginning_and_the_end_of_a_submission_are_counted_by_their_reason(engine):
    submit = "yield device.submit_read(0, 512, place.queue, tag=1)"
    result = play(
        engine,
        f"yield sleep(5); yield begin_io(); {submit}; {GET}; yield sleep(5); yield device.read(0, 512); "
        "yield end_submission(); yield sleep(5); yield complete_io(); yield sleep(5)",
        device=DISK,
    )
    counted = {name: count for name, count in result.sleeps_in_submission.items() if count}
    assert counted == {"wait Place.queue": 1, "sleep": 1, "device": 1}
