"""Locks and counters: `docs/semantics.md` sections 4 and 5, with times computed by hand."""

from __future__ import annotations

import pytest

from fssim.engine.random import below, draw
from fssim.machine.host import Host
from fssim.protocol import EXCLUSIVE, SHARED, cpu, protocol, sleep
from tests.engine.scenes import (
    ENGINES,
    Box,
    compute,
    demote_rwlock,
    play,
    rows,
    sleep_with_mutex,
    sleep_with_rwlock,
    times,
    use_mutex,
    use_rwlock,
    use_spin,
)

pytestmark = pytest.mark.parametrize("engine", ENGINES)

FIFO = Host(cpus=16, rwlock="fifo", mutex="fifo")
SPINNING = Host(cpus=16, rwlock="spinning", mutex="barging")
MS = 1_000_000


@protocol
def try_rwlock(box: Box, after: int, mode: int):
    yield cpu(after)
    box.value = yield box.rwlock.try_acquire(mode)
    if box.value:
        yield box.rwlock.release(mode)


@protocol
def try_mutex_and_spin(box: Box, after: int):
    yield cpu(after)
    got = yield box.mutex.try_acquire()
    if got:
        yield box.mutex.release()
    got = yield box.spin.try_acquire()
    if got:
        yield box.spin.release()


@protocol
def mutex_then_rwlock(box: Box, after: int, work: int):
    """Owns the mutex while it waits for the rwlock."""
    yield cpu(after)
    yield box.mutex.acquire()
    yield box.rwlock.acquire(EXCLUSIVE)
    yield cpu(work)
    yield box.rwlock.release(EXCLUSIVE)
    yield box.mutex.release()


@protocol
def count_up(box: Box, work: int):
    yield box.count.inc()
    yield cpu(work)
    box.value = yield box.count.dec()


@protocol
def wait_for_zero(box: Box, after: int, work: int):
    yield cpu(after)
    yield box.count.wait_zero()
    yield cpu(work)


@protocol
def wait_and_count(box: Box, after: int, work: int):
    """Waits for zero and keeps others waiting."""
    yield cpu(after)
    yield box.count.wait_zero()
    yield box.count.inc()
    yield sleep(work)
    yield box.count.dec()


# rwlock "fifo", mutex "fifo"


def test_fifo_readers_share_and_a_writer_waits_for_all_of_them(engine: str) -> None:
    result = play(
        engine,
        (use_rwlock, 0, SHARED, 10),
        (use_rwlock, 1, SHARED, 20),
        (use_rwlock, 2, EXCLUSIVE, 5),
        host=FIFO,
    )
    assert rows(result, "GRANT") == [(21, 2, "GRANT", EXCLUSIVE)]


def test_fifo_a_reader_does_not_overtake_a_queued_writer(engine: str) -> None:
    result = play(
        engine, (use_rwlock, 0, SHARED, 10), (use_rwlock, 1, EXCLUSIVE, 5), (use_rwlock, 2, SHARED, 5), host=FIFO
    )
    assert times(result, "GRANT") == [(10, 1), (15, 2)]


def test_fifo_a_run_of_readers_is_granted_together_up_to_the_first_writer(engine: str) -> None:
    result = play(
        engine,
        (use_rwlock, 0, EXCLUSIVE, 10),
        (use_rwlock, 1, SHARED, 5),
        (use_rwlock, 2, SHARED, 7),
        (use_rwlock, 3, EXCLUSIVE, 1),
        (use_rwlock, 4, SHARED, 1),
        host=FIFO,
    )
    assert times(result, "GRANT") == [(10, 1), (10, 2), (17, 3), (18, 4)]


def test_fifo_ownership_passes_at_the_release_and_not_when_the_waiter_runs(engine: str) -> None:
    host = Host(cpus=4, wakeup_ns=100)
    result = play(
        engine, (use_rwlock, 0, EXCLUSIVE, 10), (use_rwlock, 1, EXCLUSIVE, 5), (try_rwlock, 50, EXCLUSIVE), host=host
    )
    assert rows(result, "GRANT", "TRY") == [(10, 1, "GRANT", EXCLUSIVE), (50, 2, "TRY", 0)]
    assert times(result, "RESUME") == [(110, 1)]


