"""What the versions of XFS share: locks, extent map, transactions and their log, truncate and fallocate, daemons.

Described in our own words from the behaviour of the named kernels; see `docs/filesystems.md` for the step lists.
Lock order: i_mutex, iolock, log reservation, ilock, allocation group.  Nobody waits for log space with the ilock.
"""

from __future__ import annotations

from typing import Any

from fssim import filesystem
from fssim.errors import UserError
from fssim.filesystem import BLOCK, File, Geometry, Volume
from fssim.protocol import (
    EXCLUSIVE,
    HOLE,
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
    choose,
    cpu,
    device,
    path,
    protocol,
    sleep,
)

from ._direct_io import (
    SECTOR,
    convert_unwritten,
    drop_pages_from,
    fill_holes,
    flush_range,
    free_blocks_from,
    zero_through_page_cache,
)

I_MUTEX = 1  # until 4.8 the exclusive iolock comes with the VFS's i_mutex; later it is the VFS's own lock
ZERO_BY_IOMAP = 0  # before a new end of the file, only written blocks are zeroed, found under the shared ilock (4.8)
DRAIN_BEFORE_RESIZE = 0  # truncate waits for the I/O in flight before it zeroes anything, not after that (4.19)
DRAIN_BEFORE_FALLOCATE = 0  # and fallocate before it looks at the size of the file (5.5)

EXTENTS_PER_LEAF = 250  # records in a block of the extent tree: a file with more has another level to walk
"""A 4 KiB block holds some 250 records of 16 bytes (xfs_bmbt)."""

LOG_RESERVATION = 262_144
"""Bytes of the worst case of a write-type transaction: about 260 KiB without a log stripe unit (kernel-locking E1)."""

LOG_COUNT = 2
"""That many times are reserved for a transaction that is rolled; 8 with reflink and rmap until 5.18 (E1)."""

SIZE_RESERVATION = 8_192
"""Bytes of the worst case of a transaction that logs an inode's core alone: inode, headers, rounding (first guess)."""

INODE_LOGGED = 512
"""Bytes of an inode's log item: core, fork and headers (first guess)."""

LEAF_LOGGED = 3_072
"""Bytes that a leaf of the extent tree adds to a checkpoint, however often it is changed until that is written.

A record in its middle moves those behind it, half a block; later ones add to that in pieces of 128 bytes (first guess).
"""

CHECKPOINT_FRACTION = 8
"""A checkpoint is written when it holds more than the log's size over this (E4)."""

CHECKPOINT_LIMIT = 2**40
"""But at most so many bytes: 32 MiB since 5.6 (E4); before, no limit."""

TAIL_FRACTION = 4
"""The tail is moved when less than the log's size over this is free (behaviour of xlog_grant_push_ail)."""

LOG_WRITE = 262_144
"""Bytes of the log written at a time: 8 buffers of 32 KiB (mount option logbufs, logbsize)."""

METADATA_WRITES = 128
"""Metadata buffers in flight at a time while the tail is moved: nr_requests of a block device."""

METADATA_BLOCKS = 65_536
"""Blocks of the volume over which metadata is spread (first guess)."""

COMMIT_IN_TURN = 0
"""Percent of path.xfs_commit during which a transaction joins the checkpoint under the one spinlock; 0 since 6.0, when
every CPU collects its own part (E1).  How many percent before is a first guess."""

LOG_FLUSH_NS = 0
"""Time that the device takes to make a checkpoint durable, flush before and FUA after: nothing if its cache loses
nothing, milliseconds for a consumer's SSD (E1)."""

CHECKPOINTS = 80
"""Checkpoints in the log: at most CHECKPOINT_FRACTION of a small log, 64 of 32 MiB in the largest, and some more."""


class AllocationGroup(Shared):
    """Its header buffer is held from the choice of the group to the commit."""

    header: Mutex


class Checkpoint(Shared):
    """A part of the log.  `bytes`: its length; `live`: those whose metadata is only there: it has not been logged again
    by a later checkpoint, nor written back."""

    bytes: int
    live: int


