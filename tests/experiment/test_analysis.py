"""What is concluded from cells: errors, ratios, where the time goes, what limits, claims."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from fssim.experiment.analysis import breakdown
from fssim.experiment.cells import length_of_run
from fssim.experiment.comparison import summarise
from fssim.experiment.definition import DirectionClaim, ErrorClaim
from fssim.experiment.loading import Experiment
from fssim.experiment.report import Report, summary
from fssim.experiment.runner import plan
from fssim.experiment.tables import Key
from fssim.statistics import BATCHES
from tests.experiment.conftest import make_report


def test_errors_are_summed_up_by_their_absolute_values() -> None:
    found = summarise([-10.0, 1.0, 2.0, -3.0, 4.0])
    assert (found.median, found.max, found.cells) == (3.0, 10.0, 5)
    assert found.p90 == pytest.approx(7.6)  # between the fourth and the fifth of five


def test_a_run_is_long_enough_for_every_thread_and_divides_into_batches() -> None:
    assert length_of_run(2048, 16, 0.25, 1) == (2048, 512)
    ios, warmup_ios = length_of_run(2000, 16, 0.25, 1000)
    assert ios >= 16_000
    assert ios % BATCHES == 0
    assert warmup_ios >= 2000


def test_variants_of_a_cell_share_their_random_numbers(experiment: Experiment) -> None:
    tasks = plan(experiment, "compiled")
    assert len(tasks) == 3 * 2 * 2 * 3
    assert {task.seed for task in tasks} == {2011}
    assert [task.filesystem for task in tasks[:3]] == ["xfs-2.6.39", "xfs-2.6.39+shared-read-lock", "ext4-3.0"]
    assert len({task.key for task in tasks[:3]}) == 1


def test_a_comparison_covers_the_cells_that_were_run_and_measured(report: Report) -> None:
    comparison = report.findings.comparisons[0]
    assert comparison.summary.cells == 6
    key = Key("seqrd", 4096, 4)
    measured = comparison.measured[key]
    predicted = report.outcome.cells["xfs-2.6.39", key].iops.value
    assert comparison.error_percent[key] == pytest.approx((predicted / measured - 1) * 100)


def test_the_trivial_rule_is_shown_beside_every_table_but_its_own(report: Report) -> None:
    trivial = {c.reference.label: c.trivial for c in report.findings.comparisons}
    assert trivial["ext4-vanilla"] is None
    assert trivial["xfs-shared-read-lock"] is not None


def test_the_ratio_is_that_of_after_over_before(report: Report) -> None:
    ratio = report.findings.changes[0].ratios[Key("seqrd", 4096, 16)]
    assert ratio.value == pytest.approx(16, rel=0.01)  # the fake's device serves 16 at a time, or 1
    assert ratio.low < ratio.value < ratio.high


def test_time_per_io_sums_up_to_the_latency(report: Report) -> None:
    for found in report.findings.breakdowns:
        assert sum(found.per_io_ns.values()) == pytest.approx(found.latency_ns, rel=1e-6)
        assert list(found.per_io_ns.values()) == sorted(found.per_io_ns.values(), reverse=True)


def test_what_limits_is_a_full_resource_or_else_the_locks(report: Report) -> None:
    before, after, _ = report.findings.breakdowns
    assert "locks (94%" in before.binding
    assert "nothing is full" in after.binding
    cell = report.outcome.cells["ext4-3.0", report.cell]
    full = dataclasses.replace(cell, busy_ns={"bus": (cell.window_ns, 1)})
    assert breakdown(full).binding == "bus (100% busy)"


def test_a_mutex_is_called_by_its_name_alone(report: Report) -> None:
    names = set(report.findings.breakdowns[0].per_io_ns)
    assert {"wait Inode.i_mutex", "wait Inode.iolock exclusive"} <= names


def test_claims_hold_or_miss_or_were_not_run(experiment: Experiment, fake: None) -> None:
    generous = [
        {
            "kind": "error",
            "filesystem": "xfs-2.6.39",
            "pattern": "seqrd",
            "statistic": "max",
            "at_most_percent": 1000.0,
        },
        {
            "kind": "error",
            "filesystem": "xfs-2.6.39",
            "pattern": "seqrd",
            "statistic": "median",
            "at_most_percent": 0.01,
        },
        {"kind": "direction", "pattern": "seqrd", "from_threads": 4},
        {"kind": "direction", "pattern": "seqrd", "from_threads": 1000},
    ]
    definition = msgspec.structs.replace(
        experiment.definition,
        claims=msgspec.convert(generous, list[ErrorClaim | DirectionClaim]),
    )
    claims = make_report(dataclasses.replace(experiment, definition=definition)).findings.claims
    assert [claim.holds for claim in claims] == [True, False, True, None]
    assert claims[2].found == "right in 4 of 4 cells"


def test_the_summary_starts_with_question_and_answer_and_names_misses(report: Report) -> None:
    sentences = summary(report)
    assert sentences[0].about == "Question"
    assert sentences[1].about == "Answer, seqrd"
    assert "with two or more threads" in sentences[1].text
    trust = next(sentence.text for sentence in sentences if sentence.about == "Against measurement")
    trivial = next(c.trivial for c in report.findings.comparisons if c.role == "prediction")
    assert trivial is not None
    assert f"the rule 'as ext4': median {trivial.median:.1f} %, p90 {trivial.p90:.1f} %" in trust
    assert any("of the simulation only" in sentence.text for sentence in sentences)
    claims = next(sentence.text for sentence in sentences if sentence.about == "Claims")
    assert "missed:" in claims
    caution = [sentence.text for sentence in sentences if sentence.about == "Caution"]
    assert any("host.cpus" in text for text in caution)  # what the data do not identify is said
