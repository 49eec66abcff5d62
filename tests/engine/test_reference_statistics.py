"""What is counted during a run: `docs/semantics.md` section 10, with values computed by hand."""

from __future__ import annotations

from random import Random

import pytest

from fssim.engine import run
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.protocol import EXCLUSIVE, SHARED, begin_io, complete_io, cpu, device, protocol, sleep
from fssim.system import LockUse, RunResult
from tests.engine.scenes import ENGINES, Box, demote_rwlock, play, rest, use_rwlock
from tests.identity.random_protocols import random_system

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def use(result: RunResult, name: str, mode: str) -> LockUse:
    return next(row for row in result.locks if (row.name, row.mode) == (name, mode))


@protocol
def ios(box: Box, count: int, work: int):
    for _ in range(count):
        yield begin_io()
        yield cpu(work)
        yield complete_io()


@protocol
def locked_ios(box: Box, count: int, work: int):
    for _ in range(count):
        yield begin_io()
        yield box.rwlock.acquire(EXCLUSIVE)
        yield cpu(work)
        yield box.rwlock.release(EXCLUSIVE)
        yield complete_io()


def test_the_window_begins_in_the_completion_that_ends_the_warm_up(engine: str) -> None:
    result = play(engine, (ios, 10, 10), warmup_ios=2, ios=3)
    assert (result.time_ns, result.window_ns, result.ios) == (50, 30, 3)
    assert result.latency_ns == 30
    assert result.iops == 1e8
    assert result.time_by_category_ns["cpu"] == 30
    assert result.busy_ns["cpu"] == (30, 8)


def test_a_window_that_never_opens_is_empty(engine: str) -> None:
    result = play(engine, (locked_ios, 2, 10), (locked_ios, 1, 5), warmup_ios=5)
    assert (result.window_ns, result.ios, result.latency_ns, result.in_flight_ns, result.iops) == (0, 0, 0, 0, 0.0)
    assert set(result.time_by_category_ns.values()) == {0}
    assert {row.acquisitions + row.hold_total_ns + row.wait_total_ns for row in result.locks} == {0}
    assert result.busy_ns["cpu"] == (0, 8)


def test_latencies_of_ios_begun_before_the_window_count_whole_and_the_flight_only_inside(engine: str) -> None:
    # Thread 0 completes the warm-up at 10; thread 1's I/O, begun at 0, completes at 40 in the window of 10 to 40.
    result = play(engine, (ios, 1, 10), (ios, 1, 40), warmup_ios=1, ios=1)
    assert (result.ios, result.latency_ns, result.window_ns, result.in_flight_ns) == (1, 40, 30, 30)


def test_batches_end_at_every_so_many_completions_of_the_window(engine: str) -> None:
    result = play(engine, (ios, 10, 10), warmup_ios=1, batch_ios=2)
    assert result.batch_end_ns.tolist() == [30, 50, 70, 90]
    assert result.batch_end_ns.dtype == "int64"


def test_use_of_a_lock(engine: str) -> None:
    host = Host(cpus=8)
    result = play(
        engine,
        (use_rwlock, 0, SHARED, 10),
        (use_rwlock, 2, EXCLUSIVE, 5),
        (use_rwlock, 3, EXCLUSIVE, 7),
        (use_rwlock, 30, EXCLUSIVE, 1),
        host=host,
    )
    assert use(result, "Box.rwlock", "shared") == LockUse("Box.rwlock", "shared", 1, 0, 0, 0, 0, 0, 10, 10, 10, 1)
    # Waits from 2 and 3 to the grants at 10 and 15; every one is a bounce.
    assert use(result, "Box.rwlock", "exclusive") == LockUse(
        "Box.rwlock", "exclusive", 3, 2, 3, 8 + 12, 8, 12, 5 + 7 + 1, 1, 7, 3
    )
    assert [row.name + " " + row.mode for row in result.locks] == [
        "Box.rwlock shared",
        "Box.rwlock exclusive",
        "Box.other shared",
        "Box.other exclusive",
        "Box.mutex exclusive",
        "Box.spin exclusive",
        "Box.latch exclusive",
    ]


