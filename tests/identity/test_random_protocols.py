"""Both engines give the same log, error, final state and statistics for random protocols on random machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fssim.engine import run
from fssim.machine.device import FlashDevice
from fssim.protocol.bytecode import LOG_GRANT, OPCODE_NAMES
from fssim.system import RunResult
from tests.identity.compare import assert_identical
from tests.identity.random_protocols import RandomSystem, random_system

EFFECTS = OPCODE_NAMES[OPCODE_NAMES.index("ACQUIRE") : OPCODE_NAMES.index("ASSERT")]
ASYNCHRONOUS = ("SUBMITR", "SUBMITW", "PUT", "GET", "TAKE", "GIVE", "LOOKUP", "FILL", "SUBMITTED")
ROWS_A_CHUNK = 50  # at least, of each of these effects
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
    seen: Counter[str] = Counter()

    def check(made: RandomSystem) -> None:
        sources.add(made.source)
        seen.update(what_happened(made, assert_identical(made.system, made.source)))

    for_random_systems(PROTOCOLS_A_CHUNK, chunk, check)
    assert len(sources) >= 0.9 * PROTOCOLS_A_CHUNK  # of a chunk; copies in other chunks are not counted
    few = {name: seen[name] for name in ASYNCHRONOUS if seen[name] < ROWS_A_CHUNK}
    assert not few, "of these effects there are too few to say that they have been compared"
    assert min(seen[name] for name in OTHER_NEW_THINGS) > 0, seen
    assert seen["Deadlock"] < 0.4 * PROTOCOLS_A_CHUNK


OTHER_NEW_THINGS = (
    "waits for a queue",
    "waits for a space",
    "sleeps in submission",
    "polled writes",
    "unpolled writes",
)


def what_happened(made: RandomSystem, result: RunResult) -> Counter[str]:
    """Effects by name, and what is not seen from them; the error that ended the run by its name."""
    assert result.log is not None
    seen = Counter({OPCODE_NAMES[kind]: 0 for kind in range(len(OPCODE_NAMES))})
    for kind, count in Counter(result.log[:, 3].tolist()).items():
        if kind < len(OPCODE_NAMES):
            seen[OPCODE_NAMES[kind]] = count
    granted = Counter(result.objects[number] for number in result.log[result.log[:, 3] == LOG_GRANT, 4].tolist())
    for name, count in granted.items():
        member = name.rsplit(".", 1)[-1]
        seen["waits for a queue"] += count * (member in ("tokens", "letters", "pool", "done", "work", "landed"))
        seen["waits for a space"] += count * (member == "log")
    seen["sleeps in submission"] += sum(result.sleeps_in_submission.values())
    if isinstance(made.system.device, FlashDevice):
        seen["polled writes" if made.system.device.write_polled else "unpolled writes"] += seen["WRITE"]
    if result.error is not None:
        seen[type(result.error).__name__] += 1
    return seen


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
    references = 0
    runs = 300

    def count(made: RandomSystem) -> None:
        nonlocal references
        references += "peer = " in made.source or "favourite = " in made.source
        result = run(made.system, engine="reference", check=False)
        ends[type(result.error).__name__ if result.error else "finished"] += 1
        assert result.log is not None
        kinds.update(result.log[:, 3].tolist())

    for_random_systems(runs, 0, count)
    assert ends["finished"] > runs * 0.6
    assert 0 < ends["Deadlock"] < runs * 0.15
    assert len(ends) >= 8
    assert len(kinds) == len(EFFECTS) + 4  # every effect and every other row of the log
    assert references > runs * 0.4
