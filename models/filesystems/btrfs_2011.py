"""btrfs of 2009 and 2011, under i_mutex.

2009: O_DIRECT writes go through the page cache.  3.0: they are direct if they consist of whole blocks, else both reads
and writes go through the page cache.  Described in our own words from the behaviour of Linux 2.6.29 to 3.0, fs/btrfs.
"""

from __future__ import annotations

from fssim.filesystem import Filesystem, Geometry
from fssim.protocol import IO, UNWRITTEN, Mutex, Queue, cpu, device, path, protocol, sleep

from . import _btrfs
from ._btrfs import (
    add_checksums,
    buffered_read,
    change_size,
    checksum_pages,
    copy_to_pages,
    fill_pool,
    finish_ordered,
    finish_writes,
    lock_range,
    map_for_read,
    place,
    preallocate,
    reserve_extent,
    start_write_back,
    unlock_range,
    wait_for_write_back,
    write_metadata,
)
from ._direct_io import BLOCK, flush_range, is_unaligned

WRITES_ARE_BUFFERED = 0  # 2009: O_DIRECT writes are copied to the page cache and flushed
CHECK_READS = 1  # verify the checksums of direct reads; not in 2009
COPY_BLOCKS = 512  # pages that a buffered write prepares at a time


class Request(_btrfs.Request):
    inode: Inode


class Mount(_btrfs.Mount):
    interrupts: Queue[Request]
    completions: Queue[Request]


class Inode(_btrfs.Inode):
    """A btrfs inode under i_mutex."""

    mount: Mount
    i_mutex: Mutex


def mount(geometry: Geometry) -> Mount:
    """Make a volume; the number of ordered extents in flight is bounded."""
    volume = Mount()
    fill_pool(volume, Inode)
    return volume


# --- reads


@protocol
def direct_read(io: IO, inode: Inode):
    """No i_mutex.  A worker verifies the checksums; its wake-up and that of the reader are a sleep here.

    Since 2.6.35 (4b46fce23349) a read that does not consist of whole blocks goes through the page cache.
    """
    unaligned = 0
    if not WRITES_ARE_BUFFERED:
        unaligned = yield from is_unaligned(io)
    if unaligned != 0:
        yield from buffered_read(io, inode)
        return
    yield cpu(path.read_entry)
    begin, end = yield from map_for_read(io, inode)
    if begin < end:
        yield device.read(inode.disk_offset + begin, end - begin)
        if CHECK_READS:
            yield from add_checksums(end - begin)
            yield sleep(path.btrfs_end_io)
    yield cpu(path.read_complete)
    yield from unlock_range(io, inode)
    yield cpu(path.read_exit)


# --- writes


