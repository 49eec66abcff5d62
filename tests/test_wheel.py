"""The wheel carries models and experiments, and the main job runs from it in a fresh environment, from any folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_carries_what_people_edit(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "models/filesystems/xfs.py",
        "models/devices/null-blk.toml",
        "experiments/dio_read_lock.toml",
        "experiments/data/engel-2011/xfs-vanilla.csv",
    ):
        assert f"fssim/_share/{name}" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]


@pytest.mark.slow
def test_the_main_job_runs_from_the_wheel_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True, capture_output=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python), "-m", "fssim.experiment", "dio_read_lock", "--threads", "1,4", "--block-sizes", "4k"]
    done = subprocess.run(command, cwd=elsewhere, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Question" in done.stdout
    results = json.loads((elsewhere / "results" / "dio_read_lock" / "results.json").read_text())
    assert len(results["cells"]) == 12
    assert (elsewhere / "results" / "dio_read_lock" / "report.html").exists()