def test_fifo_demote_lets_the_leading_readers_in_and_nobody_else(engine: str) -> None:
    result = play(
        engine,
        (demote_rwlock, 10, 20),
        (use_rwlock, 1, SHARED, 5),
        (use_rwlock, 2, EXCLUSIVE, 5),
        (use_rwlock, 3, SHARED, 5),
        host=FIFO,
    )
    assert times(result, "GRANT") == [(10, 1), (30, 2), (35, 3)]


def test_fifo_demote_does_not_wake_a_writer_at_the_head(engine: str) -> None:
    result = play(engine, (demote_rwlock, 10, 20), (use_rwlock, 1, EXCLUSIVE, 5), (use_rwlock, 2, SHARED, 5), host=FIFO)
    assert times(result, "GRANT") == [(30, 1), (35, 2)]


@pytest.mark.parametrize(
    ("held", "asked", "got"),
    [(SHARED, SHARED, 1), (SHARED, EXCLUSIVE, 0), (EXCLUSIVE, SHARED, 0), (EXCLUSIVE, EXCLUSIVE, 0)],
)
@pytest.mark.parametrize("kind", ["fifo", "spinning"])
def test_try_acquire_never_waits(engine: str, kind: str, held: int, asked: int, got: int) -> None:
    host = Host(cpus=2, rwlock=kind)  # type: ignore[arg-type]
    result = play(engine, (use_rwlock, 0, held, 10), (try_rwlock, 5, asked), host=host)
    assert rows(result, "TRY") == [(5, 1, "TRY", got)]


def test_fifo_try_acquire_does_not_overtake_the_queue(engine: str) -> None:
    result = play(
        engine, (use_rwlock, 0, SHARED, 10), (use_rwlock, 1, EXCLUSIVE, 5), (try_rwlock, 5, SHARED), host=FIFO
    )
    assert rows(result, "TRY") == [(5, 2, "TRY", 0)]


@pytest.mark.parametrize("host", [FIFO, SPINNING])
def test_try_acquire_of_mutex_and_spinlock(engine: str, host: Host) -> None:
    result = play(
        engine, (use_mutex, 0, 10), (use_spin, 0, 20), (try_mutex_and_spin, 5), (try_mutex_and_spin, 15), host=host
    )
    assert rows(result, "TRY") == [(5, 2, "TRY", 0), (5, 2, "TRY", 0), (15, 3, "TRY", 1), (15, 3, "TRY", 0)]


def test_fifo_mutex_hands_over_in_order_of_arrival_without_spinning(engine: str) -> None:
    result = play(engine, (use_mutex, 0, 10), (use_mutex, 1, 5), (use_mutex, 2, 5), (use_mutex, 3, 5), host=FIFO)
    assert times(result, "GRANT") == [(10, 1), (15, 2), (20, 3)]
    assert result.busy_ns["cpu"] == (10 + 6 + 7 + 8, 16)


# mutex "barging"


def test_barging_spins_while_the_owner_runs_and_gets_the_lock_after_the_handoff_time(engine: str) -> None:
    host = Host(cpus=2, spin_handoff_ns=3, wakeup_ns=1000, switch_ns=1000)
    result = play(engine, (use_mutex, 0, 10), (use_mutex, 1, 5), host=host)
    assert times(result, "GRANT") == [(10, 1)]
    assert times(result, "RESUME") == [(13, 1)]
    assert result.time_by_category_ns["wait Box.mutex exclusive"] == 9
    assert result.busy_ns["cpu"] == (10 + 18, 2)


def test_barging_sleeps_while_the_owner_does_not_run(engine: str) -> None:
    host = Host(cpus=2, wakeup_ns=100, switch_ns=10)
    result = play(engine, (sleep_with_mutex, 0, 20), (use_mutex, 1, 5), host=host)
    # The owner wakes at 120 and releases; the sleeper runs at 220, switches, and takes the mutex then.
    assert times(result, "RELEASE") == [(120, 0), (235, 1)]
    assert times(result, "GRANT") == [(230, 1)]


