"""A person's mistake on the command line is one line on standard error and exit code 2, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fssim.calibrate.cli import main as calibrate
from fssim.calibrate.figures import main as figures
from fssim.experiment.cli import main
from tests.experiment.conftest import MACHINE

RUN = ["dio_read_lock", "--machine", MACHINE]


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; return exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dio_red_lock"], "unknown experiment 'dio_red_lock'; did you mean dio_read_lock or"),
        (["nowhere/x.toml"], "nowhere/x.toml: no such file; known by name: chinner_2011, dio_append, dio_read_lock"),
        ([], "name an experiment, or --all; --list shows them"),
        ([*RUN, "--threads", "0"], "threads = '0': must be an integer >= 1"),
        ([*RUN, "--threads", "1,-4"], "threads = '-4': must be an integer >= 1"),
        ([*RUN, "--threads", "1,,2"], "threads = '': must be an integer >= 1"),
        ([*RUN, "--block-sizes", "1000"], "block size 1000: direct I/O needs a multiple of 512 bytes"),
        ([*RUN, "--block-sizes", "128m"], "block size 134217728: direct I/O needs a multiple of 512 bytes, at most"),
        ([*RUN, "--block-sizes", "4x"], "block size = '4x': must be an integer >= 1"),
        ([*RUN, "--patterns", "seqread"], "unknown pattern 'seqread'; did you mean seqrd or"),
        ([*RUN, "--engine", "compild"], "engine 'compild' does not exist; did you mean compiled?"),
        ([*RUN, "--cell", "seqrd,4k,3"], "--cell seqrd,4k,3: not in the grid"),
        ([*RUN, "--cell", "seqrd"], "--cell seqrd: write PATTERN,BYTES,THREADS, such as seqrd,4096,16"),
        ([*RUN, "--seed", "-1"], "-1 is not in the range x>=0"),
        ([*RUN, "--jobs", "0"], "0 is not in the range x>=1"),
        ([*RUN, "--treads", "4"], "No such option"),
        (["dio_read_lock", "--machine", "missing.toml"], "missing.toml: no such file"),
        ([*RUN, "--out", "/dev/null/x"], "output folder /dev/null/x: Not a directory; give another with --out"),
        ([*RUN, "--threads", "99999999999"], "99999999999 threads: must be between 1 and 65536"),
        ([*RUN, "--csv", "/"], "/: is a folder; give the name of a file"),
        (["--all", "dio_read_lock"], "name --all, or dio_read_lock alone"),
        (["--all", "--csv", "x.csv"], "--csv is about one experiment; name it instead of --all"),
        (["--all", "--threads", "4"], "--threads is about one experiment; name it instead of --all"),
        ([*RUN, "--claims", "--out", "x"], "--out beside --claims, which prints one table and writes nothing"),
        ([*RUN, "--csv", "/dev/null/x.csv"], "output folder /dev/null: File exists"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)  # a mistake that is not seen must not overwrite the results of the checkout
    code, out, err = outcome(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("fssim: ")
    assert message in err
    assert err.count("\n") == 1


def test_experiments_are_listed_with_their_questions(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "--list")
    assert code == 0
    assert "\ndio_read_lock " in out
    assert "What happens to IOPS" in out


def test_help_documents_exit_codes_and_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from fssim.experiment.cli import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n"
        "    heavy = {'numpy', 'numba', 'matplotlib', 'rich', 'simpy', 'msgspec'} & set(sys.modules)\n"
        "    print('heavy:', sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Exit codes:" in done.stdout
    assert "heavy: []" in done.stdout


def test_ctrl_c_ends_the_real_process_with_130_and_one_line(tmp_path: Path) -> None:
    arguments = ["fssim.experiment", *RUN, "--engine", "reference", "--out", str(tmp_path)]
    # The output folder is empty until the end, so wait until the workers exist: then cells are running.
    err = interrupted(arguments, lambda pid: bool(_children(pid)))
    assert err.startswith("fssim: interrupted")


def test_ctrl_c_ends_an_explanation_with_130_and_one_line() -> None:
    arguments = ["fssim.explain", "ext4-3.0", "rndrd", "4k", "8", "--machine", MACHINE, "--ios", "1000000"]
    # The engine is loaded with the first run, which takes long.
    assert interrupted(arguments, lambda pid: "llvmlite" in _maps(pid)) == "fssim: interrupted\n"


def interrupted(arguments: list[str], ready: Callable[[int], bool]) -> str:
    """Start a program, send it Ctrl-C when it is ready, and return the one line that it says."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that runs the tests in the background has them ignore SIGINT, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not ready(process.pid) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert err.count("\n") == 1
    return err


