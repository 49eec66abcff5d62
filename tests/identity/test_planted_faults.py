"""The comparison is not vacuous: faults planted into the reference engine are found by few random protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from fssim.engine import run
from fssim.engine.reference import (
    block_maps,
    cache_line,
    counters,
    devices,
    effects,
    flash,
    locks,
    queues,
    scheduler,
    simulation,
    spaces,
    spinning,
    thread,
)
from fssim.engine.reference.statistics import Statistics
from fssim.protocol.language import SHARED
from tests.identity.compare import differences
from tests.identity.random_protocols import random_system

MOST_PROTOCOLS = 500

GIVE_UP_CPU = scheduler.Scheduler._give_up_cpu
IDLE_EXIT_NS = scheduler.Scheduler._idle_exit_ns


def readers_overtake_queued_writers(lock: Any, mode: int) -> bool:
    return lock._writer is None and (mode == SHARED or (lock._readers == 0 and not lock._queue))


def one_reader_is_woken_instead_of_the_run(lock: Any) -> None:
    if lock._queue and lock._queue[0].wait_mode == SHARED:
        lock._grant_and_wake(lock._queue.popleft(), SHARED)


def a_delay_of_zero_goes_before_what_is_queued(self: Any, delay: int, action: Any, subject: Any) -> None:
    event = self.environment.event()
    event._ok, event._value = True, subject
    event.callbacks.append(action)
    self.environment.schedule(event, 0 if delay == 0 else 1, delay)


def a_blocked_thread_leaves_its_cpu_to_the_last_that_came(self: Any, thread: Any) -> None:
    self._ready.rotate(1)
    GIVE_UP_CPU(self, thread)


def the_interrupted_cpu_may_be_asleep(self: Any, home: Any) -> int:
    number, home.number = home.number, 1
    try:
        return IDLE_EXIT_NS(self, home)
    finally:
        home.number = number


def submissions_do_not_keep_a_cpu_awake(self: Any, thread: Any) -> None:
    return None


def spinners_go_on_when_the_owner_stops(lock: Any, thread: Any) -> None:
    return None


def nobody_ever_waits_long(self: Any, thread: Any) -> bool:
    return False


def a_woken_thread_does_not_switch(self: Any, thread: Any) -> None:
    self.statistics.enter(thread, self.statistics.wakeup, self.simulation.now)
    self._ready_after(thread, self._host.wakeup_ns + self._idle_exit_ns(thread.home))


def nobody_is_atomic(self: Any) -> bool:
    return False


def a_cache_line_serves_all_at_once(self: Any, thread: Any, now: int) -> int:
    last, self._last_touched_by = self._last_touched_by, thread
    return 0 if last is thread or last is None else int(self._transfer_ns)


def the_stream_of_random_numbers_skips_one(self: Any) -> int:
    from fssim.engine import random

    self._draws += 1
    return random.draw(self._seed, self.number, self._draws)


def a_slot_is_freed_after_the_completion(self: Any, request: Any) -> None:
    self._complete(request)
    if self._waiting:
        self._start(*self._waiting.popleft())
    else:
        self._free_slots += 1
        self._slots.change(self._simulation.now, -1)


def the_last_chip_served_is_served_again(self: Any) -> Any:
    return next((chip for chip in self.chips if chip.can_transfer), None)


def a_page_is_not_loaded_ahead(self: Any) -> int | None:
    page = self.queue[0].page
    return page if page != self.cache_register else None


def the_cache_admits_whatever_comes(self: Any, now: int, arrives_at: int, size_bytes: int) -> int:
    self.draining.book(now, self._drain_ns(size_bytes), not_before=arrives_at)
    return arrives_at


def a_read_keeps_the_bus_until_it_is_complete(self: Any, event: Any) -> None:
    read = event.value
    self._is_busy = False
    self.occupancy.change(self._simulation.now, -1)
    if read.bytes_left:
        self._waiting.appendleft(read)
    else:
        self._complete(read.request)
    self._step()


def the_channel_is_free_when_the_data_are_here(self: Any, chip: Any) -> None:
    parameters, chunk = self._parameters, chip.queue[0]
    fast_bytes = max(chunk.size_bytes - parameters.fast_after_bytes, 0) if parameters.fast_ps_per_byte else 0
    duration_ns = parameters.channel_command_ns + flash.transfer_ns(chunk.size_bytes, parameters.channel_ps_per_byte)
    duration_ns -= flash.transfer_ns(fast_bytes, parameters.channel_ps_per_byte)
    duration_ns += flash.transfer_ns(fast_bytes, parameters.fast_ps_per_byte)
    decoded_bytes = min(chunk.size_bytes, parameters.decode_limit_bytes)
    self._simulation.schedule(duration_ns, self._is_transferred, chip)
    decode_ns = flash.transfer_ns(decoded_bytes, parameters.decode_ps_per_byte)
    self._simulation.schedule(duration_ns + decode_ns, self._is_decoded, chunk)


def one_waiter_is_woken_at_zero(self: Any, thread: Any, _: int) -> int:
    if self.value == 0:
        raise self._simulation.error(counters.BadValue, counters.messages.COUNTER_BELOW_ZERO, thread, self.name)
    self.value -= 1
    self._simulation.log(thread, counters.OPCODES["DEC"], self.number, self.value)
    if self.value == 0 and self._waiters:
        waiter = self._waiters.popleft()
        waiter.waits_for = None
        self._scheduler.wake(waiter)
    return int(self.value)


def latencies_of_the_warm_up_are_counted(self: Any, now: int) -> None:
    self._window_start = now


def an_item_is_kept_although_somebody_waits(self: Any, item: Any, wake: Any) -> None:
    self._items.append(item)


def the_device_wakes_as_a_thread_does(self: Any, request: Any) -> None:
    self._hand_on(request.tag, self._scheduler.wake)


def who_asks_for_less_overtakes(self: Any, thread: Any, units: int) -> Any:
    self._simulation.log(thread, spaces.OPCODES["TAKE"], self.number, units)
    if units <= self.free:
        self.free -= units
        return None
    self._waiters.append((thread, units))
    return self._wait(thread, self._goes_on)


def one_taker_is_woken(self: Any, thread: Any, units: int) -> None:
    self._simulation.log(thread, spaces.OPCODES["GIVE"], self.number, units)
    self.free += units
    if self._waiters and self._waiters[0][1] <= self.free:
        waiter, wanted = self._waiters.popleft()
        self.free -= wanted
        waiter.waits_for = None
        self._simulation.log(waiter, spaces.LOG_GRANT, self.number, wanted)
        self._scheduler.wake(waiter)


def runs_that_meet_are_not_merged(self: Any, block: int, count: int, state: int) -> None:
    self.runs += (state != 0) - self._runs_in(block, block + count)
    self.present += (count if state else 0) - self._present_in(block, block + count)
    self._states[block : block + count] = bytes([state]) * count


def a_run_ends_with_the_map(self: Any, block: int, count: int) -> tuple[int, int]:
    return LOOKUP(self, block, min(count, max(self.blocks - block, 1)))


LOOKUP = block_maps.BlockStates.lookup


def the_submission_goes_on_until_the_io_is_complete(self: Any, thread: Any, *_: Any) -> None:
    self._simulation.log(thread, effects.OPCODES["SUBMITTED"], effects.NO_OBJECT, 0)


def no_segment_costs_anything(self: Any, size_bytes: int) -> int:
    parameters = self._parameters
    return flash.transfer_ns(max(size_bytes - parameters.write_inline_bytes, 0), parameters.drain_ps_per_byte)


FAULTS: list[tuple[type, str, Callable[..., Any]]] = [
    (locks.FifoRWLock, "_is_grantable", readers_overtake_queued_writers),
    (locks.FifoRWLock, "_admit_readers", one_reader_is_woken_instead_of_the_run),
    (simulation.Simulation, "schedule", a_delay_of_zero_goes_before_what_is_queued),
    (scheduler.Scheduler, "_give_up_cpu", a_blocked_thread_leaves_its_cpu_to_the_last_that_came),
    (scheduler.Scheduler, "_idle_exit_ns", the_interrupted_cpu_may_be_asleep),
    (scheduler.Scheduler, "submits", submissions_do_not_keep_a_cpu_awake),
    (spinning.BargingMutex, "owner_stops", spinners_go_on_when_the_owner_stops),
    (spinning.SpinningRWLock, "owner_stops", spinners_go_on_when_the_owner_stops),
    (spinning.SpinningRWLock, "_has_waited_long", nobody_ever_waits_long),
    (scheduler.Scheduler, "wake", a_woken_thread_does_not_switch),
    (thread.SimThread, "atomic", property(nobody_is_atomic)),  # type: ignore[list-item]
    (cache_line.CacheLine, "touch", a_cache_line_serves_all_at_once),
    (thread.SimThread, "draw", the_stream_of_random_numbers_skips_one),
    (devices.SimpleStorage, "_finish", a_slot_is_freed_after_the_completion),
    (flash.Channel, "next_chip", the_last_chip_served_is_served_again),
    (flash.Chip, "page_to_load", a_page_is_not_loaded_ahead),
    (flash.PacketBus, "_packet_is_over", a_read_keeps_the_bus_until_it_is_complete),
    (flash.FlashStorage, "_serve", the_channel_is_free_when_the_data_are_here),
    (flash.WriteCache, "admit", the_cache_admits_whatever_comes),
    (counters.WaitedCounter, "decrement", one_waiter_is_woken_at_zero),
    (queues.WaitedQueue, "_hand_on", an_item_is_kept_although_somebody_waits),
    (queues.WaitedQueue, "tell", the_device_wakes_as_a_thread_does),
    (spaces.WaitedSpace, "take", who_asks_for_less_overtakes),
    (spaces.WaitedSpace, "give", one_taker_is_woken),
    (block_maps.BlockStates, "fill", runs_that_meet_are_not_merged),
    (block_maps.BlockStates, "lookup", a_run_ends_with_the_map),
    (effects.Interpreter, "_submitted", the_submission_goes_on_until_the_io_is_complete),
    (flash.WriteCache, "_drain_ns", no_segment_costs_anything),
    (Statistics, "_open_window", latencies_of_the_warm_up_are_counted),
]


def differing_seeds() -> Iterator[int]:
    """Seeds of random protocols on which the engines, one of them faulty, differ."""
    for seed in range(MOST_PROTOCOLS):
        system = random_system(Random(seed)).system
        try:
            reference = run(system, engine="reference", check=False)
        except Exception:  # a fault may break the engine itself, which is found as well
            yield seed
            continue
        if any(differences(reference, run(system, engine="compiled", check=False))):
            yield seed


@pytest.mark.parametrize(("owner", "name", "fault"), FAULTS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_fault_is_found(
    owner: type, name: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    assert next(differing_seeds(), None) is not None
