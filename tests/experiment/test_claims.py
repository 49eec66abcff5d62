"""Claims about single figures, flat rows and changes; and what is unknown: several predictions beside each other."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from fssim.experiment.analysis import UnknownResult
from fssim.experiment.claims import ClaimResult
from fssim.experiment.definition import Claim, FigureClaim, Unknown
from fssim.experiment.loading import Experiment, bounds
from fssim.experiment.output import records
from fssim.experiment.report import summary
from tests.experiment.conftest import make_report

FOUR, SIXTEEN = "ext4-3.0 seqrd 4096 x 4", "ext4-3.0 seqrd 4096 x 16"
IOPS_OF_FOUR = 4 / (30_000 + 1_000_000 + 10 * 4096) * 1e9  # of the fake engine, with the test machine's jiffy


def judged(experiment: Experiment, *claims: dict[str, Any], unknowns: tuple[dict[str, Any], ...] = ()) -> Any:
    """Return the findings of faked cells for these claims."""
    definition = msgspec.structs.replace(
        experiment.definition,
        claims=msgspec.convert(list(claims), list[Claim]),
        unknowns=msgspec.convert(list(unknowns), list[Unknown]),
    )
    return make_report(dataclasses.replace(experiment, definition=definition))


def claim(experiment: Experiment, **fields: Any) -> ClaimResult:
    found: ClaimResult = judged(experiment, fields).findings.claims[0]
    return found


@pytest.mark.parametrize(("measured", "holds"), [(1.0, True), (1.18, True), (0.85, True), (1.25, False), (0.8, False)])
def test_a_figure_holds_within_its_tolerance(fake: None, experiment: Experiment, measured: float, holds: bool) -> None:
    found = claim(
        experiment, kind="figure", cell=FOUR, measured=measured * IOPS_OF_FOUR, tolerance_percent=20, role="prediction"
    )
    assert found.holds is holds
    assert found.value == pytest.approx(IOPS_OF_FOUR, rel=0.01)
    assert "± 20 %" in found.measured
    assert found.role == "prediction"


def test_a_tolerance_is_a_factor_so_that_half_and_twice_are_equally_wrong() -> None:
    found = bounds(FigureClaim(cell="x", measured=100, tolerance_percent=100), {})
    assert (found.low, found.high) == (50, 200)


@pytest.mark.parametrize(
    ("limits", "holds"), [({"at_least": 3.5}, True), ({"at_most": 3.5}, False), ({"at_least": 3, "at_most": 5}, True)]
)
def test_a_ratio_of_two_cells_holds_between_its_bounds(
    fake: None, experiment: Experiment, limits: dict[str, float], holds: bool
) -> None:
    assert claim(experiment, kind="figure", cell=SIXTEEN, over=FOUR, **limits).holds is holds  # 4


@pytest.mark.parametrize(
    ("quantity", "value"),
    [("mb_s", IOPS_OF_FOUR * 4096 / 1e6), ("device_busy", 1 / 3), ("cpu_per_byte", 0.1 * 4e9 / IOPS_OF_FOUR / 4096)],
)
def test_a_figure_may_be_of_another_quantity(fake: None, experiment: Experiment, quantity: str, value: float) -> None:
    found = claim(experiment, kind="figure", cell=FOUR, quantity=quantity, measured=value, tolerance_percent=5)
    assert found.holds, found


def test_a_flat_row_differs_by_little(fake: None, experiment: Experiment) -> None:
    cells = ["xfs-2.6.39 seqrd 4096 x *"]
    assert claim(experiment, kind="flat", cells=cells, within_percent=5).holds
    wide = claim(experiment, kind="flat", cells=[*cells, FOUR], within_percent=5)
    assert wide.holds is False
    assert "differ by 3" in wide.found


def test_a_claim_about_a_cell_that_was_not_run_has_no_verdict(experiment: Experiment, fake: None) -> None:
    for fields in (
        {"kind": "figure", "cell": "ext4-3.0 seqrd 4096 x 3", "at_least": 1},
        {"kind": "flat", "cells": ["nothing"], "within_percent": 1},
    ):
        assert claim(experiment, **fields).holds is None


def test_a_claim_names_its_change(fake: None, experiment: Experiment) -> None:
    found = claim(experiment, kind="direction", change="shared read lock", pattern="seqrd", from_threads=4)
    assert found.text.startswith("shared read lock, seqrd: ")
    assert found.holds


def jiffy(**alternatives: int) -> dict[str, Any]:
    return {
        "name": "HZ",
        "why": "nobody wrote it down",
        "measurement": "ask",
        "as_is": "HZ=1000",
        "cells": ["ext4-3.0 seqrd *"],
        "alternatives": [
            {"name": name, "overrides": {"host.path_ns.jiffy": value}} for name, value in alternatives.items()
        ],
    }


FIGURE = {"kind": "figure", "cell": FOUR, "measured": IOPS_OF_FOUR, "tolerance_percent": 20}


def test_alternatives_are_predicted_beside_each_other(fake: None, experiment: Experiment) -> None:
    report = judged(experiment, FIGURE, unknowns=(jiffy(slow=4_000_000, same=1_010_000),))
    found: UnknownResult = report.findings.unknowns[0]
    assert found.names == ("HZ=1000", "slow", "same")
    assert found.concerned == len(found.cells) == 2 * 3
    for as_is, slow, same in found.cells.values():
        assert as_is == pytest.approx(3.8 * slow, rel=0.05)
        assert as_is == pytest.approx(same, rel=0.05)
    rows = records(report)
    assert len(rows) == 3 * 2 * 2 * 3  # a row a cell, and a column an alternative
    concerned = [row for row in rows if row["filesystem"] == "ext4-3.0" and row["pattern"] == "seqrd"]
    assert all(row["iops if slow"] < row["iops"] for row in concerned)
    assert {row["iops if slow"] for row in rows if row not in concerned} == {None}


def test_the_verdict_names_what_the_figures_cannot_tell_apart_and_what_would(
    fake: None, experiment: Experiment
) -> None:
    report = judged(experiment, FIGURE, unknowns=(jiffy(slow=4_000_000, same=1_010_000),))
    verdict = report.findings.unknowns[0].verdict
    assert "cannot tell apart HZ=1000 and same" in verdict
    assert "1 hold with HZ=1000 and same" in verdict
    assert "0 hold with slow" in verdict
    assert verdict.endswith("What would tell: ask")
    said = next(sentence for sentence in summary(report) if sentence.about == "Not known: HZ")
    assert said.text.startswith("nobody wrote it down")


def test_what_no_claim_depends_on_is_said(fake: None, experiment: Experiment) -> None:
    about_another = {**FIGURE, "cell": "ext4-3.0 rndrd 4096 x 4"}
    report = judged(experiment, about_another, unknowns=(jiffy(slow=4_000_000),))
    assert report.findings.unknowns[0].verdict == "no claim depends on it. What would tell: ask"


def test_constants_of_the_protocols_may_be_what_is_unknown(fake: None, experiment: Experiment) -> None:
    unknown = jiffy(other=1) | {
        "cells": ["xfs-2.6.39 seqrd *"],
        "alternatives": [{"name": "shared", "constants": {"SERIAL_READS": 0}}],
    }
    found = judged(experiment, FIGURE, unknowns=(unknown,)).findings.unknowns[0]
    assert len(found.cells) == 2 * 2  # with one thread it makes no difference
