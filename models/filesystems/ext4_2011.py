"""ext4 of 2011 and 2012: direct I/O under i_mutex.

Lock order: aio_mutex, i_mutex, i_alloc_sem, handle of the journal, i_data_sem.  Described in our own words from the
behaviour of Linux 2.6.39 to 3.6, fs/ext4 and fs/direct-io.c.
"""

from __future__ import annotations

from fssim.filesystem import Filesystem, Geometry
from fssim.protocol import (
    EXCLUSIVE,
    IO,
    SHARED,
    UNWRITTEN,
    WRITTEN,
    Counter,
    Mutex,
    Queue,
    RWLock,
    cpu,
    device,
    path,
    protocol,
)

from . import _ext4
from ._direct_io import (
    BLOCK,
    SECTOR,
    flush_range,
    is_unaligned,
    last_block,
    write_with_zeroes,
    written_part,
    zero_through_page_cache,
)
from ._ext4 import (
    NEEDS_CONVERSION,
    begin_extension,
    build_write,
    change_size,
    commit_transactions,
    convert,
    end_extension,
    find,
    journal_of,
    place,
    preallocate,
    prepare_beyond,
    prepare_inside,
    submit_with_zeroes,
)
from ._jbd2 import HANDLE_USED, start_handle, stop_handle

SECTORS_IN_BLOCK = 8

ALLOC_SEM = 1  # i_alloc_sem keeps truncation away from direct I/O in flight; since 3.1 i_dio_count does
NOLOCK = 0  # the mount option dioread_nolock: reads take no lock, and overwrites let go of i_mutex (since 3.6)


class Request(_ext4.Request):
    inode: Inode


class Mount(_ext4.Mount):
    interrupts: Queue[Request]
    conversions: Queue[Request]


class Inode(_ext4.Inode):
    """An ext4 inode under i_mutex.

    `aio_mutex`: taken by asynchronous writes that begin or end inside a block.  `unwritten`: asynchronous writes whose
    conversion is pending.  `reads_locked`: a truncation wants even dioread_nolock's reads to take i_mutex.
    """

    mount: Mount
    aio_mutex: Mutex
    i_mutex: Mutex
    i_alloc_sem: RWLock
    unwritten: Counter
    reads_locked: int


def mount(geometry: Geometry) -> Mount:
    """Make a volume as mkfs.ext4 does."""
    return Mount(journal=journal_of(geometry))


# --- what keeps truncation away


@protocol
def begin_direct_io(inode: Inode):
    if ALLOC_SEM:
        yield inode.i_alloc_sem.acquire(SHARED)
    else:
        yield inode.dio_count.inc()


@protocol
def end_direct_io(inode: Inode):
    if ALLOC_SEM:
        yield inode.i_alloc_sem.release(SHARED)
    else:
        yield inode.dio_count.dec()


@protocol
def flush_cached(io: IO, inode: Inode, keep: int):
    """Write and wait for what the page cache has of the range; a write throws it away."""
    if inode.pages.present > 0:
        yield from flush_range(inode, io.offset, io.offset + io.length, keep)


# --- reads


