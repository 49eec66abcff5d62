"""Counters that can be drained, such as an inode's count of direct I/Os (section 5)."""

from __future__ import annotations

from fssim.errors import BadValue
from tests.contract.scene import FIFO_RWLOCK, instants, line_of, play, rows

WAIT = "yield place.count.wait_zero()"


def test_waiters_are_woken_in_order_of_arrival_when_the_count_reaches_zero(engine):
    """Two hold the count until 1000; the waiters come at 30, 10 and 20, and go on after wake-up and switch."""
    holders = [f"yield place.count.inc(); yield cpu({until}); left = yield place.count.dec()" for until in (1000, 700)]
    waiters = [f"yield cpu({arrival}); {WAIT}" for arrival in (30, 10, 20)]
    result = play(engine, *holders, *waiters)
    assert rows(result, "DEC") == [(700, 1, "DEC", 1), (1000, 0, "DEC", 0)]
    assert instants(result, "RESUME") == [(1110, 3), (1110, 4), (1110, 2)]
    # Waits: 970, 990 and 980.
    assert result.time_by_category_ns["wait Place.count"] == 970 + 990 + 980
    assert result.time_by_category_ns["wakeup"] == 300


def test_a_zero_count_lets_pass_at_once(engine):
    result = play(engine, f"yield place.count.inc(); x = yield place.count.dec(); {WAIT}")
    assert rows(result, "WAITZERO", "RESUME") == [(0, 0, "WAITZERO", 0)]
    assert (result.events, result.time_ns) == (1, 0)


def test_a_woken_waiter_looks_again_and_waits_again_if_the_count_has_risen(engine):
    """Zero at 100 for an instant; the waiter looks at 210 and sees 1; zero again at 600, seen at 710."""
    holder = "yield place.count.inc(); yield cpu(100); x = yield place.count.dec()"
    result = play(engine, f"{holder}; {holder.replace('100', '500')}", f"yield cpu(10); {WAIT}")
    assert rows(result, "WAITZERO", "RESUME") == [
        (10, 1, "WAITZERO", 1),
        (210, 1, "WAITZERO", 1),
        (710, 1, "WAITZERO", 0),
        (710, 1, "RESUME", 0),
    ]


def test_waiters_that_wait_again_are_woken_again_every_one(engine):
    """Three waiters see the risen count at 210, and all go on at 710."""
    holder = "yield place.count.inc(); yield cpu(100); x = yield place.count.dec()"
    result = play(engine, f"{holder}; {holder.replace('100', '500')}", *[f"yield cpu(10); {WAIT}"] * 3)
    assert instants(result, "RESUME") == [(710, 1), (710, 2), (710, 3)]


def test_many_increments_and_decrements_lose_nothing(engine):
    """Drained again and again; nobody may pass while another one is inside."""
    worker = """
    for turn in range(20):
        yield place.count.inc()
        place.writers += 1
        pause = yield exponential(40)
        yield sleep(pause)
        place.writers -= 1
        left = yield place.count.dec()
        assert left >= 0
        yield sleep(200)
    """
    drainer = """
    for turn in range(10):
        yield place.count.wait_zero()
        assert place.writers == 0, 'passed a count that is not zero'
        yield cpu(1)
    """
    result = play(engine, worker, worker, worker, drainer, drainer, wakeup_ns=0, switch_ns=0, cpus=2)
    assert sorted(thread for _, thread in instants(result, "END")) == [0, 1, 2, 3, 4]


def test_a_decrement_below_zero_is_an_error(engine):
    threads = ["yield cpu(50)", "yield cpu(7)\nx = yield place.count.dec()  # HERE"]
    result = play(engine, *threads, check=False, seed=9)
    error = result.error
    assert type(error) is BadValue
    assert (error.thread, error.lock, error.time_ns, error.seed) == (1, "place.count", 7, 9)
    assert error.line == line_of(FIFO_RWLOCK, threads)
    assert rows(result, "DEC") == []
