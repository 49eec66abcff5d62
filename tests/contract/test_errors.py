"""Named errors with thread, lock, time, seed and line (section 8), the same in both engines."""

from __future__ import annotations

import pytest

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
    StepLimit,
)
from tests.contract.scene import (
    BARGING_MUTEX,
    FIFO_MUTEX,
    FIFO_RWLOCK,
    SPINLOCK,
    SPINNING_RWLOCK,
    instants,
    line_of,
    play,
    rows,
)

RWLOCKS = [FIFO_RWLOCK, SPINNING_RWLOCK]
SEED = 11


def fails(engine, error, *threads, kind=FIFO_RWLOCK, thread, lock, time_ns, line=None, **settings):
    """Run a scene and compare its error with what is expected; the line is that marked HERE unless given."""
    result = play(engine, *threads, kind=kind, seed=SEED, check=False, **settings)
    raised = result.error
    assert type(raised) is error
    assert (raised.thread, raised.lock, raised.time_ns, raised.seed) == (thread, lock, time_ns, SEED)
    assert raised.line == (line_of(kind, threads) if line is None else line)
    assert result.time_ns == time_ns
    return result


def test_release_of_a_lock_that_is_not_held(kind, engine):
    result = fails(
        engine,
        NotHeld,
        "yield cpu(50)",
        "yield cpu(7)\nDROP  # HERE",
        kind=kind,
        thread=1,
        lock="place.lock",
        time_ns=7,
    )
    assert rows(result, "RELEASE") == []  # what fails a check leaves no row


def test_release_of_a_lock_that_another_thread_holds(kind, engine):
    threads = "TAKE; yield cpu(50); DROP", "yield cpu(7)\nDROP  # HERE"
    fails(engine, NotHeld, *threads, kind=kind, thread=1, lock="place.lock", time_ns=7)


@pytest.mark.parametrize("kind", RWLOCKS)
def test_release_in_the_other_mode(kind, engine):
    fails(engine, NotHeld, "SHARE; yield cpu(7)\nDROP  # HERE", kind=kind, thread=0, lock="place.lock", time_ns=7)


def test_double_release(kind, engine):
    threads = "yield cpu(50)", "TAKE; yield cpu(7); DROP\nDROP  # HERE"
    fails(engine, DoubleRelease, *threads, kind=kind, thread=1, lock="place.lock", time_ns=7)


def test_a_second_release_after_another_threads_is_not_held(kind, engine):
    """DoubleRelease is for the thread that released it last."""
    threads = "TAKE; DROP; yield cpu(20)\nDROP  # HERE", "yield cpu(10); TAKE; DROP"
    fails(engine, NotHeld, *threads, kind=kind, thread=0, lock="place.lock", time_ns=20)


@pytest.mark.parametrize("kind", RWLOCKS)
@pytest.mark.parametrize("before", ["yield cpu(7)", "SHARE; yield cpu(7)", "TAKE; yield cpu(7); DROP"])
def test_demote_without_an_exclusive_hold(kind, engine, before):
    threads = "yield cpu(50)", f"{before}\nyield place.lock.demote()  # HERE"
    fails(engine, DemoteNotHeld, *threads, kind=kind, thread=1, lock="place.lock", time_ns=7)


def test_acquire_of_a_lock_that_is_held_already(kind, engine):
    threads = "yield cpu(50)", "TAKE; yield cpu(7)\nTAKE  # HERE"
    fails(engine, RecursiveAcquire, *threads, kind=kind, thread=1, lock="place.lock", time_ns=7)


@pytest.mark.parametrize("kind", RWLOCKS)
def test_a_shared_hold_cannot_be_taken_twice_either(kind, engine):
    fails(
        engine,
        RecursiveAcquire,
        "SHARE; yield cpu(7)\nSHARE  # HERE",
        kind=kind,
        thread=0,
        lock="place.lock",
        time_ns=7,
    )


@pytest.mark.parametrize("kind", RWLOCKS)
@pytest.mark.parametrize("operation", ["acquire", "try_acquire"])
def test_a_mode_that_is_neither_shared_nor_exclusive(kind, engine, operation):
    text = f"x = 3; yield cpu(7)\nyield place.lock.{operation}(x)  # HERE"
    fails(engine, BadValue, text, kind=kind, thread=0, lock="place.lock", time_ns=7)


def test_a_lock_that_is_held_at_exit(kind, engine):
    """The one held longest; no END row; the return has no line."""
    result = fails(
        engine,
        HeldAtExit,
        "yield cpu(50)",
        "TAKE; yield cpu(7); SECOND",
        kind=kind,
        thread=1,
        lock="place.lock",
        time_ns=7,
        line=0,
    )
    assert instants(result, "END") == []


