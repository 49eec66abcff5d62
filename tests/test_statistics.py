"""Intervals contain the truth as often as they say, pairing narrows a ratio, and Little's law is enforced."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fssim.statistics import (
    Interval,
    LittlesLawViolated,
    check_littles_law,
    iops_interval,
    ratio_interval,
    student_quantile,
)
from fssim.system import RunResult


@pytest.mark.parametrize(
    ("confidence", "degrees", "quantile"),
    # Abramowitz and Stegun, table 26.10
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 5, 2.571), (0.95, 19, 2.093), (0.99, 10, 3.169), (0.90, 120, 1.658)],
)
def test_student_quantiles_are_those_of_the_tables(confidence: float, degrees: int, quantile: float) -> None:
    assert student_quantile(confidence, degrees) == pytest.approx(quantile, abs=6e-4)


def test_student_quantile_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for degrees in (*range(1, 40), 99, 1000):
        assert student_quantile(0.95, degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-9)


def test_the_iops_interval_contains_the_true_rate_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    inside = sum(100 * 1e9 / 1e6 in iops_interval(random.normal(1e6, 2e5, 20), batch_ios=100) for _ in range(2000))
    assert 0.93 < inside / 2000 < 0.97


def test_the_ratio_interval_contains_the_true_ratio_as_often_as_it_says() -> None:
    random = np.random.default_rng(2)
    inside = 0
    for _ in range(2000):
        common = random.normal(1, 0.1, 20)
        before, after = 3e6 * (common + random.normal(0, 0.05, 20)), 1e6 * (common + random.normal(0, 0.05, 20))
        inside += 3.0 in ratio_interval(before, after)
    assert 0.93 < inside / 2000 < 0.97


def test_what_moves_both_runs_alike_cancels_in_the_ratio() -> None:
    common = np.random.default_rng(3).normal(1e6, 2e5, 20)
    ratio = ratio_interval(2 * common, common)
    assert ratio.value == pytest.approx(2.0)
    assert ratio.high - ratio.low < 1e-9
    assert iops_interval(common, 100).half_width_percent > 5


def test_one_batch_gives_no_width_and_a_wild_batch_an_open_interval() -> None:
    assert iops_interval(np.array([1e6]), 100) == Interval(1e5, 1e5, 1e5)
    assert iops_interval(np.array([1.0, 1e9]), 100).high == math.inf


def result(in_flight_ns: int, latency_ns: int) -> RunResult:
    return RunResult(
        error=None,
        seed=7,
        time_ns=1000,
        window_ns=1000,
        ios=100,
        latency_ns=latency_ns,
        in_flight_ns=in_flight_ns,
        batch_end_ns=np.array([1000]),
        time_by_category_ns={},
        sleeps_in_submission={},
        locks=(),
        busy_ns={},
        final=(),
        objects=(),
        events=1,
    )


def test_littles_law_allows_for_the_ends_of_the_window_and_nothing_else() -> None:
    check_littles_law(result(4000, 4000), 4, "a cell")
    check_littles_law(result(4000, 4400), 4, "a cell")
    with pytest.raises(
        LittlesLawViolated, match=r"a cell: 4.000 I/Os in flight, but rate x latency is 5.000 \(seed 7\)"
    ):
        check_littles_law(result(4000, 5000), 4, "a cell")
    with pytest.raises(LittlesLawViolated, match="no I/O completed"):
        check_littles_law(dataclasses.replace(result(0, 0), ios=0), 4, "a cell")
