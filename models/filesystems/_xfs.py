"""What the versions of XFS share: locks, extent map, transactions and their log, completion of direct I/O.

Described in our own words from the behaviour of the named kernels; see `docs/filesystems.md` for the step lists.
Lock order: i_mutex, iolock, log reservation, ilock, allocation group.
"""

from typing import Any

from fssim.filesystem import BLOCK, File, Geometry, Volume
from fssim.protocol import (
    EXCLUSIVE,
    HOLE,
    IO,
    SHARED,
    UNWRITTEN,
    WRITTEN,
    Counter,
    Monotonic,
    Mutex,
    Queue,
    RWLock,
    Shared,
    Space,
    SpinLock,
    cpu,
    device,
    path,
    protocol,
)

I_MUTEX = 1  # until 4.8 the exclusive iolock comes with the VFS's i_mutex; later it is the VFS's own lock
LOOKUP_MODE = EXCLUSIVE  # of the ilock while a write maps its blocks: exclusive until 3.4, and 4.8 to 4.15

EXTENTS_PER_LEAF = 250  # records in a block of the extent tree: a file with more has another level to walk
"""A 4 KiB block holds some 250 records of 16 bytes (xfs_bmbt)."""

LOG_RESERVATION = 262_144  # bytes in the worst case of a write-type transaction, log count 1
LOG_USED = 512  # bytes that a transaction leaves in the log: most items are in it already and are logged again
PUSH_FRACTION = 4  # the tail is pushed when more than capacity / this is dirty
PUSH_CHUNK = 65_536  # bytes of log that are written back at a time


class AllocationGroup(Shared):
    """Its header buffer is held from the choice of the group to the commit."""

    header: Mutex


class Mount(Volume):
    """An XFS mount.

    `log`: bytes of the log that nobody has reserved or dirtied; `dirty`: those whose metadata has yet to be written
    back; `log_pusher`: kicks of the daemon that does it.
    """

    log: Space
    log_bytes: int
    group_bytes: int
    log_lock: SpinLock
    dirty: int
    pushing: int
    log_pusher: Queue[int]
    groups: list[AllocationGroup]


class Inode(File):
    """An XFS inode.

    `size`: ip->i_size until 3.2, i_size later.  `vfs_size`: i_size until 3.2.  `new_size`: i_new_size: where an append
    in flight will end.  `disk_size`: di_size.  `io_count`: writes in flight (i_iocount, later i_dio_count).
    """

    i_mutex: Mutex
    iolock: RWLock
    ilock: RWLock
    io_count: Counter
    vfs_size: Monotonic
    new_size: int
    disk_size: int
    mount: Mount
    group: AllocationGroup


