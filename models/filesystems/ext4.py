"""ext4 direct I/O through iomap, since 5.6: the inode's reader-writer lock, shared for reads and overwrites.

Lock order: i_rwsem, handle of the journal, i_data_sem.  Described in our own words from the behaviour of Linux 5.6 to
6.12.  The versions under i_mutex are in `ext4_2011.py`.
"""

from __future__ import annotations

from fssim.filesystem import Filesystem, Geometry
from fssim.protocol import EXCLUSIVE, IO, SHARED, UNWRITTEN, WRITTEN, Queue, RWLock, cpu, device, path, protocol

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

SHARED_UNWRITTEN = 0  # an aligned write into unwritten blocks keeps the lock shared (240930fb7e6b, 6.3)
SHARED_UNALIGNED = 0  # so does a write of less than a block into written ones (310ee0902b8d, 6.4)


class Request(_ext4.Request):
    inode: Inode


class Mount(_ext4.Mount):
    interrupts: Queue[Request]
    conversions: Queue[Request]


class Inode(_ext4.Inode):
    """An ext4 inode under the VFS's i_rwsem."""

    mount: Mount
    i_rwsem: RWLock


def mount(geometry: Geometry) -> Mount:
    """Make a volume as mkfs.ext4 does."""
    return Mount(journal=journal_of(geometry))


# --- reads


