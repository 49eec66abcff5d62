"""One thread repeats the order of many, so that what the order costs is not blamed on a lock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fssim import engine
from fssim.explain.budget import Item
from fssim.explain.explanation import Explanation, explain
from fssim.explain.order import recorded_order, recording, repeating
from fssim.explain.words import sentences
from fssim.workload.sysbench import PATTERNS
from tests.explain.filesystems import cell, filesystem, machine, one_lock, order_matters

PENALTY = Item("path", "CPU", "penalty")


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(cell(order_matters, 4, machine(), ios=256))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_recording_does_not_change_the_run(pattern: str) -> None:
    given = cell(filesystem(one_lock, order_matters), 3, machine(wakeup_ns=700), pattern=pattern)
    plain, recorded = (engine.run(given.system(record=record)) for record in (False, True))
    assert plain.time_ns == recorded.time_ns
    assert plain.time_by_category_ns.items() <= recorded.time_by_category_ns.items()
    assert plain.locks == recorded.locks


@pytest.mark.parametrize("pattern", PATTERNS)
def test_one_thread_transfers_the_same_blocks_in_the_same_order(pattern: str) -> None:
    given = cell(filesystem(one_lock, order_matters), 3, machine(), pattern=pattern)
    order = recorded_order(engine.run(given.system(record=True)))
    assert len(order) >= given.ios + given.warmup_ios
    wrapped = recording(given.filesystem)
    alone = replace(given, filesystem=wrapped).system(threads=1)
    again = engine.run(repeating(alone, wrapped, pattern, order, given.warmup_ios))
    assert recorded_order(again) == order


def test_what_the_order_costs_one_thread_pays_too(explained: Explanation) -> None:
    assert explained.same is not None
    assert explained.alone is not None
    assert explained.run.budget[PENALTY] > 0
    assert explained.same.budget[PENALTY] == pytest.approx(explained.run.budget[PENALTY], rel=0.1)
    assert explained.alone.budget.get(PENALTY, 0) == 0


def test_the_order_is_named_as_the_reason(explained: Explanation) -> None:
    (text,) = (text for about, text in sentences(explained) if about == "Path cost")
    assert "the order of the blocks adds" in text
    assert "in penalty" in text


def test_lines_that_one_thread_does_not_run_are_listed(explained: Explanation) -> None:
    assert [line.place.text for line in explained.lines] == ["yield cpu(7_000)"]
    (line,) = explained.lines
    assert line.same == pytest.approx(line.cell, rel=0.1)
    assert line.alone == 0
