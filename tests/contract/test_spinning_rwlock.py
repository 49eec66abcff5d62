"""Rwlock "spinning", of 5.11 and later: writers spin, anyone may steal, a waiter that starves stops that after 4 ms."""

from __future__ import annotations

import pytest

from tests.contract.scene import SPINNING_RWLOCK, instants, play, rows, use_of_lock

HANDOFF_AFTER_NS = 4_000_000  # contract, section 4: RWSEM_WAIT_TIMEOUT of the kernel


def spinning(engine, *threads, **settings):
    return play(engine, *threads, kind=SPINNING_RWLOCK, **settings)


def test_spinning_writers_get_the_lock_in_order_before_a_waiting_reader(engine):
    """Reader 3 waits since 5, writers 1 and 2 spin since 10 and 20.  Each spinner notices after 1 ns and works 50."""
    result = spinning(
        engine,
        "TAKE; yield cpu(1000); DROP",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(20); TAKE; yield cpu(50); DROP",
        "yield cpu(5); SHARE; UNSHARE",
    )
    assert instants(result, "GRANT") == [(1000, 1), (1051, 2), (1102, 3)]
    assert instants(result, "RESUME") == [(1001, 1), (1052, 2), (1212, 3)]


@pytest.mark.parametrize(
    ("released", "reader_is_served"), [(10 + HANDOFF_AFTER_NS, False), (11 + HANDOFF_AFTER_NS, True)]
)
def test_a_reader_that_has_waited_over_4_ms_goes_before_the_spinners(engine, released, reader_is_served):
    """Reader 1 waits since 10.  Granted at the release, it works 100 ns after 110; spinner 2 sleeps until then."""
    result = spinning(
        engine,
        f"TAKE; yield cpu({released}); DROP",
        "yield cpu(10); SHARE; yield cpu(100); UNSHARE",
        "yield cpu(20); TAKE; yield cpu(50); DROP",
    )
    if reader_is_served:  # the writer is woken at released + 210
        assert instants(result, "GRANT") == [(released, 1), (released + 320, 2)]
    else:
        assert instants(result, "GRANT") == [(released, 2), (released + 51, 1)]


def test_a_reader_steals_a_free_lock_but_does_not_join_other_readers_past_the_wait_list(engine):
    """Writer 1, asleep since 10, is on its way at 1150, when reader 2 takes the lock.  Reader 3 waits from 1160."""
    result = spinning(
        engine,
        "TAKE; yield sleep(1000); DROP",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(1150); SHARE; yield cpu(500); UNSHARE",
        "yield cpu(1160); no = ATTEMPT_SHARED; SHARE; UNSHARE",
    )
    # Writer 1 looks at 1210 in vain, is woken again at 1650, takes it at 1760, leaves at 1810.
    assert rows(result, "TRY") == [(1160, 3, "TRY", 0)]
    assert instants(result, "GRANT") == [(1760, 1), (1810, 3)]
    assert instants(result, "RELEASE") == [(1100, 0), (1650, 2), (1810, 1), (1920, 3)]


def test_hand_off_after_4_ms_ends_the_starvation_of_a_waiting_writer(engine):
    """Writer 1 sleeps since 10; thieves take the lock before it is there, until it has waited for over 4 ms."""
    result = spinning(
        engine,
        "TAKE; yield sleep(1000); DROP",  # released at 1100: writer 1 looks at 1210
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(1150); TAKE; yield cpu(5000000); DROP",  # steals; released at 5001150: writer 1 looks at 5001260
        "yield cpu(5001200); TAKE; yield cpu(1000); DROP",  # steals; released at 5002200: writer 1 looks at 5002310
        "yield cpu(5001300); TAKE; DROP",  # the hand-off is set: neither spins nor steals
        "yield cpu(5002250); got = ATTEMPT; assert not got; TAKE; DROP",  # the lock is free, but kept for writer 1
    )
    assert rows(result, "TRY") == [(5_002_250, 5, "TRY", 0)]
    # Writer 1 works until 5002360.  The others have waited long by the wait list's order: 4, then 5, 110 ns apart.
    assert instants(result, "GRANT") == [(5_002_310, 1), (5_002_470, 4), (5_002_580, 5)]
    assert instants(result, "RELEASE")[:3] == [(1100, 0), (5_001_150, 2), (5_002_200, 3)]


def test_readers_anywhere_in_the_wait_list_are_granted_together_but_at_most_256(engine):
    """Owner 0 sleeps; waiting: readers 1-200, writer 201, readers 202-301."""
    reader = "SHARE; UNSHARE"
    result = spinning(engine, "TAKE; yield sleep(1000); DROP", *[reader] * 200, "TAKE; DROP", *[reader] * 100)
    granted = instants(result, "GRANT")
    first = [*range(1, 201), *range(202, 258)]
    assert granted[:256] == [(1100, thread) for thread in first]
    # 8 processors switch 256 readers in 32 turns of 10 ns from 1200 on; the last leave at 1520.  The writer is woken
    # then, takes the lock at 1630 and leaves at once to the readers that are left.
    assert granted[256:] == [(1630, 201), *[(1630, thread) for thread in range(258, 302)]]


def test_a_demote_admits_waiting_readers_and_sends_spinners_to_sleep(engine):
    """Demoted at 500 with reader 1 waiting and writer 2 spinning; the demoter leaves at 600, the reader at 650."""
    result = spinning(
        engine,
        "TAKE; yield cpu(500); yield place.lock.demote(); yield cpu(100); UNSHARE",
        "yield cpu(10); SHARE; yield cpu(40); UNSHARE",
        "yield cpu(20); TAKE; yield cpu(50); DROP",
        cpus=3,
    )
    # Reader 1 goes on at 610, leaves at 650; writer 2, asleep since 500, is woken then.
    assert instants(result, "GRANT") == [(500, 1), (760, 2)]
    # Processors: 0 until 600; 1: 10, switch, 40; 2 spins until 500, then switch and 50.
    assert result.busy_ns["cpu"] == (600 + (10 + 10 + 40) + (500 + 10 + 50), 3)


def test_a_demote_before_a_leading_writer_wakes_nobody(engine):
    """Writer 1 sleeps since 10; reader 2 waits behind it although the lock is shared from 600 on."""
    result = spinning(
        engine,
        "TAKE; yield sleep(500); yield place.lock.demote(); yield cpu(400); UNSHARE",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(20); SHARE; UNSHARE",
    )
    # The demoter leaves at 1000, writer 1 takes it at 1110 and leaves at 1160.
    assert instants(result, "GRANT") == [(1110, 1), (1160, 2)]


def test_a_wait_counts_from_the_acquire_although_the_spinner_slept_in_between(engine):
    """Spins from 10, sleeps from 500 on, takes the lock at 1110."""
    result = spinning(
        engine, "TAKE; yield cpu(500); yield sleep(400); DROP", "yield cpu(10); TAKE; yield cpu(50); DROP", cpus=2
    )
    use = use_of_lock(result)
    assert (use.contentions, use.wait_total_ns) == (1, 1100)
    assert result.time_by_category_ns["wait Place.lock exclusive"] == 990  # 10-1000; the wake-up is counted apart
