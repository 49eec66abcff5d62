"""Every planted mistake is noticed by the scenario that is named for it, which passes on the engines as they are."""

from __future__ import annotations

from types import FunctionType

import pytest

from fssim.errors import FssimError
from tests.mutants.mutation import MutantVanished, interpreted_engines, mutated_source
from tests.mutants.table import COMPILED, COMPILED_MUTANTS, MUTANTS, REFERENCE_MUTANTS, Mutant

SCENARIOS = {mutant.scenario: mutant.killed_by for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=[f"{mutant.engine}: {mutant.name}" for mutant in MUTANTS])
def test_mutant_is_killed_by_its_scenario(mutant: Mutant) -> None:
    source = mutated_source(mutant.file, mutant.changes)
    with interpreted_engines(mutant.file, source), pytest.raises((AssertionError, FssimError)):
        mutant.killed_by()


@pytest.mark.parametrize("name", SCENARIOS, ids=list(SCENARIOS))
def test_scenario_passes_without_a_mutant_when_run_the_same_way(name: str) -> None:
    with interpreted_engines():
        SCENARIOS[name]()


def test_a_mutant_whose_text_is_gone_is_an_error() -> None:
    """And so is one whose text is there twice, or that changes nothing."""
    for old, new in (("no such text in it", "x"), ("return", "x"), ("READER_BATCH = 256", "READER_BATCH = 256")):
        with pytest.raises(MutantVanished):
            mutated_source(COMPILED, [(old, new)])


def test_the_engines_are_as_before_after_a_mutant() -> None:
    from fssim.engine import compiled, compiled_run
    from fssim.engine.reference import engine

    mutant = COMPILED_MUTANTS[0]
    with interpreted_engines(mutant.file, mutated_source(mutant.file, mutant.changes)):
        from fssim.engine import compiled_run as changed_run
        from fssim.engine.reference import engine as changed_engine

        assert changed_run.c is not compiled
        assert changed_engine is not engine
        assert isinstance(changed_run.c.advance, FunctionType), "a mutant costs no jit"
    from fssim.engine import compiled as now
    from fssim.engine.reference import engine as engine_now

    assert now is compiled_run.c is compiled
    assert engine_now is engine
    assert not isinstance(now.advance, FunctionType)


def test_there_are_enough_mutants_of_either_engine() -> None:
    assert len(COMPILED_MUTANTS) >= 50
    assert len(REFERENCE_MUTANTS) >= 38
    assert len({(mutant.file, mutant.changes) for mutant in MUTANTS}) == len(MUTANTS)
