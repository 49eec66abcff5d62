"""The command: text, JSON, and a mistake is one line and exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fssim.explain.cli import main
from tests.experiment.conftest import MACHINE
from tests.explain.filesystems import computes_only, filesystem, machine, never_lets_go, tries


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filesystem of the tests under any name, on their machine."""
    monkeypatch.setattr("fssim.explain.cell.load_filesystem", lambda name: filesystem(tries))
    monkeypatch.setattr("fssim.explain.cell.load_machine", lambda name: machine(wakeup_ns=1_000))


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; return exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["xfs-2.6.93", "seqrd", "4096", "16"], "unknown filesystem 'xfs-2.6.93'; did you mean xfs-2.6.39"),
        (["xfs-2.6.39", "seqread", "4096", "16"], "unknown pattern 'seqread'; did you mean seqrd"),
        (["xfs-2.6.39", "seqrd", "1000", "16"], "block size 1000: direct I/O needs a multiple of 512 bytes"),
        (["xfs-2.6.39", "seqrd", "4x", "16"], "'4x': must be an integer >= 1, such as 512 or 4k"),
        (["xfs-2.6.39", "seqrd", "4096", "0"], "0 threads: must be between 1 and 65536"),
        (["xfs-2.6.39", "seqrd", "4096", "999999"], "999999 threads: must be between 1 and 65536"),
        (["xfs-2.6.39", "seqrd", "4096", "many"], "'many' is not a valid integer"),
        (["xfs-2.6.39", "seqrd", "4096"], "Missing argument 'THREADS'"),
        (["xfs-2.6.39", "seqrd", "4096", "16", "--ios", "1"], "--ios 1: must be between 16 and 1000000"),
        (["xfs-2.6.39", "seqrd", "4096", "16", "--seed", "-1"], "-1 is not in the range x>=0"),
        (["xfs-2.6.39", "seqrd", "4096", "16", "--machine", "no.toml"], "no.toml: no such file"),
        (["xfs-2.6.39", "seqrd", "4096", "16", "--machine", "engel-2012"], "did you mean engel-2011"),
        (["xfs-2.6.39", "seqrd", "4096", "16", "--file-size", "1000"], "1000"),
        (["xfs-2.6.39", "seqrd", "4096", "16", "--jsn"], "No such option"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, err = outcome(capsys, *(["--machine", MACHINE] if "--machine" not in arguments else []), *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("fssim: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("little")
def test_a_pattern_that_writes_is_refused_if_the_version_describes_reads_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = outcome(capsys, "little", "seqwr", "4096", "2")
    assert (code, err) == (2, "fssim: seqwr: little describes reads only; use seqrd or rndrd\n")


@pytest.mark.usefixtures("little")
def test_files_that_are_done_before_anything_is_seen_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome(capsys, "little", "seqrd", "4k", "2", "--ios", "4096", "--file-size", "4k")
    assert code == 2
    assert err.startswith("fssim: all files are transferred before the warm-up of 1024 I/Os is over; use a larger")
    assert err.count("\n") == 1


@pytest.mark.usefixtures("little")
def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = outcome(capsys, "little", "seqrd", "4k", "4", "--json", "--ios", "64")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert set(found) == {
        *("cell", "idle_threads", "summary", "runs", "locks", "waits", "roots", "timers", "try_locks"),
        *("lines_of_several_threads", "what_if", "machine"),
    }
    assert found["cell"]["block_size"] == 4096
    assert set(found["runs"]) == {"cell", "one_thread_same_blocks", "one_thread"}
    whole = sum(item["ns"] for item in found["runs"]["cell"]["budget_ns_per_io"])
    assert whole == pytest.approx(4 * found["runs"]["cell"]["ns_between_completions"], rel=0.001)
    assert sum(wait["share"] for wait in found["waits"]) == pytest.approx(1)
    assert sum(root["share"] for root in found["roots"]) == pytest.approx(1)
    exclusive = next(lock for lock in found["locks"] if (lock["lock"], lock["mode"]) == ("Inode.iolock", "exclusive"))
    assert exclusive["share_of_ios"] == exclusive["demoted_share"] == 1
    assert [tries["lock"] for tries in found["try_locks"]] == ["Inode.inner"]
    assert {"wake-ups and context switches take no time", "an ideal device"} <= {
        what_if["change"] for what_if in found["what_if"]
    }
    (failed,) = (tries["failed_per_io"] for tries in found["try_locks"])
    assert 0 < failed < 1
    assert f"{failed:.3f} try-locks of Inode.inner fail an I/O" in str(found["summary"])


@pytest.mark.usefixtures("little")
def test_one_thread_is_compared_with_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "little", "rndrd", "4096", "1", "--ios", "64", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["runs"]["one_thread"] is None
    assert found["waits"] == found["lines_of_several_threads"] == []
    code, out, _ = outcome(capsys, "little", "rndrd", "4096", "1", "--ios", "64")
    assert code == 0
    assert "1 thread" in out


def test_a_lock_under_which_the_holder_computes_is_no_collapse(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fssim.explain.cell.load_filesystem", lambda name: filesystem(computes_only))
    monkeypatch.setattr("fssim.explain.cell.load_machine", lambda name: machine(mutex="barging"))
    code, out, _ = outcome(capsys, "little", "seqrd", "4096", "4", "--ios", "64", "--json")
    assert code == 0
    (text,) = (said["text"] for said in json.loads(out)["summary"] if said["about"] == "Bottleneck")
    assert "the path cost decides what the rate is" in text


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from fssim.explain.cli import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n"
        "    heavy = {'numpy', 'numba', 'matplotlib', 'rich', 'simpy', 'msgspec'} & set(sys.modules)\n"
        "    print('heavy:', sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Exit codes:" in done.stdout
    assert "heavy: []" in done.stdout


def test_an_error_of_the_run_is_one_line_and_exit_code_3(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fssim.explain.cell.load_filesystem", lambda name: filesystem(never_lets_go))
    monkeypatch.setattr("fssim.explain.cell.load_machine", lambda name: machine())
    code, out, err = outcome(capsys, "little", "seqrd", "4096", "2", "--ios", "64")
    assert (code, out) == (3, "")
    assert err.startswith("fssim: RecursiveAcquire: ")
    assert err.count("\n") == 1


def test_a_machine_without_a_cost_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "bare.toml"
    file.write_text(
        'name = "bare"\ndescription = "x"\nsource = "x"\n[host]\ncpus = 1\n[device]\nkind = "simple"\nlatency_ns = 1\n'
    )
    code, _, err = outcome(capsys, "xfs-2.6.39", "seqrd", "4096", "2", "--machine", str(file))
    assert code == 2
    assert "the host profile gives no cost for path." in err


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = [sys.executable, "-m", "fssim.explain", "xfs-2.6.39", "seqrd", "4096", "2", "--ios", "64"]
    for option in ([], ["--json"]):
        process = subprocess.Popen(
            [*command, "--machine", MACHINE, *option], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        process.stderr.close()
        assert process.wait(timeout=120) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_standard_output_is_one_line_and_exit_code_2() -> None:
    command = [sys.executable, "-m", "fssim.explain", "xfs-2.6.39", "seqrd", "4096", "2", "--ios", "64"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*command, "--machine", MACHINE], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == "fssim: cannot write to standard output: No space left on device\n"
    assert done.returncode == 2
