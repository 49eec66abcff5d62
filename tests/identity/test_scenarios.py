"""Every fixed scenario has its pinned fingerprint, on both engines and under `python -O`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fssim.engine import run
from tests.identity.compare import assert_identical
from tests.identity.scenarios import SCENARIOS, Pipeline, Scenario, Writing, golden

REGENERATE = "; if that is meant, run `python -m tests.identity.scenarios` and review the difference"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_engines_agree_on_the_pinned_fingerprint(scenario: Scenario | Pipeline | Writing) -> None:
    result = assert_identical(scenario.system())
    assert result.error is None
    assert result.fingerprint == golden()[scenario.name], f"the event log of {scenario.name} has changed{REGENERATE}"


def test_the_table_and_the_golden_file_have_the_same_scenarios() -> None:
    assert {scenario.name for scenario in SCENARIOS} == golden().keys(), REGENERATE


def test_fingerprints_are_the_same_under_python_minus_o() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-O", "-m", "tests.identity.scenarios", "--check"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("scenario", SCENARIOS[::17], ids=lambda scenario: scenario.name)
def test_a_second_run_is_the_same_and_keeping_a_log_changes_nothing(
    scenario: Scenario | Pipeline | Writing, engine: str
) -> None:
    system = scenario.system()
    first, second = run(system, engine=engine), run(system, engine=engine)
    assert first.fingerprint == second.fingerprint
    without = run(replace(system, log=False), engine=engine)
    assert without.log is None
    assert (without.time_ns, without.events, without.locks, without.final) == (
        first.time_ns,
        first.events,
        first.locks,
        first.final,
    )


def test_another_seed_is_another_log() -> None:
    system = Scenario("mixture", "fifo", "barging", 16, "server").system()
    other = replace(system, seed=system.seed + 1)
    assert run(system, engine="reference").fingerprint != run(other, engine="reference").fingerprint
