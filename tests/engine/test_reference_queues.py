"""Queues: `docs/semantics.md` section 5, with logs and times computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fssim.engine import run
from fssim.errors import Deadlock, SleepInAtomic
from fssim.machine.host import Host
from fssim.protocol import Queue, Shared, SpinLock, cpu, protocol, sleep
from fssim.system import RunResult, System, Thread
from tests.engine.scenes import ENGINES, rows, times

pytestmark = pytest.mark.parametrize("engine", ENGINES)

LATENCIES = Host(cpus=4, wakeup_ns=3, switch_ns=4)


class Ticket(Shared):
    number: int


class Post(Shared):
    letters: Queue[int]
    tickets: Queue[Ticket]
    latch: SpinLock
    favourite: Ticket
    value: int


def office(*letters: int, tickets: tuple[Ticket, ...] = (), favourite: Ticket | None = None) -> Post:
    return Post(letters=Queue(letters), tickets=Queue(tickets), favourite=favourite or Ticket(number=-1))


def play(engine: str, post: Post, *programs: tuple[Any, ...], host: Host = LATENCIES, **options: Any) -> RunResult:
    threads = [Thread(program, (post, *integers)) for program, *integers in programs]
    check = options.pop("check", True)
    return run(System(threads=threads, host=host, log=True, **options), engine=engine, check=check)


def lines(result: RunResult, kind: str) -> list[int]:
    """Source lines of the rows of one kind."""
    assert result.log is not None
    told = zip(result.log.tolist(), rows(result), strict=True)
    return [row[2] for row, (_, _, name, _) in told if name == kind]


@protocol
def take(post: Post, after: int, times: int):
    """Get letters one after the other; what they are is seen in the rows of the CPU effects."""
    yield sleep(after)
    for _ in range(times):
        letter = yield post.letters.get()
        yield cpu(letter)


@protocol
def bring(post: Post, after: int, first: int, second: int):
    yield sleep(after)
    yield post.letters.put(first)
    yield post.letters.put(second)


def test_items_leave_in_the_order_in_which_they_came_and_nobody_waits_for_what_is_there(engine: str) -> None:
    result = play(engine, office(5), (bring, 0, 6, 7), (take, 0, 3))
    # Thread 0 runs first.  The value of PUT and GET is the length before.
    assert rows(result, "PUT", "GET", "CPU", "GRANT", "RESUME") == [
        (0, 0, "PUT", 1),
        (0, 0, "PUT", 2),
        (0, 1, "GET", 3),
        (0, 1, "CPU", 5),
        (5, 1, "GET", 2),
        (5, 1, "CPU", 6),
        (11, 1, "GET", 1),
        (11, 1, "CPU", 7),
    ]


def test_an_item_goes_to_the_thread_that_has_waited_longest_which_wakes_up_and_switches(engine: str) -> None:
    result = play(engine, office(), (take, 0, 1), (take, 0, 1), (bring, 7, 60, 70))
    # The sleep of thread 2 ends at 7 + 3; those who are granted go on at 10 + 3 + 4.
    assert rows(result) == [
        (0, 0, "SLEEP", 0),
        (0, 0, "GET", 0),
        (0, 1, "SLEEP", 0),
        (0, 1, "GET", 0),
        (0, 2, "SLEEP", 7),
        (10, 2, "RESUME", 0),
        (10, 2, "PUT", 0),
        (10, 0, "GRANT", 0),
        (10, 2, "PUT", 0),
        (10, 1, "GRANT", 0),
        (10, 2, "END", 0),
        (17, 0, "RESUME", 0),
        (17, 0, "CPU", 60),
        (17, 1, "RESUME", 0),
        (17, 1, "CPU", 70),
        (77, 0, "END", 0),
        (87, 1, "END", 0),
    ]
    assert lines(result, "GRANT") == lines(result, "GET") == lines(result, "RESUME")[1:]


def test_who_asks_before_the_woken_thread_runs_does_not_overtake_it(engine: str) -> None:
    # Thread 0 is granted 60 at 10 and goes on at 17; thread 2 asks at 12 and gets what is brought at 33.
    result = play(engine, office(), (take, 0, 1), (bring_one, 7, 60), (take, 9, 1), (bring_one, 30, 70))
    assert rows(result, "GET", "GRANT", "CPU") == [
        (0, 0, "GET", 0),
        (10, 0, "GRANT", 0),
        (12, 2, "GET", 0),
        (17, 0, "CPU", 60),
        (33, 2, "GRANT", 0),
        (40, 2, "CPU", 70),
    ]


@protocol
def bring_one(post: Post, after: int, letter: int):
    yield sleep(after)
    yield post.letters.put(letter)


@protocol
def number_tickets(post: Post):
    """Every ticket of the queue gets a number of its own, and goes to its end."""
    for turn in range(2):
        ticket = yield post.tickets.get()
        ticket.number = 10 + turn
        yield post.tickets.put(ticket)


def test_objects_in_a_queue_are_those_that_are_reachable_otherwise_and_the_template_stays(engine: str) -> None:
    first, second = Ticket(number=1), Ticket(number=2)
    post = office(tickets=(first, second), favourite=second)
    result = play(engine, post, (number_tickets,))
    # The queue's tickets come right after it in the canonical walk: before the field `favourite`.
    assert result.final == (("post.tickets[0].number", 10), ("post.tickets[1].number", 11), ("post.value", 0))
    assert result.objects == ("post.letters", "post.tickets", "post.latch")
    assert rows(result, "GET", "PUT") == [(0, 0, "GET", 2), (0, 0, "PUT", 1), (0, 0, "GET", 2), (0, 0, "PUT", 1)]
    assert (first.number, second.number, post.tickets.items) == (1, 2, (first, second))


@protocol
def put_atomically(post: Post):
    yield post.latch.acquire()
    yield post.letters.put(5)
    yield post.latch.release()


@protocol
def get_atomically(post: Post):
    yield post.latch.acquire()
    yield post.letters.get()


def test_an_item_may_be_put_by_the_holder_of_a_spinlock(engine: str) -> None:
    result = play(engine, office(), (take, 0, 1), (put_atomically,))
    assert rows(result, "GRANT") == [(0, 0, "GRANT", 0)]
    assert times(result, "RESUME") == [(7, 0)]


def test_the_holder_of_a_spinlock_must_not_get_even_what_is_there(engine: str) -> None:
    result = play(engine, office(5), (get_atomically,), check=False)
    assert isinstance(result.error, SleepInAtomic)
    assert (result.error.thread, result.error.lock) == (0, "post.letters")
    assert [kind for _, _, kind, _ in rows(result)] == ["ACQUIRE"]


def test_a_thread_that_gets_from_an_empty_queue_that_nobody_fills_is_deadlocked(engine: str) -> None:
    result = play(engine, office(), (take, 5, 1), host=Host(cpus=1), check=False)
    assert isinstance(result.error, Deadlock)
    assert (result.error.thread, result.error.lock, result.error.time_ns) == (0, "post.letters", 5)
    assert f"thread 0 waits for post.letters (line {result.error.line});" in str(result.error)


def test_the_wait_for_an_item_is_time_of_its_own_category_until_the_grant(engine: str) -> None:
    result = play(engine, office(), (take, 0, 1), (bring_one, 7, 60))
    # Thread 0 waits from 0 to 10, is on its way to 13, then runs: the switch and 60.  Thread 1 sleeps 7, wakes up 3.
    assert result.time_by_category_ns == {
        "cpu": 64,
        "ready": 0,
        "wakeup": 3 + 3,
        "device": 0,
        "sleep": 7,
        "wait Post.letters": 10,
        "wait Post.tickets": 0,
        "wait Post.latch exclusive": 0,
    }
    assert {(use.name, use.mode) for use in result.locks} == {("Post.latch", "exclusive")}


@protocol
def look_at_the_length(post: Post):
    yield cpu(post.letters.length)
    yield post.letters.put(1)
    yield cpu(post.letters.length)
    yield post.letters.get()
    post.value = post.letters.length


def test_the_length_is_read_without_a_row(engine: str) -> None:
    result = play(engine, office(8, 8), (look_at_the_length,))
    assert [(kind, value) for _, _, kind, value in rows(result)] == [
        ("CPU", 2),
        ("PUT", 2),
        ("CPU", 3),
        ("GET", 3),
        ("END", 0),
    ]
    assert dict(result.final)["post.value"] == 2


@protocol
def look_while_others_wait(post: Post, after: int):
    yield sleep(after)
    yield cpu(100 + post.letters.length)


def test_threads_that_wait_are_not_part_of_the_length(engine: str) -> None:
    result = play(engine, office(), (take, 0, 1), (look_while_others_wait, 5), (bring_one, 20, 0))
    assert rows(result, "CPU")[0] == (8, 1, "CPU", 100)
