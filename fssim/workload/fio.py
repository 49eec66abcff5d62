"""fio: jobs that read or write blocks of files in order or at random, waiting for each I/O or with many in flight.

What is fio's and kept: a job takes its files in turn (`file_service_type=roundrobin`), each with its own position and
random map; without `norandommap` every block is transferred once before any is a second time; a job ends when it has
transferred as many bytes as its files have, unless `time_based`; a job of `libaio` fills its queue one I/O a
submission, waits for at least one completion when the queue is full, and takes whatever else is complete with it
(`iodepth_batch=1`, `iodepth_batch_complete_min=1`, `iodepth_low=iodepth`).  Direct I/O only.  The order of a random map
is a bijection of our own, in another order each pass.
Source: fio's HOWTO, and the behaviour of fio 3.x (described, not copied).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
from msgspec import Meta, Struct

from fssim.engine.random import draw
from fssim.errors import UserError
from fssim.filesystem import BLOCK, File, Geometry, Request
from fssim.filesystem import Ring as AnyRing
from fssim.protocol import protocol
from fssim.protocol.language import (
    IO,
    WRITTEN,
    BlockMap,
    Operation,
    Queue,
    Shared,
    begin_io,
    choose,
    complete_io,
    cpu,
    end_submission,
    exponential,
    now,
    path,
)
from fssim.system import System, Thread
from fssim.workload.files import Preparation, make_files
from fssim.workload.threads import daemons

if TYPE_CHECKING:
    from fssim.filesystem import Filesystem
    from fssim.profile import Machine

SECTOR_BYTES = 512
WRITTEN_AHEAD = 2**40  # number of a draw that no thread comes to
PLACES_AT_ONCE = 2**20
MOST_BLOCKS = 2**30  # products of the random map's bijection stay below 2**63

FioPattern = Literal["read", "write", "randread", "randwrite", "randrw"]
PATTERNS: tuple[str, ...] = get_args(FioPattern)
READS = ("read", "randread")

Count = Annotated[int, Meta(ge=1, le=1024)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Size = Annotated[int, Meta(ge=SECTOR_BYTES, le=2**50, multiple_of=SECTOR_BYTES)]


class Fio(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="fio"):
    """Options of a job, called as fio calls them where it has them.

    `pattern`: fio's `rw`.  `jobs`: `numjobs`.  `files`: `nrfiles`, those of each job; all jobs use the same ones if
    `shared_files` (as with `filename`).  `file_size_bytes`: of each file.  `preparation`: what is in the files when
    the job begins; `written_percent` of its blocks are written already, those that the random map has first, and the
    job goes on behind them.  `read_percent`: `rwmixread`, for "randrw" only.
    """

    pattern: FioPattern
    block_size_bytes: Annotated[int, Meta(ge=SECTOR_BYTES, le=2**30, multiple_of=SECTOR_BYTES)] = 4096
    ioengine: Literal["psync", "libaio"] = "psync"
    iodepth: Count = 1
    jobs: Count = 1
    files: Count = 1
    shared_files: bool = False
    file_size_bytes: Size = 2**30
    preparation: Literal["written", "preallocated", "sparse", "empty"] = "written"
    written_percent: Annotated[int, Meta(ge=0, le=99)] = 0
    norandommap: bool = False
    read_percent: Percent = 50
    time_based: bool = False

    @property
    def in_flight(self) -> int:
        """I/Os in flight, if nothing but the number of requests limits them."""
        return self.jobs * self.iodepth

    @property
    def blocks(self) -> int:
        """Blocks of a file, of the size that is transferred."""
        return self.file_size_bytes // self.block_size_bytes

    @property
    def writes(self) -> bool:
        """Whether the job writes, at least at times."""
        return self.pattern not in READS


class OpenFile(Shared):
    """A file as one job has it open.  Its inode is of the filesystem's class.

    `next`: the block that is next in order, or the place in the random map.  `key`: what makes this pass through the
    map another one than the last.
    """

    inode: File
    next: int
    key: int


class Job(Shared):
    """A job: its files, whose turn it is, and how many blocks are left to transfer."""

    files: list[OpenFile]
    turn: int
    left: int


class AsyncRequest(Request):
    """Stands for the filesystem's class of requests, which replaces it in the objects of a run."""

    inode: File


