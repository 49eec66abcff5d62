"""Who waits for whom, where the contract gives every figure."""

from __future__ import annotations

import pytest

from fssim.explain.blame import Blames, Phase, _last_to_let_go
from fssim.explain.explanation import Explanation, explain
from fssim.explain.states import CPU, DEVICE, SLEEP, WAIT, WAKING, Hold
from tests.explain.filesystems import (
    CHAIN_COMPUTES,
    CHAIN_SLEEPS,
    COMPUTES,
    DEVICE_NS,
    SERVES,
    SLEEPS,
    cell,
    chain,
    machine,
    one_lock,
    served,
    submits,
)

WAKEUP = 1_000


@pytest.fixture(scope="module")
def instant() -> Explanation:
    return explain(cell(one_lock, 2, machine()))


@pytest.fixture(scope="module")
def slow_wakeups() -> Explanation:
    return explain(cell(one_lock, 2, machine(wakeup_ns=WAKEUP)))


@pytest.fixture(scope="module")
def chained() -> Explanation:
    return explain(cell(chain, 3, machine()))


def direct(blames: Blames, lock: str) -> dict[Phase, float]:
    """Shares of the waiting for a lock by the phase of its holder."""
    found = {blame.phase: blame.waited_ns for blame in blames.direct if blame.lock == lock and blame.waited_ns}
    return {phase: time / sum(found.values()) for phase, time in found.items()}


def test_waiting_is_charged_to_what_the_holder_does(instant: Explanation) -> None:
    # One thread always waits while the other computes and sleeps.
    assert direct(instant.blames, "Inode.outer") == {
        Phase(CPU, "one_lock"): COMPUTES / (COMPUTES + SLEEPS),
        Phase(SLEEP, "one_lock"): SLEEPS / (COMPUTES + SLEEPS),
    }
    assert instant.blames.total_ns == instant.run.ios * (COMPUTES + SLEEPS)


def test_every_wait_begins_when_the_other_begins_to_compute(instant: Explanation) -> None:
    begun = {blame.phase: blame.begun for blame in instant.blames.direct if blame.begun}
    assert set(begun) == {Phase(CPU, "one_lock")}


def test_wakeups_of_a_holder_are_phases_of_their_own(slow_wakeups: Explanation) -> None:
    hold = WAKEUP + COMPUTES + SLEEPS + WAKEUP
    assert direct(slow_wakeups.blames, "Inode.outer") == {
        Phase(WAKING, "waiting for Inode.outer"): WAKEUP / hold,
        Phase(CPU, "one_lock"): COMPUTES / hold,
        Phase(SLEEP, "one_lock"): SLEEPS / hold,
        Phase(WAKING, "a timer"): WAKEUP / hold,
    }


def test_hand_over_and_its_share_of_the_hold(slow_wakeups: Explanation) -> None:
    (outer,) = (lock for lock in slow_wakeups.locks if lock.lock == "Inode.outer")
    assert outer.handover_ns == WAKEUP
    assert outer.handover_share_of_hold == pytest.approx(WAKEUP / (2 * WAKEUP + COMPUTES + SLEEPS), rel=0.05)
    assert (outer.share_of_ios, outer.contended, outer.per_io) == (1, 1, 1)


def test_chains_are_followed_to_their_end(chained: Explanation) -> None:
    cycle = CHAIN_SLEEPS + CHAIN_COMPUTES
    assert direct(chained.blames, "Inode.outer") == {
        Phase(WAIT, "Inode.inner exclusive"): CHAIN_SLEEPS / cycle,
        Phase(CPU, "chain"): CHAIN_COMPUTES / cycle,
    }
    by_phase: dict[Phase, int] = {}
    for root, time in chained.blames.roots.items():
        by_phase[root.phase] = by_phase.get(root.phase, 0) + time
    total = chained.blames.total_ns
    assert {phase: time / total for phase, time in by_phase.items()} == {
        Phase(SLEEP, "chain"): CHAIN_SLEEPS / cycle,
        Phase(CPU, "chain"): CHAIN_COMPUTES / cycle,
    }
    sleeper = next(root for root in chained.blames.roots if root.phase.kind == SLEEP)
    assert sleeper.text == "a holder of Inode.inner (exclusive) sleeps on a timer in chain"


def test_a_timer_is_told_what_others_wait_because_of_it(chained: Explanation) -> None:
    (timer,) = chained.timers
    assert timer.place.text == "yield sleep(CHAIN_SLEEPS)"
    assert timer.sleep_ns == CHAIN_SLEEPS
    sleeping = sum(time for root, time in chained.blames.roots.items() if root.phase.kind == SLEEP)
    assert timer.causes_ns == sleeping / chained.run.ios


def test_a_wait_for_a_daemon_is_charged_to_what_the_daemon_does() -> None:
    blames = explain(cell(served(), 1, machine(), pattern="seqwr")).blames
    assert {root.phase: time / blames.total_ns for root, time in blames.roots.items()} == {
        Phase(CPU, "server"): SERVES / (SERVES + DEVICE_NS),
        Phase(DEVICE, "server"): DEVICE_NS / (SERVES + DEVICE_NS),
    }


def test_a_wait_that_the_device_ends_has_no_holder() -> None:
    blames = explain(cell(submits, 1, machine())).blames
    assert {root.text for root in blames.roots} == {
        "the device has yet to complete an I/O, of which it tells Inode.in_flight"
    }


def test_of_several_readers_the_last_to_let_go_is_charged() -> None:
    holds = [Hold(0, 10, 1, 1), Hold(2, 5, 2, 1), Hold(4, 12, 3, 1), Hold(20, 22, 4, 2)]
    assert list(_last_to_let_go(holds)) == [Hold(0, 4, 1, 1), Hold(4, 12, 3, 1), Hold(20, 22, 4, 2)]
