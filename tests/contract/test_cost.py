"""The cost of a lock operation does not grow with the number of waiters.

Counted, not timed: events of the simulation, and lines of the engine's source that are executed when it runs without
jit.  If a waiter more costs as much between 64 and 128 waiters as between 8 and 16, the cost of a grant is constant.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests.contract.scene import (
    BARGING_MUTEX,
    FIFO_MUTEX,
    FIFO_RWLOCK,
    SPINLOCK,
    SPINNING_RWLOCK,
    Kind,
    final,
    instants,
    play,
)
from tests.mutants.mutation import ENGINES, interpreted_engines

WORKER = "TAKE; place.entries += 1; yield cpu(10); DROP"
READER = "SHARE; place.entries += 1; UNSHARE"


def contended(engine: str, kind: Kind, waiters: int, owner: str, waiter: str = WORKER) -> Any:
    """All wait for thread 0, which has the lock for 1,000 ns; then one after the other has it, or all readers together.

    The depth of the event heap grows with the events that are due together, so the readers' take no time.
    """
    costs = {"wakeup_ns": 0, "switch_ns": 0} if waiter == READER else {}
    result = play(engine, f"TAKE; {owner}; DROP", *[waiter] * waiters, kind=kind, cpus=waiters + 1, **costs)
    assert final(result, "entries") == waiters
    assert len(instants(result, "GRANT")) == waiters
    return result


@pytest.mark.parametrize("waiters", [8, 128])
@pytest.mark.parametrize(
    ("kind", "owner", "events_a_waiter"),
    [
        # Each: its start and the end of its work; a sleeper also its wake-up and switch, a spinner the hand-over.
        (FIFO_RWLOCK, "yield cpu(1000)", 4),
        (FIFO_MUTEX, "yield cpu(1000)", 4),
        (SPINNING_RWLOCK, "yield cpu(1000)", 3),
        (BARGING_MUTEX, "yield cpu(1000)", 3),
        (SPINLOCK, "yield cpu(1000)", 3),
        (FIFO_RWLOCK, "yield sleep(1000)", 4),
        (FIFO_MUTEX, "yield sleep(1000)", 4),
        (SPINNING_RWLOCK, "yield sleep(1000)", 4),
        (BARGING_MUTEX, "yield sleep(1000)", 4),
    ],
)
def test_events_a_grant_are_the_same_for_8_and_128_waiters(engine, kind, owner, events_a_waiter, waiters):
    """Besides those of the waiters, the owner's start and the end of its hold."""
    assert contended(engine, kind, waiters, owner).events == 2 + events_a_waiter * waiters


@pytest.mark.parametrize(
    ("kind", "owner", "waiter"),
    [
        (FIFO_RWLOCK, "yield cpu(1000)", WORKER),
        (FIFO_RWLOCK, "yield cpu(1000)", READER),
        (FIFO_MUTEX, "yield cpu(1000)", WORKER),
        (SPINNING_RWLOCK, "yield cpu(1000)", WORKER),
        (SPINNING_RWLOCK, "yield sleep(1000)", WORKER),
        (SPINNING_RWLOCK, "yield cpu(500); yield sleep(500)", WORKER),
        (SPINNING_RWLOCK, "yield cpu(1000)", READER),
        (BARGING_MUTEX, "yield sleep(1000)", WORKER),
        (BARGING_MUTEX, "yield cpu(500); yield sleep(500)", WORKER),
        (SPINLOCK, "yield cpu(1000)", WORKER),
    ],
)
def test_work_of_the_engine_a_grant_does_not_grow_with_the_waiters(engine, kind, owner, waiter):
    lines = {
        waiters: lines_executed(lambda waiters=waiters: contended(engine, kind, waiters, owner, waiter))
        for waiters in (8, 16, 64, 128)
    }
    few, many = (lines[16] - lines[8]) / 8, (lines[128] - lines[64]) / 64
    assert many == few > 20  # exactly: nothing here is left to chance


def barging_on_4_processors(engine: str, waiters: int) -> Any:
    """At most 3 spin; the others wait for a processor."""
    return play(engine, "TAKE; yield cpu(1000); DROP", *[WORKER] * waiters, kind=BARGING_MUTEX, cpus=4)


@pytest.mark.parametrize("waiters", [8, 128])
def test_events_a_grant_are_the_same_however_many_wait_for_a_processor(engine, waiters):
    """Start, end of work, hand-over; for those who found no processor at first also the event that gives them one."""
    assert barging_on_4_processors(engine, waiters).events == 2 + 3 * waiters + (waiters - 3)


def test_choosing_a_spinner_by_chance_costs_at_most_what_the_processors_allow(engine):
    """The chosen spinner is looked for among the spinners: as many as there are processors, however many wait."""
    lines = {
        waiters: lines_executed(lambda waiters=waiters: barging_on_4_processors(engine, waiters))
        for waiters in (32, 64, 128)
    }
    few, many = (lines[64] - lines[32]) / 32, (lines[128] - lines[64]) / 64
    assert 20 < many < few * 1.05  # which of the 3 is chosen varies by a few lines


def lines_executed(action: Callable[[], object]) -> int:
    """Count the lines of the engines' source that run during the action, without jit."""
    count = 0
    root = str(ENGINES)
    ours: dict[str, bool] = {}

    def in_engine(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            return in_engine
        filename = frame.f_code.co_filename
        if filename not in ours:
            # What prepares a run and names its results is no lock operation.
            ours[filename] = filename.startswith(root) and not filename.endswith(PREPARATION)
        return in_engine if ours[filename] else None

    with interpreted_engines():
        action()  # imports are not counted
        before = sys.gettrace()
        sys.settrace(in_engine)
        try:
            action()
        finally:
            sys.settrace(before)
    return count


PREPARATION = ("compiled_run.py", "objects.py", "engine.py")
