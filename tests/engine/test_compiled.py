"""What only the compiled engine has: arrays that fill up, a loop that is interrupted and resumed, a memory layout.

The rules of the contract are tested on both engines in `tests/contract`, `tests/engine` and `tests/identity`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fssim.engine import compiled_run, run
from fssim.engine.compiled_run import run_compiled
from fssim.errors import StepLimit, UserError
from fssim.machine.device import FlashDevice, SimpleDevice
from fssim.machine.host import Host
from fssim.protocol import (
    EXCLUSIVE,
    SHARED,
    Monotonic,
    RWLock,
    Shared,
    begin_io,
    choose,
    complete_io,
    cpu,
    device,
    protocol,
)
from fssim.protocol.bytecode import LOG_END
from fssim.system import RunResult, System, Thread

FLASH = FlashDevice(
    channels=4,
    chips_per_channel=2,
    page_bytes=3000,
    channel_rotation=1,
    page_load_ns=25_000,
    channel_command_ns=1_500,
    channel_ps_per_byte=20_000,
    decode_ps_per_byte=2_000,
    bus_ps_per_byte=1_500,
)
HOST = Host(cpus=4, wakeup_ns=1_000, interrupt_ns=500, switch_ns=300, rwlock="spinning", wakeup_spread_ns=200)


class Page(Shared):
    number: int
    lock: RWLock


class File(Shared):
    size: Monotonic
    lock: RWLock
    pages: list[Page]
    weights: list[int]


def make_file(pages: int = 4) -> File:
    return File(size=7, pages=[Page(number=10 + i) for i in range(pages)], weights=[3, 1, 4])


@protocol
def take_all(file: File) -> None:
    """Holds the locks of all pages at a time."""
    for i in range(len(file.pages)):
        yield file.pages[i].lock.acquire(EXCLUSIVE)
    yield cpu(10)
    for i in range(len(file.pages)):
        yield file.pages[i].lock.release(EXCLUSIVE)


@protocol
def reads_and_writes(file: File, ios: int, largest: int) -> None:
    for _ in range(ios):
        yield begin_io()
        yield cpu(200)
        length = yield choose(largest)
        if length % 4 == 0:
            yield file.lock.acquire(EXCLUSIVE)
            yield device.write(0, length + 1)
            yield file.lock.release(EXCLUSIVE)
        else:
            yield file.lock.acquire(SHARED)
            yield device.read(length * 512, length + 1)
            yield file.lock.release(SHARED)
        yield complete_io()


@protocol
def adds_up(file: File) -> None:
    for i in range(len(file.weights)):
        file.size += file.weights[i] * file.pages[i].number
    yield cpu(1)


WHILE = 55


@protocol
def runs_for_a_while() -> None:
    yield cpu(WHILE)


def busy_system(threads: int = 6, ios_each: int = 20, largest: int = 9_000, **options: object) -> System:
    file = make_file()
    options = {"log": True, "host": HOST, "device": FLASH, **options}
    return System(threads=[Thread(reads_and_writes, (file, ios_each, largest))] * threads, **options)  # type: ignore[arg-type]


def same_run(first: RunResult, second: RunResult) -> None:
    assert first.fingerprint == second.fingerprint
    assert first.events == second.events
    assert first.locks == second.locks
    assert first.time_by_category_ns == second.time_by_category_ns
    np.testing.assert_array_equal(first.batch_end_ns, second.batch_end_ns)


@pytest.mark.parametrize("fuel", [1, 2, 7])
def test_a_run_interrupted_at_every_effect_is_the_same_run(fuel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    system = busy_system(batch_ios=5, warmup_ios=11)
    whole = run_compiled(system)
    monkeypatch.setattr(compiled_run, "FUEL", fuel)
    same_run(run_compiled(system), whole)
    assert len(whole.batch_end_ns) == (6 * 20 - 11) // 5


def test_a_log_longer_than_its_array_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    system = busy_system()
    whole = run_compiled(system)
    monkeypatch.setattr(compiled_run, "LOG_CHUNK", 1)
    same_run(run_compiled(system), whole)


def test_a_thread_can_hold_more_locks_than_its_list_has_room_for() -> None:
    pages = 3 * compiled_run.HELD_ROOM
    system = System(threads=[Thread(take_all, (make_file(pages),))] * 2, host=HOST, log=True)
    result = run(system)
    same_run(result, run(system, engine="reference"))
    assert sum(use.acquisitions for use in result.locks) == 2 * pages


def test_reads_of_many_pages_find_room() -> None:
    system = busy_system(threads=3, largest=400_000)
    same_run(run(system), run(system, engine="reference"))


def test_more_pages_than_an_event_can_number_is_an_error_that_says_so() -> None:
    with pytest.raises(UserError, match="pages of the flash device are being read"):
        run(busy_system(threads=1, largest=2**31 - 1, device=FlashDevice(
            channels=1, page_bytes=1, page_load_ns=1, channel_ps_per_byte=1, bus_ps_per_byte=1)))  # fmt: skip


def test_the_step_limit_counts_effects_across_interruptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_run, "FUEL", 10)
    result = run(busy_system(max_effects=25), check=False)
    assert isinstance(result.error, StepLimit)
    assert result.log is not None
    assert (result.log[:, 3] < 100).sum() == 25


def test_the_template_of_the_shared_objects_is_not_changed_by_a_run() -> None:
    file = make_file()
    system = System(threads=[Thread(adds_up, (file,))] * 2, host=HOST)
    for _ in range(2):
        assert dict(run(system).final)["file.size"] == 7 + 2 * (3 * 10 + 1 * 11 + 4 * 12)
    assert file.size == 7


def test_final_values_and_lock_names_are_in_canonical_order() -> None:
    result = run(System(threads=[Thread(adds_up, (make_file(2 + 1),))], host=HOST))
    assert result.objects == ("file.lock", "file.pages[0].lock", "file.pages[1].lock", "file.pages[2].lock")
    assert [name for name, _ in result.final] == [
        "file.size",
        "file.pages[0].number",
        "file.pages[1].number",
        "file.pages[2].number",
        "file.weights[0]",
        "file.weights[1]",
        "file.weights[2]",
    ]


def test_a_program_is_loaded_once_however_many_threads_run_it() -> None:
    one = compiled_run._Run(busy_system(threads=1))
    many = compiled_run._Run(busy_system(threads=128))
    assert len(many.arrays.code) == len(one.arrays.code)


def test_thread_time_adds_up_to_threads_times_window() -> None:
    system = busy_system(ios_each=1_000, ios=60, warmup_ios=17)
    result = run(system)
    assert sum(result.time_by_category_ns.values()) == len(system.threads) * result.window_ns


def test_littles_law_holds_exactly_when_all_ios_begin_and_end_in_the_window() -> None:
    """The integral of the number in flight is the sum of the latencies."""
    result = run(busy_system())
    assert result.ios == 120
    assert result.in_flight_ns == result.latency_ns > 0


def test_statistics_do_not_depend_on_the_log() -> None:
    with_log, without = run(busy_system(warmup_ios=9)), run(busy_system(warmup_ios=9, log=False))
    assert with_log.locks == without.locks
    assert with_log.busy_ns == without.busy_ns
    assert with_log.events == without.events
    assert without.log is None


def test_simple_device_at_its_cap_gives_the_cap() -> None:
    """Deterministic arrivals at a gate: throughput is 1 / ceil(10**9 / cap)."""
    capped = SimpleDevice(latency_ns=10_000, iops_cap=30_000)
    result = run(busy_system(threads=16, host=Host(cpus=16), device=capped, ios=200, warmup_ios=40, log=False))
    assert result.iops == pytest.approx(30_000, rel=0.01)


def test_the_engine_gives_the_same_run_as_plain_python() -> None:
    """NUMBA_DISABLE_JIT=1 is for stepping through the loop with a debugger; nothing may overflow or warn there."""
    program = (
        "from fssim.engine import run\n"
        "from tests.engine.test_compiled import busy_system\n"
        "print(run(busy_system(seed=2**63)).fingerprint)\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "error"}
    root = Path(__file__).parents[2]
    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=root, check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == run(busy_system(seed=2**63)).fingerprint


# --- leaving idle, and where stripes lie: hand-computed


@protocol
def one_read(file: File, before: int, offset: int) -> None:
    yield cpu(before)
    yield device.read(offset, 1_000)
    yield cpu(1)


def end_times(system: System) -> list[int]:
    """Return when each thread ended, by number."""
    log = run(system).log
    assert log is not None
    ended = {int(row[1]): int(row[0]) for row in log if row[3] == LOG_END}
    return [ended[thread] for thread in sorted(ended)]


@pytest.mark.parametrize(
    ("idle_depth_ns", "excess_ns"),
    [(0, 6_000), (5_000, 4_799)],  # 6,000 * 10**2 / (10**2 + 5**2), the share rounded down,
)
def test_a_thread_woken_on_an_idle_cpu_pays_for_leaving_idle(idle_depth_ns: int, excess_ns: int) -> None:
    """Three CPUs; the homes of the threads are 0, 1 and 2; thread 2 submits last; each waits for 10,000 ns.

    CPU 0 takes the interrupts and CPU 2 has submitted last, so that only thread 1 pays.
    """
    file = make_file()
    system = System(
        threads=[Thread(one_read, (file, before, 0)) for before in (10, 20, 30)],
        host=Host(cpus=3, interrupt_ns=100, idle_exit_ns=6_000, idle_depth_ns=idle_depth_ns),
        device=SimpleDevice(latency_ns=10_000),
        log=True,
    )
    assert end_times(system) == [10 + 10_101, 20 + 10_101 + excess_ns, 30 + 10_101]


def test_a_ready_thread_takes_its_home_cpu_or_the_lowest_free_one() -> None:
    """Thread 2 comes to CPU 0 in its second turn: its home, CPU 0 again, is free; the excess is never paid there."""
    file = make_file()
    system = System(
        threads=[Thread(one_read, (file, before, 0)) for before in (10, 50, 20)],
        host=Host(cpus=2, interrupt_ns=100, idle_exit_ns=6_000),
        device=SimpleDevice(latency_ns=10_000),
        log=True,
    )
    # Thread 2 runs on CPU 0 from 10 to 30; thread 1, on CPU 1, submits last, at 50.
    assert end_times(system) == [10_111, 10_151, 10_131]


@pytest.mark.parametrize("page", [0, 5, 1_000_003, 2**40 + 7])
def test_scattered_stripes_lie_where_the_hash_says(page: int) -> None:
    """Two reads of different pages collide exactly when channel and chip are the same."""
    channels = 4
    scattered = FlashDevice(
        channels=channels, placement="scattered", page_bytes=1_000, page_load_ns=10, channel_ps_per_byte=0,
        channel_command_ns=7, bus_ps_per_byte=0,
    )  # fmt: skip

    def channel(number: int) -> int:
        mixed = (number // channels * 0x9E3779B97F4A7C15) % 2**64
        mixed ^= mixed >> 29
        return (number + (mixed >> 8)) % 2**64 % channels

    for other in range(page + 1, page + 12):
        system = System(
            threads=[Thread(one_read, (make_file(), 0, number * 1_000)) for number in (page, other)],
            host=Host(cpus=2),
            device=scattered,
            log=True,
        )
        # The second page of a chip begins to load when the first is in the cache register, 10 ns later.
        assert end_times(system)[1] == (28 if channel(page) == channel(other) else 18)


def test_a_constant_that_is_rebound_is_seen_by_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are kept from one run to the next."""
    system = System(threads=[Thread(runs_for_a_while, ())], host=HOST)
    assert run(system).time_ns == WHILE
    monkeypatch.setitem(globals(), "WHILE", 77)
    assert run(system).time_ns == 77
    assert run(replace(system, constants={"WHILE": 78})).time_ns == 78
    assert run(system).time_ns == 77
