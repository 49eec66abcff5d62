"""What the versions of ext4 share: extent tree, allocation and conversion, zero-out, orphan list, completion.

Lock order: i_mutex or i_rwsem, aio_mutex before it, i_alloc_sem, handle of the journal, i_data_sem, orphan_lock.
Described in our own words from the behaviour of the named kernels.
"""

from __future__ import annotations

from typing import Any

from fssim import filesystem
from fssim.filesystem import BLOCK, File, Geometry, Volume
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

from ._direct_io import SECTOR, convert_unwritten, drop_pages_from, fill_holes, free_blocks_from, last_block
from ._jbd2 import HANDLE_USED, Journal, make_journal, run_journal, start_handle, stop_handle

ZEROOUT_BLOCKS = 7  # an unwritten remainder of at most so many blocks is zeroed: 7 in 2011, 32 KiB since 3.10; 0: never
EXTENTS_IN_INODE = 4
EXTENTS_PER_LEAF = 340  # records of 12 bytes in a block of the extent tree
MOST_UNWRITTEN = 32767  # blocks of an unwritten extent: fallocate takes a handle for each
NEEDS_CONVERSION = 1  # flag of a request: some of its blocks are unwritten


class Request(filesystem.Request):
    """An asynchronous direct I/O on ext4."""

    inode: Inode


class Mount(Volume):
    """An ext4 mount.  `interrupts`: pieces that the device has completed; `conversions`: the unwritten work queue."""

    journal: Journal
    orphan_lock: Mutex
    interrupts: Queue[Request]
    conversions: Queue[Request]


class Inode(File):
    """An ext4 inode.

    `disk_size`: i_disksize.  `dio_count`: i_dio_count, direct I/O in flight.  `orphan`: it is on the orphan list.
    """

    i_data_sem: RWLock
    dio_count: Counter
    disk_size: int
    orphan: int
    mount: Mount


def journal_of(geometry: Geometry) -> Journal:
    return make_journal(geometry.size_bytes, geometry.log_bytes)


def place(volume: Mount, disk_offset: int) -> dict[str, Any]:
    return {"mount": volume}


# --- the extent tree


@protocol
def walk_extents(inode: Inode):
    """Find a block's extent: four are in the inode, more have levels of a tree above them."""
    yield cpu(path.ext4_map_blocks)
    extents = inode.extents.runs
    if extents > EXTENTS_IN_INODE:
        yield cpu(path.ext4_extent_level)
        while extents > EXTENTS_PER_LEAF:
            yield cpu(path.ext4_extent_level)
            extents //= EXTENTS_PER_LEAF


@protocol
def find(block: int, count: int, inode: Inode):
    """Look blocks up for a write: state of the first, and how many are like it."""
    yield inode.i_data_sem.acquire(SHARED)
    state, run = yield inode.extents.lookup(block, count)
    yield from walk_extents(inode)
    yield inode.i_data_sem.release(SHARED)
    return state, run


@protocol
def unwritten_before(block: int, most: int, inode: Inode):
    """How many blocks directly before this one are unwritten, at most so many."""
    count = 0
    while count < most and block - count > 0:
        state, _ = yield inode.extents.lookup(block - count - 1, 1)
        if state != UNWRITTEN:
            break
        count += 1
    return count


@protocol
def zero_out(block: int, count: int, inode: Inode):
    """If what splitting would leave of the unwritten extent is small, zero it with these blocks, and all are written.

    Tried in this order: the whole extent, what follows, what precedes.  Return whether it was done.
    """
    if not ZEROOUT_BLOCKS:
        return 0
    before = yield from unwritten_before(block, ZEROOUT_BLOCKS, inode)
    state, after = yield inode.extents.lookup(block + count, ZEROOUT_BLOCKS)
    if state != UNWRITTEN:
        after = 0
    if before + count + after > ZEROOUT_BLOCKS:
        if count + after <= ZEROOUT_BLOCKS:
            before = 0
        else:
            after = 0
    if before + after == 0 or before + count + after > ZEROOUT_BLOCKS:
        return 0
    yield device.write(inode.disk_offset + (block - before) * BLOCK, (before + count + after) * BLOCK)
    yield inode.extents.fill(block - before, before + count + after, WRITTEN)
    return 1


@protocol
def prepare_inside(block: int, count: int, inode: Inode):
    """Before the end of the file: holes get unwritten blocks, an unwritten extent is split, within the caller's handle.

    Return the state in which they are now: unwritten blocks are converted when their data is there.
    """
    yield inode.i_data_sem.acquire(EXCLUSIVE)
    state, run = yield inode.extents.lookup(block, count)  # somebody else may have been faster
    done = 1 if state == WRITTEN and run == count else 0
    if done == 0:
        if state == UNWRITTEN and run == count:
            yield cpu(path.ext4_convert)
            done = yield from zero_out(block, count, inode)
        else:
            yield cpu(path.ext4_allocate)
            yield from fill_holes(block, count, UNWRITTEN, inode)
    yield inode.i_data_sem.release(EXCLUSIVE)
    return WRITTEN if done != 0 else UNWRITTEN


