"""An experiment's file is read strictly, with everything it refers to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fssim import resources
from fssim.errors import UserError
from fssim.experiment.loading import Experiment, load_experiment
from fssim.experiment.output import results_json
from fssim.experiment.report import Report
from fssim.experiment.tables import Key, read_table
from tests.experiment.conftest import MACHINE

HEADER = "pattern,block_size,threads,iops\n"
THIRD_VARIANT = '[[variants]]\nfilesystem = "ext4-3.0"'
SHIPPED = resources.experiments() / "dio_read_lock.toml"


def variant_of_the_shipped_file(tmp_path: Path, old: str, new: str) -> str:
    """Write the shipped experiment with one change; return the file's name."""
    text = SHIPPED.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "data").symlink_to(SHIPPED.parent / "data")
    file = tmp_path / "changed.toml"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("question =", "qestion =", "unknown key qestion; did you mean question?"),
        ("block_sizes_bytes =", "block_sizes =", "unknown key grid.block_sizes; did you mean block_sizes_bytes?"),
        ("threads = [1, 2", "threads = [0, 2", "grid.threads[0] = 0: must be an integer >= 1"),
        (
            "[512, 1024",
            "[500, 1024",
            "grid.block_sizes_bytes[0] = 500: must be an integer >= 512 and a multiple of 512",
        ),
        ('["seqrd", "rndrd"]', '["seqrd", "write"]', "grid.patterns[1] = 'write': must be 'rndrd' or 'rndrw' or"),
        ('["seqrd", "rndrd"]', "[]", "grid.patterns = []: must be a list with at least one item"),
        ('before = "xfs-2.6.39"', 'before = "xfs-2.6"', "changes[0].before = 'xfs-2.6' is no variant; did you mean"),
        (THIRD_VARIANT, '[[variants]]\nfilesystem = "ext4-3"', "variants[2].filesystem = 'ext4-3' is not known"),
        (THIRD_VARIANT, '[[variants]]\nfilesystem = "xfs-2.6.39"', "variants: 'xfs-2.6.39' is named twice"),
        (
            '"sysbench-fileio"',
            '"sysbench-filio"',
            "workload.kind = 'sysbench-filio': must be 'sysbench-fileio' or 'fio' or",
        ),
        ("[grid]", "[run.grid]", "unknown key run.grid"),
        ("file_size_bytes", "file_size_byte", "unknown key workload.file_size_byte; did you mean file_size_bytes?"),
        ("67_108_864", "1000", "workload.file_size_bytes = 1000: must be an integer >= 512 and <= 1099511627776 and"),
        ('kind = "direction"', 'kind = "sign"', "claims[2].kind = 'sign': must be"),
        ("at_most_percent = 5.0", "at_most_percent = -5.0", "claims[0].at_most_percent = -5.0: must be a number > 0"),
        ("at_most_percent = 5.0", "at_most = 5.0", "unknown key claims[0].at_most; did you mean at_most_percent?"),
        ("seed = 2011", "seed = -1", "run.seed = -1: must be an integer >= 0"),
        ("xfs-vanilla.csv", "xfs-vanila.csv", "xfs-vanila.csv: No such file or directory"),
        ("\nquestion", "\n\nquestion = 1\nquestion", "not valid TOML"),
    ],
)
def test_a_mistake_in_an_experiment_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_experiment(variant_of_the_shipped_file(tmp_path, old, new), MACHINE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_claim_about_a_filesystem_that_is_not_simulated_is_an_error(tmp_path: Path) -> None:
    file = variant_of_the_shipped_file(tmp_path, THIRD_VARIANT + "\n", "")
    with pytest.raises(UserError, match=r"references\[1\]\.filesystem = 'ext4-3\.0' is no variant"):
        load_experiment(file, MACHINE)


def test_an_optional_table_is_compared_when_it_is_there(tmp_path: Path, experiment: Experiment) -> None:
    assert "xfs-both-patches" not in [reference.label for reference in experiment.references]
    data = tmp_path / "data" / "engel-2011"
    shutil.copytree(SHIPPED.parent / "data", tmp_path / "data")
    (data / "xfs-both-patches.csv").write_text("pattern,block_size,threads,iops\nseqrd,512,1,1000\n")
    file = tmp_path / "copy.toml"
    file.write_text(SHIPPED.read_text(encoding="utf-8"), encoding="utf-8")
    loaded = load_experiment(str(file), MACHINE)
    assert [reference.label for reference in loaded.references][-1] == "xfs-both-patches"


def test_a_data_file_that_an_experiment_elsewhere_misses_is_not_the_package_s(tmp_path: Path) -> None:
    file = tmp_path / "copy.toml"
    file.write_text(SHIPPED.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(UserError, match=r"^/.*/data/engel-2011/.*\.csv: No such file or directory$") as caught:
        load_experiment(str(file), MACHINE)
    assert str(caught.value).startswith(str(tmp_path))


def test_a_machine_file_is_relative_to_the_experiment_or_else_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    file = variant_of_the_shipped_file(there, 'machine = "engel-2011"', 'machine = "box.toml"')
    with pytest.raises(UserError, match=r"^box\.toml: no such file"):
        load_experiment(file)
    machine = Path(MACHINE).read_text(encoding="utf-8")
    (here / "box.toml").write_text(machine, encoding="utf-8")
    assert load_experiment(file).machine.file == "box.toml"
    (there / "box.toml").write_text(machine, encoding="utf-8")
    assert load_experiment(file).machine.file == str(there / "box.toml")
    assert load_experiment(file, "box.toml").machine.file == "box.toml"  # given on the command line


def test_what_is_predicted_is_marked_as_never_fitted(experiment: Experiment) -> None:
    roles = {reference.label: reference.reference.role for reference in experiment.references}
    assert roles["xfs-shared-read-lock"] == "prediction"
    assert roles["xfs-vanilla"] == roles["ext4-vanilla"] == "calibration"


def test_a_run_can_be_repeated_from_its_own_results(tmp_path: Path, report: Report) -> None:
    file = tmp_path / "results.json"
    file.write_text(results_json(report), encoding="utf-8")
    again = load_experiment(str(file))
    assert again.name == "dio_read_lock"
    assert again.definition == report.experiment.definition
    assert (again.machine.host, again.machine.device) == (
        report.experiment.machine.host,
        report.experiment.machine.device,
    )


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"experiment": "x"})])
def test_a_json_file_that_is_no_result_is_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)
    with pytest.raises(UserError, match=r"not the results\.json of an experiment"):
        load_experiment(str(file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("pattern,block_size,iops\n", "no column threads; a measured table has pattern, block_size, threads, iops"),
        ("pattern,block_size,threads,iops\nseqrd,512,one,3\n", ":2: block_size, threads and iops are numbers"),
        ("pattern,block_size,threads,iops\nseqrd,512,1\n", ":2: block_size, threads and iops are numbers"),
        ("pattern,block_size,threads,iops\nseqrd,512,1,0\n", ":2: iops = 0: must be positive"),
        ("", "no column pattern, block_size, threads, iops"),
        (HEADER, "no rows; a measured table has one for every cell"),
        (HEADER + "seqrd,512,1,1e999\n", ":2: iops = 1e999: must be positive and finite"),
        (HEADER + "seqrd,512,1,5\nseqrd,512,2,inf\n", ":3: iops = inf: must be positive and finite"),
        (HEADER + "seqrd,512,1,nan\n", ":2: iops = nan: must be positive and finite"),
        (HEADER + "seqrd,512,1,-3\n", ":2: iops = -3: must be positive and finite"),
        (HEADER + "seqrd,512,0,5\n", ":2: threads = 0: must be at least 1"),
        (HEADER + "seqrd,0,1,5\n", ":2: block_size = 0: must be a multiple of 512, at least 512"),
        (HEADER + "seqrd,-512,1,5\n", ":2: block_size = -512: must be a multiple of 512, at least 512"),
        (HEADER + "seqrd,1000,1,5\n", ":2: block_size = 1000: must be a multiple of 512, at least 512"),
        (HEADER + "seqread,512,1,5\n", ":2: unknown pattern 'seqread'; did you mean seqrd"),
        (HEADER + ",512,1,5\n", ":2: unknown pattern ''; known: rndrd, rndrw"),
        (
            HEADER + "seqrd,512,1,5\nseqrd,512,2,5\nseqrd,512,1,6\n",
            ":4: seqrd, 512 bytes, 1 threads: already given in line 2",
        ),
        (b"\x80\xff\x00\x9d" * 40, "not a text file in UTF-8"),
        (HEADER + "seqrd," + "5" * 200_000, "not a CSV file: field larger than field limit"),
    ],
)
def test_a_bad_table_names_file_and_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    file = tmp_path / "table.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError) as caught:
        read_table(file)
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_is_iops_by_cell() -> None:
    table = read_table(resources.experiments() / "data" / "engel-2011" / "xfs-vanilla.csv")
    assert table[Key("seqrd", 16384, 1)] == 4698
    assert len(table) == 192