class Ring(AnyRing):
    """What is complete, of the filesystem's class of requests."""

    done: Queue[AsyncRequest]  # type: ignore[assignment]  # narrowed, so that what is reaped can be used again


class AsyncJob(Job):
    """A job with many I/Os in flight.  `idle`: requests that are not in flight."""

    ring: Ring
    idle: Queue[AsyncRequest]


TRANSFER = Operation(IO, File)
READ = Operation(IO, File)
WRITE = Operation(IO, File)
SUBMIT = Operation(AsyncRequest)
SUBMIT_READ = Operation(Request)
SUBMIT_WRITE = Operation(Request)

BLOCK_SIZE = 4096
BLOCKS = 4096  # of a file
IODEPTH = 1
RANDOM = 0
NORANDOMMAP = 0
READ_PERCENT = 50
TIME_BASED = 0

MAP_MASK = 4095  # a power of two, at least BLOCKS, minus one
MAP_SHIFT = 6  # half the bits of the mask
MULTIPLIER = 0x2C1B3C6D  # odd: multiplication by it is a bijection modulo a power of two
SECOND_MULTIPLIER = 0x297A2D39


@protocol
def think():
    """What the program does between two I/Os; how long that takes varies."""
    duration = yield exponential(path.fio_request)
    yield cpu(duration)


@protocol
def mapped(file: OpenFile):
    """The next block of a file's random map: every block once a pass.

    A bijection of 0 ... MAP_MASK, of which numbers beyond the last block are left out.
    """
    block = BLOCKS
    while block >= BLOCKS:
        if file.next == 0:
            file.key = yield choose(MAP_MASK + 1)
        mixed = (file.next * MULTIPLIER & MAP_MASK) ^ file.key
        mixed = (mixed ^ (mixed >> MAP_SHIFT)) * SECOND_MULTIPLIER & MAP_MASK
        mixed = (mixed ^ (mixed >> MAP_SHIFT)) * MULTIPLIER & MAP_MASK
        block = mixed ^ (mixed >> MAP_SHIFT)
        file.next = (file.next + 1) & MAP_MASK
    return block


@protocol
def next_block(job: Job):
    """Take the next file and one of its blocks; return the number of the file and the offset."""
    yield from think()
    number = job.turn
    job.turn = (number + 1) % len(job.files)
    file = job.files[number]
    if RANDOM:
        if NORANDOMMAP:
            block = yield choose(BLOCKS)
        else:
            block = yield from mapped(file)
    else:
        block = file.next
        file.next = (block + 1) % BLOCKS
    job.left -= 1
    return number, block * BLOCK_SIZE


@protocol
def transfer_mixed(io: IO, inode: File):
    """Read or write, by chance."""
    percent = yield choose(100)
    if percent < READ_PERCENT:
        yield from READ(io, inode)
    else:
        yield from WRITE(io, inode)


@protocol
def submit_mixed(request: Request):
    """Submit a read or a write, by chance."""
    percent = yield choose(100)
    if percent < READ_PERCENT:
        request.writes = 0
        yield from SUBMIT_READ(request)
    else:
        request.writes = 1
        yield from SUBMIT_WRITE(request)


@protocol
def psync(job: Job):
    """A job that waits for each I/O: pread or pwrite."""
    while TIME_BASED or job.left > 0:
        number, offset = yield from next_block(job)
        io = IO(file=number, offset=offset, length=BLOCK_SIZE)
        yield begin_io()
        yield from TRANSFER(io, job.files[number].inode)
        yield complete_io()


@protocol
def submit_next(job: AsyncJob):
    """io_submit of one I/O."""
    number, offset = yield from next_block(job)
    request = yield job.idle.get()
    request.inode = job.files[number].inode
    request.offset = offset
    request.length = BLOCK_SIZE
    request.flags = 0
    yield begin_io()
    request.begun = now()
    yield from SUBMIT(request)
    yield end_submission()


@protocol
def reap(job: AsyncJob):
    """io_getevents: wait for one completion."""
    done = yield job.ring.done.get()
    yield complete_io(done.begun)
    yield job.idle.put(done)