class Mount(Volume):
    """An XFS mount.

    `log`: bytes that are neither reserved nor in use.  `log_lock` covers what follows.  `checkpoint`: number of the one
    that is being collected in memory, `logged`: its bytes.  `checkpoints`: ring of those in the log, `oldest` and
    `written` its first and number.  `metadata`: bytes that all inodes and extent trees in use would log.
    `log_pusher`, `tail_pusher`: kicks of the daemons, not repeated while `pushing` and `moving_tail`.
    `interrupts`: asynchronous I/O of which a piece is done.  `completions`: that whose completion may sleep.
    `size_updates`: inodes with a write whose user has been told already (2011).
    """

    log: Space
    log_bytes: int
    log_offset: int
    log_head: int
    group_bytes: int
    log_lock: SpinLock
    checkpoint: int
    logged: int
    checkpoints: list[Checkpoint]
    oldest: int
    written: int
    metadata: int
    pushing: int
    moving_tail: int
    log_pusher: Queue[int]
    tail_pusher: Queue[int]
    log_writes: Counter
    groups: list[AllocationGroup]
    interrupts: Queue[Request]
    completions: Queue[Request]
    size_updates: Queue[Inode]


class Inode(File):
    """An XFS inode.

    `size`: ip->i_size until 3.2, i_size later.  `vfs_size`: i_size until 3.2.  `new_size`: i_new_size: where an append
    in flight will end, until 3.2.  `disk_size`: di_size.  `io_count`: I/O in flight (i_iocount, writes only, until 3.0;
    i_dio_count later).  `flags_lock`: i_flags_lock.  `pieces`: bios in flight of a synchronous write that zeroes parts
    of its blocks, which is alone.  `tick`: of the last timestamp.  `checkpoint`, `logged`: what it has logged in which
    checkpoint; `metadata`: bytes that inode and extent tree would log.
    """

    i_mutex: Mutex
    iolock: RWLock
    ilock: RWLock
    flags_lock: SpinLock
    io_count: Counter
    pieces: Counter
    vfs_size: Monotonic
    new_size: int
    disk_size: int
    tick: int
    checkpoint: int
    logged: int
    metadata: int
    mount: Mount
    group: AllocationGroup


class Request(filesystem.Request):
    """An asynchronous I/O on an XFS inode."""

    inode: Inode


SMALLEST_LOG = 8 * 2**20


