"""What every kind of lock promises, under contention."""

from __future__ import annotations

import pytest

from tests.contract.scene import (
    BARGING_MUTEX,
    FIFO_MUTEX,
    FIFO_RWLOCK,
    SPINLOCK,
    SPINNING_RWLOCK,
    final,
    instants,
    play,
    rows,
    use_of_lock,
)

TURNS = 15

WRITER = """
for turn in range(TURNS):
    pause = yield exponential(60)
    yield cpu(pause)
    TAKE
    place.writers += 1
    assert place.writers == 1 and place.readers == 0, 'a writer is not alone'
    INSIDE
    assert place.writers == 1 and place.readers == 0, 'a writer is not alone any more'
    place.writers -= 1
    place.entries += 1
    DROP
""".replace("TURNS", str(TURNS))

READER = """
for turn in range(TURNS):
    pause = yield exponential(60)
    yield cpu(pause)
    SHARE
    place.readers += 1
    assert place.writers == 0, 'a reader among writers'
    INSIDE
    assert place.writers == 0, 'a writer among readers'
    place.readers -= 1
    place.entries += 1
    UNSHARE
""".replace("TURNS", str(TURNS))

DEMOTER = """
for turn in range(TURNS):
    TAKE
    place.writers += 1
    assert place.writers == 1 and place.readers == 0, 'a writer is not alone'
    yield cpu(20)
    place.writers -= 1
    place.readers += 1
    yield place.lock.demote()
    INSIDE
    assert place.writers == 0, 'a writer beside a demoted one'
    place.readers -= 1
    place.entries += 1
    UNSHARE
""".replace("TURNS", str(TURNS))

TRIER = """
for turn in range(TURNS):
    yield cpu(25)
    got = ATTEMPT
    if got:
        place.writers += 1
        assert place.writers == 1 and place.readers == 0, 'a try-lock let two in'
        INSIDE
        place.writers -= 1
        DROP
    place.entries += 1
""".replace("TURNS", str(TURNS))


@pytest.mark.parametrize("cpus", [1, 3, 16])
def test_holders_exclude_each_other_and_no_wakeup_is_lost(kind, engine, cpus):
    """Writers, readers, demoters and triers, running and asleep inside, on few and on many processors with spread."""
    running, asleep = "yield cpu(30)", "yield sleep(15)" if kind.may_sleep else "yield cpu(5)"
    threads = [text.replace("INSIDE", inside) for inside in (running, asleep) for text in (WRITER, WRITER, TRIER)]
    if kind.has_modes:
        threads += [
            text.replace("INSIDE", inside) for inside in (running, asleep) for text in (READER, READER, DEMOTER)
        ]
    result = play(
        engine, *threads, kind=kind, cpus=cpus, timeslice_ns=40, wakeup_spread_ns=30, cache_line_ns=2, seed=cpus
    )
    assert final(result, "entries") == len(threads) * TURNS
    assert sorted(thread for _, thread in instants(result, "END")) == list(range(len(threads)))


def test_a_free_lock_costs_no_event_and_no_time(kind, engine):
    """The only event is the start of the thread (section 1, rule 2)."""
    result = play(engine, "for turn in range(100):\n    TAKE\n    DROP", kind=kind)
    assert (result.events, result.time_ns) == (1, 0)
    assert rows(result, "GRANT", "RESUME") == []
    use = use_of_lock(result)
    assert (use.acquisitions, use.contentions, use.wait_total_ns) == (100, 0, 0)


def test_a_lock_that_others_have_left_costs_no_event_either(kind, engine):
    """Two starts and the end of the second thread's 10 ns: three events."""
    often = "for turn in range(50):\n    TAKE\n    DROP"
    result = play(engine, often, f"yield cpu(10)\n{often}", kind=kind)
    assert (result.events, result.time_ns) == (3, 10)


def test_try_takes_a_free_lock_and_leaves_a_held_one_without_waiting(kind, engine):
    """The second thread tries at 10 while the first holds, and at 110 when it has gone; never does it wait."""
    second = "yield cpu(10); early = ATTEMPT; yield cpu(100); late = ATTEMPT; again = ATTEMPT; DROP"
    result = play(engine, "TAKE; yield cpu(100); DROP", second, kind=kind)
    assert rows(result, "TRY") == [
        (10, 1, "TRY", 0),
        (110, 1, "TRY", 1),
        (110, 1, "TRY", 0),
    ]  # the last: held by itself
    assert rows(result, "GRANT", "RESUME") == []


