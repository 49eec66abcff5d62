"""Experiments whose cells are cases: what their files may say, what is run, and how it is reported."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from fssim.errors import UserError
from fssim.experiment.job import run_job
from fssim.experiment.loading import Experiment, load_experiment
from fssim.experiment.runner import plan
from fssim.experiment.tables import Key
from fssim.workload.creates import LargeCreates
from fssim.workload.fio import Fio
from tests.experiment.conftest import MACHINE

CASES = f"""
question = "Does it run?"
machine = "{MACHINE}"
facts = "facts.toml"

[workload]
kind = "fio"
pattern = "randwrite"
ioengine = "libaio"
iodepth = 4
file_size_bytes = 67_108_864

[run]
seed = 7
ios = 512

[[run.lengths]]
cells = ["deep*"]
ios = 1024

[[cases]]
name = "shallow"
filesystem = "xfs-4.1"
workload = {{ }}

[[cases]]
name = "deep"
filesystem = "xfs-4.1"
workload = {{ iodepth = 32 }}
overrides = {{ "device.latency_ns" = 40_000 }}

[[cases]]
name = "creates"
filesystem = "xfs-2.6.39"
volume = {{ size_bytes = 10_000_000_000 }}
workload = {{ kind = "large-creates", threads = 2 }}

[[claims]]
kind = "figure"
cell = "shallow"
fact = "someone.iops[1]"
tolerance_percent = 20
reason = "it was made up"

[[claims]]
kind = "figure"
text = "deeper is faster"
cell = "deep"
over = "shallow"
at_least = 2
role = "calibration"

[[claims]]
kind = "flat"
cells = ["shallow", "deep"]
within_percent = 10

