"""XFS of 2011, from 2.6.39 to 3.2: i_size in two places, i_new_size, and a completion that sleeps for a jiffy.

One text serves the four versions; the constants below say what each does, and the two patches of July 2011 change them.
"""

from fssim.filesystem import Filesystem
from fssim.protocol import (
    EXCLUSIVE,
    HOLE,
    IO,
    SHARED,
    UNWRITTEN,
    WRITTEN,
    cpu,
    device,
    now,
    path,
    protocol,
    sleep,
)

from ._direct_io import BLOCK, SECTOR, flush_range, is_unaligned, last_block, write_zeroed, zero_through_page_cache
from ._xfs import (
    LOG_DAEMONS,
    ZERO_HEAD,
    ZERO_TAIL,
    Inode,
    Mount,
    Request,
    allocate,
    convert,
    demote,
    fallocate,
    lock,
    map_range_for_read,
    mount,
    place,
    submit_pieces,
    truncate,
    unlock,
    walk_extents,
)

SERIAL_READS = 1  # every direct read takes the iolock exclusively to look at the page cache
SERIAL_APPENDS = 1  # a write beyond the end of the file takes the iolock exclusively
RECHECK_PAGES = 0  # look at the page cache again when the iolock is held
TEST_BEFORE_RAISING = 0  # decide about zeroing before i_new_size is raised to this write's own end
SHARED_NEW_SIZE = 0  # i_new_size only grows, and only the append that raised it to its value takes it back
QUEUE_WRITTEN = 1  # xfsdatad has to finish asynchronous writes into written blocks too
SKIP_SIZE_ON_DISK = 0  # completion does not ask for the ilock if the size on disk covers the write already


# --- reads


@protocol
def drop_cached_pages(io: IO, inode: Inode):
    """Write back and truncate the page cache from the read's first page to the end of the file."""
    yield from flush_range(inode, io.offset, inode.size, 0)


