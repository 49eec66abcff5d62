"""Rwlock "fifo", as in 2011: nobody overtakes, the releaser hands over, a run of readers goes together."""

from __future__ import annotations

import pytest

from tests.contract.scene import FIFO_MUTEX, FIFO_RWLOCK, SPINNING_RWLOCK, instants, play, rows, use_of_lock


def test_a_run_of_readers_is_admitted_together_and_no_later_one(engine):
    """Queue behind the writer: reader 1, reader 2, writer 3, reader 4."""
    result = play(
        engine,
        "TAKE; yield cpu(1000); DROP",
        "yield cpu(10); SHARE; yield cpu(200); UNSHARE",
        "yield cpu(20); SHARE; yield cpu(300); UNSHARE",
        "yield cpu(30); TAKE; yield cpu(50); DROP",
        "yield cpu(40); SHARE; yield cpu(5); UNSHARE",
    )
    # Readers 1 and 2 go on at 1110 and leave at 1310 and 1410; writer 3 has it then, goes on at 1520, leaves at 1570.
    assert instants(result, "GRANT") == [(1000, 1), (1000, 2), (1410, 3), (1570, 4)]
    assert instants(result, "RESUME") == [(1110, 1), (1110, 2), (1520, 3), (1680, 4)]


@pytest.mark.parametrize(("kind", "granted"), [(FIFO_RWLOCK, 300), (SPINNING_RWLOCK, 410)])
def test_a_release_by_one_reader_wakes_nobody_while_others_hold(kind, engine, granted):
    """Readers leave at 100, 200 and 300; the last wakes the writer, which goes on 110 later.

    Events: 4 starts; the CPU effects of 100, 200, 300 and 10; one wake-up and one switch.
    """
    readers = [f"SHARE; yield cpu({leaves}); UNSHARE" for leaves in (100, 200, 300)]
    result = play(engine, *readers, "yield cpu(10); TAKE; DROP", kind=kind)
    assert instants(result, "GRANT") == [(granted, 3)]
    assert instants(result, "RESUME") == [(410, 3)]
    assert result.events == 4 + 4 + 2


def test_no_reader_overtakes_a_queued_writer(engine):
    """Reader 2 could join reader 0, but writer 1 came before: it gets it at 1000, works from 1110 to 1160."""
    result = play(
        engine,
        "SHARE; yield cpu(1000); UNSHARE",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(20); SHARE; yield cpu(5); UNSHARE",
    )
    assert instants(result, "GRANT") == [(1000, 1), (1160, 2)]


def test_readers_share_while_no_writer_waits(engine):
    """The second joins at 10 and the third at 20, without waiting."""
    threads = [f"yield cpu({comes}); SHARE; yield cpu(100); UNSHARE" for comes in (0, 10, 20)]
    result = play(engine, *threads)
    assert instants(result, "RELEASE") == [(100, 0), (110, 1), (120, 2)]
    assert instants(result, "GRANT") == []


def test_no_try_gets_past_a_queued_writer(engine):
    """A shared try at 20, while a reader holds and a writer waits; when that has gone another one succeeds."""
    result = play(
        engine,
        "SHARE; yield cpu(1000); UNSHARE",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(20); got = ATTEMPT_SHARED; yield cpu(1500); got = ATTEMPT_SHARED; UNSHARE",
    )
    assert rows(result, "TRY") == [(20, 2, "TRY", 0), (1520, 2, "TRY", 1)]


def test_an_exclusive_try_fails_while_a_reader_holds_and_a_shared_one_succeeds(engine):
    result = play(
        engine, "SHARE; yield cpu(1000); UNSHARE", "yield cpu(20); no = ATTEMPT; yes = ATTEMPT_SHARED; UNSHARE"
    )
    assert rows(result, "TRY") == [(20, 1, "TRY", 0), (20, 1, "TRY", 1)]


def test_a_demote_wakes_only_the_leading_readers_and_keeps_writers_out(engine):
    """Queue: reader 1, reader 2, writer 3, reader 4.  Demoted at 500, released by the demoter at 1000."""
    result = play(
        engine,
        "TAKE; yield cpu(500); yield place.lock.demote(); yield cpu(500); UNSHARE",
        "yield cpu(10); SHARE; yield cpu(100); UNSHARE",
        "yield cpu(20); SHARE; yield cpu(900); UNSHARE",
        "yield cpu(30); TAKE; yield cpu(50); DROP",
        "yield cpu(40); SHARE; yield cpu(5); UNSHARE",
    )
    # Readers 1 and 2 go on at 610 and leave at 710 and 1510; writer 3 goes on at 1620 and leaves at 1670.
    assert instants(result, "GRANT") == [(500, 1), (500, 2), (1510, 3), (1670, 4)]
    # Holds: exclusive 0-500 and 1510-1670; shared 500-1000, 500-710, 500-1510, and 1670-1785 of reader 4.
    exclusive, shared = use_of_lock(result), use_of_lock(result, "shared")
    assert (exclusive.acquisitions, exclusive.hold_total_ns, exclusive.hold_min_ns) == (2, 660, 160)
    assert (shared.acquisitions, shared.hold_total_ns, shared.hold_max_ns) == (3, 500 + 210 + 1010 + 115, 1010)
    # Waits: readers 1, 2, 4 from 10, 20, 40; writer 3 from 30.
    assert (shared.wait_total_ns, shared.wait_min_ns, shared.wait_max_ns) == (490 + 480 + 1630, 480, 1630)
    assert exclusive.wait_total_ns == 1480


def test_a_demote_before_a_leading_writer_wakes_nobody(engine):
    """Writer 1 comes first: it waits for the demoter's release at 1000, and reader 2 waits for writer 1."""
    result = play(
        engine,
        "TAKE; yield cpu(500); yield place.lock.demote(); yield cpu(500); UNSHARE",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(20); SHARE; yield cpu(5); UNSHARE",
    )
    assert instants(result, "GRANT") == [(1000, 1), (1160, 2)]


def test_after_a_demote_new_readers_join_at_once(engine):
    result = play(
        engine,
        "TAKE; yield cpu(500); yield place.lock.demote(); yield cpu(500); UNSHARE",
        "yield cpu(700); SHARE; yield cpu(5); UNSHARE",
    )
    assert instants(result, "RELEASE") == [(705, 1), (1000, 0)]
    assert instants(result, "GRANT") == []


def test_a_fifo_mutex_is_served_strictly_in_order_of_arrival_however_the_owner_waits(engine):
    """Owner asleep until 1100; arrivals at 30, 10, 20; each works 7 ns, 110 ns after its grant."""
    waiters = [f"yield cpu({arrival}); TAKE; yield cpu(7); DROP" for arrival in (30, 10, 20)]
    result = play(engine, "TAKE; yield sleep(1000); DROP", *waiters, kind=FIFO_MUTEX)
    assert instants(result, "GRANT") == [(1100, 2), (1217, 3), (1334, 1)]
