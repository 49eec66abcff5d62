"""sysbench fileio as version 0.4.12 generates it: sequential and random reads, writes, and both mixed.

128 files, of 16 MiB if `--file-total-size` is not given.  Sequential modes share one position over all files: a thread
copies it *without* a lock, then takes a mutex to advance it, so two threads may use the same block and leave the next
one out.  Random modes draw a byte uniformly from all files and round it down to a block.  The mutex is the program's
own and covers a few instructions; it costs no simulated time, and the race on the position is kept because a checker
must see it.  `seqwr` writes new, empty files; all other modes use files that have been written before.  There are no
calls of fsync (`--file-fsync-freq=0`).
Source: sysbench 0.4.12, `sb_fileio.c`, request generation (described, not copied).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from fssim.errors import UserError, nearest
from fssim.filesystem import Geometry
from fssim.protocol import protocol
from fssim.protocol.language import IO, Mutex, Operation, Shared, begin_io, choose, complete_io, cpu, exponential, path
from fssim.system import System, Thread
from fssim.workload.files import Preparation, make_files
from fssim.workload.threads import daemons

if TYPE_CHECKING:
    from fssim.filesystem import Filesystem
    from fssim.profile import Machine

FILE_COUNT = 128
FILE_SIZE = 16 * 2**20
BLOCK_SIZE = 16384
SECTOR_BYTES = 512
MOST_THREADS = 65_536  # more would fill the memory before the first I/O

READS_IN_TEN_WRITES = 15
"""rndrw: `--file-rw-ratio`, 1.5 reads a write."""


class Sysbench(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="sysbench-fileio"):
    """Options of the workload.  `file_size_bytes`: sysbench's `--file-total-size` over its number of files, 128."""

    file_size_bytes: Annotated[int, Meta(ge=SECTOR_BYTES, le=2**40, multiple_of=SECTOR_BYTES)] = FILE_SIZE


class Inode(Shared):
    """Stands for the inode class of the filesystem, which replaces it in the files of a run."""

    disk_offset: int


class FileSet(Shared):
    """The files of a run, and the position that its threads share in sequential modes."""

    next_file: int
    next_offset: int
    reads: int
    writes: int
    mutex: Mutex
    inodes: list[Inode]


TRANSFER = Operation(IO, Inode)
READ = Operation(IO, Inode)
WRITE = Operation(IO, Inode)


@protocol
def think():
    """What the program does between two requests; how long that takes varies."""
    duration = yield exponential(path.sysbench_request)
    yield cpu(duration)


@protocol
def sequential(files: FileSet):
    """One thread of `seqrd`, `seqwr` or `seqrewr`: until all files have been done once."""
    while True:
        yield from think()
        file = files.next_file
        offset = files.next_offset
        if file == FILE_COUNT:
            break
        io = IO(file=file, offset=offset, length=min(BLOCK_SIZE, FILE_SIZE - offset))
        yield cpu(path.sysbench_copy)
        yield files.mutex.acquire()
        files.next_offset += min(BLOCK_SIZE, FILE_SIZE - files.next_offset)
        if files.next_offset == FILE_SIZE:
            files.next_file += 1
            files.next_offset = 0
        yield files.mutex.release()
        yield begin_io()
        yield from TRANSFER(io, files.inodes[file])
        yield complete_io()


