"""What a timeline shows is what the run's own statistics say."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from fssim.engine import run
from fssim.filesystem import load_filesystem
from fssim.plot.spans import completions_of, holds_of, spans_of
from fssim.profile import load_machine
from fssim.system import RunResult
from fssim.workload.sysbench import build_system
from tests.experiment.conftest import MACHINE

THREADS = 4


@pytest.fixture(scope="module", params=["xfs-2.6.39", "xfs-2.6.39+shared-read-lock", "ext4-3.0"])
def result(request: pytest.FixtureRequest) -> RunResult:
    filesystem = load_filesystem(request.param)
    return run(build_system(filesystem, load_machine(MACHINE), "seqrd", 4096, THREADS, ios=60, log=True))


def test_spans_of_a_thread_follow_each_other_without_gap(result: RunResult) -> None:
    for thread in range(THREADS):
        spans = [span for span in spans_of(result) if span.thread == thread]
        assert spans[0].start_ns == 0
        assert spans[-1].end_ns == result.time_ns
        for before, after in pairwise(spans):
            assert before.end_ns == after.start_ns


def test_time_by_state_is_that_of_the_statistics(result: RunResult) -> None:
    # The log does not tell a spinner that is handed a lock (it runs) from a sleeper (it is woken up), nor when a
    # sleeper is woken that has to compete for a mutex.
    same = {"wakeup": "cpu", "ready": "cpu", "wait": "cpu"}
    states: Counter[str] = Counter()
    for span in spans_of(result):
        kind = "wait" if span.state.startswith("wait ") else span.state
        states[same.get(kind, kind)] += span.end_ns - span.start_ns
    categories: Counter[str] = Counter()
    for name, total in result.time_by_category_ns.items():
        categories["cpu" if name.startswith("wait ") else same.get(name, name)] += total
    assert states == +categories


def test_nobody_holds_a_lock_beside_an_exclusive_holder(result: RunResult) -> None:
    holds = holds_of(result)
    assert holds
    for hold in holds:
        if hold.mode == "exclusive":
            for other in holds:
                if other is not hold and other.lock == hold.lock:
                    assert other.end_ns <= hold.start_ns or other.start_ns >= hold.end_ns


def test_held_time_is_that_of_the_lock_table(result: RunResult) -> None:
    held: Counter[tuple[str, str]] = Counter()
    for hold in holds_of(result):
        held[hold.lock, hold.mode] += hold.end_ns - hold.start_ns
    open_at_the_end = sum(hold.end_ns == result.time_ns for hold in holds_of(result))
    for lock in result.locks:
        found = held[lock.name.rsplit(".", 1)[-1], lock.mode]
        # The table counts a hold when it ends; those still open are in the picture only.
        assert found == lock.hold_total_ns or (open_at_the_end and found > lock.hold_total_ns)


def test_completions_are_counted(result: RunResult) -> None:
    assert len(completions_of(result)) == 60
