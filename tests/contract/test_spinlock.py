"""Spinlocks: waiters keep their processor, in order of arrival; the holder neither sleeps nor is preempted."""

from __future__ import annotations

import pytest

from fssim.errors import SleepInAtomic
from fssim.machine.device import SimpleDevice
from tests.contract.scene import SPINLOCK, instants, line_of, play, rows


def test_the_holder_is_not_preempted_and_is_so_again_after_the_release(engine):
    """One processor, time slice 100: thread 1 has to wait beyond 150, until the end of the effect after the release."""
    result = play(
        engine,
        "TAKE; yield cpu(150); yield cpu(150); DROP; yield cpu(10); yield cpu(10)",
        "yield cpu(5)",
        kind=SPINLOCK,
        cpus=1,
        timeslice_ns=100,
    )
    assert rows(result, "CPU") == [(0, 0, "CPU", 150), (150, 0, "CPU", 150), (300, 0, "CPU", 10), (310, 1, "CPU", 5),
                                   (315, 0, "CPU", 10)]  # fmt: skip


def test_nested_spinlocks_keep_the_holder_atomic_until_the_last_is_released(engine):
    """Released at 150 and 300; preempted only after the 10 ns that follow."""
    result = play(
        engine,
        "TAKE; SECOND; yield cpu(150); DROP; yield cpu(150)\n"
        "yield place.second.release(); yield cpu(10); yield cpu(10)",
        "yield cpu(5)",
        kind=SPINLOCK,
        cpus=1,
        timeslice_ns=100,
    )
    assert instants(result, "END") == [(315, 1), (325, 0)]


@pytest.mark.parametrize(
    ("sleeps", "lock"),
    [
        ("yield sleep(5)", ""),
        ("yield sleep(0)", ""),
        ("yield device.read(0, 512)", ""),
        ("yield device.write(0, 512)", ""),
        ("yield place.mutex.acquire()", "place.mutex"),
        ("yield place.count.wait_zero()", "place.count"),
    ],
)
def test_the_holder_may_not_sleep_whether_or_not_it_would_have_to_wait(engine, sleeps, lock):
    threads = ["yield cpu(50)", f"yield cpu(7); TAKE\n{sleeps}  # HERE"]
    result = play(engine, *threads, kind=SPINLOCK, seed=3, check=False, device=SimpleDevice(latency_ns=10))
    error = result.error
    assert type(error) is SleepInAtomic
    assert (error.thread, error.lock, error.time_ns, error.seed) == (1, lock, 7, 3)
    assert error.line == line_of(SPINLOCK, threads)


def test_the_holder_may_try_a_sleeping_lock_and_take_another_spinlock(engine):
    result = play(
        engine,
        "TAKE; got = yield place.mutex.try_acquire(); assert got; yield place.mutex.release(); SECOND; "
        "yield place.second.release(); DROP; yield sleep(5)",
        kind=SPINLOCK,
    )
    assert result.time_ns == 5 + 100
