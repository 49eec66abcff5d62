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


READS_WITH = """\
from fssim.filesystem import File, Filesystem
from fssim.protocol import IO, cpu, protocol

{import_}

class Inode(File):
    pass

@protocol
def read(io: IO, inode: Inode):
    yield cpu(DELAY_NS)

FILESYSTEMS = {{name: Filesystem(name, "", "made up", Inode, read) for name in ["{name}"]}}
"""


def test_a_file_that_begins_with_an_underscore_is_no_filesystem_but_others_import_it(folder: Path) -> None:
    """It needs no FILESYSTEMS, and what two files import from it is one thing."""
    (folder / "_shared.py").write_text("DELAY_NS = 7\nclass Marker:\n    pass\n")
    for name in ("mine", "yours"):
        text = READS_WITH.format(import_="from ._shared import DELAY_NS, Marker", name=name)
        (folder / f"{name}.py").write_text(text)
    assert filesystems().keys() == {"mine", "yours"}
    package = filesystems()["mine"].read.__module__.removesuffix(".mine")
    assert package.startswith("fssim_models_")  # beside that of the shipped ones
    modules = [sys.modules[f"{package}.{name}"] for name in ("mine", "yours")]
    assert modules[0].Marker is modules[1].Marker


def test_filesystems_of_another_folder_leave_the_shipped_ones_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = filesystems()["xfs-2.6.39"].inode
    with monkeypatch.context() as patched:
        patched.setattr(resources, "models", lambda kind: tmp_path)
        filesystems.cache_clear()
        assert filesystems() == {}
    filesystems.cache_clear()
    assert filesystems()["xfs-2.6.39"].inode is before


def test_a_mistake_in_a_file_that_others_import_has_its_own_place(folder: Path) -> None:
    (folder / "_shared.py").write_text("x = 1\n\ny = x / 0\n")
    (folder / "mine.py").write_text(READS_WITH.format(import_="from ._shared import y as DELAY_NS", name="mine"))
    with pytest.raises(UserError) as caught:
        filesystems()
    assert str(caught.value) == f"{folder / '_shared.py'}:3: ZeroDivisionError: division by zero"


def test_a_name_stands_for_one_filesystem(folder: Path) -> None:
    for file in ("mine", "yours"):
        (folder / f"{file}.py").write_text(READS_WITH.format(import_="DELAY_NS = 1", name="same"))
    with pytest.raises(UserError, match=r"yours\.py: same: a name must be that of its Filesystem, and stand for"):
        filesystems()


def test_a_folder_that_was_changed_for_another_is_loaded_from_there(folder: Path) -> None:
    """And after that the package's own versions are found again."""
    (folder / "mine.py").write_text(READS_WITH.format(import_="DELAY_NS = 1", name="mine"))
    assert filesystems().keys() == {"mine"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resources, "models", lambda kind: Path(resources.__file__).parents[1] / "models" / kind)
        filesystems.cache_clear()
        assert "xfs-2.6.39" in filesystems()
    filesystems.cache_clear()
    assert filesystems().keys() == {"mine"}