@pytest.mark.parametrize(
    ("kind", "granted", "goes_on"),
    [
        # The owner runs until 1000.  A sleeper, granted then, goes on after wake-up and switch, a spinner after 1 ns.
        (FIFO_RWLOCK, 1000, 1110),
        (FIFO_MUTEX, 1000, 1110),
        (SPINNING_RWLOCK, 1000, 1001),
        (BARGING_MUTEX, 1000, 1001),
        (SPINLOCK, 1000, 1001),
    ],
)
def test_waits_and_holds_behind_a_running_owner_are_as_calculated(kind, engine, granted, goes_on):
    result = play(engine, "TAKE; yield cpu(1000); DROP", "yield cpu(300); TAKE; yield cpu(50); DROP", kind=kind)
    assert instants(result, "GRANT") == [(granted, 1)]
    assert instants(result, "RESUME") == [(goes_on, 1)]
    assert instants(result, "RELEASE") == [(1000, 0), (goes_on + 50, 1)]
    use = use_of_lock(result)
    assert (use.acquisitions, use.contentions, use.bounces) == (2, 1, 1)
    assert (use.wait_total_ns, use.wait_min_ns, use.wait_max_ns) == (700, 700, 700)  # from 300 to 1000
    hold_ns = goes_on + 50 - granted
    assert (use.hold_total_ns, use.hold_min_ns, use.hold_max_ns) == (1000 + hold_ns, hold_ns, 1000)
    spent = result.time_by_category_ns
    assert spent["wait Place.lock exclusive"] == 700
    assert spent["wakeup"] == (0 if kind.spins else 100)
    # CPU: 1000 of the owner; 300, 50 and the 1 ns or the switch of the other.
    assert spent["cpu"] == 1000 + 300 + 50 + (1 if kind.spins else 10)
    assert sum(spent.values()) == 1000 + goes_on + 50  # until each thread's end


@pytest.mark.parametrize(
    ("kind", "granted"),
    [
        # The owner wakes and releases at 1000 + 100.  Granted then, or taken by the woken sleeper at 1210.
        (FIFO_RWLOCK, 1100),
        (FIFO_MUTEX, 1100),
        (SPINNING_RWLOCK, 1210),
        (BARGING_MUTEX, 1210),
    ],
)
def test_waits_and_holds_behind_a_sleeping_owner_are_as_calculated(kind, engine, granted):
    result = play(engine, "TAKE; yield sleep(1000); DROP", "yield cpu(300); TAKE; yield cpu(50); DROP", kind=kind)
    assert instants(result, "GRANT") == [(granted, 1)]
    assert instants(result, "RESUME") == [(1100, 0), (1210, 1)]
    use = use_of_lock(result)
    assert (use.contentions, use.wait_total_ns) == (1, granted - 300)
    hold_ns = 1260 - granted
    assert (use.hold_total_ns, use.hold_min_ns, use.hold_max_ns) == (1100 + hold_ns, hold_ns, 1100)


def test_waiters_behind_a_running_owner_are_served_in_order_where_that_is_promised(kind, engine):
    """Arrivals every 10 ns, in another order than that of the thread numbers."""
    arrivals = [50, 20, 40, 10, 30]
    waiters = [f"yield cpu({arrival}); TAKE; yield cpu(7); DROP" for arrival in arrivals]
    result = play(engine, "TAKE; yield cpu(1000); DROP", *waiters, kind=kind, seed=4)
    order = [thread for _, thread in instants(result, "GRANT")]
    if kind.in_order:
        assert order == [4, 2, 5, 3, 1]
    else:  # chance decides among the spinners: see test_barging_mutex.py
        assert sorted(order) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", [FIFO_RWLOCK, FIFO_MUTEX, SPINNING_RWLOCK, BARGING_MUTEX])
def test_waiters_behind_a_sleeping_owner_are_served_in_order(kind, engine):
    """Nobody spins for an owner that sleeps, and with nobody coming later there is no one to steal."""
    arrivals = [50, 20, 40, 10, 30]
    waiters = [f"yield cpu({arrival}); TAKE; yield cpu(7); DROP" for arrival in arrivals]
    result = play(engine, "TAKE; yield sleep(1000); DROP", *waiters, kind=kind)
    assert [thread for _, thread in instants(result, "GRANT")] == [4, 2, 5, 3, 1]


def test_waiters_keep_their_cpu_busy_if_they_spin_and_leave_it_to_others_if_not(kind, engine):
    """Two processors: the owner's, the waiter's, and a third thread that wants one."""
    result = play(
        engine,
        "TAKE; yield cpu(1000); DROP",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(7)",
        kind=kind,
        cpus=2,
    )
    third_ends = [time_ns for time_ns, thread in instants(result, "END") if thread == 2]
    if kind.spins:
        assert third_ends == [1007]  # gets the owner's processor at 1000
        assert result.busy_ns["cpu"] == (1000 + 1051 + 7, 2)
    else:
        assert third_ends == [17]  # gets the waiter's processor at 10
        assert result.busy_ns["cpu"] == (1000 + 10 + (10 + 50) + 7, 2)  # the waiter: before, switch and after


@pytest.mark.parametrize("kind", [SPINNING_RWLOCK, BARGING_MUTEX])
def test_spinners_go_to_sleep_when_the_owner_does(kind, engine):
    """The owner sleeps from 500 to 1000; its spinner leaves the processor to the third thread at 500."""
    result = play(
        engine,
        "TAKE; yield cpu(500); yield sleep(400); DROP",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(7)",
        kind=kind,
        cpus=2,
    )
    assert instants(result, "END") == [(507, 2), (1000, 0), (1160, 1)]
    assert instants(result, "GRANT") == [(1110, 1)]  # woken at 1000, takes it when it runs
    assert result.busy_ns["cpu"] == (500 + (500 + 10 + 50) + 7, 2)
    assert use_of_lock(result).wait_total_ns == 1110 - 10


