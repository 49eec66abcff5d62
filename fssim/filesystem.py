"""Filesystem versions by name: the protocols of `models/filesystems/*.py`, and what every inode has."""

from __future__ import annotations

import importlib
import sys
import traceback
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from fssim import resources
from fssim.errors import UserError, nearest
from fssim.protocol.language import BlockMap, Counter, Monotonic, Queue, Shared

if TYPE_CHECKING:
    from fssim.protocol import Protocol

BLOCK = 4096
"""Bytes of a block of every filesystem here, and of a page."""

PACKAGE = "fssim_models"
"""The package as which Python knows the folder `models`, so that its files can import each other."""


class File(Shared):
    """What a filesystem's class of inodes adds to.

    `disk_offset`: where the file's blocks lie on the device, one after the other.  `size`: i_size.  `extents`: HOLE,
    UNWRITTEN or WRITTEN for every block that the file may come to have.  `pages`: what the page cache has of it,
    ABSENT, CLEAN or DIRTY.
    """

    disk_offset: int
    size: Monotonic
    extents: BlockMap
    pages: BlockMap


class Volume(Shared):
    """What a filesystem's class of mounts adds to: log, allocation groups, work queues."""


VolumeBytes = Annotated[int, Meta(ge=2**20, le=2**60)]


class Geometry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a volume was made.  `log_bytes`: of its log or journal; 0: what mkfs gives a volume of this size."""

    size_bytes: VolumeBytes = 160 * 10**9
    log_bytes: Annotated[int, Meta(ge=0, le=2**40)] = 0


class Ring(Shared):
    """Where a program that submits asynchronous I/O finds what is complete, as with io_getevents."""

    done: Queue[Request]


class Request(Shared):
    """An asynchronous I/O (kiocb and dio).  A filesystem's own class adds its `inode`.

    `begun`: when its submission began.  `bios`: pieces in flight.  `flags`: what completion has to do, the filesystem's
    own bits.
    """

    ring: Ring
    writes: int
    offset: int
    length: int
    begun: int
    flags: int
    bios: Counter


@dataclass(frozen=True)
class Filesystem:
    """One version of a filesystem.

    `inode`: class of its files. `mount`: makes its volume. `place`: gives, from the volume and where a file's
    blocks lie on the device, the fields of an inode that only this filesystem has. `read`, `write`: protocols of a
    direct read and write with parameters `(io: IO, inode)`; `write` None: the version describes reads only.
    `submit_read`, `submit_write`: the same as asynchronous I/O, `(request)` of the class `request`. `truncate`:
    `(size, inode)`. `fallocate`: `(offset, length, inode)`. `daemons`: programs with the parameter `(volume)` that
    run beside those of a workload that writes or is asynchronous, and how many of each (0: see
    `fssim.workload.threads`). `sizes`: fields of an inode that begin with the size of the file. `constants`: upper-
    case names of the protocols that this version overrides. `provenance`: the kernel version or patch that the text
    follows.
    """

    name: str
    description: str
    provenance: str
    inode: type[Shared]
    read: Protocol
    write: Protocol | None = None
    mount: Callable[[Geometry], Volume] | None = None
    place: Callable[[Any, int], dict[str, Any]] | None = None
    submit_read: Protocol | None = None
    submit_write: Protocol | None = None
    request: type[Request] | None = None
    truncate: Protocol | None = None
    fallocate: Protocol | None = None
    daemons: Mapping[Protocol, int] = field(default_factory=dict)
    sizes: tuple[str, ...] = ("size",)
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

    They are in the files of the folder that do not begin with an underscore; those hold what others import.  A file
    that Python cannot load, or that does not export `FILESYSTEMS`, is a `UserError`.
    """
    known: dict[str, Filesystem] = {}
    folder = resources.models("filesystems")
    package = _package(folder)
    for path in sorted(folder.glob("*.py")):
        if path.stem.startswith("_"):
            continue
        exported = getattr(_module(package, path), "FILESYSTEMS", None)
        if not isinstance(exported, Mapping) or not all(isinstance(each, Filesystem) for each in exported.values()):
            raise UserError(f"{path}: export FILESYSTEMS, a dictionary of name to fssim.filesystem.Filesystem")
        for name, filesystem in exported.items():
            if name in known or name != filesystem.name:
                raise UserError(f"{path}: {name}: a name must be that of its Filesystem, and stand for only one")
            known[name] = filesystem
    return known


def _package(folder: Path) -> str:
    """Let Python know a folder as a package, without a file of its own in it; return its name.

    Another folder than the shipped one has a name of its own, so that classes keep their identity beside it.
    """
    shipped = folder.resolve() == (resources.share() / "models" / "filesystems").resolve()
    top = PACKAGE if shipped else f"{PACKAGE}_{zlib.crc32(str(folder).encode()):08x}"
    for name, path in ((top, folder.parent), (f"{top}.{folder.name}", folder)):
        if name not in sys.modules:
            package = ModuleType(name)
            package.__path__ = [str(path)]
            sys.modules[name] = package
    return f"{top}.{folder.name}"


def _module(package: str, path: Path) -> Any:
    """Import a file, once, so that classes and protocols keep their identity."""
    importlib.invalidate_caches()
    try:
        return importlib.import_module(f"{package}.{path.stem}")
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(_in_one_line(path, error)) from None


def _in_one_line(path: Path, error: BaseException) -> str:
    """Return file, line and what Python says about an exception at the import of a file, or of what it imports."""
    where, said = str(path), str(error)
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).parent == path.parent:
            where = f"{frame.filename}:{frame.lineno}"
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).parent == path.parent:
        where, said = f"{error.filename}:{error.lineno}", error.msg
    return f"{where}: {type(error).__name__}: {' '.join(said.split())}"