@protocol
def libaio(job: AsyncJob):
    """A job that keeps up to `iodepth` I/Os in flight."""
    while True:
        while job.idle.length > 0 and (TIME_BASED or job.left > 0):
            yield from submit_next(job)
        if job.idle.length == IODEPTH:
            break  # all blocks are transferred, and nothing is in flight
        yield from reap(job)
        while job.ring.done.length > 0:
            yield from reap(job)


def build_system(
    filesystem: Filesystem,
    machine: Machine,
    workload: Fio,
    *,
    geometry: Geometry = Geometry(),
    ios: int,
    warmup_ios: int = 0,
    batch_ios: int = 0,
    seed: int = 0,
    log: bool = False,
) -> System:
    """Return the system of a job file: its jobs, then the filesystem's daemons.

    Raises `UserError` for what the options or the filesystem version do not allow, and for files that do not fit onto
    the volume.
    """
    check(workload, filesystem)
    asynchronous = workload.ioengine == "libaio"
    sets = 1 if workload.shared_files else workload.jobs
    volume, inodes = make_files(
        filesystem, geometry, sets * workload.files, workload.file_size_bytes, Preparation(workload.preparation)
    )
    threads = []
    for number in range(workload.jobs):
        first = number % sets * workload.files
        own = inodes[first : first + workload.files]
        make = _async_job if asynchronous else _job
        job = make(filesystem, workload, own)
        if workload.written_percent:
            for place, file in enumerate(job.files, first):
                job.left -= _write_ahead(workload, file, draw(seed, place, WRITTEN_AHEAD))
        threads.append(Thread(libaio if asynchronous else psync, (job,)))
    # Reads that nobody waits for need the interrupt's daemon too.
    if workload.writes or asynchronous:
        threads.extend(daemons(filesystem, volume, machine.host, workload.jobs))
    return System(
        threads=threads,
        host=machine.host,
        device=machine.device,
        constants=_constants(filesystem, workload),
        version=filesystem.constants,
        seed=seed,
        ios=ios,
        warmup_ios=warmup_ios,
        batch_ios=batch_ios,
        log=log,
    )


def check(workload: Fio, filesystem: Filesystem) -> None:
    """Raise `UserError` unless fio can do what the options say, and this filesystem version describes it."""
    if workload.ioengine == "psync" and workload.iodepth > 1:
        raise UserError(f"iodepth {workload.iodepth}: fio runs synchronous engines at depth 1; use ioengine libaio")
    if workload.file_size_bytes % workload.block_size_bytes:
        raise UserError(
            f"file_size_bytes {workload.file_size_bytes}: must be a multiple of "
            f"block_size_bytes ({workload.block_size_bytes})"
        )
    if workload.blocks > MOST_BLOCKS:
        raise UserError(
            f"{workload.blocks} blocks in a file: at most {MOST_BLOCKS}; use larger blocks or smaller files"
        )
    if workload.written_percent and (
        workload.pattern != "randwrite"
        or workload.norandommap
        or workload.shared_files
        or workload.preparation == "empty"
    ):
        raise UserError(
            "written_percent: needs randwrite into files that have a size, with a random map, and files that are not "
            "shared"
        )
    if workload.written_percent and workload.block_size_bytes % BLOCK:
        raise UserError(f"written_percent: block_size_bytes must be a multiple of {BLOCK}")
    if workload.writes and filesystem.write is None:
        raise UserError(f"{workload.pattern}: {filesystem.name} describes reads only; use {' or '.join(READS)}")
    if workload.ioengine == "libaio":
        reads = workload.pattern in (*READS, "randrw")
        missing = [
            name
            for name, needed, found in (
                ("reads", reads, filesystem.submit_read),
                ("writes", workload.writes, filesystem.submit_write),
            )
            if needed and (found is None or filesystem.request is None)
        ]
        if missing:
            raise UserError(
                f"libaio: {filesystem.name} does not describe asynchronous {' and '.join(missing)}; use ioengine psync"
            )