@protocol
def prepare_beyond(block: int, count: int, inode: Inode):
    """For a write that extends the file: written blocks at once.  Nobody sees them before the size is published."""
    yield inode.i_data_sem.acquire(EXCLUSIVE)
    yield cpu(path.ext4_allocate)
    yield from fill_holes(block, count, WRITTEN, inode)
    yield from convert_unwritten(block, count, inode)
    yield inode.i_data_sem.release(EXCLUSIVE)


@protocol
def convert(io: IO, inode: Inode):
    """The transaction that makes unwritten blocks written ones when their data is there."""
    block = io.offset // BLOCK
    last = yield from last_block(io)
    yield from start_handle(inode.mount.journal)
    yield inode.i_data_sem.acquire(EXCLUSIVE)
    yield cpu(path.ext4_convert)
    yield from walk_extents(inode)
    yield from convert_unwritten(block, last + 1 - block, inode)
    yield inode.i_data_sem.release(EXCLUSIVE)
    yield from stop_handle(inode.mount.journal, HANDLE_USED)


# --- the orphan list: what recovery truncates if the machine stops before an extending write has published its size


@protocol
def add_orphan(inode: Inode):
    """Put it on the list of the superblock, within the caller's handle."""
    yield inode.mount.orphan_lock.acquire()
    yield cpu(path.ext4_orphan)
    inode.orphan = 1
    yield inode.mount.orphan_lock.release()


@protocol
def delete_orphan(inode: Inode):
    yield inode.mount.orphan_lock.acquire()
    yield cpu(path.ext4_orphan)
    inode.orphan = 0
    yield inode.mount.orphan_lock.release()


@protocol
def begin_extension(inode: Inode):
    """Before an extending write: a transaction of its own for the orphan list."""
    yield from start_handle(inode.mount.journal)
    yield from add_orphan(inode)
    yield from stop_handle(inode.mount.journal, HANDLE_USED)


@protocol
def end_extension(end: int, inode: Inode):
    """After it: both sizes, and off the list, in one transaction."""
    yield from start_handle(inode.mount.journal)
    yield from delete_orphan(inode)
    if end > inode.size:
        inode.size = end
    if end > inode.disk_size:
        inode.disk_size = end
    yield from stop_handle(inode.mount.journal, HANDLE_USED)


# --- truncate and fallocate, under the locks of the caller, when no direct I/O is in flight


@protocol
def change_size(size: int, inode: Inode):
    """Publish the size; free what is beyond it."""
    yield from begin_extension(inode)
    inode.size = size
    yield from drop_pages_from((size + BLOCK - 1) // BLOCK, inode)
    yield from start_handle(inode.mount.journal)
    yield inode.i_data_sem.acquire(EXCLUSIVE)
    yield cpu(path.ext4_convert)
    yield from free_blocks_from((size + BLOCK - 1) // BLOCK, inode)
    inode.disk_size = size
    yield inode.i_data_sem.release(EXCLUSIVE)
    yield from delete_orphan(inode)
    yield from stop_handle(inode.mount.journal, HANDLE_USED)


@protocol
def preallocate(offset: int, length: int, inode: Inode):
    """Fill holes with unwritten blocks, one handle for each extent of the largest size; then publish the size."""
    block = offset // BLOCK
    after = (offset + length + BLOCK - 1) // BLOCK
    while block < after:
        count = min(after - block, MOST_UNWRITTEN)
        yield from start_handle(inode.mount.journal)
        yield inode.i_data_sem.acquire(EXCLUSIVE)
        yield cpu(path.ext4_allocate)
        yield from fill_holes(block, count, UNWRITTEN, inode)
        yield inode.i_data_sem.release(EXCLUSIVE)
        block += count
        if block >= after:
            inode.size = max(inode.size, offset + length)
            inode.disk_size = max(inode.disk_size, offset + length)
        yield from stop_handle(inode.mount.journal, HANDLE_USED)


@protocol
def build_write(io: IO):
    """Build the I/O, sector by sector within the first block."""
    yield cpu(path.ext4_write_sector * min(io.length // SECTOR, BLOCK // SECTOR))


# --- asynchronous I/O


@protocol
def submit_with_zeroes(request: Request, first_new: int, last_new: int):
    """Submit the data, and zeroes over what it leaves of new blocks; the request counts its pieces beforehand."""
    inode = request.inode
    head = request.offset % BLOCK if first_new != 0 else 0
    tail = -(request.offset + request.length) % BLOCK if last_new != 0 else 0
    io = IO(offset=request.offset, length=request.length)
    yield from build_write(io)
    yield request.bios.inc()
    if head != 0:
        yield request.bios.inc()
    if tail != 0:
        yield request.bios.inc()
    start = inode.disk_offset + request.offset
    if head != 0:
        yield device.submit_write(start - head, head, to=inode.mount.interrupts, tag=request)
    yield device.submit_write(start, request.length, to=inode.mount.interrupts, tag=request)
    if tail != 0:
        yield device.submit_write(start + request.length, tail, to=inode.mount.interrupts, tag=request)


# --- daemons


@protocol
def commit_transactions(mount: Mount):
    yield from run_journal(mount.journal)
