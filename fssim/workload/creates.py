"""Large creates: every thread writes new files from their beginning to their end, as FFSB's profile of that name does.

Files of 1 GiB by direct writes of 1 MiB.  Creating the file itself, once in a thousand writes, costs nothing here.
Source: Steven Pratt's benchmarks of btrfs, linux-btrfs, 2009.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from fssim.errors import UserError
from fssim.filesystem import File, Geometry
from fssim.protocol import protocol
from fssim.protocol.language import IO, Operation, Shared, begin_io, complete_io, cpu, exponential, path
from fssim.system import System, Thread
from fssim.workload.files import Preparation, make_files
from fssim.workload.threads import daemons

if TYPE_CHECKING:
    from fssim.filesystem import Filesystem
    from fssim.profile import Machine

SECTOR_BYTES = 512
PATTERN = "create"


class LargeCreates(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="large-creates"
):
    """Options: `threads`, each with `files_per_thread` files of its own, which it writes one after the other."""

    threads: Annotated[int, Meta(ge=1, le=1024)]
    file_size_bytes: Annotated[int, Meta(ge=SECTOR_BYTES, le=2**40, multiple_of=SECTOR_BYTES)] = 2**30
    block_size_bytes: Annotated[int, Meta(ge=SECTOR_BYTES, le=2**30, multiple_of=SECTOR_BYTES)] = 2**20
    files_per_thread: Annotated[int, Meta(ge=1, le=1024)] = 1


class Creator(Shared):
    """What one thread creates."""

    inodes: list[File]


WRITE = Operation(IO, File)
BLOCK_SIZE = 2**20
FILE_SIZE = 2**30


@protocol
def create(creator: Creator):
    """Write one file after the other."""
    for number in range(len(creator.inodes)):
        offset = 0
        while offset < FILE_SIZE:
            duration = yield exponential(path.create_request)
            yield cpu(duration)
            io = IO(file=number, offset=offset, length=min(BLOCK_SIZE, FILE_SIZE - offset))
            yield begin_io()
            yield from WRITE(io, creator.inodes[number])
            yield complete_io()
            offset += io.length


def build_system(
    filesystem: Filesystem,
    machine: Machine,
    workload: LargeCreates,
    *,
    geometry: Geometry = Geometry(),
    ios: int,
    warmup_ios: int = 0,
    batch_ios: int = 0,
    seed: int = 0,
    log: bool = False,
) -> System:
    """Return the system: the threads that create, then the filesystem's daemons.

    Raises `UserError` for a filesystem version that describes reads only, and files that do not fit onto the volume.
    """
    check(filesystem)
    count = workload.threads * workload.files_per_thread
    volume, inodes = make_files(filesystem, geometry, count, workload.file_size_bytes, Preparation.EMPTY)
    creator = _creator_of(filesystem.inode)
    each = workload.files_per_thread
    return System(
        threads=[
            *(Thread(create, (creator(inodes=inodes[first : first + each]),)) for first in range(0, count, each)),
            *daemons(filesystem, volume, machine.host, workload.threads),
        ],
        host=machine.host,
        device=machine.device,
        constants={
            "FILE_SIZE": workload.file_size_bytes,
            "BLOCK_SIZE": workload.block_size_bytes,
            "WRITE": filesystem.write,
        },
        version=filesystem.constants,
        seed=seed,
        ios=ios,
        warmup_ios=warmup_ios,
        batch_ios=batch_ios,
        log=log,
    )


def check(filesystem: Filesystem) -> None:
    """Raise `UserError` unless this filesystem version describes writes."""
    if filesystem.write is None:
        raise UserError(f"{PATTERN}: {filesystem.name} describes reads only")


@cache
def _creator_of(inode: type[Shared]) -> type[Creator]:
    """The class of creators of inodes of this class; it narrows one field, so that protocols fit together."""
    return type("creator", (Creator,), {"__annotations__": {"inodes": list[inode]}})  # type: ignore[valid-type]