def test_barging_a_newcomer_takes_a_free_mutex_before_the_woken_sleeper_runs(engine: str) -> None:
    host = Host(cpus=3, wakeup_ns=100)
    result = play(engine, (sleep_with_mutex, 0, 20), (use_mutex, 1, 5), (use_mutex, 150, 200), host=host)
    # Released at 120; thread 2 takes it at 150 and holds it to 350; the sleeper looks at 220, sleeps again, is woken.
    assert times(result, "GRANT") == [(450, 1)]


def test_barging_the_spinner_that_wins_is_drawn_by_the_releasing_thread(engine: str) -> None:
    for seed in range(6):
        result = play(engine, (use_mutex, 0, 10), *[(use_mutex, at, 5) for at in (1, 2, 3)], host=SPINNING, seed=seed)
        first = [1, 2, 3].pop(winner := below(draw(seed, 0, 0), 3))
        left = [thread for thread in (1, 2, 3) if thread != first]
        second = left.pop(below(draw(seed, first, 0), 2))
        assert winner < 3
        assert times(result, "GRANT") == [(10, first), (15, second), (20, left[0])]


def test_barging_spinners_sleep_in_order_of_arrival_when_the_owner_stops(engine: str) -> None:
    @protocol
    def run_then_sleep(box: Box):
        yield box.mutex.acquire()
        yield cpu(10)
        yield sleep(10)
        yield box.mutex.release()

    result = play(engine, (run_then_sleep,), (use_mutex, 1, 5), (use_mutex, 2, 5), host=SPINNING)
    assert times(result, "GRANT") == [(20, 1), (25, 2)]
    # Spinning from 1 and 2 to 10, then asleep.
    assert result.busy_ns["cpu"] == (10 + (1 + 9 + 5) + (2 + 8 + 5), 16)


def test_barging_preemption_of_the_owner_stops_the_spinners(engine: str) -> None:
    host = Host(cpus=2, timeslice_ns=10)
    # Thread 2 becomes ready at 0 and gets the CPU of the spinner, which sleeps when thread 0 is preempted at 10.
    result = play(engine, (use_mutex, 0, 10), (use_mutex, 1, 1), (compute, 5, 0), host=host)
    assert times(result, "END")[0] == (10, 0)
    assert times(result, "GRANT") == [(10, 1)]


def test_barging_owners_that_spin_elsewhere_are_not_spun_on(engine: str) -> None:
    # Thread 1 owns the mutex and spins for the rwlock from 1 on; thread 2 comes at 5 and must sleep.
    result = play(engine, (use_rwlock, 0, EXCLUSIVE, 50), (mutex_then_rwlock, 1, 10), (use_mutex, 5, 1), host=SPINNING)
    assert times(result, "GRANT") == [(50, 1), (60, 2)]
    assert result.busy_ns["cpu"] == (50 + 60 + (5 + 1), 16)


# rwlock "spinning"


def test_spinning_a_writer_spins_while_the_writer_runs(engine: str) -> None:
    host = Host(cpus=2, rwlock="spinning", spin_handoff_ns=3, wakeup_ns=1000)
    result = play(engine, (use_rwlock, 0, EXCLUSIVE, 10), (use_rwlock, 1, EXCLUSIVE, 5), host=host)
    assert times(result, "GRANT") == [(10, 1)]
    assert times(result, "RESUME") == [(13, 1)]


def test_spinning_readers_never_spin(engine: str) -> None:
    host = Host(cpus=2, rwlock="spinning", wakeup_ns=100)
    result = play(engine, (use_rwlock, 0, EXCLUSIVE, 10), (use_rwlock, 1, SHARED, 5), host=host)
    assert times(result, "GRANT") == [(10, 1)]
    assert times(result, "RESUME") == [(110, 1)]


def test_spinning_a_writer_waits_asleep_for_readers(engine: str) -> None:
    host = Host(cpus=2, rwlock="spinning", wakeup_ns=100)
    result = play(engine, (use_rwlock, 0, SHARED, 10), (use_rwlock, 1, EXCLUSIVE, 5), host=host)
    # Woken at 10 without the lock, which it takes when it runs.
    assert times(result, "GRANT") == [(110, 1)]