@protocol
def submit(io: IO, inode: Inode):
    """Look up the extents under the extent tree's lock and build the I/O, sector by sector within the first block.

    Return from where to where the device has to be asked.
    """
    yield inode.i_data_sem.acquire(SHARED)
    begin, end = yield from written_part(io, inode)
    yield cpu(path.ext4_submit)
    yield inode.i_data_sem.release(SHARED)
    if begin < end:
        yield cpu(path.ext4_submit_sector * min((end - begin) // SECTOR, SECTORS_IN_BLOCK))
    return begin, end


@protocol
def read_blocks(begin: int, end: int, inode: Inode):
    if begin < end:
        yield device.read(inode.disk_offset + begin, end - begin)
    yield cpu(path.read_complete)


@protocol
def direct_read(io: IO, inode: Inode):
    """3.0: i_mutex during submission, i_alloc_sem shared until the I/O is complete.

    dioread_nolock (4bd809dbbf17 and 1f555cfa29e8 in 3.6 made it safe): only counted, unless a truncation is under way.
    """
    yield cpu(path.read_entry)
    locked = 1
    if NOLOCK:
        yield inode.dio_count.inc()
        locked = inode.reads_locked
        if locked != 0:
            yield inode.dio_count.dec()
    if locked != 0:
        yield inode.i_mutex.acquire()
    yield from flush_cached(io, inode, 1)
    if locked != 0:
        yield from begin_direct_io(inode)
    begin, end = yield from submit(io, inode)
    if locked != 0:
        yield inode.i_mutex.release()
    yield from read_blocks(begin, end, inode)
    if NOLOCK:
        yield inode.dio_count.dec()
    else:
        yield from end_direct_io(inode)
    yield cpu(path.read_exit)


# --- blocks of a write


@protocol
def map_inside(io: IO, inode: Inode):
    """Before the end of the file: a handle for every mapping, even of a pure overwrite.

    Return whether the first and the last block are new, and whether any is unwritten.
    """
    block = io.offset // BLOCK
    last = yield from last_block(io)
    first_new = 0
    last_new = 0
    unwritten = 0
    while block <= last:
        yield from start_handle(inode.mount.journal)
        state, run = yield from find(block, last + 1 - block, inode)
        used = 0
        if state != WRITTEN:
            state = yield from prepare_inside(block, run, inode)
            used = HANDLE_USED
        yield from stop_handle(inode.mount.journal, used)
        if state == UNWRITTEN:
            unwritten = 1
            last_new = 1
            if block == io.offset // BLOCK:
                first_new = 1
        else:
            last_new = 0
        block += run
    return first_new, last_new, unwritten


@protocol
def map_beyond(io: IO, inode: Inode):
    """Of a write that extends the file; return whether the first and the last block are new."""
    block = io.offset // BLOCK
    last = yield from last_block(io)
    first_new = 0
    last_new = 0
    while block <= last:
        yield from start_handle(inode.mount.journal)
        state, run = yield from find(block, last + 1 - block, inode)
        used = 0
        if state != WRITTEN:
            yield from prepare_beyond(block, run, inode)
            used = HANDLE_USED
            if block == io.offset // BLOCK:
                first_new = 1
        last_new = 1 if state != WRITTEN else 0
        yield from stop_handle(inode.mount.journal, used)
        block += run
    return first_new, last_new


@protocol
def is_overwrite(io: IO, inode: Inode):
    """One lookup under i_mutex: does the write lie before the end of the file, in written blocks only?"""
    covered = 0
    if io.offset + io.length <= inode.size and inode.pages.present == 0:
        block = io.offset // BLOCK
        last = yield from last_block(io)
        state, run = yield from find(block, last + 1 - block, inode)
        if state == WRITTEN and block + run > last:
            covered = 1
    return covered


# --- writes, under i_mutex


@protocol
def extend(io: IO, inode: Inode):
    """Beyond the end of the file: synchronous for everybody, between two transactions for the orphan list."""
    yield from begin_extension(inode)
    yield from begin_direct_io(inode)
    first_new, last_new = yield from map_beyond(io, inode)
    yield from build_write(io)
    yield from write_with_zeroes(io, inode, first_new, last_new)
    yield from end_direct_io(inode)
    yield from end_extension(io.offset + io.length, inode)


@protocol
def write_inside(io: IO, inode: Inode):
    """Before the end of the file: wait for the device, then convert, in the caller."""
    yield from begin_direct_io(inode)
    first_new, last_new, unwritten = yield from map_inside(io, inode)
    yield from build_write(io)
    yield from write_with_zeroes(io, inode, first_new, last_new)
    if unwritten != 0:
        yield from convert(io, inode)
    yield from end_direct_io(inode)


@protocol
def overwrite(io: IO, inode: Inode):
    """Without i_mutex: i_data_sem, shared over the whole I/O, keeps truncation and allocation away; no handle."""
    yield inode.dio_count.inc()
    yield inode.i_data_sem.acquire(SHARED)
    yield inode.i_mutex.release()
    yield from build_write(io)
    yield device.write(inode.disk_offset + io.offset, io.length)
    yield inode.i_data_sem.release(SHARED)
    yield inode.dio_count.dec()
    yield inode.i_mutex.acquire()


@protocol
def direct_write(io: IO, inode: Inode):
    """A synchronous direct write: i_mutex over everything, the I/O too.

    With dioread_nolock an overwrite lets go of i_mutex for the I/O ("ext4: allow to overwrite without i_mutex", 3.6).
    """
    yield cpu(path.write_entry)
    yield inode.i_mutex.acquire()
    alone = 0
    if NOLOCK:
        alone = yield from is_overwrite(io, inode)
    yield from flush_cached(io, inode, 0)
    if alone != 0:
        yield from overwrite(io, inode)
    elif io.offset + io.length > inode.size:
        yield from extend(io, inode)
    else:
        yield from write_inside(io, inode)
    yield inode.i_mutex.release()
    yield cpu(path.write_exit)


# --- truncate and fallocate


@protocol
def truncate(size: int, inode: Inode):
    """i_mutex, and i_alloc_sem exclusively; since 3.1 (bd5fe6c5eb9c) i_dio_count has to be zero instead.

    Asynchronous I/O in flight is counted in both: the semaphore's holder would not be the one who releases it.
    """
    yield inode.i_mutex.acquire()
    if ALLOC_SEM:
        yield inode.i_alloc_sem.acquire(EXCLUSIVE)
    inode.reads_locked = 1
    yield inode.dio_count.wait_zero()
    if size % BLOCK != 0 and size < inode.size:
        state, _ = yield inode.extents.lookup(size // BLOCK, 1)
        if state == WRITTEN:
            yield from zero_through_page_cache(inode, size, size + 1)
    yield from change_size(size, inode)
    inode.reads_locked = 0
    if ALLOC_SEM:
        yield inode.i_alloc_sem.release(EXCLUSIVE)
    yield inode.i_mutex.release()


@protocol
def fallocate(offset: int, length: int, inode: Inode):
    """i_mutex only: writes are kept away by it, and reads see no difference between a hole and an unwritten block."""
    yield inode.i_mutex.acquire()
    yield from preallocate(offset, length, inode)
    yield inode.i_mutex.release()


# --- asynchronous I/O


@protocol
def submit_read(request: Request):
    """i_mutex during submission; the i_alloc_sem that stays held until the end is counted in `dio_count` here."""
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    yield cpu(path.read_entry)
    yield inode.dio_count.inc()
    locked = 1
    if NOLOCK:
        locked = inode.reads_locked
    if locked != 0:
        yield inode.dio_count.dec()
        yield inode.i_mutex.acquire()
        yield inode.dio_count.inc()
    yield from flush_cached(io, inode, 1)
    begin, end = yield from submit(io, inode)
    request.flags = 0
    if begin < end:
        yield request.bios.inc()
        yield device.submit_read(inode.disk_offset + begin, end - begin, to=inode.mount.interrupts, tag=request)
    if locked != 0:
        yield inode.i_mutex.release()
    if begin == end:
        yield inode.dio_count.dec()
        yield request.ring.done.put(request)


@protocol
def submit_inside(request: Request):
    """A write before the end of the file: what is unwritten is converted by the work queue."""
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    yield inode.dio_count.inc()
    first_new, last_new, unwritten = yield from map_inside(io, inode)
    if unwritten != 0:
        request.flags = NEEDS_CONVERSION
        yield inode.unwritten.inc()
    yield from submit_with_zeroes(request, first_new, last_new)


@protocol
def submit_overwrite(request: Request):
    """dioread_nolock: i_data_sem and no i_mutex, only for the submission."""
    inode = request.inode
    yield inode.dio_count.inc()
    yield inode.i_data_sem.acquire(SHARED)
    yield inode.i_mutex.release()
    yield from submit_with_zeroes(request, 0, 0)
    yield inode.i_data_sem.release(SHARED)
    yield inode.i_mutex.acquire()


@protocol
def submit_write(request: Request):
    """i_mutex until the pieces are on their way; an extending write is synchronous.

    A write that begins or ends inside a block waits for the inode's pending conversions, and for others of its kind
    ("ext4: serialize unaligned asynchronous DIO", e9e3bcecf44c, 2.6.38).
    """
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    yield cpu(path.write_entry)
    unaligned = yield from is_unaligned(io)
    if unaligned != 0:
        yield inode.aio_mutex.acquire()
        yield inode.unwritten.wait_zero()
    yield inode.i_mutex.acquire()
    alone = 0
    if NOLOCK and unaligned == 0:
        alone = yield from is_overwrite(io, inode)
    yield from flush_cached(io, inode, 0)
    request.flags = 0
    complete = 0
    if alone != 0:
        yield from submit_overwrite(request)
    elif io.offset + io.length > inode.size:
        yield from extend(io, inode)
        complete = 1
    else:
        yield from submit_inside(request)
    yield inode.i_mutex.release()
    if unaligned != 0:
        yield inode.aio_mutex.release()
    yield cpu(path.write_exit)
    if complete != 0:
        yield request.ring.done.put(request)


# --- daemons


@protocol
def interrupt(mount: Mount):
    """The last piece of a request ends the direct I/O; unwritten blocks are for the work queue.

    Truncation does not wait for the conversion, which leaves alone what has become a hole.
    """
    while True:
        request = yield mount.interrupts.get()
        yield cpu(path.dio_interrupt)
        left = yield request.bios.dec()
        if left == 0:
            yield request.inode.dio_count.dec()
            if request.flags == NEEDS_CONVERSION:
                yield mount.conversions.put(request)
            else:
                yield request.ring.done.put(request)


@protocol
def convert_requests(mount: Mount):
    """ext4-dio-unwritten: conversion takes i_mutex in this era."""
    while True:
        request = yield mount.conversions.get()
        io = IO(offset=request.offset, length=request.length)
        yield cpu(path.dio_worker)
        yield request.inode.i_mutex.acquire()
        yield from convert(io, request.inode)
        yield request.inode.i_mutex.release()
        yield request.inode.unwritten.dec()
        yield request.ring.done.put(request)


def _version(name: str, description: str, provenance: str, constants: dict[str, int]) -> Filesystem:
    return Filesystem(
        name=name,
        description=description,
        provenance=provenance,
        inode=Inode,
        mount=mount,
        place=place,
        read=direct_read,
        write=direct_write,
        submit_read=submit_read,
        submit_write=submit_write,
        request=Request,
        truncate=truncate,
        fallocate=fallocate,
        daemons={commit_transactions: 1, interrupt: 0, convert_requests: 0},
        sizes=("size", "disk_size"),
        constants=constants,
    )


FILESYSTEMS = {
    each.name: each
    for each in (
        _version(
            "ext4-3.0",
            "ext4 of 3.0: direct reads hold i_mutex while they are submitted, writes until they are complete",
            "behaviour of Linux 2.6.39 to 3.0, fs/ext4 and fs/direct-io.c, without dioread_nolock",
            {},
        ),
        _version(
            "ext4-3.6-nolock",
            "ext4 of 3.6 with dioread_nolock: direct reads take no lock, overwrites let go of i_mutex",
            "behaviour of Linux 3.6 with the mount option dioread_nolock; 4bd809dbbf17",
            {"ALLOC_SEM": 0, "NOLOCK": 1},
        ),
    )
}
