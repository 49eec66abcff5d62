"""What the tests of experiments share: a machine, a fake engine, and a report made with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from fssim.experiment.analysis import analyse
from fssim.experiment.cells import versions
from fssim.experiment.job import choose_cell, restrict
from fssim.experiment.loading import Experiment, load_experiment
from fssim.experiment.report import Report
from fssim.experiment.runner import Workers, plan, run_cells
from tests.experiment import fake_engine

MACHINE = str(Path(__file__).with_name("machine.toml"))
BLOCK_SIZES = (512, 4096)
THREADS = (1, 4, 16)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of a closed form instead of a simulation."""
    monkeypatch.setattr("fssim.engine.run", fake_engine.run)


@pytest.fixture
def experiment() -> Experiment:
    """The main job's experiment on a small grid, as if it named the machine of the tests."""
    found = restrict(load_experiment("dio_read_lock", MACHINE), None, THREADS, BLOCK_SIZES, None)
    return dataclasses.replace(found, definition=msgspec.structs.replace(found.definition, machine=MACHINE))


@pytest.fixture
def report(fake: None, experiment: Experiment) -> Report:
    """A whole report of faked cells."""
    return make_report(experiment)


def make_report(experiment: Experiment) -> Report:
    """Run an experiment in this process and analyse it."""
    outcome = run_cells(plan(experiment, "compiled"), Workers(1), lambda state: None)
    cell = choose_cell(experiment, None)
    return Report(experiment, outcome, cell, analyse(experiment, outcome, cell), "compiled", versions())