def test_spinning_a_newcomer_steals_the_lock_before_the_woken_writer_runs(engine: str) -> None:
    host = Host(cpus=4, rwlock="spinning", wakeup_ns=100)
    result = play(
        engine, (use_rwlock, 0, SHARED, 10), (use_rwlock, 1, EXCLUSIVE, 5), (use_rwlock, 50, EXCLUSIVE, 200), host=host
    )
    # Stolen at 50 until 250; the waiter looks at 110, waits again, is woken at 250 and has it at 350.
    assert times(result, "GRANT") == [(350, 1)]


def test_spinning_a_reader_joins_readers_only_if_nobody_waits_but_steals_a_free_lock(engine: str) -> None:
    host = Host(cpus=4, rwlock="spinning", wakeup_ns=100)
    result = play(
        engine,
        (use_rwlock, 0, SHARED, 10),
        (use_rwlock, 1, EXCLUSIVE, 5),
        (use_rwlock, 5, SHARED, 1),
        (use_rwlock, 50, SHARED, 1),
        host=host,
    )
    # Thread 2 has to wait behind the writer at 5; thread 3 takes the free lock at 50 although both wait.
    assert times(result, "CPU")[-3:] == [(50, 3), (110, 1), (215, 2)]
    assert times(result, "GRANT") == [(110, 1), (115, 2)]


def test_spinning_readers_anywhere_in_the_wait_list_are_granted_with_the_first(engine: str) -> None:
    host = Host(cpus=8, rwlock="spinning")
    result = play(
        engine,
        (sleep_with_rwlock, 0, EXCLUSIVE, 20),
        (use_rwlock, 1, SHARED, 5),
        (use_rwlock, 2, EXCLUSIVE, 5),
        (use_rwlock, 3, SHARED, 7),
        host=host,
    )
    assert times(result, "GRANT") == [(20, 1), (20, 3), (27, 2)]


def test_spinning_at_most_256_readers_are_granted_at_once(engine: str) -> None:
    readers = [(use_rwlock, 1, SHARED, 5)] * 300
    result = play(engine, (sleep_with_rwlock, 0, EXCLUSIVE, 20), *readers, host=Host(cpus=400, rwlock="spinning"))
    grants = times(result, "GRANT")
    assert grants[:256] == [(20, thread) for thread in range(1, 257)]
    assert grants[256:] == [(25, thread) for thread in range(257, 301)]


def test_spinning_a_spinner_goes_before_a_waiting_reader(engine: str) -> None:
    result = play(
        engine,
        (use_rwlock, 0, EXCLUSIVE, 10),
        (use_rwlock, 1, SHARED, 5),
        (use_rwlock, 2, EXCLUSIVE, 5),
        host=SPINNING,
    )
    assert times(result, "GRANT") == [(10, 2), (15, 1)]


def test_spinning_a_reader_that_has_waited_more_than_4_ms_goes_before_spinners_which_then_sleep(engine: str) -> None:
    for late, first in ((0, 2), (1, 1)):
        result = play(
            engine,
            (use_rwlock, 0, EXCLUSIVE, 4 * MS + 1 + late),
            (use_rwlock, 1, SHARED, 5),
            (use_rwlock, 2, EXCLUSIVE, 5),
            host=SPINNING,
        )
        assert times(result, "GRANT")[0][1] == first


def test_spinning_a_writer_that_has_waited_more_than_4_ms_forces_the_handoff(engine: str) -> None:
    host = Host(cpus=8, rwlock="spinning", wakeup_ns=100)
    result = play(
        engine,
        (use_rwlock, 0, SHARED, 4 * MS + 10),
        (use_rwlock, 1, EXCLUSIVE, 5),
        (use_rwlock, 4 * MS + 50, EXCLUSIVE, 1000),  # steals while the waiter is on its way
        (use_rwlock, 4 * MS + 1060, EXCLUSIVE, 5),  # may not steal once the flag is set
        (try_rwlock, 4 * MS + 1070, SHARED),
        host=host,
    )
    # The waiter finds the lock taken at 4 ms + 110 and sets the flag; it is released at 4 ms + 1050.
    assert times(result, "GRANT") == [(4 * MS + 1150, 1), (4 * MS + 1255, 3)]
    assert rows(result, "TRY") == [(4 * MS + 1070, 4, "TRY", 0)]