@protocol
def read_and_wait(io: IO, inode: Inode):
    """Map, build the I/O sector by sector, submit it and sleep until it is done, under the lock the caller holds.

    Holes, unwritten blocks and what lies beyond the end of the file are zeroes, for which no device is asked.
    """
    first, written = yield from map_range_for_read(io.offset, io.length, inode)
    if written > 0:
        yield cpu(path.xfs_submit_sector * (written // SECTOR))
        yield device.read(inode.disk_offset + first, written)
    yield cpu(path.read_complete)


@protocol
def lock_for_read(io: IO, inode: Inode):
    """2.6.39: exclusive first, then demoted: granted only when all reads in flight have finished.

    "xfs: don't serialise direct IO reads on page cache checks" (Dave Chinner, July 2011): shared; only if there are
    cached pages it lets go, takes the lock exclusively, looks again, and demotes.
    """
    if SERIAL_READS:
        yield from lock(inode, EXCLUSIVE)
        if inode.pages.present > 0:
            yield from drop_cached_pages(io, inode)
        yield from demote(inode)
    else:
        yield from lock(inode, SHARED)
        if inode.pages.present > 0:
            yield from unlock(inode, SHARED)
            yield from lock(inode, EXCLUSIVE)
            if inode.pages.present > 0:
                yield from drop_cached_pages(io, inode)
            yield from demote(inode)


@protocol
def direct_read(io: IO, inode: Inode):
    """A synchronous direct read: the iolock is shared until the data is there."""
    yield cpu(path.read_entry + path.xfs_read_entry)
    yield from lock_for_read(io, inode)
    yield from read_and_wait(io, inode)
    yield from unlock(inode, SHARED)
    yield cpu(path.read_exit)


# --- writes


@protocol
def raise_new_size(end: int, inode: Inode):
    """Announce where the file will end; return this write's own end, 0 if it does not extend the file."""
    if end <= inode.size:
        return 0
    if SHARED_NEW_SIZE:
        inode.new_size = max(inode.new_size, end)
    else:
        inode.new_size = end
    return end


@protocol
def zero_to(offset: int, inode: Inode):
    """Zero from the end of the file to where the write begins, through the page cache; the caller holds both locks."""
    block = inode.size // BLOCK
    position = inode.size
    if position % BLOCK != 0:
        state, run = yield inode.extents.lookup(block, 1)
        if state != HOLE:
            yield inode.ilock.release(EXCLUSIVE)
            yield from zero_through_page_cache(inode, position, min((block + 1) * BLOCK, offset))
            yield inode.ilock.acquire(EXCLUSIVE)
        block += 1
    last = (offset + BLOCK - 1) // BLOCK
    while block < last:
        state, run = yield inode.extents.lookup(block, last - block)
        if state == WRITTEN:
            yield inode.ilock.release(EXCLUSIVE)
            yield from zero_through_page_cache(inode, block * BLOCK, min((block + run) * BLOCK, offset))
            yield inode.ilock.acquire(EXCLUSIVE)
        block += run


@protocol
def check_write(io: IO, mode: int, inode: Inode):
    """Under the exclusive ilock: announce the new size, zero the gap; return the mode of the iolock and the own end.

    The posted append patch raises i_new_size before it compares the offset with it, so that it never finds a gap.
    """
    end = io.offset + io.length
    held = mode
    own = 0
    while True:
        yield cpu(path.xfs_write_checks)
        if not TEST_BEFORE_RAISING:
            own = yield from raise_new_size(end, inode)
        known = inode.size
        if not SERIAL_APPENDS:
            if inode.new_size != 0:
                known = inode.new_size
        if io.offset <= known:
            break
        if SERIAL_APPENDS or held == EXCLUSIVE:
            yield from zero_to(io.offset, inode)
            break
        yield inode.ilock.release(EXCLUSIVE)
        yield from unlock(inode, held)
        held = EXCLUSIVE
        yield from lock(inode, held)
        yield inode.ilock.acquire(EXCLUSIVE)
    if TEST_BEFORE_RAISING:
        own = yield from raise_new_size(end, inode)
    yield inode.ilock.release(EXCLUSIVE)
    return held, own


@protocol
def map_for_write(io: IO, inode: Inode):
    """Map the range and fill its holes; return whether blocks are new, and whether any is unwritten.

    New: beyond the end of the file or unwritten, so that what the write leaves of a block has to be zeroed.  Blocks are
    allocated unwritten before the end of the file, and written beyond it.
    """
    block = io.offset // BLOCK
    after = yield from last_block(io)
    after += 1
    new = 0
    unwritten = 0
    while block < after:
        yield inode.ilock.acquire(EXCLUSIVE)
        state, run = yield inode.extents.lookup(block, after - block)
        yield from walk_extents(inode)
        yield inode.ilock.release(EXCLUSIVE)
        if state == HOLE:
            state = UNWRITTEN if block * BLOCK < inode.size else WRITTEN
            yield from allocate(block, run, state, inode)
        if block * BLOCK >= inode.vfs_size:
            new = 1
        if state == UNWRITTEN:
            new = 1
            unwritten = 1
        block += run
    return new, unwritten


@protocol
def set_file_size(end: int, inode: Inode):
    """setfilesize: the size on disk.  It tries the ilock; if that fails, a worker does it, and this thread sleeps.

    The sleep lasts until the next tick of the clock, with the iolock still held.
    """
    if SKIP_SIZE_ON_DISK:
        if end <= inode.disk_size:
            return
    got = yield inode.ilock.try_acquire(EXCLUSIVE)
    if got == 0:
        yield sleep(path.jiffy - now() % path.jiffy)
        # The worker has done it by now.
        inode.disk_size = max(inode.disk_size, min(max(inode.size, inode.new_size), end))
        return
    yield cpu(path.xfs_set_size)
    inode.disk_size = max(inode.disk_size, min(max(inode.size, inode.new_size), end))
    yield inode.ilock.release(EXCLUSIVE)


@protocol
def leave_write(end: int, own: int, inode: Inode):
    """Publish the size; take i_new_size back."""
    if end > inode.size:
        yield inode.ilock.acquire(EXCLUSIVE)
        inode.size = max(inode.size, end)
        yield inode.ilock.release(EXCLUSIVE)
    if SHARED_NEW_SIZE:
        mine = 1 if own == inode.new_size else 0
    else:
        mine = 1 if inode.new_size != 0 else 0
    if mine != 0:
        yield inode.ilock.acquire(EXCLUSIVE)
        if not SHARED_NEW_SIZE or own == inode.new_size:
            inode.new_size = 0
            inode.disk_size = min(inode.disk_size, inode.size)
        yield inode.ilock.release(EXCLUSIVE)


@protocol
def prepare_write(io: IO, inode: Inode):
    """All that a write does before the device: the iolock, checks, page cache, mapping.

    Return the mode in which the iolock is held, the end that this write has announced, and of its blocks whether they
    are new and whether any is unwritten.
    """
    end = io.offset + io.length
    unaligned = yield from is_unaligned(io)
    mode = EXCLUSIVE if unaligned != 0 else SHARED
    if inode.pages.present > 0:
        mode = EXCLUSIVE
    if SERIAL_APPENDS:
        if io.offset > inode.size:  # looked at without a lock
            mode = EXCLUSIVE
    yield from lock(inode, mode)
    if RECHECK_PAGES:
        if mode == SHARED and inode.pages.present > 0:
            yield from unlock(inode, SHARED)
            mode = EXCLUSIVE
            yield from lock(inode, mode)
    yield inode.ilock.acquire(EXCLUSIVE)
    mode, own = yield from check_write(io, mode, inode)
    if inode.pages.present > 0:
        yield from flush_range(inode, io.offset, max(inode.size, end), 0)
    if unaligned != 0:
        yield inode.io_count.wait_zero()
    elif mode == EXCLUSIVE:
        yield from demote(inode)
        mode = SHARED
    new, unwritten = yield from map_for_write(io, inode)
    yield inode.io_count.inc()
    return mode, own, new, unwritten


@protocol
def direct_write(io: IO, inode: Inode):
    """A synchronous direct write, from the system call to its return."""
    end = io.offset + io.length
    yield cpu(path.write_entry)
    mode, own, new, unwritten = yield from prepare_write(io, inode)
    yield from write_zeroed(io, inode, new)
    if unwritten != 0:
        after = yield from last_block(io)
        yield from convert(io.offset // BLOCK, after + 1 - io.offset // BLOCK, inode)
    yield from set_file_size(end, inode)
    yield inode.io_count.dec()
    if end > inode.vfs_size:
        inode.vfs_size = end
    yield from leave_write(end, own, inode)
    yield from unlock(inode, mode)
    yield cpu(path.write_exit)


# --- asynchronous I/O


@protocol
def submit_read(request: Request):
    """An asynchronous direct read: the iolock is held while it is submitted.

    Nothing counts it; since 3.1 i_dio_count does, which is not modelled here.
    """
    inode = request.inode
    mount = inode.mount
    ring = request.ring
    io = IO(offset=request.offset, length=request.length)
    request.flags = 0
    yield cpu(path.read_entry + path.xfs_read_entry)
    yield from lock_for_read(io, inode)
    first, written = yield from map_range_for_read(request.offset, request.length, inode)
    if written > 0:
        yield cpu(path.xfs_submit_sector * (written // SECTOR))
        yield request.bios.inc()
        yield device.submit_read(inode.disk_offset + first, written, to=mount.interrupts, tag=request)
    yield from unlock(inode, SHARED)
    yield cpu(path.read_exit)
    if written == 0:
        yield ring.done.put(request)


@protocol
def submit_write(request: Request):
    """An asynchronous direct write.  One that extends the file is waited for, as if it were synchronous."""
    inode = request.inode
    ring = request.ring
    io = IO(offset=request.offset, length=request.length)
    end = request.offset + request.length
    yield cpu(path.write_entry)
    mode, own, new, unwritten = yield from prepare_write(io, inode)
    request.flags = unwritten
    wait = 1 if end > inode.vfs_size else 0
    yield from submit_pieces((ZERO_HEAD | ZERO_TAIL) * new, wait, request)
    if wait != 0:
        yield request.bios.wait_zero()
        if unwritten != 0:
            after = yield from last_block(io)
            yield from convert(io.offset // BLOCK, after + 1 - io.offset // BLOCK, inode)
        yield from set_file_size(end, inode)
        yield inode.io_count.dec()
        inode.vfs_size = max(inode.vfs_size, end)
        yield from leave_write(end, own, inode)
    else:
        yield from leave_write(0, own, inode)
    yield from unlock(inode, mode)
    yield cpu(path.write_exit)
    if wait != 0:
        yield ring.done.put(request)


@protocol
def handle_interrupts(mount: Mount):
    """End of a bio.  A write into unwritten blocks goes to xfsconvertd before its user is told.

    Of another write the user is told at once.  Until 3.1 it goes to xfsdatad afterwards and is counted until then.
    """
    while True:
        request = yield mount.interrupts.get()
        yield cpu(path.dio_interrupt)
        left = yield request.bios.dec()
        if left == 0:
            inode = request.inode
            ring = request.ring
            if request.flags != 0:
                yield mount.completions.put(request)
            else:
                writes = request.writes  # the user may use the request again
                yield ring.done.put(request)
                if writes != 0:
                    if QUEUE_WRITTEN:
                        yield mount.size_updates.put(inode)
                    else:
                        yield inode.io_count.dec()


@protocol
def convert_in_worker(mount: Mount):
    """xfsconvertd.  If the ilock is not free to set the size on disk, all of it is done again a jiffy later."""
    while True:
        request = yield mount.completions.get()
        inode = request.inode
        ring = request.ring
        end = request.offset + request.length
        block = request.offset // BLOCK
        yield cpu(path.dio_worker)
        yield from convert(block, (end - 1) // BLOCK + 1 - block, inode)
        if not SKIP_SIZE_ON_DISK or end > inode.disk_size:
            got = yield inode.ilock.try_acquire(EXCLUSIVE)
            if got == 0:
                yield mount.completions.put(request)
                yield sleep(path.jiffy - now() % path.jiffy)
                continue
            yield cpu(path.xfs_set_size)
            inode.disk_size = max(inode.disk_size, min(max(inode.size, inode.new_size), end))
            yield inode.ilock.release(EXCLUSIVE)
        yield inode.io_count.dec()
        yield ring.done.put(request)


@protocol
def set_size_in_worker(mount: Mount):
    """xfsdatad: the size on disk, which an asynchronous write has not changed, needs the ilock all the same."""
    while True:
        inode = yield mount.size_updates.get()
        yield cpu(path.dio_worker)
        got = yield inode.ilock.try_acquire(EXCLUSIVE)
        if got == 0:
            yield mount.size_updates.put(inode)
            yield sleep(path.jiffy - now() % path.jiffy)
            continue
        yield cpu(path.xfs_set_size)
        yield inode.ilock.release(EXCLUSIVE)
        yield inode.io_count.dec()


READ_PATCH = {"SERIAL_READS": 0}
POSTED_APPEND_PATCH = {"SERIAL_APPENDS": 0, "SHARED_NEW_SIZE": 1, "SKIP_SIZE_ON_DISK": 1}
MERGED = {"TEST_BEFORE_RAISING": 1, "RECHECK_PAGES": 1, "QUEUE_WRITTEN": 0}


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
        daemons={**LOG_DAEMONS, handle_interrupts: 0, convert_in_worker: 0, set_size_in_worker: 0},
        sizes=("size", "vfs_size", "disk_size"),
        constants=constants,
    )


FILESYSTEMS = {
    filesystem.name: filesystem
    for filesystem in (
        _version(
            "xfs-2.6.39",
            "XFS of 2.6.39 and 3.0: direct reads and appends take the iolock exclusively, then demote it",
            "behaviour of Linux 2.6.39 to 3.1, fs/xfs",
            {},
        ),
        _version(
            "xfs-2.6.39+shared-read-lock",
            "the same with direct reads under the shared iolock",
            "'xfs: don't serialise direct IO reads on page cache checks', linux-fsdevel, 18 July 2011; "
            "merged as 0c38a2512df2 in Linux 3.2",
            READ_PATCH,
        ),
        _version(
            "xfs-2.6.39+both-patches",
            "the same with the append patch as it was posted: no gap is ever found, and none is zeroed",
            "'xfs: don't serialise adjacent concurrent direct IO appending writes', linux-fsdevel, 19 July 2011",
            {**READ_PATCH, **POSTED_APPEND_PATCH},
        ),
        _version(
            "xfs-3.2",
            "XFS of 3.2: the append patch as merged, and the page cache looked at again under the lock",
            "behaviour of Linux 3.2; 7271d243f9d1, c58cb165bd44",
            {**READ_PATCH, **POSTED_APPEND_PATCH, **MERGED},
        ),
    )
}