@protocol
def write_through_page_cache(io: IO, inode: Inode):
    """2009: copy under i_mutex and start the write-back of each chunk; wait for all of them without i_mutex."""
    yield inode.i_mutex.acquire()
    ordered = yield inode.mount.ordered.get()
    position = io.offset
    end = io.offset + io.length
    while position < end:
        after = min((position // BLOCK + COPY_BLOCKS) * BLOCK, end)
        chunk = IO(offset=position, length=after - position)
        yield from copy_to_pages(chunk, inode)
        if position == io.offset:
            yield from start_write_back(chunk, ordered, inode)
        else:
            other = yield inode.mount.ordered.get()
            other.owner = ordered
            other.is_owner = 0
            yield from start_write_back(chunk, other, inode)
        position = after
    yield inode.i_mutex.release()
    yield from wait_for_write_back(io, ordered, inode)


@protocol
def write_blocks(io: IO, inode: Inode):
    """3.0, whole blocks: new blocks, checksums, the device, and the completion of the ordered extent.

    The kernel hands the completion to a worker and sleeps.  The measured time of a whole write, 18 us and the time of
    its bytes, has no room for two wake-ups as long as those of a lock's waiters: the writer does the worker's part
    here, and the hand-over is part of path.btrfs_reserve.
    """
    yield from lock_range(io, inode)
    yield from reserve_extent(inode)
    yield from unlock_range(io, inode)
    yield from add_checksums(io.length)
    yield device.write(inode.disk_offset + io.offset, io.length)
    yield from finish_ordered(io, inode)


@protocol
def write_part_of_block(io: IO, inode: Inode):
    """3.0, anything else: the page cache, written back and waited for under i_mutex."""
    ordered = yield inode.mount.ordered.get()
    yield from copy_to_pages(io, inode)
    yield from start_write_back(io, ordered, inode)
    yield from wait_for_write_back(io, ordered, inode)


@protocol
def write_under_mutex(io: IO, inode: Inode):
    """3.0: i_mutex over everything, the I/O and the transaction too."""
    yield inode.i_mutex.acquire()
    unaligned = yield from is_unaligned(io)
    if unaligned != 0:
        yield from write_part_of_block(io, inode)
    else:
        if inode.pages.present > 0:
            yield from flush_range(inode, io.offset, io.offset + io.length, 0)
        yield from write_blocks(io, inode)
    if io.offset + io.length > inode.size:
        inode.size = io.offset + io.length
    inode.disk_size = max(inode.disk_size, io.offset + io.length)
    yield inode.i_mutex.release()


@protocol
def direct_write(io: IO, inode: Inode):
    yield cpu(path.write_entry)
    if WRITES_ARE_BUFFERED:
        yield from write_through_page_cache(io, inode)
    else:
        yield from write_under_mutex(io, inode)
    yield cpu(path.write_exit)


# --- truncate and fallocate


@protocol
def truncate(size: int, inode: Inode):
    """i_mutex, and no ordered extent in flight."""
    yield inode.i_mutex.acquire()
    yield from change_size(size, inode)
    yield inode.i_mutex.release()


@protocol
def fallocate(offset: int, length: int, inode: Inode):
    yield inode.i_mutex.acquire()
    yield from preallocate(offset, length, UNWRITTEN, inode)
    yield inode.i_mutex.release()


# --- asynchronous I/O


@protocol
def submit_read(request: Request):
    """Of whole blocks: the range stays locked until the data are there.  The page cache is synchronous."""
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    complete = 1
    unaligned = 0
    if not WRITES_ARE_BUFFERED:
        unaligned = yield from is_unaligned(io)
    if unaligned != 0:
        yield from buffered_read(io, inode)
    else:
        yield cpu(path.read_entry)
        begin, end = yield from map_for_read(io, inode)
        if begin < end:
            complete = 0
            yield request.bios.inc()
            yield device.submit_read(inode.disk_offset + begin, end - begin, to=inode.mount.interrupts, tag=request)
        else:
            yield from unlock_range(io, inode)
    if complete != 0:
        yield request.ring.done.put(request)


@protocol
def submit_direct_write(request: Request):
    """3.0: i_mutex for the submission.  Only what lies before the end of the file, in whole blocks, stays in flight.

    Return whether the request is complete.
    """
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    unaligned = yield from is_unaligned(io)
    if unaligned != 0 or io.offset + io.length > inode.size:
        yield from write_under_mutex(io, inode)
        return 1
    yield inode.i_mutex.acquire()
    if inode.pages.present > 0:
        yield from flush_range(inode, io.offset, io.offset + io.length, 0)
    yield from lock_range(io, inode)
    yield from reserve_extent(inode)
    yield from unlock_range(io, inode)
    yield from add_checksums(io.length)
    yield request.bios.inc()
    yield device.submit_write(inode.disk_offset + io.offset, io.length, to=inode.mount.interrupts, tag=request)
    yield inode.i_mutex.release()
    return 0


@protocol
def submit_write(request: Request):
    """2009: through the page cache, synchronous."""
    yield cpu(path.write_entry)
    complete = 1
    if WRITES_ARE_BUFFERED:
        io = IO(offset=request.offset, length=request.length)
        yield from write_through_page_cache(io, request.inode)
    else:
        complete = yield from submit_direct_write(request)
    yield cpu(path.write_exit)
    if complete != 0:
        yield request.ring.done.put(request)


# --- daemons


@protocol
def interrupt(mount: Mount):
    """The last piece hands the request over to the workers."""
    while True:
        request = yield mount.interrupts.get()
        yield cpu(path.dio_interrupt)
        left = yield request.bios.dec()
        if left == 0:
            yield mount.completions.put(request)


@protocol
def finish_requests(mount: Mount):
    """Workers: a read's checksums and its range; a write's ordered extent."""
    while True:
        request = yield mount.completions.get()
        io = IO(offset=request.offset, length=request.length)
        yield cpu(path.dio_worker)
        if request.writes != 0:
            yield from finish_ordered(io, request.inode)
        else:
            if CHECK_READS:
                yield from add_checksums(io.length)
            yield from unlock_range(io, request.inode)
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
        daemons={checksum_pages: 0, finish_writes: 0, write_metadata: 1, interrupt: 0, finish_requests: 0},
        sizes=("size", "disk_size"),
        constants=constants,
    )


BUFFERED = {"WRITES_ARE_BUFFERED": 1, "CHECK_READS": 0, "PLACED_IN_TURN": 1}

FILESYSTEMS = {
    each.name: each
    for each in (
        _version(
            "btrfs-2009-cow",
            "btrfs of 2009: direct writes are copied to the page cache and flushed; copy on write and checksums",
            "behaviour of Linux 2.6.29 to 2.6.34, fs/btrfs",
            BUFFERED,
        ),
        _version(
            "btrfs-2009-nodatacow",
            "the same mounted with nodatacow: blocks that exist are overwritten in place, no checksums",
            "behaviour of Linux 2.6.29 to 2.6.34 with the mount option nodatacow",
            {**BUFFERED, "NODATACOW": 1},
        ),
        _version(
            "btrfs-3.0",
            "btrfs of 3.0: direct I/O of whole blocks, i_mutex over the whole write; less than a block is buffered",
            "behaviour of Linux 2.6.35 to 3.8, fs/btrfs; 4b46fce23349",
            {},
        ),
    )
}
