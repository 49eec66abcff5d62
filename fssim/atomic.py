"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fssim.errors import UserError


@dataclass(frozen=True)
class Folder:
    """An output folder."""

    path: Path

    def prepare(self) -> None:
        """Make the folder and try to write into it, before any time is spent on results that would be lost."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.path, prefix=".fssim-") as probe:
                probe.write(b"\0" * 4096)
                probe.flush()
        except OSError as error:
            raise UserError(f"output folder {self.path}: {error.strerror}; give another with --out") from None

    def write(self, name: str, text: str) -> None:
        """Write a text file into the folder, whole or not at all."""
        write_text(self.path / name, text)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file into the folder, whole or not at all."""
        write_bytes(self.path / name, content)


def write_text(file: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write_bytes(file, text.encode())


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file whole or not at all: a temporary one beside it takes its name when everything is on disk."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
