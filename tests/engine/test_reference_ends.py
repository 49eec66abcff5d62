"""How runs end: every named error of `docs/semantics.md` with all its fields, and what the log holds then."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from fssim.engine import run
from fssim.errors import (
    AssertionFailed,
    BadValue,
    Deadlock,
    DemoteNotHeld,
    DoubleRelease,
    HeldAtExit,
    NoProgress,
    NotHeld,
    RecursiveAcquire,
    RunError,
    SleepInAtomic,
    StepLimit,
)
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.protocol import EXCLUSIVE, SHARED, choose, cpu, device, exponential, protocol, sleep
from fssim.system import RunResult, System, Thread
from tests.engine.scenes import ENGINES, Box, rest, rows

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def end(engine: str, *programs: Any, **options: Any) -> RunResult:
    """Run programs that take a box and an integer (0) on one box, to whatever end."""
    box = Box(value=5)
    threads = [Thread(program, (box, 0)) for program in programs]
    options.setdefault("device", SimpleDevice(latency_ns=10))
    system = System(threads=threads, host=Host(cpus=8), seed=11, log=True, **options)
    return run(system, engine=engine, check=False)


def marked(program: Any, mark: str = "# HERE") -> int:
    """Line of a protocol that carries a mark."""
    lines, first = inspect.getsourcelines(program.function)
    return next(first + at for at, line in enumerate(lines) if mark in line)


@protocol
def double_release(box: Box, zero: int):
    yield cpu(3)
    yield box.mutex.acquire()
    yield box.mutex.release()
    yield box.mutex.release()  # HERE


@protocol
def release_never_held(box: Box, zero: int):
    yield cpu(3)
    yield box.rwlock.release(SHARED)  # HERE


@protocol
def release_in_the_other_mode(box: Box, zero: int):
    yield cpu(3)
    yield box.rwlock.acquire(SHARED)
    yield box.rwlock.release(EXCLUSIVE)  # HERE


@protocol
def demote_a_shared_hold(box: Box, zero: int):
    yield cpu(3)
    yield box.rwlock.acquire(SHARED)
    yield box.rwlock.demote()  # HERE


@protocol
def acquire_twice(box: Box, zero: int):
    yield cpu(3)
    yield box.rwlock.acquire(SHARED)
    yield box.rwlock.acquire(SHARED)  # HERE


@protocol
def wrong_mode(box: Box, zero: int):
    yield cpu(3)
    yield box.rwlock.acquire(box.value)  # HERE


@protocol
def try_wrong_mode(box: Box, zero: int):
    yield cpu(3)
    box.value = yield box.rwlock.try_acquire(zero)  # HERE


@protocol
def sleep_with_spinlock(box: Box, zero: int):
    yield cpu(3)
    yield box.spin.acquire()
    yield sleep(0)  # HERE


@protocol
def read_with_spinlock(box: Box, zero: int):
    yield cpu(3)
    yield box.spin.acquire()
    yield device.read(0, 512)  # HERE


@protocol
def mutex_with_spinlock(box: Box, zero: int):
    yield cpu(3)
    yield box.spin.acquire()
    yield box.mutex.acquire()  # HERE


@protocol
def wait_with_spinlock(box: Box, zero: int):
    yield cpu(3)
    yield box.spin.acquire()
    yield box.count.wait_zero()  # HERE


@protocol
def count_below_zero(box: Box, zero: int):
    yield cpu(3)
    box.value = yield box.count.dec()  # HERE


@protocol
def negative_cpu(box: Box, zero: int):
    yield cpu(3)
    yield cpu(zero - 1)  # HERE


@protocol
def negative_sleep(box: Box, zero: int):
    yield cpu(3)
    yield sleep(zero - 1)  # HERE


@protocol
def read_nothing(box: Box, zero: int):
    yield cpu(3)
    yield device.read(0, zero)  # HERE


@protocol
def write_before_the_start(box: Box, zero: int):
    yield cpu(3)
    yield device.write(zero - 512, 512)  # HERE


@protocol
def choose_of_none(box: Box, zero: int):
    yield cpu(3)
    box.value = yield choose(zero)  # HERE


@protocol
def negative_mean(box: Box, zero: int):
    yield cpu(3)
    box.value = yield exponential(zero - 1)  # HERE


@protocol
def divide(box: Box, zero: int):
    yield cpu(3)
    box.value = 1 // zero  # HERE


@protocol
def false_assertion(box: Box, zero: int):
    yield cpu(3)
    assert box.value < 5, "the value is below five"  # HERE


@protocol
def inner(box: Box, zero: int):
    yield cpu(1)
    box.value = box.value % zero  # HERE


@protocol
def fault_in_a_sub_protocol(box: Box, zero: int):
    yield cpu(2)
    yield from inner(box, zero)


@protocol
def end_with_locks(box: Box, zero: int):
    yield cpu(3)
    yield box.rwlock.acquire(EXCLUSIVE)
    yield box.mutex.acquire()
    yield box.rwlock.demote()


@pytest.mark.parametrize(
    ("program", "kind", "lock"),
    [
        (double_release, DoubleRelease, "box.mutex"),
        (release_never_held, NotHeld, "box.rwlock"),
        (release_in_the_other_mode, NotHeld, "box.rwlock"),
        (demote_a_shared_hold, DemoteNotHeld, "box.rwlock"),
        (acquire_twice, RecursiveAcquire, "box.rwlock"),
        (wrong_mode, BadValue, "box.rwlock"),
        (try_wrong_mode, BadValue, "box.rwlock"),
        (sleep_with_spinlock, SleepInAtomic, ""),
        (read_with_spinlock, SleepInAtomic, ""),
        (mutex_with_spinlock, SleepInAtomic, "box.mutex"),
        (wait_with_spinlock, SleepInAtomic, "box.count"),
        (count_below_zero, BadValue, "box.count"),
        (negative_cpu, BadValue, ""),
        (negative_sleep, BadValue, ""),
        (read_nothing, BadValue, ""),
        (write_before_the_start, BadValue, ""),
        (choose_of_none, BadValue, ""),
        (negative_mean, BadValue, ""),
        (divide, BadValue, ""),
        (false_assertion, AssertionFailed, ""),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_fault_ends_the_run_with_thread_lock_time_seed_and_line(
    engine: str, program: Any, kind: type[RunError], lock: str
) -> None:
    result = end(engine, rest, program)
    error = result.error
    assert type(error) is kind
    assert (error.thread, error.lock, error.time_ns, error.seed) == (1, lock, 3, 11)
    assert error.line == marked(program)
    assert result.time_ns == 3
    # The effect that failed has left no row.
    assert result.log is not None
    assert marked(program) not in result.log[:, 2]


def test_a_fault_in_a_sub_protocol_is_on_the_sub_protocols_line(engine: str) -> None:
    error = end(engine, fault_in_a_sub_protocol).error
    assert isinstance(error, BadValue)
    assert error.line == marked(inner)


def test_the_message_of_an_assertion_is_its_text(engine: str) -> None:
    error = end(engine, false_assertion).error
    assert error is not None
    assert error.detail == "the value is below five"


def test_ending_with_locks_names_the_one_held_longest(engine: str) -> None:
    error = end(engine, end_with_locks).error
    assert isinstance(error, HeldAtExit)
    assert (error.thread, error.lock, error.line) == (0, "box.rwlock", 0)


def test_a_device_access_without_a_device(engine: str) -> None:
    @protocol
    def read(box: Box, zero: int):
        yield device.read(0, 512)

    assert isinstance(end(engine, read, device=None).error, BadValue)


def test_run_raises_the_error_if_asked_to(engine: str) -> None:
    system = System(threads=[Thread(divide, (Box(), 0))], host=Host(cpus=1))
    with pytest.raises(BadValue, match="division by zero in thread 0 at 3 ns"):
        run(system, engine=engine)


@protocol
def first_then_second(box: Box, zero: int):
    yield box.rwlock.acquire(EXCLUSIVE)
    yield sleep(10)
    yield box.mutex.acquire()  # HERE
    yield box.mutex.release()
    yield box.rwlock.release(EXCLUSIVE)


@protocol
def second_then_first(box: Box, zero: int):
    yield box.mutex.acquire()
    yield sleep(10)
    yield box.rwlock.acquire(SHARED)  # HERE
    yield box.rwlock.release(SHARED)
    yield box.mutex.release()


def test_a_deadlock_says_who_waits_for_what_and_who_holds_it(engine: str) -> None:
    error = end(engine, rest, first_then_second, second_then_first).error
    assert isinstance(error, Deadlock)
    line, other = marked(first_then_second), marked(second_then_first)
    assert (error.thread, error.lock, error.line, error.time_ns) == (1, "box.mutex", line, 10)
    assert error.detail == (
        f"deadlock: thread 1 waits for box.mutex exclusive (line {line}) held by thread 2 exclusive; "
        f"thread 2 waits for box.rwlock shared (line {other}) held by thread 1 exclusive;"
    )


@protocol
def latch_then_spin(box: Box, zero: int):
    yield box.spin.acquire()
    yield cpu(10)
    yield box.latch.acquire()  # HERE


@protocol
def spin_then_latch(box: Box, zero: int):
    yield box.latch.acquire()
    yield cpu(10)
    yield box.spin.acquire()


def test_spinners_that_can_never_go_on_are_a_deadlock(engine: str) -> None:
    error = end(engine, latch_then_spin, spin_then_latch).error
    assert isinstance(error, Deadlock)
    assert (error.thread, error.lock, error.line, error.time_ns) == (0, "box.latch", marked(latch_then_spin), 10)


@protocol
def never_zero(box: Box, zero: int):
    yield box.count.inc()
    yield box.count.wait_zero()  # HERE


def test_a_counter_that_nobody_brings_to_zero_is_a_deadlock(engine: str) -> None:
    error = end(engine, never_zero).error
    assert isinstance(error, Deadlock)
    assert (error.lock, error.line) == ("box.count", marked(never_zero))
    assert error.detail == f"deadlock: thread 0 waits for box.count (line {marked(never_zero)});"


def test_a_loop_that_takes_no_time_is_no_progress_at_the_line_of_the_loop(engine: str) -> None:
    @protocol
    def spin_for_ever(box: Box, zero: int):
        yield cpu(3)
        while box.value > zero:  # HERE
            box.value = 5

    error = end(engine, spin_for_ever).error
    assert isinstance(error, NoProgress)
    assert (error.thread, error.time_ns, error.line) == (0, 3, marked(spin_for_ever))


def test_events_at_one_instant_are_no_progress_either(engine: str) -> None:
    @protocol
    def read_for_ever(box: Box, zero: int):
        while True:
            yield device.read(0, 512)

    error = end(engine, read_for_ever, device=SimpleDevice(latency_ns=0)).error
    assert isinstance(error, NoProgress)
    assert (error.time_ns, error.line) in ((0, 0), (0, marked(read_for_ever, "while True")))


def test_the_effect_beyond_the_limit_is_not_issued(engine: str) -> None:
    result = end(engine, compute_five, max_effects=3)
    assert isinstance(result.error, StepLimit)
    assert rows(result) == [(0, 0, "CPU", 1), (1, 0, "CPU", 1), (2, 0, "CPU", 1)]
    assert (result.error.time_ns, result.error.line) == (3, marked(compute_five))
    assert end(engine, compute_five, max_effects=5).error is None


@protocol
def compute_five(box: Box, zero: int):
    for _ in range(5):
        yield cpu(1)  # HERE


def test_a_run_without_threads_is_over_at_once(engine: str) -> None:
    result = end(engine)
    assert (result.error, result.time_ns, result.events) == (None, 0, 0)


def test_the_template_is_not_changed_and_what_threads_share_they_share_in_the_copy(engine: str) -> None:
    @protocol
    def add(box: Box, zero: int):
        box.value += 1
        yield cpu(0)

    box = Box(value=5)
    system = System(threads=[Thread(add, (box, 0)), Thread(add, (box, 0))], host=Host(cpus=1))
    assert run(system, engine=engine).final == (("box.value", 7),)
    assert run(system, engine=engine).final == (("box.value", 7),)
    assert box.value == 5