def mount(geometry: Geometry) -> Mount:
    """Make a volume: four allocation groups on a disk of less than 4 TB, a log of about a 2048th of it.

    mkfs.xfs rounds the log of some sizes up further; a log that was measured is given in the geometry.
    """
    log_bytes = geometry.log_bytes or min(max(geometry.size_bytes // 2048, 10 * 2**20), 2**31)
    if not SMALLEST_LOG <= log_bytes <= 2**31:
        raise UserError(f"a log of {log_bytes} bytes: XFS takes {SMALLEST_LOG} to {2**31}")
    groups = max(4, -(-geometry.size_bytes // 2**40))
    return Mount(
        log=Space(log_bytes),
        log_bytes=log_bytes,
        log_offset=geometry.size_bytes // 2 // BLOCK * BLOCK,
        group_bytes=-(-geometry.size_bytes // groups),
        checkpoint=1,
        checkpoints=[Checkpoint() for _ in range(CHECKPOINTS)],
        groups=[AllocationGroup() for _ in range(groups)],
    )


def place(volume: Mount, disk_offset: int) -> dict[str, Any]:
    """A file's blocks come from the allocation group in which they lie."""
    return {"mount": volume, "group": volume.groups[disk_offset // volume.group_bytes % len(volume.groups)]}


# --- locks


@protocol
def lock(inode: Inode, mode: int):
    """The iolock; exclusive, i_mutex comes with it, and first."""
    if I_MUTEX and mode == EXCLUSIVE:
        yield inode.i_mutex.acquire()
    yield inode.iolock.acquire(mode)


@protocol
def unlock(inode: Inode, mode: int):
    yield inode.iolock.release(mode)
    if I_MUTEX and mode == EXCLUSIVE:
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
def map_range_for_read(offset: int, length: int, inode: Inode):
    """Map a range, extent by extent; return where its first written byte is, and how many there are.

    What is not written, or lies beyond the end of the file, is zeroes, for which no device is asked.  What is written
    is read as one bio, even around a hole.
    """
    end = min(offset + length, inode.size)
    at = offset
    first = offset
    written = 0
    while at < end:
        block = at // BLOCK
        yield inode.ilock.acquire(SHARED)
        state, run = yield inode.extents.lookup(block, (end - 1) // BLOCK + 1 - block)
        yield from walk_extents(inode)
        yield inode.ilock.release(SHARED)
        behind = min((block + run) * BLOCK, end)
        if state == WRITTEN:
            if written == 0:
                first = at
            written += behind - at
        at = behind
    return first, written


# --- transactions


@protocol
def move_tail_if_short(wanted: int, mount: Mount):
    """Wake xfsaild when little of the log is free, unless it runs already."""
    if mount.log.free < max(mount.log_bytes // TAIL_FRACTION, wanted):
        yield mount.log_lock.acquire()
        kick = 1 if mount.moving_tail == 0 and mount.written > 0 else 0
        if kick != 0:
            mount.moving_tail = 1
        yield mount.log_lock.release()
        if kick != 0:
            yield mount.tail_pusher.put(1)


@protocol
def reserve(size: int, mount: Mount):
    """Reserve log space in the worst case's amount, before any lock that its provider may need."""
    yield from move_tail_if_short(size, mount)
    yield mount.log.take(size)
    yield cpu(path.xfs_reserve)


@protocol
def add_to_checkpoint(leaves_changed: int, inode: Inode):
    """Return by how many bytes a change of the inode, and of a leaf of its extent tree, makes the checkpoint longer.

    What is in it already is logged again at no cost.  Which leaf is changed is not known: it is one that the checkpoint
    has not yet with the probability of an even spread.
    """
    mount = inode.mount
    leaves = inode.extents.runs // EXTENTS_PER_LEAF  # few extents are in the inode itself
    metadata = INODE_LOGGED + leaves * LEAF_LOGGED
    mount.metadata += metadata - inode.metadata
    inode.metadata = metadata
    used = 0
    if inode.checkpoint != mount.checkpoint:
        inode.checkpoint = mount.checkpoint
        inode.logged = 0
        used = INODE_LOGGED
    if leaves_changed != 0:
        used += LEAF_LOGGED * max(metadata - inode.logged - used, 0) // metadata
    inode.logged += used
    mount.logged += used
    return used


@protocol
def commit(reserved: int, leaves_changed: int, inode: Inode):
    """What the transaction adds to the checkpoint stays in use until its metadata is written back; the rest is free."""
    mount = inode.mount
    in_turn = path.xfs_commit * COMMIT_IN_TURN // 100
    yield cpu(path.xfs_commit - in_turn)
    yield mount.log_lock.acquire()
    yield cpu(in_turn)
    used = yield from add_to_checkpoint(leaves_changed, inode)
    kick = 0
    if mount.pushing == 0 and mount.logged > min(mount.log_bytes // CHECKPOINT_FRACTION, CHECKPOINT_LIMIT):
        mount.pushing = 1
        kick = 1
    yield mount.log_lock.release()
    yield mount.log.give(reserved - used)
    if kick != 0:
        yield mount.log_pusher.put(1)


# --- the log


@protocol
def write_log(size: int, mount: Mount):
    """Write sequentially, then wait until it is durable."""
    left = size
    while left > 0:
        part = min(min(left, LOG_WRITE), mount.log_bytes - mount.log_head)
        yield device.write(mount.log_offset + mount.log_head, part)
        mount.log_head = (mount.log_head + part) % mount.log_bytes
        left -= part
    yield sleep(LOG_FLUSH_NS)


@protocol
def insert_checkpoint(size: int, mount: Mount):
    """Its items move to the head of the list of metadata to write back: older checkpoints have fewer left.

    That is why a larger log writes less metadata: more of it is logged again before the tail comes to it.
    """
    yield mount.log_lock.acquire()
    assert mount.written < CHECKPOINTS, "more checkpoints in the log than can be"
    share = size * 1024 // max(mount.metadata, size)  # of all metadata, in 1024ths
    for age in range(mount.written):
        older = mount.checkpoints[(mount.oldest + age) % CHECKPOINTS]
        older.live -= older.live * share // 1024
    newest = mount.checkpoints[(mount.oldest + mount.written) % CHECKPOINTS]
    newest.bytes = size
    newest.live = size
    mount.written += 1
    yield mount.log_lock.release()


@protocol
def push_log(mount: Mount):
    """xlog_cil_push_work: write checkpoints into the log, one after the other.

    Pushes by the timer, every 30 seconds, are left out.
    """
    while True:
        yield mount.log_pusher.get()
        yield mount.log_lock.acquire()
        size = mount.logged
        mount.logged = 0
        mount.checkpoint += 1
        mount.pushing = 0
        yield mount.log_lock.release()
        yield from write_log(size, mount)
        yield from insert_checkpoint(size, mount)
        yield from move_tail_if_short(LOG_RESERVATION * LOG_COUNT, mount)


@protocol
def write_metadata(buffers: int, mount: Mount):
    """Write so many buffers back, each where it belongs, as many at a time as the block layer takes."""
    left = buffers
    while left > 0:
        batch = min(left, METADATA_WRITES)
        for _number in range(batch):
            block = yield choose(METADATA_BLOCKS)
            yield mount.log_writes.inc()
            yield device.submit_write(block * BLOCK, BLOCK, to=mount.log_writes)
        yield mount.log_writes.wait_zero()
        left -= batch


@protocol
def move_tail(mount: Mount):
    """xfsaild: write the metadata of the oldest checkpoints back until enough of the log is free."""
    while True:
        yield mount.tail_pusher.get()
        while True:
            yield mount.log_lock.acquire()
            enough = max(mount.log_bytes // TAIL_FRACTION, LOG_RESERVATION * LOG_COUNT)
            if mount.written == 0 or mount.log.free >= enough:
                mount.moving_tail = 0
                break
            size = mount.checkpoints[mount.oldest].bytes
            live = mount.checkpoints[mount.oldest].live
            mount.oldest = (mount.oldest + 1) % CHECKPOINTS
            mount.written -= 1
            yield mount.log_lock.release()
            yield from write_metadata((live + LEAF_LOGGED - 1) // LEAF_LOGGED, mount)
            yield mount.log.give(size)
        yield mount.log_lock.release()


LOG_DAEMONS = {push_log: 1, move_tail: 1}
"""They run on every volume that is written to."""


# --- blocks of a write


@protocol
def change_records(before: int, inode: Inode):
    """Insert or remove records in the extent tree, which had as many as `before`: those behind them are moved.

    A block converted in the middle of an unwritten extent makes two more of it; one at a border of two extents only
    moves the border, which is part of path.xfs_convert, as is a record that is extended of path.xfs_allocate.
    """
    after = inode.extents.runs
    yield cpu(path.xfs_record * max(after - before, before - after))


@protocol
def allocate(block: int, count: int, state: int, inode: Inode):
    """Fill a hole with blocks of this state in a transaction; the ilock is not held on entry nor afterwards."""
    yield from reserve(LOG_RESERVATION * LOG_COUNT, inode.mount)
    yield inode.ilock.acquire(EXCLUSIVE)
    yield inode.group.header.acquire()
    yield cpu(path.xfs_allocate)
    before = inode.extents.runs
    yield from fill_holes(block, count, state, inode)
    yield from change_records(before, inode)
    yield from commit(LOG_RESERVATION * LOG_COUNT, 1, inode)
    yield inode.group.header.release()
    yield inode.ilock.release(EXCLUSIVE)


@protocol
def convert_extents(block: int, count: int, inode: Inode):
    """Unwritten blocks become written ones, in place, under the exclusive ilock that the caller holds."""
    yield cpu(path.xfs_convert)
    yield from walk_extents(inode)
    before = inode.extents.runs
    yield from convert_unwritten(block, count, inode)
    yield from change_records(before, inode)


@protocol
def convert(block: int, count: int, inode: Inode):
    """The transaction that makes unwritten blocks written ones when their data is there."""
    yield from reserve(LOG_RESERVATION * LOG_COUNT, inode.mount)
    yield inode.ilock.acquire(EXCLUSIVE)
    yield from convert_extents(block, count, inode)
    yield from commit(LOG_RESERVATION * LOG_COUNT, 1, inode)
    yield inode.ilock.release(EXCLUSIVE)


# --- pieces of a write: its data, and bios of their own for what it leaves of new blocks

ZERO_HEAD = 1  # zero the first block before the data
ZERO_TAIL = 2  # zero the last block behind it


@protocol
def zeroed_bytes(offset: int, length: int, zero: int):
    """Return how many bytes are zeroed before and behind the data."""
    head = 0
    tail = 0
    if zero & ZERO_HEAD != 0:
        head = offset % BLOCK
    if zero & ZERO_TAIL != 0:
        tail = -(offset + length) % BLOCK
    return head, tail


@protocol
def write_and_wait(offset: int, length: int, zero: int, inode: Inode):
    """Write data and zeroes, all in flight together, and sleep until they are done."""
    at = inode.disk_offset + offset
    head, tail = yield from zeroed_bytes(offset, length, zero)
    yield cpu(path.xfs_write_sector * (length // SECTOR))
    if head == 0 and tail == 0:
        yield device.write(at, length)
        return
    if head != 0:
        yield inode.pieces.inc()
        yield device.submit_write(at - head, head, to=inode.pieces)
    yield inode.pieces.inc()
    yield device.submit_write(at, length, to=inode.pieces)
    if tail != 0:
        yield inode.pieces.inc()
        yield device.submit_write(at + length, tail, to=inode.pieces)
    yield inode.pieces.wait_zero()


@protocol
def submit_piece(at: int, length: int, wait: int, request: Request):
    """A write of which the interrupt handler is told, or this thread, which is going to wait."""
    inode = request.inode
    mount = inode.mount
    if wait != 0:
        yield device.submit_write(at, length, to=request.bios)
    else:
        yield device.submit_write(at, length, to=mount.interrupts, tag=request)


@protocol
def submit_pieces(zero: int, wait: int, request: Request):
    """Submit data and zeroes.  All are counted before the first can be done."""
    inode = request.inode
    at = inode.disk_offset + request.offset
    head, tail = yield from zeroed_bytes(request.offset, request.length, zero)
    yield cpu(path.xfs_write_sector * (request.length // SECTOR))
    yield request.bios.inc()
    if head != 0:
        yield request.bios.inc()
    if tail != 0:
        yield request.bios.inc()
    if head != 0:
        yield from submit_piece(at - head, head, wait, request)
    yield from submit_piece(at, request.length, wait, request)
    if tail != 0:
        yield from submit_piece(at + request.length, tail, wait, request)


# --- the size of a file


@protocol
def zero_to(offset: int, inode: Inode):
    """Zero from the end of the file to where it is going to go on, through the page cache.

    The caller holds the iolock exclusively, and not the ilock.  The rest of the last block is zeroed unless it is a
    hole (by iomap: only if it is written), of the blocks behind it those that are written.
    """
    position = inode.size
    while position < offset:
        block = position // BLOCK
        count = 1 if position % BLOCK != 0 else (offset - 1) // BLOCK + 1 - block
        yield inode.ilock.acquire(SHARED if ZERO_BY_IOMAP else EXCLUSIVE)
        state, run = yield inode.extents.lookup(block, count)
        yield from walk_extents(inode)
        yield inode.ilock.release(SHARED if ZERO_BY_IOMAP else EXCLUSIVE)
        behind = min((block + run) * BLOCK, offset)
        written = 1 if state == WRITTEN else 0
        if not ZERO_BY_IOMAP and state == UNWRITTEN and position % BLOCK != 0:
            written = 1
        if written != 0:
            yield from zero_through_page_cache(inode, position, behind)
        position = behind


@protocol
def resize(size: int, inode: Inode):
    """Set the size of the file, under the exclusive iolock: zero, drain, then the transaction."""
    if DRAIN_BEFORE_RESIZE:
        yield inode.io_count.wait_zero()
    grows = 1 if size > inode.size else 0
    if grows != 0:
        yield from zero_to(size, inode)
    if not DRAIN_BEFORE_RESIZE:
        yield inode.io_count.wait_zero()
    behind = (size + BLOCK - 1) // BLOCK
    if grows == 0 and size % BLOCK != 0:
        state, _run = yield inode.extents.lookup(size // BLOCK, 1)
        if state == WRITTEN:
            yield from zero_through_page_cache(inode, size, behind * BLOCK)
    if inode.pages.present > 0:
        yield from flush_range(inode, min(size, inode.disk_size), max(size, inode.size), 1)
        yield from drop_pages_from(behind, inode)
    yield from reserve(LOG_RESERVATION * LOG_COUNT, inode.mount)
    yield inode.ilock.acquire(EXCLUSIVE)
    yield cpu(path.xfs_set_size)
    inode.size = size
    inode.vfs_size = size
    inode.disk_size = size
    if grows == 0:
        yield from free_blocks_from(behind, inode)
    yield from commit(LOG_RESERVATION * LOG_COUNT, 1 - grows, inode)
    yield inode.ilock.release(EXCLUSIVE)


@protocol
def truncate(size: int, inode: Inode):
    """ftruncate(2): i_mutex and the iolock, exclusive, for the whole of it."""
    yield cpu(path.write_entry)
    yield from lock(inode, EXCLUSIVE)
    yield from resize(size, inode)
    yield from unlock(inode, EXCLUSIVE)
    yield cpu(path.write_exit)


@protocol
def fallocate(offset: int, length: int, inode: Inode):
    """fallocate(2): fill the holes of a range with unwritten blocks; the file grows if it ends before.

    The iolock is taken exclusively, without i_mutex.  The size is looked at at the beginning: until 5.4 an append in
    flight may be complete before it is set (249bd9087a52).
    """
    yield cpu(path.write_entry)
    yield inode.iolock.acquire(EXCLUSIVE)
    if DRAIN_BEFORE_FALLOCATE:
        yield inode.io_count.wait_zero()
    end = offset + length
    grows = 1 if end > inode.size else 0
    block = offset // BLOCK
    behind = (end + BLOCK - 1) // BLOCK
    while block < behind:
        state, run = yield inode.extents.lookup(block, behind - block)
        if state == HOLE:
            yield from allocate(block, run, UNWRITTEN, inode)
        block += run
    if grows != 0:
        yield from resize(end, inode)
    yield inode.iolock.release(EXCLUSIVE)
    yield cpu(path.write_exit)
