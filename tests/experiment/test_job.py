"""The whole job: what it writes, what it prints, how it ends."""

from __future__ import annotations

import csv
import dataclasses
import errno
import io
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fssim import resources
from fssim.errors import Deadlock, UserError
from fssim.experiment import cells, runner
from fssim.experiment.job import run_all, run_claims, run_experiment, run_job
from fssim.experiment.output import COLUMNS, records
from fssim.filesystem import Filesystem, load_filesystem
from tests.experiment import fake_engine
from tests.experiment.conftest import MACHINE
from tests.protocol.source import module

SMALL: dict[str, Any] = {"machine": MACHINE, "threads": (1, 4), "block_sizes": (4096,), "jobs": 1}


@pytest.fixture
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_job_writes_data_figures_and_a_page(fake: None, in_empty_folder: Path) -> None:
    table, everything = in_empty_folder / "t.csv", in_empty_folder / "deep" / "r.json"
    assert run_job("dio_read_lock", **SMALL, patterns=("seqrd",), csv_file=table, json_file=everything) == 0
    folder = in_empty_folder / "results" / "dio_read_lock"
    names = {path.name for path in folder.iterdir()}
    assert {"results.csv", "results.json", "report.html", "lock_stat-xfs-2.6.39.txt"} <= names
    for figure in ("scaling-seqrd", "ratio-seqrd", "time-per-io", "matrix-xfs-2.6.39-seqrd-xfs-vanilla"):
        assert (folder / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(folder / f"{figure}.svg")
    assert not [name for name in names if name.startswith(".")]
    assert table.read_text() == (folder / "results.csv").read_text()
    assert everything.read_text() == (folder / "results.json").read_text()


@dataclass(frozen=True)
class Finished:
    """The output of one run, for the tests that only look at it."""

    folder: Path
    out: str
    err: str

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("run")
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("fssim.engine.run", fake_engine.run)
        patch.setattr("fssim.experiment.analysis.has_own_machine", lambda experiment: True)
        assert run_job("dio_read_lock", **SMALL, out=folder, seed=5) == 0
    return Finished(folder, out.getvalue(), err.getvalue())


def test_the_csv_has_a_row_a_cell_with_its_interval(finished: Finished) -> None:
    lines = finished.read("results.csv").splitlines()
    assert lines[0] == ("filesystem,pattern,block_size,threads,iops,iops_low,iops_high,measured,error_percent,case")
    rows = list(csv.DictReader(lines))
    assert len(rows) == 3 * 2 * 1 * 2
    measured = {(r["filesystem"], r["pattern"]): r["measured"] for r in rows if r["threads"] == "4"}
    assert measured["xfs-2.6.39", "seqrd"] == "8882.0"
    assert measured["xfs-2.6.39+shared-read-lock", "rndrd"] == ""  # nobody measured it
    for row in rows:
        assert row["case"] == ""
        assert float(row["iops_low"]) < float(row["iops"]) < float(row["iops_high"])


def test_the_json_carries_seed_versions_and_the_whole_configuration(finished: Finished) -> None:
    plain = json.loads(finished.read("results.json"))
    assert plain["seed"] == plain["definition"]["run"]["seed"] == 5
    assert plain["definition"]["grid"]["threads"] == [1, 4]
    assert {"python", "fssim", "numpy", "numba", "simpy"} <= set(plain["versions"])
    assert plain["machine"]["device"]["latency_ns"] == 20_000
    assert len(plain["cells"]) == 12
    assert {"text", "measured", "found", "holds", "reason"} <= plain["claims"][0].keys()


def test_the_page_needs_no_network_and_starts_with_the_summary(finished: Finished) -> None:
    page = finished.read("report.html")
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert page.index("Question") < page.index("<table")
    assert "missed" in page
    assert page.count("<figure") == page.count("data:image/svg+xml;base64,") >= 8
    assert "python -m fssim.experiment dio_read_lock" in page
    assert "<td>20000</td><td>± 10.0 %</td>" in page  # device.latency_ns of the test's machine, with its error


def test_the_terminal_report_has_everything_in_the_order_of_interest(finished: Finished) -> None:
    parts = (
        "Question",
        "Predicted IOPS: xfs-2.6.39, seqrd",
        "Ratio of IOPS",
        "Predicted and measured IOPS",
        "Absolute error in per cent",
        "Where the time of an I/O goes",
        "Locks, times in",
        "\nClaims",
    )
    places = [finished.out.index(part) for part in parts]
    assert places == sorted(places)
    assert "…" not in finished.out  # nothing is cut off
    assert finished.err == ""  # no progress bar when standard error is not a terminal


def test_a_notebook_gets_the_report_without_output(fake: None, in_empty_folder: Path) -> None:
    found = run_experiment("dio_read_lock", **SMALL)
    rows = records(found)
    assert len(rows) == 12
    assert tuple(rows[0]) == COLUMNS
    assert rows[0]["filesystem"] == "xfs-2.6.39"
    assert list(in_empty_folder.iterdir()) == []


def test_results_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    for jobs in (1, 2):
        assert run_job("dio_read_lock", **(SMALL | {"jobs": jobs}), patterns=("rndrd",), out=tmp_path / str(jobs)) == 0
    for name in ("results.csv", "results.json", "scaling-rndrd.svg", "timeline.svg"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_both_engines_give_the_same_results(tmp_path: Path) -> None:
    for engine in ("compiled", "reference"):
        run_job("dio_read_lock", **SMALL, engine=engine, out=tmp_path / engine)
    assert (tmp_path / "compiled" / "results.csv").read_text() == (tmp_path / "reference" / "results.csv").read_text()


def interrupt_after(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    """Let Ctrl-C come when so many cells are finished."""
    original, count = runner.run_cell, 0

    def run_cell(task: Any) -> Any:
        nonlocal count
        count += 1
        if count > cells:
            raise KeyboardInterrupt
        return original(task)

    monkeypatch.setattr(runner, "run_cell", run_cell)


def test_ctrl_c_keeps_and_reports_what_is_finished(
    fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt_after(monkeypatch, 5)
    assert run_job("dio_read_lock", **SMALL, out=tmp_path) == 130
    printed = capsys.readouterr()
    assert "interrupted: 5 of 12 cells are finished and reported" in printed.out
    assert printed.err == "fssim: interrupted: 5 of 12 cells are finished and reported\n"
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 6
    assert json.loads((tmp_path / "results.json").read_text())["interrupted"] is True
    assert (tmp_path / "report.html").exists()


def test_ctrl_c_before_the_first_cell_leaves_nothing_to_report(
    fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt_after(monkeypatch, 0)
    assert run_job("dio_read_lock", **SMALL, out=tmp_path) == 130
    assert capsys.readouterr().err == "fssim: interrupted before the first cell was finished\n"
    assert list(tmp_path.iterdir()) == []


def test_a_cell_that_ends_by_an_error_does_not_take_the_others_along(
    fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fssim import engine

    healthy, before = engine.run, load_filesystem("xfs-2.6.39")

    def run(system: Any, **options: Any) -> Any:
        if len(system.threads) == 4 and system.constants["TRANSFER"] is before.read and not system.version:
            raise Deadlock("all wait", thread=2, lock="inode.iolock", time_ns=77, seed=system.seed, line=5)
        return healthy(system, **options)

    monkeypatch.setattr("fssim.engine.run", run)
    assert run_job("dio_read_lock", **SMALL, patterns=("seqrd",), out=tmp_path) == 3
    assert "1 cells ended by an error" in capsys.readouterr().out
    failures = json.loads((tmp_path / "results.json").read_text())["failures"]
    assert failures[0]["error"] == "Deadlock: all wait in thread 2 on inode.iolock at 77 ns (line 5, seed 2011)"
    assert (failures[0]["threads"], failures[0]["seed"]) == (4, 2011)


def test_a_cell_that_completes_no_io_does_not_take_the_others_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Every file is one read of 64 MiB: the threads are through before the warm-up is.
    small = SMALL | {"block_sizes": (64 * 1024**2, 4096), "threads": (2, 4)}
    assert run_job("dio_read_lock", **small, patterns=("seqrd",), out=tmp_path) == 3
    assert "6 cells ended by an error" in capsys.readouterr().out
    plain = json.loads((tmp_path / "results.json").read_text())
    assert {cell["block_size"] for cell in plain["cells"]} == {4096}
    assert {failure["block_size"] for failure in plain["failures"]} == {64 * 1024**2}
    assert "no I/O completed in the window" in plain["failures"][0]["error"]
    assert (tmp_path / "report.html").exists()


RUNS_IN_CIRCLES = """
from fssim.protocol import IO, cpu, protocol
from fssim.filesystem import filesystems

Inode = filesystems()["ext4-3.0"].inode


@protocol
def circles(io: IO, inode: Inode):
    while True:
        yield cpu(100)
"""


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_protocol_that_runs_in_circles_ends_as_a_failed_cell(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    healthy = load_filesystem

    def load(name: str) -> Filesystem:
        found = healthy(name)
        if name != "ext4-3.0":
            return found
        return dataclasses.replace(found, read=module(RUNS_IN_CIRCLES, header="").circles)

    monkeypatch.setattr("fssim.filesystem.load_filesystem", load)
    monkeypatch.setattr(cells, "MOST_EFFECTS_OF_A_START", 10_000)
    monkeypatch.setattr(cells, "MOST_EFFECTS_PER_IO", 40)
    small = SMALL | {"threads": (2,), "patterns": ("seqrd",)}
    assert run_job("dio_read_lock", **small, engine=engine, out=tmp_path) == 3
    assert "1 cells ended by an error" in capsys.readouterr().out
    assert "StepLimit" in json.loads((tmp_path / "results.json").read_text())["failures"][0]["error"]


def test_on_another_machine_nothing_is_called_fitted_and_no_claim_is_judged(
    fake: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_job("dio_read_lock", **SMALL, out=tmp_path, strict=True) == 0
    # So does the record of such a run, whose definition still names the experiment's own machine.
    again = {"experiment": str(tmp_path / "results.json"), "jobs": 1, "out": tmp_path / "again"}
    assert run_job(**again, strict=True) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    page = (tmp_path / "report.html").read_text()
    for text in (printed, page):
        assert "not judged: they are about the machine engel-2011" in text
        assert "MISSED" not in text
        assert "was fitted to" not in text
        assert "used in the fit" not in text
    plain = json.loads((tmp_path / "again" / "results.json").read_text())
    assert plain["claims"] == []
    assert {comparison["role"] for comparison in plain["comparisons"]} == {"comparison"}


def test_a_missed_claim_is_an_exit_code_only_if_asked_for(
    fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fssim.experiment.analysis.has_own_machine", lambda experiment: True)
    assert run_job("dio_read_lock", **SMALL, out=tmp_path) == 0
    assert run_job("dio_read_lock", **SMALL, out=tmp_path, strict=True) == 1


def test_a_full_disk_is_one_line_and_leaves_no_half_written_file(
    fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.csv").write_text("the results of yesterday\n")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"cannot write .*results\.csv: No space left on device"):
        run_job("dio_read_lock", **SMALL, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]
    assert (tmp_path / "results.csv").read_text() == "the results of yesterday\n"
    assert "Predicted IOPS" in capsys.readouterr().out  # what was computed is on the terminal all the same


def test_threads_that_never_complete_an_io_are_counted_and_said(
    fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fssim import engine

    healthy = engine.run

    def run(system: Any, **options: Any) -> Any:
        result = healthy(system, **options)
        # Three of four I/Os are in flight all the time, and Little's law counts the fourth.
        return dataclasses.replace(result, latency_ns=result.latency_ns // 4) if len(system.threads) == 4 else result

    monkeypatch.setattr("fssim.engine.run", run)
    monkeypatch.setenv("COLUMNS", "200")
    assert run_job("dio_read_lock", **SMALL, out=tmp_path) == 0
    assert "in 6 cells threads starve" in capsys.readouterr().out
    cells = json.loads((tmp_path / "results.json").read_text())["cells"]
    assert {round(cell["starving"], 6) for cell in cells} == {0, 3}


def test_more_latency_than_ios_in_flight_is_a_failed_cell(
    fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fssim import engine

    healthy = engine.run
    monkeypatch.setattr(
        "fssim.engine.run",
        lambda system, **options: dataclasses.replace(
            healthy(system, **options), latency_ns=2 * healthy(system, **options).latency_ns
        ),
    )
    assert run_job("dio_read_lock", **SMALL, patterns=("seqrd",), out=tmp_path) == 3
    assert not (tmp_path / "results.json").exists()


@pytest.fixture
def two_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of experiments: the main job's on a small grid, and one with a mistake."""
    folder = tmp_path / "experiments"
    folder.mkdir()
    shipped = resources.experiments()
    (folder / "data").symlink_to(shipped / "data")
    text = (shipped / "dio_read_lock.toml").read_text(encoding="utf-8")
    text = text.replace("[512, 1024, 2048, 4096, 8192, 16384]", "[4096]").replace(
        "[1, 2, 4, 8, 16, 32, 64, 128]", "[1, 4]"
    )
    (folder / "small.toml").write_text(text.replace('"engel-2011"', f'"{MACHINE}"'), encoding="utf-8")
    (folder / "wrong.toml").write_text(text.replace('"engel-2011"', '"engel-2012"'), encoding="utf-8")
    monkeypatch.setattr("fssim.resources.experiments", lambda: folder)
    return folder


def test_all_claims_are_one_table_and_a_mistake_in_one_experiment_does_not_cost_the_others(
    fake: None,
    two_experiments: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run_claims(None, jobs=1) == 2
    printed = capsys.readouterr()
    assert printed.out.count("Claims") == 1
    assert "xfs-2.6.39+shared-read-lock seqrd: median error" in printed.out
    assert "MISSED" in printed.out
    assert "why: not known" in printed.out
    assert "of 11 claims hold" in printed.out
    assert printed.err.startswith("fssim: wrong: unknown machine 'engel-2012'; did you mean engel-2011 or")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["experiments"]


def test_the_claims_of_one_experiment_miss_with_exit_code_1_if_asked_for(fake: None, two_experiments: Path) -> None:
    assert run_claims(["small"], jobs=1) == 0
    assert run_claims(["small"], jobs=1, strict=True) == 1
    with pytest.raises(UserError, match="unknown machine 'engel-2012'"):
        run_claims(["wrong"], jobs=1)


def test_all_experiments_have_a_folder_each(fake: None, two_experiments: Path, tmp_path: Path) -> None:
    assert run_all(out=tmp_path / "out", jobs=1) == 2
    assert (tmp_path / "out" / "small" / "report.html").exists()
    assert not (tmp_path / "out" / "wrong").exists()