def test_spinning_demote_lets_all_waiting_readers_in_and_sends_spinners_to_sleep(engine: str) -> None:
    host = Host(cpus=8, rwlock="spinning", wakeup_ns=100)
    result = play(
        engine,
        (demote_rwlock, 10, 200),
        (use_rwlock, 1, SHARED, 5),
        (use_rwlock, 2, EXCLUSIVE, 5),
        host=host,
    )
    assert times(result, "GRANT") == [(10, 1), (310, 2)]
    assert result.busy_ns["cpu"] == (210 + (1 + 5) + (2 + 8 + 5), 8)


def test_spinning_the_spinners_of_an_owner_that_blocks_sleep(engine: str) -> None:
    @protocol
    def run_then_sleep(box: Box):
        yield box.rwlock.acquire(EXCLUSIVE)
        yield cpu(10)
        yield sleep(10)
        yield box.rwlock.release(EXCLUSIVE)

    host = Host(cpus=8, rwlock="spinning", wakeup_ns=100)
    result = play(engine, (run_then_sleep,), (use_rwlock, 1, EXCLUSIVE, 5), host=host)
    # Released at 10 + 10 + 100; the waiter is on its CPU 100 later.
    assert times(result, "GRANT") == [(220, 1)]


def test_spinners_that_must_sleep_stop_their_own_spinners(engine: str) -> None:
    @protocol
    def run_then_sleep(box: Box):
        yield box.rwlock.acquire(EXCLUSIVE)
        yield cpu(10)
        yield sleep(90)
        yield box.rwlock.release(EXCLUSIVE)

    @protocol
    def own_mutex_and_spin(box: Box):
        yield box.mutex.acquire()
        yield cpu(5)
        yield box.rwlock.acquire(EXCLUSIVE)
        yield box.rwlock.release(EXCLUSIVE)
        yield box.mutex.release()

    # Thread 2 spins for the mutex from 1 on, thread 1 for the rwlock from 5; both sleep from 10 on.
    result = play(engine, (run_then_sleep,), (own_mutex_and_spin,), (use_mutex, 1, 3), host=SPINNING)
    assert times(result, "GRANT") == [(100, 1), (100, 2)]
    assert result.busy_ns["cpu"] == (10 + 10 + (10 + 3), 16)


# spinlock


@pytest.mark.parametrize("host", [FIFO, SPINNING])
def test_a_spinlock_serves_its_spinners_in_order_of_arrival(engine: str, host: Host) -> None:
    result = play(engine, (use_spin, 0, 10), (use_spin, 1, 5), (use_spin, 2, 5), (use_spin, 3, 5), host=host)
    assert times(result, "GRANT") == [(10, 1), (15, 2), (20, 3)]
    assert result.busy_ns["cpu"] == (10 + 15 + 20 + 25, 16)


# counters


def test_a_counter_that_reaches_zero_wakes_all_waiters_in_order(engine: str) -> None:
    host = Host(cpus=8, wakeup_ns=7, switch_ns=2)
    result = play(engine, (count_up, 20), (wait_for_zero, 5, 1), (wait_for_zero, 1, 1), host=host)
    assert rows(result, "WAITZERO", "DEC", "RESUME") == [
        (1, 2, "WAITZERO", 1),
        (5, 1, "WAITZERO", 1),
        (20, 0, "DEC", 0),
        (29, 2, "WAITZERO", 0),
        (29, 2, "RESUME", 0),
        (29, 1, "WAITZERO", 0),
        (29, 1, "RESUME", 0),
    ]


def test_a_woken_waiter_looks_again_and_may_wait_again(engine: str) -> None:
    result = play(engine, (count_up, 20), (wait_and_count, 1, 30), (wait_for_zero, 5, 1))
    assert rows(result, "WAITZERO", "DEC") == [
        (1, 1, "WAITZERO", 1),
        (5, 2, "WAITZERO", 1),
        (20, 0, "DEC", 0),
        (20, 1, "WAITZERO", 0),
        (20, 2, "WAITZERO", 1),
        (50, 1, "DEC", 0),
        (50, 2, "WAITZERO", 0),
    ]


def test_waiting_for_zero_at_zero_goes_on_at_once(engine: str) -> None:
    assert rows(play(engine, (wait_for_zero, 0, 1)))[1:] == [
        (0, 0, "WAITZERO", 0),
        (0, 0, "CPU", 1),
        (1, 0, "END", 0),
    ]
