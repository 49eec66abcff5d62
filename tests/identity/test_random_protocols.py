"""Both engines give the same log, error, final state and statistics for random protocols on random machines."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fssim.engine import run
from tests.identity.compare import assert_identical
from tests.identity.random_protocols import random_system

CHUNKS = 25
PROTOCOLS_A_CHUNK = 100


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_engines_agree_on_random_protocols(chunk: int) -> None:
    for seed in range(chunk * PROTOCOLS_A_CHUNK, (chunk + 1) * PROTOCOLS_A_CHUNK):
        made = random_system(Random(seed))
        try:
            assert_identical(made.system, made.source)
        except AssertionError as difference:
            # The report holds the text of the protocols; the seed repeats it.
            raise AssertionError(f"random_system(Random({seed})): {difference}") from None


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False))
def test_engines_agree_on_random_protocols_shrunk_if_they_do_not(random: Random) -> None:
    made = random_system(random)
    assert_identical(made.system, made.source)


def test_random_protocols_are_worth_running() -> None:
    """Few deadlocks and limits, some of every error, and much of it under contention."""
    ends: Counter[str] = Counter()
    kinds: Counter[int] = Counter()
    runs = 300
    for seed in range(runs):
        result = run(random_system(Random(seed)).system, engine="reference", check=False)
        ends[type(result.error).__name__ if result.error else "finished"] += 1
        assert result.log is not None
        kinds.update(result.log[:, 3].tolist())
    assert ends["finished"] > runs * 0.6
    assert 0 < ends["Deadlock"] < runs * 0.15
    assert len(ends) >= 8
    assert len(kinds) == 19  # every effect and every other row of the log
