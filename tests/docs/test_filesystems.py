"""`docs/filesystems.md`: its tables are those of the code, and its example is a filesystem that works."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fssim import resources
from fssim.filesystem import filesystems
from tests.docs.tables import FAMILIES, concurrency, constants, markdown, versions_of

TEXT = (Path(__file__).parents[2] / "docs" / "filesystems.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
HINT = "python -m tests.docs.tables prints the tables"


def rows(head: str) -> list[str]:
    """Names in the first column of the table with this head."""
    return re.findall(r"^\| `([^`]+)` \|", TEXT.split(head)[1].split("\n\n")[0], re.MULTILINE)


def test_every_version_is_described_in_the_order_of_the_code() -> None:
    known = [each.name for files in FAMILIES.values() for each in versions_of(files)]
    assert sorted(known) == sorted(filesystems()), "a file of filesystems is in no table: see FAMILIES"
    assert rows("| version | kernels | what is new |\n") == known


@pytest.mark.parametrize("files", FAMILIES.values())
def test_the_tables_of_constants_are_those_of_the_code(files: str) -> None:
    assert markdown(constants(files)) in TEXT, HINT


@pytest.mark.parametrize("files", FAMILIES.values())
def test_every_constant_is_explained(files: str) -> None:
    names = [name for name, *_ in list(constants(files))[1:]]
    prose = "".join(line for line in TEXT.splitlines(keepends=True) if not line.startswith("| `"))
    assert [name for name in names if name not in prose] == []


def test_what_is_in_flight_together_is_what_the_engine_says() -> None:
    assert markdown(concurrency()) in TEXT, HINT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of filesystems with what the package's versions share, and none of these."""
    of = resources.models
    for shared in of("filesystems").glob("_*.py"):
        shutil.copy(shared, tmp_path)
    monkeypatch.setattr(resources, "models", lambda kind: tmp_path if kind == "filesystems" else of(kind))
    filesystems.cache_clear()
    yield tmp_path
    filesystems.cache_clear()


def test_the_example_is_a_filesystem_and_prints_what_is_written_below_it(folder: Path) -> None:
    (file, script, printed) = BLOCKS
    assert [language for language, _ in BLOCKS] == ["python", "python", "text"]
    (folder / "flat.py").write_text(file[1], encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(script[1], "<docs/filesystems.md>", "exec"), {})
    assert shown.getvalue() == printed[1]