[[claims]]
kind = "not-modelled"
text = "the weather"
fact = "someone.weather"
reason = "there is none"
"""

FACTS = 'someone = { iops = [1, 200_000], weather = "fine" }\n'


def written(folder: Path, old: str = "", new: str = "") -> str:
    """Write the file with one change; return its name."""
    assert old in CASES
    (folder / "facts.toml").write_text(FACTS)
    file = folder / "cases.toml"
    file.write_text(CASES.replace(old, new, 1) if old else CASES)
    return str(file)


@pytest.fixture
def cases(tmp_path: Path) -> Experiment:
    return load_experiment(written(tmp_path))


def test_a_case_adds_to_the_workload_of_its_kind_and_replaces_another(cases: Experiment) -> None:
    shallow, deep, creates = cases.cells
    assert isinstance(shallow.workload, Fio)
    assert isinstance(deep.workload, Fio)
    assert (shallow.workload.iodepth, deep.workload.iodepth) == (4, 32)
    assert deep.workload.pattern == "randwrite"
    assert creates.workload == LargeCreates(threads=2)
    assert [cell.key for cell in cases.cells] == [
        Key("randwrite", 4096, 4),
        Key("randwrite", 4096, 32),
        Key("create", 2**20, 2),
    ]


def test_a_case_has_its_own_parameters_volume_and_length(cases: Experiment) -> None:
    shallow, deep, creates = plan(cases, "compiled")
    assert (shallow.machine.device.latency_ns, deep.machine.device.latency_ns) == (20_000, 40_000)  # type: ignore[union-attr]
    assert creates.volume.size_bytes == 10_000_000_000
    assert shallow.volume.size_bytes == 160 * 10**9
    assert (shallow.ios, deep.ios) == (512, 1024)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("iodepth = 32", "iodpth = 32", "unknown key cases[1].workload.iodpth; did you mean iodepth?"),
        ("iodepth = 32", 'ioengine = "psync"', "case 'deep': iodepth 4: fio runs synchronous engines at depth 1"),
        ('"xfs-4.1"', '"xfs-4"', "cases[0].filesystem = 'xfs-4' is not known; did you mean"),
        ('name = "deep"', 'name = "shallow"', "cases: 'shallow' is named twice"),
        ('"device.latency_ns" = 40_000', '"device.latency" = 40_000', "has no parameter device.latency; did you mean"),
        ('"device.latency_ns" = 40_000', '"hots.cpus" = 4', "has no parameter hots.cpus"),
        ('"device.latency_ns" = 40_000', '"device.latency_ns" = -1', "device.latency_ns = -1: must be an integer >= 0"),
        ('kind = "large-creates", threads = 2', 'kind = "sysbench-fileio"', "sysbench is run in a grid, not in cases"),
        ('kind = "large-creates", threads = 2', 'kind = "large-creates"', "cases[2].workload.threads is missing"),
        ('cell = "shallow"', 'cell = "shalow"', "claims[0].cell = 'shalow' is no cell; did you mean shallow?"),
        ('over = "shallow"', 'over = "x"', "claims[1].over = 'x' is no cell; known: creates, deep, shallow"),
        ('cells = ["shallow", "deep"]', 'cells = ["steep*"]', "claims[2].cells: 'steep*' is no cell"),
        ('cells = ["deep*"]', 'cells = ["steep*"]', "run.lengths[0].cells: 'steep*' is no cell"),
        ("someone.iops[1]", "someone.iops[2]", "claims[0].fact = 'someone.iops[2]' is not in facts.toml; did you mean"),
        ("tolerance_percent = 20", "", "claims[0]: state tolerance_percent with measured or a fact"),
        ("at_least = 2", "at_least = 2\nat_most = 1", "claims[1]: at_least 2 is more than at_most 1"),
        ("at_least = 2", "at_least = 2\ntolerance_percent = 5", "claims[1]: tolerance_percent beside at_least"),
        ('facts = "facts.toml"', 'facts = "fact.toml"', "fact.toml: No such file"),
        ('facts = "facts.toml"', "", "claims[0].fact = 'someone.iops[1]' is not in any file: state facts"),
        ('reason = "there is none"', "", "claims[3].reason is missing"),
        ("[run]", '[grid]\npatterns = ["seqrd"]\nblock_sizes_bytes = [512]\nthreads = [1]\n[run]', "either grid, or"),
    ],
)
def test_a_mistake_in_a_case_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    # What an unknown fact or a missing tolerance leaves open is said before anything runs.
    with pytest.raises(UserError) as caught:
        plan(load_experiment(written(tmp_path, old, new)), "compiled")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_writing_workload_on_a_version_that_describes_reads_only_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from fssim import filesystem

    known = dict(filesystem.filesystems())
    known["xfs-4.1"] = dataclasses.replace(known["xfs-4.1"], write=None)
    known["xfs-2.6.39"] = dataclasses.replace(known["xfs-2.6.39"], write=None)
    monkeypatch.setattr("fssim.filesystem.filesystems", lambda: known)
    monkeypatch.setattr("fssim.experiment.loading.filesystems", lambda: known)
    with pytest.raises(UserError, match=r"case 'shallow': randwrite: xfs-4\.1 describes reads only; use read"):
        load_experiment(written(tmp_path))
    with pytest.raises(UserError, match=r"^seqwr: xfs-2\.6\.39 describes reads only; use seqrd or rndrd$"):
        run_job("dio_read_lock", patterns=("seqwr",), out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("option", ["threads", "block_sizes", "patterns"])
def test_a_grid_s_options_do_not_choose_cases(tmp_path: Path, option: str) -> None:
    with pytest.raises(UserError, match="cases has cases, not a grid"):
        run_job(written(tmp_path), **{option: (1,)}, out=tmp_path / "out")
    with pytest.raises(UserError, match="--cell deep: cases has cases, not a grid"):
        run_job(written(tmp_path), cell="deep", out=tmp_path / "out")


def test_cases_are_reported_with_all_their_numbers(
    fake: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # so that no line of text is broken
    assert run_job(written(tmp_path), jobs=1, out=tmp_path / "out") == 0
    printed = capsys.readouterr().out
    for text in ("Predicted, by case", "shallow", "deeper is faster", "why: it was made up", "not modelled"):
        assert text in printed
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"figures.svg", "time-per-io.svg", "lock_stat-creates.txt", "report.html", "results.json"} <= names
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").read_text().splitlines()))
    assert [row["case"] for row in rows] == ["shallow", "deep", "creates"]
    assert [row["threads"] for row in rows] == ["4", "32", "2"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Predicted, by case" in page
    assert "why: it was made up" in page


def test_a_run_of_cases_can_be_repeated_from_its_own_results(fake: None, tmp_path: Path) -> None:
    assert run_job(written(tmp_path), jobs=1, out=tmp_path) == 0  # beside the file of facts, which it names
    assert run_job(str(tmp_path / "results.json"), jobs=1, out=tmp_path / "again") == 0
    first, second = (json.loads((folder / "results.json").read_text()) for folder in (tmp_path, tmp_path / "again"))
    assert first["cells"] == second["cells"]
    assert first["machines"] == second["machines"]
    assert first["claims"] == second["claims"]


@pytest.mark.slow
def test_cases_run_in_both_engines_alike(tmp_path: Path) -> None:
    for engine in ("compiled", "reference"):
        assert run_job(written(tmp_path), engine=engine, out=tmp_path / engine) == 0
    assert (tmp_path / "compiled" / "results.csv").read_text() == (tmp_path / "reference" / "results.csv").read_text()
