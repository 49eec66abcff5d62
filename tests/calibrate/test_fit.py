"""Standard errors, the profile writer, and a small fit that has to find the parameters that made its data."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import numpy as np
import pytest

from fssim.calibrate.fit import soft_l1, standard_errors
from fssim.calibrate.profile_writer import as_toml
from fssim.errors import UserError


def noisy(jacobian, amount, generator):
    return [jacobian + amount * generator.standard_normal(jacobian.shape) for _ in range(4)]


def test_standard_errors_are_those_of_linear_least_squares():
    """Against the closed form s^2 (J'J)^-1, with residuals so small that all weights are one."""
    generator = np.random.default_rng(1)
    jacobian = generator.standard_normal((200, 3)) * [1.0, 0.1, 3.0]
    residuals = 1e-6 * generator.standard_normal(200)
    variance = (residuals**2).sum() / 197
    expected = np.sqrt(variance * np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    found = standard_errors([jacobian] * 4, residuals, np.ones(200))
    assert found == pytest.approx(expected, rel=1e-6)


def test_noise_of_the_derivatives_does_not_make_a_parameter_look_determined():
    """The second parameter moves nothing; its column is noise alone.  J'J of one such Jacobian would be 200 * 0.01."""
    generator = np.random.default_rng(2)
    jacobian = np.zeros((200, 2))
    jacobian[:, 0] = 1.0
    residuals = 0.02 * generator.standard_normal(200)
    found = standard_errors(noisy(jacobian, 0.1, generator), residuals, np.ones(200))
    naive = 0.02 / np.sqrt(200 * 0.01)
    assert found[0] == pytest.approx(0.02 / np.sqrt(200), rel=0.3)
    assert found[1] > 2 * naive


def test_too_few_cells_are_refused():
    with pytest.raises(UserError, match="3 cells cannot determine 3 parameters"):
        standard_errors([np.eye(3)] * 2, np.zeros(3), np.ones(3))


def test_a_profile_is_read_back_as_it_was_written():
    raw = {
        "name": "x",
        "list": ["a", "b" * 120],
        "host": {"cpus": 8, "path_ns": {"read entry": 3}},
        "calibration": {"loss": 0.02, "standard_error": {"host.cpus": 0.1}},
    }
    text = as_toml(raw, {"host.cpus": "fitted"})
    assert tomllib.loads(text) == raw
    assert "cpus = 8  # fitted" in text


MACHINE = """
name = "made"
description = "made"
source = "made up by a test"

[host]
cpus = 4
interrupt_ns = 2000
wakeup_ns = 4000

[host.path_ns]
read_entry = {entry}
read_complete = 1000
read_exit = 1000
xfs_read_entry = 500
xfs_map_blocks = 500
xfs_submit_sector = 150
sysbench_request = 300
sysbench_copy = 50
page_cache_flush = 1500
page_cache_zero = 1500
ext4_submit = 1000
ext4_submit_sector = 200

[device]
kind = "simple"
latency_ns = {latency}
bandwidth_mb_s = 600
"""

CALIBRATION = """
machine = "{machine}"
[run]
ios = 512
[[tables]]
filesystem = "ext4-3.0"
file = "{table}"
patterns = ["rndrd"]
[[parameters]]
name = "host.path_ns.read_entry"
low = 500
high = 20000
[[parameters]]
name = "device.latency_ns"
low = 5000
high = 200000
"""


@pytest.fixture
def made(tmp_path):
    """Data predicted with known parameters, and a machine file that starts elsewhere."""
    from fssim.experiment.cells import Task, simulate
    from fssim.experiment.tables import Key
    from fssim.profile import load_machine
    from fssim.workload.sysbench import Sysbench

    (tmp_path / "true.toml").write_text(MACHINE.format(entry=4000, latency=50_000))
    machine = load_machine(str(tmp_path / "true.toml"))
    rows = ["pattern,block_size,threads,iops"]
    for block_size in (512, 4096):
        for threads in (1, 2, 4, 16, 64):
            task = Task("ext4-3.0", Key("rndrd", block_size, threads), machine, Sysbench(), 1, 2048, 256, "compiled")
            rows.append(f"rndrd,{block_size},{threads},{simulate(task).iops:.0f}")
    (tmp_path / "table.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "start.toml").write_text(MACHINE.format(entry=7000, latency=35_000))
    (tmp_path / "fit.toml").write_text(
        CALIBRATION.format(machine=tmp_path / "start.toml", table=tmp_path / "table.csv")
    )
    return tmp_path


def calibrate(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "fssim.calibrate", *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_fit_finds_the_parameters_that_made_the_data(made):
    done = calibrate(made / "fit.toml", "-o", made / "out.toml", "--jobs", 1)
    assert done.returncode == 0, done.stderr
    found = tomllib.loads((made / "out.toml").read_text())
    assert found["host"]["path_ns"]["read_entry"] == pytest.approx(4000, rel=0.03)
    assert found["device"]["latency_ns"] == pytest.approx(50_000, rel=0.01)
    assert found["calibration"]["loss"] < 0.005
    assert found["calibration"]["unidentified"] == []
    assert found["calibration"]["command"].startswith("python -m fssim.calibrate")


def test_files_are_relative_to_the_calibration_and_never_the_package_s(tmp_path):
    from fssim.calibrate.definition import load_calibration

    shipped = "data/engel-2011/ext4-vanilla.csv"
    (tmp_path / "start.toml").write_text(MACHINE.format(entry=7000, latency=35_000))
    (tmp_path / "fit.toml").write_text(CALIBRATION.format(machine="start.toml", table=shipped))
    with pytest.raises(UserError, match="No such file") as caught:
        load_calibration(str(tmp_path / "fit.toml"))
    assert str(caught.value).startswith(str(tmp_path / shipped))
    (tmp_path / shipped).parent.mkdir(parents=True)
    (tmp_path / shipped).write_text("pattern,block_size,threads,iops\nrndrd,512,1,99\n")
    loaded = load_calibration(str(tmp_path / "fit.toml"))
    assert [cell.iops for cell in loaded.cells] == [99]
    assert loaded.file == tmp_path / "start.toml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("device.latency_ns", "device.latency", "did you mean latency_ns"),
        ("low = 5000", "low = 40000", "device.latency_ns starts at 35000, outside"),
        ("patterns", "pattern", "unknown key tables[0].pattern; did you mean patterns"),
        ("table.csv", "tables.csv", "No such file"),
        ('["rndrd"]', '["seqwr"]', "has no cells of pattern seqwr"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written(made, old, new, message):
    text = (made / "fit.toml").read_text()
    assert old in text
    (made / "fit.toml").write_text(text.replace(old, new))
    before = (made / "start.toml").read_text()
    done = calibrate(made / "fit.toml")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert (made / "start.toml").read_text() == before


def test_a_weight_counts_a_cell_that_many_times():
    residuals = np.array([0.1, -0.2, 0.3])
    repeated = np.array([0.1, -0.2, -0.2, -0.2, 0.3])
    assert soft_l1(residuals, 0.03, np.array([1.0, 3.0, 1.0])) == pytest.approx(soft_l1(repeated, 0.03, np.ones(5)))


def test_small_errors_weigh_quadratically_and_large_ones_linearly():
    one = np.ones(1)
    assert soft_l1(np.array([1e-4]), 0.03, one) == pytest.approx(1e-8, rel=1e-4)
    assert soft_l1(np.array([30.0]), 0.03, one) == pytest.approx(2 * 0.03 * 30, rel=1e-2)


def test_another_file_size_must_be_whole_sectors(made):
    done = calibrate(made / "fit.toml", "--dry-run", "--file-size", 1000)
    assert (done.returncode, done.stderr) == (2, "fssim.calibrate: --file-size 1000: must be a multiple of 512\n")