def test_deadlock_of_two_locks_in_opposite_order(kind, engine):
    """Both hold one lock from 0 and want the other, at 100 and at 200; the lowest thread that waits is named."""
    release = "yield place.second.release(EXCLUSIVE)" if kind.has_modes else "yield place.second.release()"
    threads = (
        f"TAKE; yield cpu(100)\nSECOND  # HERE\n{release}; DROP",
        f"SECOND; yield cpu(200); TAKE; DROP; {release}",
        "yield cpu(20)",
    )
    result = fails(engine, Deadlock, *threads, kind=kind, thread=0, lock="place.second", time_ns=200)
    assert instants(result, "END") == [(20, 2)]
    assert result.error is not None
    assert "thread 0 waits for place.second exclusive" in result.error.detail
    assert "held by thread 1 exclusive" in result.error.detail
    assert "thread 1 waits for place.lock exclusive" in result.error.detail
    assert "thread 2" not in result.error.detail


def test_deadlock_on_a_counter_that_nobody_drains(engine):
    threads = "yield place.count.inc(); yield cpu(5)", "yield cpu(7)\nyield place.count.wait_zero()  # HERE"
    result = fails(engine, Deadlock, *threads, thread=1, lock="place.count", time_ns=7)
    assert result.error is not None
    assert "thread 1 waits for place.count (line" in result.error.detail


def test_two_threads_that_drain_while_each_keeps_up_the_count_deadlock(engine):
    text = "yield place.count.inc(); yield cpu(10)\nyield place.count.wait_zero()  # HERE"
    fails(engine, Deadlock, text, text, thread=0, lock="place.count", time_ns=10)


def test_a_loop_that_does_not_let_the_clock_move(engine):
    """More than 1,000,000 ticks at 7; those before, at 0, do not count any more."""
    text = """
    for turn in range(999000):
        place.entries += 1
    yield cpu(7)
    while place.entries:  # HERE
        place.entries += 1
    """
    fails(engine, NoProgress, text, thread=0, lock="", time_ns=7)


@pytest.mark.parametrize(("ticks", "line"), [(999_901, None), (999_902, 0)])
def test_events_and_ticks_that_do_not_let_the_clock_move(engine, ticks, line):
    """Two threads hand a mutex to each other without delay for ever.

    Thread 0 wakes up at 1: event 1 of that instant.  Then come its ticks, one for its endless loop (number 2 + ticks),
    event and tick of thread 1, event and tick of thread 0, and so on.  Number 1,000,001 is 100 + ticks, a tick, or
    99 + ticks, an event, both of thread 1; an event has no line.
    """
    first = f"""
    TAKE
    yield sleep(1)
    for turn in range({ticks}):
        place.entries += 1
    while True:
        DROP
        TAKE
    """
    second = """
    TAKE
    while True:  # HERE
        DROP
        TAKE
    """
    costs = {"wakeup_ns": 0, "switch_ns": 0, "kind": FIFO_MUTEX}
    fails(engine, NoProgress, first, second, thread=1, lock="", time_ns=1, line=line, **costs)


def test_more_effects_than_the_limit(engine):
    """Five effects are allowed: the two of thread 0 and three of thread 1; the sixth is not issued."""
    threads = "yield cpu(0); yield cpu(50)", "yield cpu(7); yield cpu(0); yield cpu(0)\nyield cpu(0)  # HERE"
    result = fails(engine, StepLimit, *threads, thread=1, lock="", time_ns=7, max_effects=5)
    assert len(rows(result, "CPU")) == 5


@pytest.mark.parametrize(
    ("statement", "detail"), [("assert x == 7, 'x is not seven'", "x is not seven"), ("assert x", "x")]
)
def test_an_assertion_that_fails_says_its_text_or_what_it_tested(engine, statement, detail):
    threads = "yield cpu(50)", f"x = 0; yield cpu(7)\n{statement}  # HERE"
    result = fails(engine, AssertionFailed, *threads, thread=1, lock="", time_ns=7)
    assert result.error is not None
    assert result.error.detail == detail


@pytest.mark.parametrize(
    "statement",
    [
        "yield cpu(0 - 1)",
        "yield sleep(0 - 1)",
        "y = x // (x - x)",
        "y = x % (x - x)",
        "y = yield choose(0)",
        "y = yield choose(1 << 31)",
        "y = yield exponential(0 - 1)",
        "yield device.read(0, 512)",  # on a machine without a device
    ],
)
def test_a_value_out_of_range(engine, statement):
    threads = "yield cpu(50)", f"x = 1; yield cpu(7)\n{statement}  # HERE"
    fails(engine, BadValue, *threads, thread=1, lock="", time_ns=7)


def test_an_error_is_raised_with_everything_in_its_message_unless_it_is_only_wanted_in_the_result(engine):
    with pytest.raises(NotHeld, match=r"in thread 0 on place\.lock at 7 ns \(line \d+, seed 11\)") as raised:
        play(engine, "yield cpu(7); DROP", seed=SEED)
    assert isinstance(raised.value, RunError)


def test_a_spinning_thread_that_waits_for_ever_is_a_deadlock_too(engine):
    """The holder of a spinlock waits for another one for ever: nothing is left to happen."""
    for kind in (SPINLOCK, BARGING_MUTEX):
        release = "yield place.second.release()"
        threads = (
            f"TAKE; yield cpu(10)\nSECOND  # HERE\n{release}; DROP",
            f"SECOND; yield cpu(10); TAKE; DROP; {release}",
        )
        fails(engine, Deadlock, *threads, kind=kind, thread=0, lock="place.second", time_ns=10)