@protocol
def choose_block():
    """Draw a block from all files; return its file, offset and length."""
    yield from think()
    block = yield choose(FILE_COUNT * FILE_SIZE // BLOCK_SIZE)
    offset = block * BLOCK_SIZE % FILE_SIZE
    return block * BLOCK_SIZE // FILE_SIZE, offset, min(BLOCK_SIZE, FILE_SIZE - offset)


@protocol
def random(files: FileSet):
    """One thread of `rndrd` or `rndwr`: without end."""
    while True:
        file, offset, length = yield from choose_block()
        io = IO(file=file, offset=offset, length=length)
        yield begin_io()
        yield from TRANSFER(io, files.inodes[file])
        yield complete_io()


@protocol
def random_mixed(files: FileSet):
    """One thread of `rndrw`: whatever brings reads and writes nearer to their ratio, without end."""
    while True:
        file, offset, length = yield from choose_block()
        io = IO(file=file, offset=offset, length=length)
        yield files.mutex.acquire()
        writes = 1 if 10 * (files.reads + 1) > READS_IN_TEN_WRITES * (files.writes + 1) else 0
        files.writes += writes
        files.reads += 1 - writes
        yield files.mutex.release()
        yield begin_io()
        if writes != 0:
            yield from WRITE(io, files.inodes[file])
        else:
            yield from READ(io, files.inodes[file])
        yield complete_io()


PATTERNS = {
    "seqrd": sequential,
    "rndrd": random,
    "seqwr": sequential,
    "rndwr": random,
    "seqrewr": sequential,
    "rndrw": random_mixed,
}
READS = ("seqrd", "rndrd")


def build_system(
    filesystem: Filesystem,
    machine: Machine,
    pattern: str,
    block_size_bytes: int,
    threads: int,
    *,
    workload: Sysbench = Sysbench(),
    geometry: Geometry = Geometry(),
    ios: int,
    warmup_ios: int = 0,
    batch_ios: int = 0,
    seed: int = 0,
    log: bool = False,
) -> System:
    """Return the system of one cell: so many threads that read or write blocks of this size.

    Raises `UserError` for an unknown pattern, a block size that direct I/O cannot transfer, no threads, a pattern that
    writes on a filesystem version that describes reads only, and files that do not fit onto the volume.
    """
    if pattern not in PATTERNS:
        raise UserError(f"unknown pattern {pattern!r}{nearest(pattern, PATTERNS)}")
    check_block_size(block_size_bytes, workload)
    check_threads(threads)
    if pattern not in READS and filesystem.write is None:
        raise UserError(f"{pattern}: {filesystem.name} describes reads only; use {' or '.join(READS)}")
    preparation = Preparation.EMPTY if pattern == "seqwr" else Preparation.WRITTEN
    volume, inodes = make_files(filesystem, geometry, FILE_COUNT, workload.file_size_bytes, preparation)
    files = _file_set_of(filesystem.inode)(inodes=inodes)
    constants: dict[str, Any] = {"FILE_SIZE": workload.file_size_bytes, "BLOCK_SIZE": block_size_bytes}
    if pattern == "rndrw":
        constants |= {"READ": filesystem.read, "WRITE": filesystem.write}
    else:
        constants["TRANSFER"] = filesystem.read if pattern in READS else filesystem.write
    return System(
        threads=[
            *(Thread(PATTERNS[pattern], (files,)) for _ in range(threads)),
            *(() if pattern in READS else daemons(filesystem, volume, machine.host, threads)),
        ],
        host=machine.host,
        device=machine.device,
        constants=constants,
        version=filesystem.constants,
        seed=seed,
        ios=ios,
        warmup_ios=warmup_ios,
        batch_ios=batch_ios,
        log=log,
    )


def check_threads(threads: int) -> None:
    """Raise `UserError` for a number of threads that cannot run."""
    if not 1 <= threads <= MOST_THREADS:
        raise UserError(f"{threads} threads: must be between 1 and {MOST_THREADS}")


def check_block_size(block_size_bytes: int, workload: Sysbench) -> None:
    """Raise `UserError` unless direct I/O can transfer blocks of this size from and to the files."""
    most = workload.file_size_bytes
    if block_size_bytes < SECTOR_BYTES or block_size_bytes % SECTOR_BYTES or block_size_bytes > most:
        raise UserError(
            f"block size {block_size_bytes}: direct I/O needs a multiple of {SECTOR_BYTES} bytes, "
            f"at most the file's {most}"
        )


@cache
def _file_set_of(inode: type[Shared]) -> type[FileSet]:
    """The class of file sets that hold inodes of this class: it narrows one field, so that protocols fit together.

    Lock tables call its mutex "sysbench.mutex".
    """
    return type("sysbench", (FileSet,), {"__annotations__": {"inodes": list[inode]}})  # type: ignore[valid-type]
