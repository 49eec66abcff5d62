"""Spaces: `docs/semantics.md` section 5, with logs and times computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fssim.engine import messages, run
from fssim.errors import BadValue, Deadlock, SleepInAtomic
from fssim.machine.host import Host
from fssim.protocol import Shared, Space, SpinLock, cpu, protocol, sleep
from fssim.system import RunResult, System, Thread
from tests.engine.scenes import ENGINES, rows, times

pytestmark = pytest.mark.parametrize("engine", ENGINES)


class Journal(Shared):
    log: Space
    latch: SpinLock
    value: int


def play(engine: str, *programs: tuple[Any, ...], host: Host | None = None, **options: Any) -> RunResult:
    """Run programs on a journal with four units of log."""
    journal = Journal(log=Space(4))
    threads = [Thread(program, (journal, *integers)) for program, *integers in programs]
    check = options.pop("check", True)
    host = host or Host(cpus=4, switch_ns=4)
    return run(System(threads=threads, host=host, log=True, **options), engine=engine, check=check)


@protocol
def use(journal: Journal, after: int, units: int, work: int):
    yield sleep(after)
    yield journal.log.take(units)
    yield cpu(work)
    yield journal.log.give(units)


def test_units_that_are_free_are_taken_at_once(engine: str) -> None:
    result = play(engine, (use, 0, 3, 10), (use, 0, 1, 10))
    assert times(result, "TAKE") == [(0, 0), (0, 1)]
    assert rows(result, "GIVE", "GRANT", "RESUME") == [(10, 0, "GIVE", 3), (10, 1, "GIVE", 1)]


def test_who_asks_for_less_does_not_overtake(engine: str) -> None:
    # One unit is free from 0 on, which thread 2 could have at 2, but thread 1 asks for two since 1.  Both get theirs
    # when thread 0 gives back at 10; with wake-up and switch they go on at 17.
    host = Host(cpus=4, wakeup_ns=3, switch_ns=4)
    result = play(engine, (use, 0, 3, 10), (use_running, 1, 2, 5), (use_running, 2, 1, 5), host=host)
    assert rows(result) == [
        (0, 0, "SLEEP", 0),
        (0, 0, "TAKE", 3),
        (0, 0, "CPU", 10),
        (0, 1, "CPU", 1),
        (0, 2, "CPU", 2),
        (1, 1, "TAKE", 2),
        (2, 2, "TAKE", 1),
        (10, 0, "GIVE", 3),
        (10, 1, "GRANT", 2),
        (10, 2, "GRANT", 1),
        (10, 0, "END", 0),
        (17, 1, "RESUME", 0),
        (17, 1, "CPU", 5),
        (17, 2, "RESUME", 0),
        (17, 2, "CPU", 5),
        (22, 1, "GIVE", 2),
        (22, 1, "END", 0),
        (22, 2, "GIVE", 1),
        (22, 2, "END", 0),
    ]


@protocol
def use_running(journal: Journal, after: int, units: int, work: int):
    """As `use`, but computes before."""
    yield cpu(after)
    yield journal.log.take(units)
    yield cpu(work)
    yield journal.log.give(units)


def test_units_are_granted_up_to_the_first_who_wants_more_than_are_free(engine: str) -> None:
    # At 10 two are free: thread 2 gets one, thread 3 wants two and keeps thread 4 from the one that is left, although
    # that is enough.  At 20 two more are free: 3 gets two of the three, 4 the last.
    result = play(
        engine,
        (use, 0, 2, 10),
        (use, 0, 2, 20),
        (use, 1, 1, 100),
        (use, 2, 2, 100),
        (use, 3, 1, 100),
        host=Host(cpus=5),
    )
    assert rows(result, "GRANT") == [(10, 2, "GRANT", 1), (20, 3, "GRANT", 2), (20, 4, "GRANT", 1)]


def test_who_comes_while_others_wait_joins_them_although_enough_is_free(engine: str) -> None:
    # Thread 2 gives one back at 10, too few for thread 1, and cannot have it again before thread 0 gives three at 20.
    result = play(engine, (use, 0, 3, 20), (use, 1, 4, 5), (give_and_take, 10))
    assert rows(result, "GRANT") == [(20, 1, "GRANT", 4), (29, 2, "GRANT", 1)]


@protocol
def give_and_take(journal: Journal, work: int):
    yield journal.log.take(1)
    yield cpu(work)
    yield journal.log.give(1)
    yield journal.log.take(1)
    yield journal.log.give(1)


@protocol
def take_only(journal: Journal, units: int):
    yield journal.log.take(units)


@protocol
def give_only(journal: Journal, taken: int, given: int):
    yield journal.log.take(taken)
    yield journal.log.give(given)


@pytest.mark.parametrize("units", [0, -1, 5])
def test_nobody_takes_less_than_one_unit_or_more_than_there_are(engine: str, units: int) -> None:
    result = play(engine, (take_only, units), check=False)
    assert isinstance(result.error, BadValue)
    assert (result.error.detail, result.error.lock) == (messages.BAD_UNITS, "journal.log")
    assert rows(result) == []


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        (0, messages.BAD_UNITS),
        (-1, messages.BAD_UNITS),
        (4, messages.TOO_MUCH_GIVEN),
        (5, messages.TOO_MUCH_GIVEN),
        (2**63 - 1, messages.TOO_MUCH_GIVEN),
    ],
)
def test_nobody_gives_less_than_one_unit_or_more_than_are_taken(engine: str, given: int, detail: str) -> None:
    result = play(engine, (give_only, 3, given), check=False)
    assert isinstance(result.error, BadValue)
    assert (result.error.detail, result.error.lock) == (detail, "journal.log")
    assert [kind for _, _, kind, _ in rows(result)] == ["TAKE"]


def test_units_may_be_given_by_a_thread_that_did_not_take_them(engine: str) -> None:
    result = play(engine, (take_only, 4), (use, 3, 2, 0), (give_running, 10, 3))
    # 10: three are free, two of them granted; 14: thread 1 has switched and gives them back.
    assert rows(result, "GRANT", "GIVE") == [(10, 2, "GIVE", 3), (10, 1, "GRANT", 2), (14, 1, "GIVE", 2)]


@protocol
def give_running(journal: Journal, after: int, units: int):
    yield cpu(after)
    yield journal.log.give(units)


@protocol
def use_atomically(journal: Journal, taken: int, given: int, taken_again: int):
    yield journal.log.take(taken)
    yield journal.latch.acquire()
    yield journal.log.give(given)
    yield journal.log.take(taken_again)


def test_the_holder_of_a_spinlock_may_give_but_not_take_even_what_is_free(engine: str) -> None:
    result = play(engine, (use_atomically, 2, 2, 1), check=False)
    assert isinstance(result.error, SleepInAtomic)
    assert result.error.lock == "journal.log"
    assert [kind for _, _, kind, _ in rows(result)] == ["TAKE", "ACQUIRE", "GIVE"]


def test_units_out_of_range_are_found_before_the_sleep_of_a_spinlock_holder(engine: str) -> None:
    assert isinstance(play(engine, (use_atomically, 2, 2, 5), check=False).error, BadValue)


def test_a_thread_whose_units_nobody_gives_back_is_deadlocked(engine: str) -> None:
    result = play(engine, (take_only, 3), (take_only, 2), check=False)
    assert isinstance(result.error, Deadlock)
    assert (result.error.thread, result.error.lock) == (1, "journal.log")
    assert f"thread 1 waits for journal.log (line {result.error.line});" in str(result.error)


def test_the_wait_for_units_is_time_of_its_own_category(engine: str) -> None:
    result = play(engine, (use, 0, 3, 10), (use, 2, 2, 5))
    # Thread 1 waits from 2 to 10.
    assert result.time_by_category_ns["wait Journal.log"] == 8
    assert {use.name for use in result.locks} == {"Journal.latch"}


@protocol
def look_at_what_is_free(journal: Journal):
    yield cpu(journal.log.free)
    yield journal.log.take(3)
    yield cpu(journal.log.free)
    yield journal.log.give(2)
    journal.value = journal.log.free


def test_what_is_free_is_read_without_a_row(engine: str) -> None:
    result = play(engine, (look_at_what_is_free,))
    assert [(kind, value) for _, _, kind, value in rows(result)] == [
        ("CPU", 4),
        ("TAKE", 3),
        ("CPU", 1),
        ("GIVE", 2),
        ("END", 0),
    ]
    assert dict(result.final)["journal.value"] == 3