@protocol
def submit(io: IO, inode: Inode):
    """Map the range; return from where to where the device has to be asked."""
    if inode.pages.present > 0:
        yield from flush_range(inode, io.offset, io.offset + io.length, 1)
    yield inode.i_data_sem.acquire(SHARED)
    begin, end = yield from written_part(io, inode)
    yield cpu(path.ext4_submit)
    yield inode.i_data_sem.release(SHARED)
    if begin < end:
        yield cpu(path.ext4_submit_sector * min((end - begin) // SECTOR, SECTORS_IN_BLOCK))
    return begin, end


@protocol
def direct_read(io: IO, inode: Inode):
    """Shared over the whole I/O ("ext4: introduce direct I/O read using iomap infrastructure", b1b4705d54ab, 5.5)."""
    yield cpu(path.read_entry)
    yield inode.i_rwsem.acquire(SHARED)
    yield inode.dio_count.inc()
    begin, end = yield from submit(io, inode)
    if begin < end:
        yield device.read(inode.disk_offset + begin, end - begin)
    yield cpu(path.read_complete)
    yield inode.dio_count.dec()
    yield inode.i_rwsem.release(SHARED)
    yield cpu(path.read_exit)


# --- writes


@protocol
def first_mode(io: IO, unaligned: int, inode: Inode):
    """A guess without a lock: exclusive for what extends the file; until 6.4 for what begins or ends inside a block."""
    mode = EXCLUSIVE if io.offset + io.length > inode.size else SHARED
    if not SHARED_UNALIGNED and unaligned != 0:
        mode = EXCLUSIVE
    return mode


@protocol
def check_write(io: IO, unaligned: int, guess: int, inode: Inode):
    """Under the lock: is the mode right?  If not, let go, take it exclusively, and look at everything again.

    Return the mode, whether the write extends the file, and whether one written mapping covers it.
    """
    mode = guess
    block = io.offset // BLOCK
    last = yield from last_block(io)
    while True:
        end = io.offset + io.length
        extends = 1 if end > inode.size or end > inode.disk_size else 0
        state, run = yield from find(block, last + 1 - block, inode)
        covered = 1 if block + run > last else 0
        written = 1 if state == WRITTEN and covered != 0 else 0
        if mode == EXCLUSIVE:
            break
        may_share = written
        if SHARED_UNWRITTEN and state == UNWRITTEN and covered != 0 and unaligned == 0:
            may_share = 1
        if may_share != 0 and extends == 0:
            break
        yield inode.i_rwsem.release(SHARED)
        mode = EXCLUSIVE
        yield inode.i_rwsem.acquire(EXCLUSIVE)
    return mode, extends, written


@protocol
def map_blocks(io: IO, mode: int, written: int, inode: Inode):
    """Of a pure overwrite under the shared lock only a lookup; else what is not written gets blocks, in a handle.

    Blocks beyond the end of the file are written ones: nobody sees them before the exclusive lock is released.
    Return whether the first and last block are new, and whether any is unwritten.
    """
    block = io.offset // BLOCK
    last = yield from last_block(io)
    first_new = 0
    last_new = 1 if io.offset + io.length >= inode.size else 0  # what follows in the last block may be anything
    unwritten = 0
    while block <= last:
        state, run = yield from find(block, last + 1 - block, inode)
        new = 0
        if state != WRITTEN:
            new = 1
            yield from start_handle(inode.mount.journal)
            if block * BLOCK >= inode.size:
                yield from prepare_beyond(block, run, inode)
            else:
                state = yield from prepare_inside(block, run, inode)
                if state == UNWRITTEN:
                    unwritten = 1
                else:
                    new = 0
            yield from stop_handle(inode.mount.journal, HANDLE_USED)
        if new != 0:
            if block == io.offset // BLOCK:
                first_new = 1
            if block + run > last:
                last_new = 1
        block += run
    return first_new, last_new, unwritten


@protocol
def begin_write(io: IO, inode: Inode):
    """Up to the mapping; return the mode of the lock, whether the file grows, and whether it must be synchronous."""
    yield cpu(path.write_entry)
    unaligned = yield from is_unaligned(io)
    mode = yield from first_mode(io, unaligned, inode)
    yield inode.i_rwsem.acquire(mode)
    mode, extends, written = yield from check_write(io, unaligned, mode, inode)
    wait = 1 if mode == EXCLUSIVE and (unaligned != 0 or extends != 0) else 0
    if mode == EXCLUSIVE and unaligned != 0 and (not SHARED_UNALIGNED or written == 0):
        yield inode.dio_count.wait_zero()
    if inode.pages.present > 0:
        yield from flush_range(inode, io.offset, io.offset + io.length, 0)
    if extends != 0:
        yield from begin_extension(inode)
    yield inode.dio_count.inc()
    first_new, last_new, unwritten = yield from map_blocks(io, mode, written, inode)
    return mode, extends, wait, first_new, last_new, unwritten


@protocol
def write_and_wait(io: IO, extends: int, first_new: int, last_new: int, unwritten: int, inode: Inode):
    """Wait for the device; convert what was unwritten; then the sizes."""
    yield from build_write(io)
    yield from write_with_zeroes(io, inode, first_new, last_new)
    if unwritten != 0:
        yield from convert(io, inode)
    if extends != 0:
        yield from end_extension(io.offset + io.length, inode)
    yield inode.dio_count.dec()


@protocol
def direct_write(io: IO, inode: Inode):
    """A synchronous direct write, under i_rwsem until the I/O is complete."""
    mode, extends, _, first_new, last_new, unwritten = yield from begin_write(io, inode)
    yield from write_and_wait(io, extends, first_new, last_new, unwritten, inode)
    yield inode.i_rwsem.release(mode)
    yield cpu(path.write_exit)


# --- truncate and fallocate


@protocol
def truncate(size: int, inode: Inode):
    """Exclusive, and no direct I/O in flight."""
    yield inode.i_rwsem.acquire(EXCLUSIVE)
    yield inode.dio_count.wait_zero()
    if size % BLOCK != 0 and size < inode.size:
        state, _ = yield inode.extents.lookup(size // BLOCK, 1)
        if state == WRITTEN:
            yield from zero_through_page_cache(inode, size, size + 1)
    yield from change_size(size, inode)
    yield inode.i_rwsem.release(EXCLUSIVE)


@protocol
def fallocate(offset: int, length: int, inode: Inode):
    """Exclusive, and no direct I/O in flight."""
    yield inode.i_rwsem.acquire(EXCLUSIVE)
    yield inode.dio_count.wait_zero()
    yield from preallocate(offset, length, inode)
    yield inode.i_rwsem.release(EXCLUSIVE)


# --- asynchronous I/O


@protocol
def submit_read(request: Request):
    """Shared while it is submitted; `dio_count` until it is complete."""
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    yield cpu(path.read_entry)
    yield inode.i_rwsem.acquire(SHARED)
    yield inode.dio_count.inc()
    begin, end = yield from submit(io, inode)
    request.flags = 0
    if begin < end:
        yield request.bios.inc()
        yield device.submit_read(inode.disk_offset + begin, end - begin, to=inode.mount.interrupts, tag=request)
    yield inode.i_rwsem.release(SHARED)
    if begin == end:
        yield inode.dio_count.dec()
        yield request.ring.done.put(request)


@protocol
def submit_write(request: Request):
    """Asynchronous unless it extends the file, or holds the lock exclusively for less than a block."""
    inode = request.inode
    io = IO(offset=request.offset, length=request.length)
    mode, extends, wait, first_new, last_new, unwritten = yield from begin_write(io, inode)
    request.flags = NEEDS_CONVERSION if unwritten != 0 else 0
    if wait != 0:
        yield from write_and_wait(io, extends, first_new, last_new, unwritten, inode)
    else:
        yield from submit_with_zeroes(request, first_new, last_new)
    yield inode.i_rwsem.release(mode)
    yield cpu(path.write_exit)
    if wait != 0:
        yield request.ring.done.put(request)


# --- daemons


@protocol
def interrupt(mount: Mount):
    """The last piece of a request completes it; unwritten blocks are for the work queue."""
    while True:
        request = yield mount.interrupts.get()
        yield cpu(path.dio_interrupt)
        left = yield request.bios.dec()
        if left == 0:
            if request.flags == NEEDS_CONVERSION:
                yield mount.conversions.put(request)
            else:
                yield request.inode.dio_count.dec()
                yield request.ring.done.put(request)


@protocol
def convert_requests(mount: Mount):
    """The superblock's dio work queue."""
    while True:
        request = yield mount.conversions.get()
        io = IO(offset=request.offset, length=request.length)
        yield cpu(path.dio_worker)
        yield from convert(io, request.inode)
        yield request.inode.dio_count.dec()
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
        constants={"ZEROOUT_BLOCKS": 8, **constants},
    )


FILESYSTEMS = {
    each.name: each
    for each in (
        _version(
            "ext4-5.6",
            "ext4 of 5.6: shared for reads and aligned overwrites, exclusive for all other writes",
            "behaviour of Linux 5.6 to 6.2; 378f32bab371, 569342dc2485, bc6385dab125",
            {},
        ),
        _version(
            "ext4-6.4",
            "ext4 of 6.4: shared for aligned writes into unwritten blocks, and for small ones into written blocks, too",
            "behaviour of Linux 6.4 to 6.12; 240930fb7e6b, 310ee0902b8d",
            {"SHARED_UNWRITTEN": 1, "SHARED_UNALIGNED": 1},
        ),
    )
}