def _constants(filesystem: Filesystem, workload: Fio) -> dict[str, Any]:
    constants: dict[str, Any] = {
        "BLOCK_SIZE": workload.block_size_bytes,
        "BLOCKS": workload.blocks,
        "RANDOM": int(workload.pattern.startswith("rand")),
        "TIME_BASED": int(workload.time_based),
    }
    if constants["RANDOM"]:
        constants["NORANDOMMAP"] = int(workload.norandommap)
        if not workload.norandommap:
            bits = _map_bits(workload)
            constants |= {"MAP_MASK": 2**bits - 1, "MAP_SHIFT": bits // 2}
    asynchronous = workload.ioengine == "libaio"
    if asynchronous:
        constants["IODEPTH"] = workload.iodepth
    if workload.pattern == "randrw":
        constants["READ_PERCENT"] = workload.read_percent
        if asynchronous:
            constants |= {"SUBMIT": submit_mixed, "SUBMIT_READ": filesystem.submit_read}
            constants["SUBMIT_WRITE"] = filesystem.submit_write
        else:
            constants |= {"TRANSFER": transfer_mixed, "READ": filesystem.read, "WRITE": filesystem.write}
    elif asynchronous:
        constants["SUBMIT"] = filesystem.submit_write if workload.writes else filesystem.submit_read
    else:
        constants["TRANSFER"] = filesystem.write if workload.writes else filesystem.read
    return constants


def _map_bits(workload: Fio) -> int:
    return max((workload.blocks - 1).bit_length(), 2)


def _write_ahead(workload: Fio, file: OpenFile, key: int) -> int:
    """Write the first blocks of a file's random map before the run; return how many."""
    count = workload.blocks * workload.written_percent // 100
    extents = file.inode.extents
    states = np.full((workload.blocks, workload.block_size_bytes // BLOCK), extents.initial, dtype=np.uint8)
    file.key = key & 2 ** _map_bits(workload) - 1
    left = count
    while left > 0:
        blocks = _mapped(workload, file.key, np.arange(file.next, file.next + PLACES_AT_ONCE, dtype=np.int64))
        inside = np.flatnonzero(blocks < workload.blocks)[:left]
        states[blocks[inside]] = WRITTEN
        left -= len(inside)
        file.next += PLACES_AT_ONCE if left else int(inside[-1]) + 1
    file.inode.extents = BlockMap(contents=states.tobytes())
    return count


def _mapped(workload: Fio, key: int, places: np.ndarray) -> np.ndarray:
    """Blocks at these places of a random map, as `mapped` finds them."""
    bits = _map_bits(workload)
    mask, shift = 2**bits - 1, bits // 2
    mixed = (places * MULTIPLIER & mask) ^ key
    for multiplier in (SECOND_MULTIPLIER, MULTIPLIER):
        mixed = (mixed ^ (mixed >> shift)) * multiplier & mask
    return mixed ^ (mixed >> shift)


def _job(filesystem: Filesystem, workload: Fio, inodes: list[Any]) -> Job:
    open_file, job, *_ = _classes(filesystem.inode, None)
    files = [open_file(inode=inode) for inode in inodes]
    return job(files=files, left=workload.blocks * workload.files)


def _async_job(filesystem: Filesystem, workload: Fio, inodes: list[Any]) -> AsyncJob:
    assert filesystem.request is not None
    open_file, job, make_ring = _classes(filesystem.inode, filesystem.request)
    files = [open_file(inode=inode) for inode in inodes]
    ring = make_ring()
    writes = int(workload.writes)
    requests = [filesystem.request(ring=ring, inode=inodes[0], writes=writes) for _ in range(workload.iodepth)]
    return job(files=files, left=workload.blocks * workload.files, ring=ring, idle=Queue(requests))


@cache
def _classes(inode: type[Shared], request: type[Request] | None) -> tuple[Any, Any, Any]:
    """The classes of open files, jobs and rings that hold inodes and requests of these classes.

    They narrow one field each, so that protocols fit together.  Tables call the job "fio" and the ring "ring".
    """
    open_file: Any = type("open_file", (OpenFile,), {"__annotations__": {"inode": inode}})
    if request is None:
        return open_file, type("fio", (Job,), {"__annotations__": {"files": list[open_file]}}), None
    ring: Any = type("ring", (Ring,), {"__annotations__": {"done": Queue[request]}})  # type: ignore[valid-type]
    narrowed = {"files": list[open_file], "ring": ring, "idle": Queue[request]}  # type: ignore[valid-type]
    return open_file, type("fio", (AsyncJob,), {"__annotations__": narrowed}), ring
