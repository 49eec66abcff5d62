"""XFS from 3.3 on: one i_size, and direct I/O that shares the iolock except where it must not.

One text serves the versions; the constants below say what each does.  Synchronous and asynchronous writes go through
the same steps and differ in who waits: `prepare_write` takes the iolock, checks and maps, `complete_write` converts and
sets the size.  Not modelled: reflink, suid bits, quota, and the lock that page faults share (nobody else takes it).
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
)

from ._direct_io import BLOCK, SECTOR, flush_range
from ._xfs import (
    LOG_COUNT,
    LOG_DAEMONS,
    LOG_RESERVATION,
    SIZE_RESERVATION,
    ZERO_HEAD,
    ZERO_TAIL,
    Inode,
    Mount,
    Request,
    allocate,
    commit,
    convert_extents,
    demote,
    fallocate,
    lock,
    map_range_for_read,
    mount,
    place,
    reserve,
    submit_pieces,
    truncate,
    unlock,
    walk_extents,
    write_and_wait,
    zero_to,
)

# As in 3.3.  The kernel of the change is in parentheses.
LOOKUP_MODE = EXCLUSIVE  # of the ilock while a write maps its blocks: shared from 3.5 on, but for 4.8 to 4.15
PAGES_FORCE_EXCLUSIVE = 1  # cached pages: take the iolock exclusively, drop them up to the end of the file (4.10)
SIZE_AT_SUBMISSION = 1  # log space for a new size is reserved when a write is submitted, not when it is complete (3.8)
EXTENDING_IS_SYNCHRONOUS = 1  # asynchronous writes that extend the file are waited for (3.15)
UNWRITTEN_BEYOND_END = 0  # blocks beyond the end of the file are allocated unwritten, not written (3.15)
FLAGS_LOCK = 0  # i_size is tested and set under i_flags_lock (4.1)
DRAIN_BEFORE_ZEROING = 0  # a gap is zeroed when no I/O is in flight (4.1)
TIME_TRANSACTION = 0  # a new timestamp is logged at once (behaviour of 4.1)
IOMAP = 0  # written blocks beyond the end of the file are not new; a worker completes all writes (4.10)
ZERO_TAIL_AT_END = 0  # the rest of a written block in which the file is going to end is zeroed (5.0)
SIZE_BEFORE_CONVERSION = 1  # i_size says that there is data while its blocks are unwritten still (4.14)
DRAIN_AFTER = 0  # a sub-block write keeps the iolock until it is complete, even if asynchronous (5.1)
SHARED_SUB_BLOCK = 0  # a sub-block write is tried under the shared iolock first, as an overwrite only (5.12)
LOOK_AT_SIZE_FIRST = 0  # before i_flags_lock is taken to test i_size, it is tested without (5.12)

CONVERT = 1  # flags of a request: there are unwritten blocks to convert
SET_SIZE = 2  # it ends beyond the end of the file
SIZE_RESERVED = 4  # it has log space for its size

# --- reads


@protocol
def lock_for_read(offset: int, length: int, inode: Inode):
    """Take the iolock shared; see to it that the device has what the page cache has.

    "xfs: don't serialise direct IO reads on page cache checks": let go, take it exclusively, look again, demote.
    """
    yield from lock(inode, SHARED)
    if PAGES_FORCE_EXCLUSIVE:
        if inode.pages.present > 0:
            yield from unlock(inode, SHARED)
            yield from lock(inode, EXCLUSIVE)
            if inode.pages.present > 0:
                yield from flush_range(inode, offset, inode.size, 0)
            yield from demote(inode)
    elif inode.pages.present > 0:
        yield from flush_range(inode, offset, offset + length, 1)


@protocol
def direct_read(io: IO, inode: Inode):
    """A synchronous direct read: the iolock is shared until the data is there."""
    yield cpu(path.read_entry + path.xfs_read_entry)
    yield from lock_for_read(io.offset, io.length, inode)
    yield inode.io_count.inc()
    first, written = yield from map_range_for_read(io.offset, io.length, inode)
    if written > 0:
        yield cpu(path.xfs_submit_sector * (written // SECTOR))
        yield device.read(inode.disk_offset + first, written)
    yield cpu(path.read_complete)
    yield inode.io_count.dec()
    yield from unlock(inode, SHARED)
    yield cpu(path.read_exit)


@protocol
def submit_read(request: Request):
    """An asynchronous direct read: the iolock is shared while it is submitted."""
    inode = request.inode
    mount = inode.mount
    ring = request.ring
    yield cpu(path.read_entry + path.xfs_read_entry)
    yield from lock_for_read(request.offset, request.length, inode)
    request.flags = 0
    first, written = yield from map_range_for_read(request.offset, request.length, inode)
    if written > 0:
        yield inode.io_count.inc()
        yield request.bios.inc()
        yield cpu(path.xfs_submit_sector * (written // SECTOR))
        yield device.submit_read(inode.disk_offset + first, written, to=mount.interrupts, tag=request)
    yield from unlock(inode, SHARED)
    yield cpu(path.read_exit)
    if written == 0:
        yield ring.done.put(request)


# --- writes: before the device


@protocol
def check_write(offset: int, held: int, inode: Inode):
    """Zero the gap if the write begins beyond the end of the file; return the mode in which the iolock is held then.

    That needs the iolock exclusively, and from 4.1 on that no I/O is in flight: after either all is checked again.
    """
    mode = held
    drained = 0
    while True:
        yield cpu(path.xfs_write_checks)
        if LOOK_AT_SIZE_FIRST and offset <= inode.size:  # completions only let it grow, and truncate cannot run
            break
        if FLAGS_LOCK:
            yield inode.flags_lock.acquire()
        size = inode.size
        if FLAGS_LOCK:
            yield inode.flags_lock.release()
        if offset <= size:
            break
        again = 0
        if mode == SHARED:
            yield from unlock(inode, SHARED)
            mode = EXCLUSIVE
            yield from lock(inode, EXCLUSIVE)
            again = 1
        if DRAIN_BEFORE_ZEROING and drained == 0:
            yield inode.io_count.wait_zero()
            drained = 1
            again = 1
        if again == 0:
            yield from zero_to(offset, inode)
            break
    return mode


@protocol
def update_time(inode: Inode):
    """A transaction of its own, once per tick of the clock that files are stamped with."""
    tick = now() // path.jiffy
    if tick != inode.tick:
        yield from reserve(SIZE_RESERVATION, inode.mount)
        yield inode.ilock.acquire(EXCLUSIVE)
        inode.tick = tick
        yield from commit(SIZE_RESERVATION, 0, inode)
        yield inode.ilock.release(EXCLUSIVE)


@protocol
def map_for_write(offset: int, length: int, only_overwrite: int, inode: Inode):
    """Map the range and fill its holes; return what completion has to do, what to zero, and whether to try again.

    A write that may only overwrite has to find its blocks written, as one extent, and is tried again otherwise.
    New blocks are unwritten, or (until 4.9) lie beyond the end of the file; what the write leaves of them is zeroed.
    """
    end = offset + length
    block = offset // BLOCK
    after = (end - 1) // BLOCK + 1
    flags = 0
    zero = 0
    again = 0
    if end > inode.size:
        flags = SET_SIZE
    while block < after:
        yield inode.ilock.acquire(LOOKUP_MODE)
        state, run = yield inode.extents.lookup(block, after - block)
        yield from walk_extents(inode)
        yield inode.ilock.release(LOOKUP_MODE)
        if only_overwrite != 0 and (state != WRITTEN or block + run < after):
            again = 1
            break
        if state == HOLE:
            state = UNWRITTEN
            if not UNWRITTEN_BEYOND_END and block * BLOCK >= inode.size:
                state = WRITTEN
            yield from allocate(block, run, state, inode)
        if state == UNWRITTEN:
            flags |= CONVERT
        beyond = inode.size  # from where on blocks are new, whatever their state
        if IOMAP:
            beyond = end
        if block == offset // BLOCK and (state == UNWRITTEN or block * BLOCK >= beyond):
            zero |= ZERO_HEAD
        block += run
        if block == after and (state == UNWRITTEN or (after - 1) * BLOCK >= beyond):
            zero |= ZERO_TAIL
    if ZERO_TAIL_AT_END and end >= inode.size:
        zero |= ZERO_TAIL
    return flags, zero, again


@protocol
def first_mode(offset: int, length: int, unaligned: int, inode: Inode):
    """Choose the mode of the iolock, by fields that are read without it."""
    mode = SHARED
    if unaligned != 0:
        mode = EXCLUSIVE
        if SHARED_SUB_BLOCK and offset <= inode.size and offset + length < inode.size:
            mode = SHARED
    if PAGES_FORCE_EXCLUSIVE and inode.pages.present > 0:
        mode = EXCLUSIVE
    return mode


@protocol
def prepare_write(offset: int, length: int, inode: Inode):
    """All that a write does before the device: the iolock, checks, page cache, mapping.

    Return the mode in which the iolock is held, what completion has to do, and what to zero.
    """
    end = offset + length
    unaligned = 1 if offset % BLOCK != 0 or length % BLOCK != 0 else 0
    mode = yield from first_mode(offset, length, unaligned, inode)
    flags = 0
    zero = 0
    while True:
        yield from lock(inode, mode)
        if PAGES_FORCE_EXCLUSIVE and mode == SHARED and inode.pages.present > 0:  # they came while it waited
            yield from unlock(inode, SHARED)
            mode = EXCLUSIVE
            yield from lock(inode, EXCLUSIVE)
        mode = yield from check_write(offset, mode, inode)
        if TIME_TRANSACTION:
            yield from update_time(inode)
        if PAGES_FORCE_EXCLUSIVE and inode.pages.present > 0:
            yield from flush_range(inode, offset, max(inode.size, end), 0)
        if unaligned == 0 and mode == EXCLUSIVE:
            yield from demote(inode)
            mode = SHARED
        if unaligned != 0 and mode == EXCLUSIVE:
            yield inode.io_count.wait_zero()
        if not PAGES_FORCE_EXCLUSIVE and inode.pages.present > 0:
            yield from flush_range(inode, offset, end, 0)
        yield inode.io_count.inc()
        size_reserved = 0
        if SIZE_AT_SUBMISSION and end > inode.disk_size:
            yield from reserve(SIZE_RESERVATION, inode.mount)
            size_reserved = SIZE_RESERVED
        only_overwrite = 1 if unaligned != 0 and mode == SHARED else 0
        flags, zero, again = yield from map_for_write(offset, length, only_overwrite, inode)
        flags |= size_reserved
        if again == 0:
            break
        yield inode.io_count.dec()
        yield from unlock(inode, SHARED)
        mode = EXCLUSIVE
    return mode, flags, zero


# --- writes: after the device


@protocol
def raise_size(end: int, inode: Inode):
    """Test and set i_size, until 4.0 without any lock."""
    if LOOK_AT_SIZE_FIRST and end <= inode.size:
        return
    if FLAGS_LOCK:
        yield inode.flags_lock.acquire()
    if end > inode.size:
        inode.size = end
    if FLAGS_LOCK:
        yield inode.flags_lock.release()


@protocol
def raise_size_on_disk(end: int, flags: int, inode: Inode):
    """A transaction that logs the size; its log space may be there already."""
    if flags & SIZE_RESERVED == 0:
        yield from reserve(SIZE_RESERVATION, inode.mount)
    yield inode.ilock.acquire(EXCLUSIVE)
    yield cpu(path.xfs_set_size)
    inode.disk_size = max(inode.disk_size, min(inode.size, end))
    yield from commit(SIZE_RESERVATION, 0, inode)
    yield inode.ilock.release(EXCLUSIVE)


@protocol
def convert_and_raise_size(offset: int, length: int, inode: Inode):
    """Unwritten blocks become written, and the file as long as they say, in one transaction."""
    end = offset + length
    block = offset // BLOCK
    yield from reserve(LOG_RESERVATION * LOG_COUNT, inode.mount)
    yield inode.ilock.acquire(EXCLUSIVE)
    yield from convert_extents(block, (end - 1) // BLOCK + 1 - block, inode)
    if not SIZE_BEFORE_CONVERSION:
        inode.size = max(inode.size, end)
    inode.disk_size = max(inode.disk_size, min(inode.size, end))
    yield from commit(LOG_RESERVATION * LOG_COUNT, 1, inode)
    yield inode.ilock.release(EXCLUSIVE)


@protocol
def complete_write(offset: int, length: int, flags: int, inode: Inode):
    """What there is to do when the data is on the device; it may sleep."""
    end = offset + length
    mount = inode.mount
    if SIZE_BEFORE_CONVERSION:
        yield from raise_size(end, inode)
    if flags & CONVERT != 0:
        if flags & SIZE_RESERVED != 0:  # of no use: the conversion logs the size
            yield mount.log.give(SIZE_RESERVATION)
        yield from convert_and_raise_size(offset, length, inode)
        return
    if not SIZE_BEFORE_CONVERSION:
        yield from raise_size(end, inode)
    if end > inode.disk_size:
        yield from raise_size_on_disk(end, flags, inode)
    elif flags & SIZE_RESERVED != 0:
        yield mount.log.give(SIZE_RESERVATION)


@protocol
def direct_write(io: IO, inode: Inode):
    """A synchronous direct write: the iolock is held until it is complete."""
    yield cpu(path.write_entry)
    mode, flags, zero = yield from prepare_write(io.offset, io.length, inode)
    yield from write_and_wait(io.offset, io.length, zero, inode)
    yield from complete_write(io.offset, io.length, flags, inode)
    yield inode.io_count.dec()
    yield from unlock(inode, mode)
    yield cpu(path.write_exit)


@protocol
def submit_write(request: Request):
    """An asynchronous direct write: the iolock is held while it is submitted.

    Until 3.14 a write that extends the file is waited for under the iolock, from 5.12 on one that holds it exclusively;
    from 5.1 to 5.11 the latter is submitted, and then nothing may be in flight before the iolock is let go.
    """
    inode = request.inode
    ring = request.ring
    yield cpu(path.write_entry)
    mode, flags, zero = yield from prepare_write(request.offset, request.length, inode)
    request.flags = flags
    wait = 0
    if EXTENDING_IS_SYNCHRONOUS and flags & SET_SIZE != 0:
        wait = 1
    if SHARED_SUB_BLOCK and mode == EXCLUSIVE:
        wait = 1
    yield from submit_pieces(zero, wait, request)
    if wait != 0:
        yield request.bios.wait_zero()
        yield from complete_write(request.offset, request.length, flags, inode)
        yield inode.io_count.dec()
    elif DRAIN_AFTER and mode == EXCLUSIVE:
        yield inode.io_count.wait_zero()
    yield from unlock(inode, mode)
    yield cpu(path.write_exit)
    if wait != 0:
        yield ring.done.put(request)


# --- daemons of asynchronous I/O


@protocol
def handle_interrupts(mount: Mount):
    """End of a bio: when a request's last is done, complete it, or let a worker do it if that may sleep.

    By iomap, from 4.10 on, a worker completes every write.
    """
    while True:
        request = yield mount.interrupts.get()
        yield cpu(path.dio_interrupt)
        left = yield request.bios.dec()
        if left == 0:
            inode = request.inode
            ring = request.ring
            work = request.flags
            if IOMAP:
                work |= request.writes
            if work != 0:
                yield mount.completions.put(request)
            else:
                yield inode.io_count.dec()
                yield ring.done.put(request)


@protocol
def complete_in_worker(mount: Mount):
    """The work queue of direct I/O (xfs-conv, later dio): what completion does, then the user is told.

    It is bound to the CPU that submitted, on which one worker runs at a time; that another starts when it sleeps is
    left out, as most of what it sleeps for is the ilock of the same file.
    """
    while True:
        request = yield mount.completions.get()
        inode = request.inode
        ring = request.ring
        yield cpu(path.dio_worker)
        yield from complete_write(request.offset, request.length, request.flags, inode)
        yield inode.io_count.dec()
        yield ring.done.put(request)


SINCE_3_15 = {
    "LOOKUP_MODE": SHARED,
    "SIZE_AT_SUBMISSION": 0,
    "EXTENDING_IS_SYNCHRONOUS": 0,
    "UNWRITTEN_BEYOND_END": 1,
}
SINCE_4_1 = {**SINCE_3_15, "FLAGS_LOCK": 1, "DRAIN_BEFORE_ZEROING": 1, "TIME_TRANSACTION": 1}
SINCE_4_19 = {
    **SINCE_4_1,
    "I_MUTEX": 0,
    "IOMAP": 1,
    "PAGES_FORCE_EXCLUSIVE": 0,
    "ZERO_BY_IOMAP": 1,
    "SIZE_BEFORE_CONVERSION": 0,
    "DRAIN_BEFORE_RESIZE": 1,
}
SINCE_5_7 = {
    **SINCE_4_19,
    "ZERO_TAIL_AT_END": 1,
    "DRAIN_AFTER": 1,
    "DRAIN_BEFORE_FALLOCATE": 1,
    "CHECKPOINT_LIMIT": 32 * 2**20,
    "LOG_COUNT": 8,  # mkfs.xfs 5.1 and later makes volumes with reflink
}
SINCE_5_12 = {**SINCE_5_7, "DRAIN_AFTER": 0, "SHARED_SUB_BLOCK": 1, "LOOK_AT_SIZE_FIRST": 1}
SINCE_6 = {**SINCE_5_12, "COMMIT_IN_TURN": 0, "LOG_COUNT": 2}


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
        daemons={**LOG_DAEMONS, handle_interrupts: 0, complete_in_worker: 0},
        sizes=("size", "disk_size"),
        constants={"COMMIT_IN_TURN": 40, **constants},
    )


FILESYSTEMS = {
    filesystem.name: filesystem
    for filesystem in (
        _version(
            "xfs-3.3",
            "XFS of 3.3 and 3.4: no i_new_size; appends that do not begin at the end of the file are exclusive again",
            "behaviour of Linux 3.3 and 3.4, fs/xfs; ce7ae151ddad, 2813d682e8e6; size transactions as in 3.4",
            {},
        ),
        _version(
            "xfs-3.15",
            "XFS of 3.15 to 4.0: blocks beyond the end of the file are unwritten at first; appends may be asynchronous",
            "behaviour of Linux 3.15 to 4.0; 9862f62faba8, d531d91d6990, 507630b29f13, 437a255aa237",
            SINCE_3_15,
        ),
        _version(
            "xfs-4.1",
            "XFS of 4.1 to 4.7: i_size under i_flags_lock, and no zeroing of a gap while I/O is in flight",
            "behaviour of Linux 4.1 to 4.7; 40c63fbc55a9, b9d59846f737",
            SINCE_4_1,
        ),
        _version(
            "xfs-4.19",
            "XFS of 4.16 to 4.20: iomap, one inode lock, and i_size after the conversion",
            "behaviour of Linux 4.19; ee70daaba82d",
            SINCE_4_19,
        ),
        _version(
            "xfs-5.7",
            "XFS of 5.6 to 5.11: sub-block writes keep the lock to the end; checkpoints of the log of at most 32 MiB",
            "behaviour of Linux 5.7 and 5.10; b450672fb66b, 2032a8a27b5c, 249bd9087a52; a volume with reflink",
            SINCE_5_7,
        ),
        _version(
            "xfs-5.12",
            "XFS of 5.12 to 5.18: sub-block overwrites of written blocks share the lock",
            "behaviour of Linux 5.12 to 5.18; ed1128c2d0c8; a volume with reflink",
            SINCE_5_12,
        ),
        _version(
            "xfs-6.x",
            "XFS of 6.0 to 6.12: the same, and transactions that join a checkpoint on all CPUs at once",
            "behaviour of Linux 6.12",
            SINCE_6,
        ),
    )
}
