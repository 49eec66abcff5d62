"""Mutex "barging", 2.6.29 to 3.9: a release gives it to a spinner chosen by chance, or to whoever comes first."""

from __future__ import annotations

import pytest

from fssim.engine.random import below, draw
from tests.contract.scene import BARGING_MUTEX, instants, play


def order_by_draws(seed: int, spinners: list[int], releaser: int) -> list[int]:
    """Section 4: spinner number choose(n) of the releasing thread's stream; no draw for the last."""
    spinners = list(spinners)
    drawn = dict.fromkeys([releaser, *spinners], 0)
    order = []
    while spinners:
        number = 0
        if len(spinners) > 1:
            number = below(draw(seed, releaser, drawn[releaser]), len(spinners))
            drawn[releaser] += 1
        releaser = spinners.pop(number)
        order.append(releaser)
    return order


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_which_spinner_gets_the_mutex_is_drawn_from_the_releasers_stream(engine, seed):
    """Thread 0 draws before, so that its stream is not at its beginning when it releases."""
    spinners = [f"yield cpu({10 * number}); TAKE; yield cpu(50); DROP" for number in range(1, 6)]
    result = play(engine, "TAKE; yield cpu(1000); DROP", *spinners, kind=BARGING_MUTEX, seed=seed)
    order = order_by_draws(seed, [1, 2, 3, 4, 5], releaser=0)
    # Each notices after 1 ns and works 50.
    assert instants(result, "GRANT") == [(1000 + 51 * turn, thread) for turn, thread in enumerate(order)]


def test_chance_does_not_mean_order_of_arrival():
    """The seeds above are worth something."""
    orders = [order_by_draws(seed, [1, 2, 3, 4, 5], releaser=0) for seed in (1, 2, 3)]
    assert len({tuple(order) for order in orders}) > 1
    assert all(order != [1, 2, 3, 4, 5] for order in orders)


def test_a_spinner_wins_against_a_sleeper_that_is_woken_at_the_same_release(engine):
    """Owner 0 sleeps until 200, then runs: thread 1 sleeps since 10, thread 2 spins since 300.  Released at 500."""
    result = play(
        engine,
        "TAKE; yield sleep(100); yield cpu(300); DROP",
        "yield cpu(10); TAKE; yield cpu(50); DROP",
        "yield cpu(300); TAKE; yield cpu(500); DROP",
        kind=BARGING_MUTEX,
    )
    # Thread 2 has it from 500 and works from 501 to 1001; thread 1 looks in vain at 610 and is woken again at 1001.
    assert instants(result, "GRANT") == [(500, 2), (1111, 1)]


def test_a_try_takes_a_free_mutex_past_its_sleepers(engine):
    """Released at 1100; the sleeper would be there at 1210."""
    result = play(
        engine,
        "TAKE; yield sleep(1000); DROP",
        "yield cpu(10); TAKE; DROP",
        "yield cpu(1150); got = ATTEMPT; assert got; yield cpu(100); DROP",
        kind=BARGING_MUTEX,
    )
    assert instants(result, "GRANT") == [(1360, 1)]  # 1250 + 110


def test_spinners_that_must_sleep_keep_their_order_of_arrival(engine):
    """Three spin for an owner that goes to sleep at 100 and leaves at 300 + 100; they work 7 ns each."""
    spinners = [f"yield cpu({arrival}); TAKE; yield cpu(7); DROP" for arrival in (30, 10, 20)]
    result = play(engine, "TAKE; yield cpu(100); yield sleep(200); DROP", *spinners, kind=BARGING_MUTEX)
    assert instants(result, "GRANT") == [(510, 2), (627, 3), (744, 1)]


def test_a_spinner_that_must_sleep_makes_those_sleep_who_spin_for_it(engine):
    """Thread 1 holds the second mutex and spins for the first, whose owner sleeps at 500.

    Thread 2, which spins for the second since 5, before its owner began to spin, must sleep as well.
    """
    result = play(
        engine,
        "TAKE; yield cpu(500); yield sleep(400); DROP",
        "SECOND; yield cpu(10); TAKE; DROP; yield place.second.release()",
        "yield cpu(5); SECOND; yield place.second.release()",
        "yield cpu(1)",
        "yield cpu(600)",
        kind=BARGING_MUTEX,
        cpus=3,
    )
    # Threads 3 and 4 wait for a processor and get those of 1 and 2 at 500.
    assert [(time_ns, thread) for time_ns, thread in instants(result, "CPU") if thread >= 3] == [(500, 3), (500, 4)]
    # 0 leaves at 1000; 1 takes it at 1110 and leaves both; 2 takes the second at 1220.
    assert instants(result, "GRANT") == [(1110, 1), (1220, 2)]
