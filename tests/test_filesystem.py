"""A protocol file that cannot be loaded is one line with the file, the line and what Python says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fssim import resources
from fssim.errors import ProtocolError, UserError
from fssim.filesystem import filesystems
from tests.experiment.conftest import MACHINE
from tests.test_cli_errors import outcome

PROTOCOL = """\
from fssim.filesystem import Filesystem
from fssim.protocol import cpu, protocol

@protocol
def read(io, inode):
    yield cpu(3)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of filesystems that stands in for the package's."""
    of = resources.models
    monkeypatch.setattr(resources, "models", lambda kind: tmp_path if kind == "filesystems" else of(kind))
    filesystems.cache_clear()
    yield tmp_path
    filesystems.cache_clear()
    sys.modules.pop("fssim_models_filesystems_mine", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ndef read(:\n    pass\n", ":2: SyntaxError: invalid syntax"),
        ("if True:\nx = 1\n", ":2: IndentationError: expected an indented block after 'if' statement on line 1"),
        ("x = 1\n\ny = x / 0\n", ":3: ZeroDivisionError: division by zero"),
        ("def f():\n    return z\n\nf()\n", ":2: NameError: name 'z' is not defined"),
        ("import nowhere_at_all\n", ":1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("raise ValueError('one\\ntwo')\n", ":1: ValueError: one two"),
        ("import sys\nsys.exit('enough')\n", ":2: SystemExit: enough"),
        (PROTOCOL + "x = Filesystem(name='mine')\n", ":7: TypeError: Filesystem.__init__() missing 4 required"),
        ("x = '\udcff'\n", ":1: SyntaxError: (unicode error) 'utf-8' codec"),
        ("x = 1\n", ": export FILESYSTEMS, a dictionary of name to fssim.filesystem.Filesystem"),
        ("FILESYSTEMS = ['mine']\n", ": export FILESYSTEMS, a dictionary of name to"),
        ("FILESYSTEMS = {'mine': 3}\n", ": export FILESYSTEMS, a dictionary of name to"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_one_line_and_exit_code_2(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    file = folder / "mine.py"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    code, out, err = outcome(capsys, "dio_read_lock", "--machine", MACHINE)
    assert code == 2
    assert out == ""
    assert err.startswith(f"fssim: {file}{message}")
    assert err.count("\n") == 1


def test_a_mistake_in_a_protocol_keeps_its_own_message(folder: Path) -> None:
    (folder / "mine.py").write_text("from fssim.protocol import protocol\nf = protocol(lambda io: None)\n")
    with pytest.raises(ProtocolError, match="@protocol decorates a `def`"):
        filesystems()


def test_a_file_that_was_corrected_is_loaded_again(folder: Path) -> None:
    (folder / "mine.py").write_text("x = (\n")
    with pytest.raises(UserError):
        filesystems()
    (folder / "mine.py").write_text("FILESYSTEMS = {}\n")
    assert filesystems() == {}