def test_a_reader_that_stops_early_does_not_cost_the_results(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fssim.experiment", *RUN, "--threads", "1,4", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=120) == 0
    assert (tmp_path / "results.json").exists()
    assert (tmp_path / "report.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--list"], ["--help"], [*RUN, "--threads", "1,4"]])
def test_a_full_standard_output_is_one_line_and_does_not_cost_the_files(tmp_path: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "fssim.experiment", *arguments, "--out", str(tmp_path)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "fssim: cannot write to standard output: No space left on device\n"
    assert done.returncode == 2
    if "--threads" in arguments:
        assert (tmp_path / "results.json").exists()
        assert (tmp_path / "report.html").exists()


def _children(pid: int) -> str:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return file.read_text() if file.exists() else ""


def _maps(pid: int) -> str:
    file = Path(f"/proc/{pid}/maps")
    return file.read_text() if file.exists() else ""


def test_csv_and_json_do_not_overwrite_each_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    same = str(tmp_path / "same")
    code, _, err = outcome(capsys, *RUN, "--out", str(tmp_path), "--csv", same, "--json", same)
    assert code == 2
    assert "one would overwrite the other" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'NAME'"),
        (["engel-2011", "--bogus"], "No such option"),
        (["engel-2011", "-o", "/"], "/: is a folder; give a file with -o"),
        (["nope"], "unknown calibration 'nope'; known: engel-2011"),
    ],
)
def test_a_mistake_in_a_calibration_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert_one_line(capsys, calibrate, arguments, "fssim.calibrate", message)


FIT = """
machine = "{machine}"
[[fits]]
parameter = "{parameter}"
low = {low}
high = 20_000
figure = 24_000
source = "made up by a test"
filesystem = "ext4-3.0"
workload = {{ {workload} }}
ios = 100
warmup_ios = 10
"""
READ = 'kind = "fio", pattern = "read", file_size_bytes = 4_194_304'


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "fits[0]: device.latency_ns = 10 ... 20000 gives "),
        ({"parameter": "device.latency"}, "no profile of "),  # before anything is run
        ({"parameter": "host.cpus"}, "fits[0]: host.cpus = 10 ... 20000 gives "),
        ({"low": -1}, "fits[0].low = -1: must be an integer >= 0"),
        ({"workload": 'kind = "sysbench-fileio"'}, "device.latency_ns: state the cell of sysbench's matrix"),
        ({"workload": READ + ", iodepth = 2"}, "iodepth 2: fio runs synchronous engines at depth 1"),
        ({"machine": "nowhere.toml"}, "nowhere.toml: no such file"),
    ],
)
def test_a_mistake_in_a_fit_is_one_line_and_changes_no_profile(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_bytes(Path(MACHINE).read_bytes())
    stated = {"machine": profile, "parameter": "device.latency_ns", "low": 10, "workload": READ, **changes}
    (tmp_path / "fit.toml").write_text(FIT.format(**stated), encoding="utf-8")
    assert_one_line(capsys, figures, [str(tmp_path / "fit.toml"), "--write"], "fssim.calibrate.figures", message)
    assert profile.read_bytes() == Path(MACHINE).read_bytes()


def test_a_fit_that_does_not_exist_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert_one_line(capsys, figures, ["nope"], "fssim.calibrate.figures", "unknown fit 'nope'; known: chinner-2011")


def assert_one_line(
    capsys: pytest.CaptureFixture[str], command: Callable[..., None], arguments: list[str], program: str, message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        command(arguments)
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert err.startswith(f"{program}: ")
    assert message in err
    assert err.count("\n") == 1
