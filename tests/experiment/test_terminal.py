"""The report on consoles of many widths."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from fssim.experiment.job import restrict
from fssim.experiment.loading import load_experiment
from fssim.experiment.report import Report
from fssim.experiment.terminal import errors_text, print_report
from tests.experiment.conftest import MACHINE, make_report


@pytest.fixture
def wide(fake: None) -> Report:
    """A report with the experiment's own, wide grid."""
    return make_report(restrict(load_experiment("dio_read_lock", MACHINE), None, None, (512, 16384), None))


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_number_is_cut_and_no_line_is_wider_than_the_console(wide: Report, width: int) -> None:
    file = io.StringIO()
    print_report(wide, Path("results"), Console(file=file, width=width, force_terminal=False))
    lines = file.getvalue().splitlines()
    assert "…" not in file.getvalue()
    assert [line for line in lines if len(line) > width] == []
    words = set(file.getvalue().split())
    for result in wide.outcome.cells.values():
        assert f"{result.iops.value:,.0f}" in words
    for comparison in wide.findings.comparisons:
        assert {f"{error:+.1f}" for error in comparison.error_percent.values()} <= words
        assert set(errors_text(comparison.summary).split()) - {"/"} <= words
        assert set(errors_text(comparison.trivial).split()) - {"/"} <= words