def test_demote_ends_an_exclusive_hold_and_begins_a_shared_one_without_an_acquisition(engine: str) -> None:
    result = play(engine, (demote_rwlock, 10, 20))
    exclusive, shared = use(result, "Box.rwlock", "exclusive"), use(result, "Box.rwlock", "shared")
    assert (exclusive.acquisitions, exclusive.holds, exclusive.hold_total_ns) == (1, 1, 10)
    assert (shared.acquisitions, shared.holds, shared.hold_total_ns) == (0, 1, 20)


def test_a_hold_that_has_not_ended_is_none_yet(engine: str) -> None:
    result = play(engine, (use_rwlock, 0, EXCLUSIVE, 10), time_limit_ns=5)
    exclusive = use(result, "Box.rwlock", "exclusive")
    assert (exclusive.acquisitions, exclusive.holds, exclusive.hold_total_ns) == (1, 0, 0)


def test_waits_and_holds_that_began_before_the_window_count_whole(engine: str) -> None:
    # The warm-up ends at 10; thread 1 has waited since 0 for the lock that thread 0 releases at 15.
    @protocol
    def hold_long(box: Box, count: int, work: int):
        yield box.rwlock.acquire(EXCLUSIVE)
        yield cpu(15)
        yield box.rwlock.release(EXCLUSIVE)

    result = play(engine, (hold_long, 0, 0), (use_rwlock, 0, EXCLUSIVE, 5), (ios, 1, 10), warmup_ios=1)
    row = use(result, "Box.rwlock", "exclusive")
    assert (row.acquisitions, row.contentions, row.wait_total_ns, row.hold_total_ns) == (1, 1, 15, 15 + 5)
    # The time by category is that of the window.
    assert result.time_by_category_ns["wait Box.rwlock exclusive"] == 5


def test_a_sleep_is_followed_by_a_wakeup_in_the_categories(engine: str) -> None:
    result = play(engine, (rest, 100), host=Host(cpus=1, wakeup_ns=30))
    assert (result.time_by_category_ns["sleep"], result.time_by_category_ns["wakeup"]) == (100, 30)
    # Cut short in the sleep, and after it.
    for limit, expected in ((60, (60, 0)), (110, (100, 10))):
        cut = play(engine, (rest, 100), host=Host(cpus=1, wakeup_ns=30), time_limit_ns=limit)
        assert (cut.time_by_category_ns["sleep"], cut.time_by_category_ns["wakeup"]) == expected


@protocol
def everything(box: Box, count: int):
    for _ in range(count):
        yield begin_io()
        yield sleep(7)
        yield device.read(0, 512)
        yield box.rwlock.acquire(EXCLUSIVE)
        yield cpu(5)
        yield box.rwlock.release(EXCLUSIVE)
        yield box.count.inc()
        yield device.write(0, 512)
        box.value = yield box.count.dec()
        yield box.count.wait_zero()
        yield complete_io()


@pytest.mark.parametrize("warmup", [0, 7])
@pytest.mark.parametrize("cpus", [1, 3])
def test_the_categories_sum_to_the_threads_times_the_window(engine: str, warmup: int, cpus: int) -> None:
    host = Host(cpus=cpus, wakeup_ns=3, interrupt_ns=2, switch_ns=1, rwlock="spinning")
    result = play(
        engine, *[(everything, 100)] * 5, host=host, device=SimpleDevice(latency_ns=20), warmup_ios=warmup, ios=40
    )
    assert sum(result.time_by_category_ns.values()) == 5 * result.window_ns
    assert result.ios == 40
    # Little's law holds for the ended and the open I/Os together; here all threads have one open all the time.
    assert result.in_flight_ns == 5 * result.window_ns
    assert result.busy_ns["cpu"][0] <= cpus * result.window_ns


def test_the_categories_sum_to_the_life_of_the_threads_in_random_runs(engine: str) -> None:
    for seed in range(60):
        made = random_system(Random(seed))
        result = run(made.system, engine=engine, check=False)
        assert result.log is not None
        ends = {thread: time for time, thread, _, kind, _, _ in result.log.tolist() if kind == 103}
        begin = result.time_ns - result.window_ns
        lives = sum(max(0, ends.get(number, result.time_ns) - begin) for number in range(len(made.system.threads)))
        assert sum(result.time_by_category_ns.values()) == lives
