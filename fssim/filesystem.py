"""Filesystem versions by name: the protocols of `models/filesystems/*.py`, and what every inode has."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fssim import resources
from fssim.errors import UserError, nearest

if TYPE_CHECKING:
    from fssim.protocol import Protocol
    from fssim.protocol.language import Shared


@dataclass(frozen=True)
class Filesystem:
    """One version of a filesystem.

    `read`: the protocol of a direct read, with parameters `(io: IO, inode)`.  `inode`: the class of its inodes.
    `constants`: upper-case names of the protocols that this version overrides.  `provenance`: the kernel version or
    patch that the text follows.
    """

    name: str
    description: str
    provenance: str
    inode: type[Shared]
    read: Protocol
    constants: Mapping[str, Any] = field(default_factory=dict)


def load_filesystem(name: str) -> Filesystem:
    """Return a filesystem version by name; an unknown one is a `UserError` with the nearest names."""
    known = filesystems()
    if name not in known:
        raise UserError(f"unknown filesystem {name!r}{nearest(name, known)}")
    return known[name]


@cache
def filesystems() -> Mapping[str, Filesystem]:
    """Return all filesystem versions by name.

    A file that Python cannot load, or that does not export `FILESYSTEMS`, is a `UserError`.
    """
    known: dict[str, Filesystem] = {}
    for path in sorted(resources.models("filesystems").glob("*.py")):
        exported = getattr(_module(path), "FILESYSTEMS", None)
        if not isinstance(exported, Mapping) or not all(isinstance(each, Filesystem) for each in exported.values()):
            raise UserError(f"{path}: export FILESYSTEMS, a dictionary of name to fssim.filesystem.Filesystem")
        for name, filesystem in exported.items():
            if name in known or name != filesystem.name:
                raise UserError(f"{path}: {name}: a name must be that of its Filesystem, and stand for only one")
            known[name] = filesystem
    return known


def _module(path: Path) -> Any:
    """Import a file outside any package, once, so that classes and protocols keep their identity."""
    name = f"fssim_models_filesystems_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, Exception | SystemExit) and not isinstance(error, UserError):
                raise UserError(_in_one_line(path, error)) from None
            raise
    return sys.modules[name]


def _in_one_line(path: Path, error: BaseException) -> str:
    """Return file, line and what Python says about an exception at the import of a file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line, said = (lines[-1] if lines else None), str(error)
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line, said = error.lineno, error.msg
    where = str(path) if line is None else f"{path}:{line}"
    return f"{where}: {type(error).__name__}: {' '.join(said.split())}"