def mount(geometry: Geometry) -> Mount:
    """Make a volume as mkfs.xfs does: four allocation groups on one disk of less than 4 TB, a log that grows with it."""
    log_bytes = geometry.log_bytes or min(max(geometry.size_bytes // 2048, 10 * 2**20), 2**31)
    groups = max(4, -(-geometry.size_bytes // 2**40))
    return Mount(
        log=Space(log_bytes),
        log_bytes=log_bytes,
        group_bytes=-(-geometry.size_bytes // groups),
        groups=[AllocationGroup() for _ in range(groups)],
    )


def place(volume: Mount, disk_offset: int) -> dict[str, Any]:
    """A file's blocks come from the allocation group in which they lie."""
    return {"mount": volume, "group": volume.groups[disk_offset // volume.group_bytes % len(volume.groups)]}


# --- locks


@protocol
def lock(inode: Inode, mode: int):
    """The iolock; exclusive, i_mutex comes with it, and first."""
    if I_MUTEX:
        if mode == EXCLUSIVE:
            yield inode.i_mutex.acquire()
    yield inode.iolock.acquire(mode)


@protocol
def unlock(inode: Inode, mode: int):
    yield inode.iolock.release(mode)
    if I_MUTEX:
        if mode == EXCLUSIVE:
            yield inode.i_mutex.release()


@protocol
def demote(inode: Inode):
    """Downgrade the iolock first, let go of i_mutex afterwards."""
    yield inode.iolock.demote()
    if I_MUTEX:
        yield inode.i_mutex.release()


# --- the extent map


@protocol
def walk_extents(inode: Inode):
    """Find a block's extent: a file of many extents has more levels of its tree to walk."""
    yield cpu(path.xfs_map_blocks)
    extents = inode.extents.runs
    while extents > EXTENTS_PER_LEAF:
        yield cpu(path.xfs_extent_level)
        extents //= EXTENTS_PER_LEAF


@protocol
def map_for_read(io: IO, inode: Inode):
    """Look up the extent that holds the range; return its state."""
    yield inode.ilock.acquire(SHARED)
    state, run = yield inode.extents.lookup(io.offset // BLOCK, 1)
    yield from walk_extents(inode)
    yield inode.ilock.release(SHARED)
    return state


# --- transactions


@protocol
def reserve(mount: Mount):
    """Reserve log space in the worst case's amount, before any lock that its provider may need."""
    yield mount.log.take(LOG_RESERVATION)
    yield cpu(path.xfs_reserve)


@protocol
def commit(mount: Mount):
    """What the transaction has used stays until its metadata is written back; the rest is free again."""
    yield cpu(path.xfs_commit)
    yield mount.log_lock.acquire()
    mount.dirty += LOG_USED
    kick = 0
    if mount.dirty > mount.log_bytes // PUSH_FRACTION and mount.pushing == 0:
        mount.pushing = 1
        kick = 1
    yield mount.log_lock.release()
    yield mount.log.give(LOG_RESERVATION - LOG_USED)
    if kick != 0:
        yield mount.log_pusher.put(1)


@protocol
def push_log(mount: Mount):
    """xfsaild: write metadata back until the tail of the log has moved far enough."""
    while True:
        kick = yield mount.log_pusher.get()
        while mount.dirty > mount.log_bytes // PUSH_FRACTION // 2:
            yield device.write(0, PUSH_CHUNK)
            yield mount.log_lock.acquire()
            freed = min(mount.dirty, PUSH_CHUNK)
            mount.dirty -= freed
            if mount.dirty <= mount.log_bytes // PUSH_FRACTION // 2:
                mount.pushing = 0
            yield mount.log_lock.release()
            yield mount.log.give(freed)


# --- blocks of a write


@protocol
def allocate(block: int, count: int, state: int, inode: Inode):
    """Fill a hole with blocks of this state in a transaction; the ilock is not held on entry nor afterwards."""
    yield from reserve(inode.mount)
    yield inode.ilock.acquire(EXCLUSIVE)
    yield inode.group.header.acquire()
    yield cpu(path.xfs_allocate)
    at = block
    while at < block + count:
        found, run = yield inode.extents.lookup(at, block + count - at)
        if found == HOLE:  # somebody else may have filled it since
            yield inode.extents.fill(at, run, state)
        at += run
    yield from commit(inode.mount)
    yield inode.group.header.release()
    yield inode.ilock.release(EXCLUSIVE)


@protocol
def convert_extents(block: int, count: int, inode: Inode):
    """Unwritten blocks become written ones, in place, under the exclusive ilock that the caller holds."""
    yield cpu(path.xfs_convert)
    yield from walk_extents(inode)
    at = block
    while at < block + count:
        found, run = yield inode.extents.lookup(at, block + count - at)
        if found == UNWRITTEN:
            yield inode.extents.fill(at, run, WRITTEN)
        at += run


@protocol
def convert(block: int, count: int, inode: Inode):
    """The transaction that makes unwritten blocks written ones when their data is there."""
    yield from reserve(inode.mount)
    yield inode.ilock.acquire(EXCLUSIVE)
    yield from convert_extents(block, count, inode)
    yield from commit(inode.mount)
    yield inode.ilock.release(EXCLUSIVE)