@pytest.mark.parametrize("kind", [SPINNING_RWLOCK, BARGING_MUTEX])
def test_spinners_go_to_sleep_when_the_owner_is_preempted(kind, engine):
    """At 300 the owner's time slice is over.  Thread 2 gets the spinner's processor, the owner its own again."""
    result = play(
        engine,
        "TAKE; yield cpu(300); yield cpu(300); DROP",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(1000)",
        kind=kind,
        cpus=2,
        timeslice_ns=100,
    )
    assert instants(result, "GRANT") == [(710, 1)]  # woken by the release at 600
    assert instants(result, "END") == [(600, 0), (760, 1), (1300, 2)]


@pytest.mark.parametrize("kind", [SPINNING_RWLOCK, BARGING_MUTEX])
def test_nobody_spins_for_an_owner_that_spins_itself(kind, engine):
    """Thread 1 owns the lock and spins for the second; thread 2, which wants the lock, sleeps."""
    second = "yield place.second.release(EXCLUSIVE)" if kind.has_modes else "yield place.second.release()"
    result = play(
        engine,
        f"SECOND; yield cpu(1000); {second}",
        f"yield cpu(10); TAKE; yield cpu(10); SECOND; {second}; DROP",
        "yield cpu(30); TAKE; DROP",
        kind=kind,
    )
    # Thread 1 is handed the second lock at 1000 and leaves both at 1001; thread 2 wakes up and takes the lock at 1111.
    assert instants(result, "GRANT") == [(1000, 1), (1111, 2)]


@pytest.mark.parametrize("kind", [SPINNING_RWLOCK, BARGING_MUTEX])
def test_a_newcomer_steals_a_free_lock_from_a_sleeper_that_is_on_its_way(kind, engine):
    """Released at 1100; the sleeper would be there at 1210, a thread that comes at 1150 takes the lock for 500 ns."""
    result = play(
        engine,
        "TAKE; yield sleep(1000); DROP",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(1150); TAKE; yield cpu(500); DROP",
        kind=kind,
    )
    assert instants(result, "RELEASE") == [(1100, 0), (1650, 2), (1810, 1)]
    assert instants(result, "GRANT") == [(1760, 1)]  # woken again at 1650
    assert instants(result, "RESUME")[-1] == (1760, 1)
    assert use_of_lock(result).wait_total_ns == 1760 - 10


@pytest.mark.parametrize("kind", [FIFO_RWLOCK, FIFO_MUTEX])
def test_a_newcomer_cannot_steal_where_the_releaser_hands_over(kind, engine):
    """The same scene: granted to the sleeper at 1100, which works from 1210 to 1260; the newcomer waits for that."""
    result = play(
        engine,
        "TAKE; yield sleep(1000); DROP",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(1150); got = ATTEMPT; TAKE; yield cpu(500); DROP",
        kind=kind,
    )
    assert rows(result, "TRY") == [(1150, 2, "TRY", 0)]
    assert instants(result, "GRANT") == [(1100, 1), (1260, 2)]


@pytest.mark.parametrize("kind", [SPINNING_RWLOCK, BARGING_MUTEX])
def test_a_sleeper_is_woken_only_once_until_it_has_run(kind, engine):
    """Released at 1100 and, by a thief, at 1170; a fourth thread runs on until no wake-up can be on its way any more.

    Events: 4 starts; the CPU effects of 10, 1150, 20, 50 and 3000; the sleep; wake-up and switch.
    """
    result = play(
        engine,
        "TAKE; yield sleep(1000); DROP",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(1150); TAKE; yield cpu(20); DROP",
        "yield cpu(3000)",
        kind=kind,
    )
    assert instants(result, "GRANT") == [(1210, 1)]
    assert instants(result, "END") == [(1100, 0), (1170, 2), (1260, 1), (3000, 3)]
    assert result.events == 4 + 5 + 1 + 2


def test_a_lock_whose_line_is_elsewhere_is_fetched_first_one_at_a_time(kind, engine):
    """50 ns a transfer.  Threads 1 and 2 touch at 100, when the lock is free: lines come at 150 and 200."""
    later = "yield cpu(100); TAKE; DROP"
    result = play(engine, "TAKE; DROP", later, later, kind=kind, cache_line_ns=50)
    # Thread 1 has the line at 150, takes the lock, but thread 2 asked for the line at 100: its release waits until 250.
    # Thread 2 comes at 200, while the lock is held, and waits; its own release follows a touch by nobody else.
    granted = 250
    goes_on = granted + (1 if kind.spins else 110)
    assert instants(result, "RELEASE") == [(0, 0), (150, 1), (goes_on, 2)]
    assert instants(result, "GRANT") == [(granted, 2)]
    # The line was last touched by thread 1 (for its release), so thread 2 fetches it once more.
    assert result.time_ns == goes_on + 50
