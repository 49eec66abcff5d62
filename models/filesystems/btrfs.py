"""btrfs of today: direct I/O under the inode's reader-writer lock, shared before the end of the file.

Files with checksums do not write directly any more: the data could change while they are summed.  The versions under
i_mutex are in `btrfs_2011.py`.  Described in our own words from the behaviour of Linux 6.12 and 6.15, fs/btrfs.
"""

from __future__ import annotations

from fssim.filesystem import Filesystem, Geometry
from fssim.protocol import EXCLUSIVE, IO, SHARED, UNWRITTEN, Queue, RWLock, cpu, device, path, protocol, sleep

from . import _btrfs
from ._btrfs import (
    add_checksums,
    begin_ordered,
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
from ._direct_io import flush_range, is_unaligned

DIRECT_WRITES = 0  # of files with nodatacow; those with checksums are written through the page cache since 6.15


class Request(_btrfs.Request):
    inode: Inode


class Mount(_btrfs.Mount):
    interrupts: Queue[Request]
    completions: Queue[Request]


class Inode(_btrfs.Inode):
    """A btrfs inode under the VFS's i_rwsem."""

    mount: Mount
    i_rwsem: RWLock


def mount(geometry: Geometry) -> Mount:
    """Make a volume; the number of ordered extents in flight is bounded."""
    volume = Mount()
    fill_pool(volume, Inode)
    return volume


# --- reads


@protocol
def direct_read(io: IO, inode: Inode):
    """Shared over the whole I/O; what does not consist of whole blocks goes through the page cache."""
    unaligned = yield from is_unaligned(io)
    if unaligned != 0:
        yield from buffered_read(io, inode)
        return
    yield cpu(path.read_entry)
    yield inode.i_rwsem.acquire(SHARED)
    begin, end = yield from map_for_read(io, inode)
    if begin < end:
        yield device.read(inode.disk_offset + begin, end - begin)
        yield from add_checksums(end - begin)
        yield sleep(path.btrfs_end_io)
    yield cpu(path.read_complete)
    yield from unlock_range(io, inode)
    yield inode.i_rwsem.release(SHARED)
    yield cpu(path.read_exit)


# --- writes


@protocol
def write_through_page_cache(io: IO, inode: Inode):
    """Copy under the exclusive lock; write back and wait without it."""
    ordered = yield inode.mount.ordered.get()
    yield inode.i_rwsem.acquire(EXCLUSIVE)
    yield from copy_to_pages(io, inode)
    yield inode.i_rwsem.release(EXCLUSIVE)
    yield from start_write_back(io, ordered, inode)
    yield from wait_for_write_back(io, ordered, inode)


@protocol
def lock_for_write(io: IO, inode: Inode):
    """Shared before the end of the file (e9adabb9712e, 5.11), guessed without a lock and looked at again under it.

    Blocks between the end of the file and the write stay a hole.
    """
    end = io.offset + io.length
    mode = EXCLUSIVE if end > inode.size else SHARED
    yield inode.i_rwsem.acquire(mode)
    if mode == SHARED and end > inode.size:
        yield inode.i_rwsem.release(SHARED)
        mode = EXCLUSIVE
        yield inode.i_rwsem.acquire(EXCLUSIVE)
    if inode.pages.present > 0:
        yield from flush_range(inode, io.offset, end, 0)
    return mode


@protocol
def write_blocks(io: IO, inode: Inode):
    """Whole blocks: the range stays locked against other direct I/O until the ordered extent is complete."""
    mode = yield from lock_for_write(io, inode)
    ordered = yield inode.mount.ordered.get()
    yield from lock_range(io, inode)
    yield from begin_ordered(io, ordered, inode)
    yield ordered.pending.inc()
    yield device.submit_write(inode.disk_offset + io.offset, io.length, to=inode.mount.written, tag=ordered)
    yield ordered.pending.wait_zero()
    yield inode.mount.ordered.put(ordered)
    yield from unlock_range(io, inode)
    if io.offset + io.length > inode.size:
        inode.size = io.offset + io.length
    inode.disk_size = max(inode.disk_size, io.offset + io.length)
    yield inode.i_rwsem.release(mode)


@protocol
def direct_write(io: IO, inode: Inode):
    yield cpu(path.write_entry)
    buffered = 1
    if DIRECT_WRITES:
        buffered = yield from is_unaligned(io)
    if buffered != 0:
        yield from write_through_page_cache(io, inode)
    else:
        yield from write_blocks(io, inode)
    yield cpu(path.write_exit)


# --- truncate and fallocate


@protocol
def truncate(size: int, inode: Inode):
    """Exclusive, and no ordered extent in flight."""
    yield inode.i_rwsem.acquire(EXCLUSIVE)
    yield from change_size(size, inode)
    yield inode.i_rwsem.release(EXCLUSIVE)


@protocol
def fallocate(offset: int, length: int, inode: Inode):
    yield inode.i_rwsem.acquire(EXCLUSIVE)
    yield from preallocate(offset, length, UNWRITTEN, inode)
    yield inode.i_rwsem.release(EXCLUSIVE)


# --- asynchronous I/O


@protocol
def submit_read(request: Request):
    """The range stays locked until the data are there.  The page cache is synchronous."""
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    complete = 1
    unaligned = yield from is_unaligned(io)
    if unaligned != 0:
        yield from buffered_read(io, inode)
    else:
        yield cpu(path.read_entry)
        yield inode.i_rwsem.acquire(SHARED)
        begin, end = yield from map_for_read(io, inode)
        if begin < end:
            complete = 0
            yield request.bios.inc()
            yield device.submit_read(inode.disk_offset + begin, end - begin, to=inode.mount.interrupts, tag=request)
        else:
            yield from unlock_range(io, inode)
        yield inode.i_rwsem.release(SHARED)
    if complete != 0:
        yield request.ring.done.put(request)


@protocol
def submit_blocks(request: Request):
    """Whole blocks before the end of the file stay in flight.  Return whether the request is complete."""
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    if io.offset + io.length > inode.size:
        yield from write_blocks(io, inode)
        return 1
    mode = yield from lock_for_write(io, inode)
    yield from lock_range(io, inode)
    yield from reserve_extent(inode)
    yield request.bios.inc()
    yield device.submit_write(inode.disk_offset + io.offset, io.length, to=inode.mount.interrupts, tag=request)
    yield inode.i_rwsem.release(mode)
    return 0


@protocol
def submit_write(request: Request):
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    yield cpu(path.write_entry)
    buffered = 1
    if DIRECT_WRITES:
        buffered = yield from is_unaligned(io)
    complete = 1
    if buffered != 0:
        yield from write_through_page_cache(io, inode)
    else:
        complete = yield from submit_blocks(request)
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
    """Workers: a read's checksums, a write's ordered extent; then the range."""
    while True:
        request = yield mount.completions.get()
        io = IO(offset=request.offset, length=request.length)
        yield cpu(path.dio_worker)
        if request.writes != 0:
            yield from finish_ordered(io, request.inode)
        else:
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


FILESYSTEMS = {
    each.name: each
    for each in (
        _version(
            "btrfs-6.x",
            "btrfs of 6.15 with checksums: direct reads are shared, writes go through the page cache",
            "behaviour of Linux 6.15 and stable, fs/btrfs",
            {},
        ),
        _version(
            "btrfs-6.x-nodatacow",
            "the same for files with nodatacow: direct writes, shared before the end of the file",
            "behaviour of Linux 6.12, fs/btrfs, nodatacow; e9adabb9712e",
            {"DIRECT_WRITES": 1, "NODATACOW": 1},
        ),
    )
}
