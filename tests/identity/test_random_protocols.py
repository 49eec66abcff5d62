"""Both engines give the same log, error, final state and statistics for random protocols on random machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fssim.engine import run
from tests.identity.compare import assert_identical
from tests.identity.random_protocols import RandomSystem, random_system

CHUNKS = 25
PROTOCOLS_A_CHUNK = 100
# Hypothesis draws the seed of a generator.  If it drew every choice (`use_true_random=False`), it could shrink, as the
# last test but one does, but more than half of the protocols would be copies: it likes to repeat what it drew before.
SYSTEMS = st.randoms(use_true_random=True).map(random_system)


def for_random_systems(number: int, chunk: int, check: Callable[[RandomSystem], None]) -> None:
    """Check `number` random systems; those of a chunk are the same in every run."""

    @seed(chunk)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(SYSTEMS)
    def check_all(made: RandomSystem) -> None:
        check(made)

    check_all()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_engines_agree_on_random_protocols(chunk: int) -> None:
    sources: set[str] = set()

    def check(made: RandomSystem) -> None:
        sources.add(made.source)
        assert_identical(made.system, made.source)

    for_random_systems(PROTOCOLS_A_CHUNK, chunk, check)
    assert len(sources) >= 0.9 * PROTOCOLS_A_CHUNK  # of a chunk; copies in other chunks are not counted


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

    def count(made: RandomSystem) -> None:
        result = run(made.system, engine="reference", check=False)
        ends[type(result.error).__name__ if result.error else "finished"] += 1
        assert result.log is not None
        kinds.update(result.log[:, 3].tolist())

    for_random_systems(runs, 0, count)
    assert ends["finished"] > runs * 0.6
    assert 0 < ends["Deadlock"] < runs * 0.15
    assert len(ends) >= 8
    assert len(kinds) == 19  # every effect and every other row of the log
