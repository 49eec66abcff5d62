"""What the versions of btrfs share: range locks, ordered extents and their completion, page cache with read-ahead.

A write of data goes to new blocks (copy on write): space is reserved, the data get a checksum, and when they are on the
device an *ordered extent* is completed by a worker, in a transaction that drops what the file had there and inserts the
new extent and its checksums.  All files of a volume are in one tree, so these transactions meet in its upper levels.
Lock order: i_mutex or i_rwsem, range of the file, tree.
Described in our own words from the behaviour of Linux 2.6.29 to 6.15, fs/btrfs.
"""

from __future__ import annotations

from typing import Any

from fssim import filesystem
from fssim.filesystem import BLOCK, File, Volume
from fssim.protocol import (
    ABSENT,
    CLEAN,
    DIRTY,
    HOLE,
    IO,
    WRITTEN,
    BlockMap,
    Counter,
    Mutex,
    Queue,
    Shared,
    SpinLock,
    cpu,
    device,
    now,
    path,
    protocol,
    sleep,
)

from ._direct_io import (
    SECTOR,
    drop_pages_from,
    fill_holes,
    flush_range,
    free_blocks_from,
    last_block,
    written_part,
)

PLACED_IN_TURN = 0  # new data go one behind the other on the device, whatever their file (2009; else: as the file's)
NODATACOW = 0  # blocks that exist are overwritten in place, and there are no checksums

FREE, LOCKED = 0, 1
RANGE_BLOCKS = 4096  # range locks are kept for the block number modulo this: none in flight are 16 MiB apart
ORDERED_EXTENTS = 256  # that may be in flight on a volume
METADATA_BYTES = 4096  # a leaf for each extent that is replaced: at random places hardly two are in one leaf
METADATA_CHUNK = 65_536
INITIAL_AHEAD = 4  # pages of the first read-ahead of a file, or of one at a random place
HISTORY = 16  # pages before one that must be cached for read-ahead to go on growing
MOST_AHEAD = 128  # pages, 512 KiB; btrfs reads up to 4 MiB ahead, but in pieces that become usable one by one


class Request(filesystem.Request):
    """An asynchronous direct I/O on btrfs."""

    inode: Inode


class OrderedExtent(Shared):
    """Data on their way to the device, in whole blocks.

    `at`: where on the device.  `owner`: the one whose `pending` the writer waits for.
    """

    inode: Inode
    owner: OrderedExtent
    offset: int
    length: int
    at: int
    is_owner: int
    pending: Counter


class Mount(Volume):
    """A btrfs mount.

    `tree`: the running transaction and the upper levels of the trees, which all files of a volume share. `dirty`:
    bytes of metadata to be written, `metadata`: kicks of the daemon that writes them. `ordered`: ordered extents
    that are not in use. `next_place`: on the device, behind what was allocated last. `checksums`, `written`,
    `completions`: work queues: pages to be written, ordered extents and requests whose data are on the device.
    `interrupts`: pieces of asynchronous requests that the device has completed.
    """

    tree: Mutex
    dirty: int
    next_place: int
    metadata: Queue[int]
    ordered: Queue[OrderedExtent]
    checksums: Queue[OrderedExtent]
    written: Queue[OrderedExtent]
    interrupts: Queue[Request]
    completions: Queue[Request]


class Window(Shared):
    """Pages of a read-ahead, and its pieces in flight."""

    begin: int
    end: int
    in_flight: Counter


class Inode(File):
    """A btrfs inode.

    `io_tree`: lock of the tree of ranges; `ranges`: which blocks are locked; `range_waiters` threads wait for
    `range_freed`.  `in_order`: ordered extents in flight.  `windows`: the last two read-aheads, `newest` of them began
    later; `stray`: pages read ahead at random places.  `last_written`: the page that was written back last, and
    `programmed_at`: when the device can read it again.
    """

    io_tree: SpinLock
    ranges: BlockMap
    range_waiters: int
    range_freed: Queue[int]
    in_order: Counter
    disk_size: int
    windows: list[Window]
    newest: int
    ahead_pages: int
    last_written: int
    programmed_at: int
    stray: Counter
    mount: Mount


def place(volume: Mount, disk_offset: int) -> dict[str, Any]:
    return {"mount": volume, "ranges": BlockMap(RANGE_BLOCKS), "windows": [Window(), Window()]}


def fill_pool(volume: Mount, inode: type[Inode]) -> None:
    """Give a new volume its ordered extents.  Each refers to an inode of no file until it is used."""
    nobody = inode(**place(volume, 0))
    pool = []
    for _ in range(ORDERED_EXTENTS):
        ordered = object.__new__(OrderedExtent)
        ordered.__init__(inode=nobody, owner=ordered, is_owner=1)  # type: ignore[misc]  # it is its own owner
        pool.append(ordered)
    volume.ordered = Queue(pool)


# --- ranges of a file


@protocol
def lock_range(io: IO, inode: Inode):
    """Wait until nobody has locked any of the blocks, and lock them."""
    block = io.offset // BLOCK
    last = yield from last_block(io)
    at = block % RANGE_BLOCKS
    count = min(last + 1 - block, RANGE_BLOCKS - at)
    while True:
        yield inode.io_tree.acquire()
        yield cpu(path.btrfs_lock_range)
        state, run = yield inode.ranges.lookup(at, count)
        if state == FREE and run == count:
            break
        inode.range_waiters += 1
        yield inode.io_tree.release()
        yield inode.range_freed.get()
    yield inode.ranges.fill(at, count, LOCKED)
    yield inode.io_tree.release()


@protocol
def unlock_range(io: IO, inode: Inode):
    """Unlock; all who wait for a range of the file look again."""
    block = io.offset // BLOCK
    last = yield from last_block(io)
    at = block % RANGE_BLOCKS
    yield inode.io_tree.acquire()
    yield cpu(path.btrfs_lock_range)
    yield inode.ranges.fill(at, min(last + 1 - block, RANGE_BLOCKS - at), FREE)
    waiters = inode.range_waiters
    inode.range_waiters = 0
    yield inode.io_tree.release()
    for _ in range(waiters):
        yield inode.range_freed.put(1)


@protocol
def map_for_read(io: IO, inode: Inode):
    """Lock the range, until the data are there, and find what to ask the device for."""
    if inode.pages.present > 0:
        yield from flush_range(inode, io.offset, io.offset + io.length, 1)
    yield from lock_range(io, inode)
    yield cpu(path.btrfs_map_extent)
    begin, end = yield from written_part(io, inode)
    return begin, end


# --- ordered extents


@protocol
def reserve_extent(inode: Inode):
    """Under the range's lock: reserve space, choose where the data go in a transaction, and note the ordered extent."""
    yield cpu(path.btrfs_reserve)
    yield inode.mount.tree.acquire()
    yield cpu(path.btrfs_allocate)
    yield inode.mount.tree.release()
    yield inode.in_order.inc()


@protocol
def begin_ordered(io: IO, ordered: OrderedExtent, inode: Inode):
    """The same, for workers to complete; the caller waits for `ordered`."""
    yield from reserve_extent(inode)
    ordered.inode = inode
    ordered.offset = io.offset // BLOCK * BLOCK
    last = yield from last_block(io)
    ordered.length = (last + 1) * BLOCK - ordered.offset
    ordered.at = inode.disk_offset + ordered.offset
    if PLACED_IN_TURN:
        ordered.at = inode.mount.next_place
        inode.mount.next_place += ordered.length


@protocol
def add_checksums(length: int):
    """Of every byte; none with nodatacow."""
    if not NODATACOW:
        yield cpu(path.btrfs_csum_sector * (length // SECTOR))


@protocol
def change_tree(io: IO, inode: Inode):
    """The transaction that completes an ordered extent: the file's extent, its checksums, and the inode."""
    block = io.offset // BLOCK
    last = yield from last_block(io)
    yield inode.mount.tree.acquire()
    state, run = yield inode.extents.lookup(block, last + 1 - block)
    in_place = 0
    replaced = 0
    if NODATACOW:
        in_place = 1 if state != HOLE and block + run > last else 0
    if in_place != 0:
        yield cpu(path.btrfs_update_inode)
    else:
        if state != HOLE:
            yield cpu(path.btrfs_drop_extent)
            replaced = 1
        yield cpu(path.btrfs_insert_extent)
    yield inode.extents.fill(block, last + 1 - block, WRITTEN)
    if io.offset + io.length > inode.disk_size:
        inode.disk_size = min(max(inode.size, inode.disk_size), io.offset + io.length)
    kick = 0
    if replaced != 0:
        inode.mount.dirty += METADATA_BYTES
        if inode.mount.dirty >= METADATA_CHUNK:
            inode.mount.dirty -= METADATA_CHUNK
            kick = 1
    yield inode.mount.tree.release()
    if kick != 0:
        yield inode.mount.metadata.put(1)


@protocol
def finish_ordered(io: IO, inode: Inode):
    """A copy on write changes the file's extents under the range's lock; an overwrite in place needs none."""
    if not NODATACOW:
        yield from lock_range(io, inode)
    yield from change_tree(io, inode)
    if not NODATACOW:
        yield from unlock_range(io, inode)
    yield inode.in_order.dec()


# --- the page cache


@protocol
def read_pages(first: int, after: int, inode: Inode, window: Window):
    """Begin to read absent pages in one piece; they count as cached at once, `window` says that they are in flight."""
    window.begin = first
    window.end = after
    yield window.in_flight.inc()
    yield inode.pages.fill(first, after - first, CLEAN)
    yield cpu(path.page_cache_readahead)
    yield device.submit_read(inode.disk_offset + first * BLOCK, (after - first) * BLOCK, to=window.in_flight)


@protocol
def read_ahead(first: int, inode: Inode):
    """Begin to read the next window, larger than the last one; do not go beyond the file or into cached pages."""
    after = min(first + inode.ahead_pages, (inode.size + BLOCK - 1) // BLOCK)
    inode.ahead_pages = min((4 if inode.ahead_pages < MOST_AHEAD // 16 else 2) * inode.ahead_pages, MOST_AHEAD)
    if first < after:
        state, run = yield inode.pages.lookup(first, after - first)
        other = 1 - inode.newest
        if state == ABSENT and inode.windows[other].in_flight.value == 0:
            inode.newest = other
            yield from read_pages(first, first + run, inode, inode.windows[other])


@protocol
def read_at_random(page: int, inode: Inode):
    """A page that does not continue anything: some after it are read too, but not waited for.

    They count as cached at once, so that whoever comes to the next page sees that reads are sequential.
    """
    _, run = yield inode.pages.lookup(page, INITIAL_AHEAD)
    count = min(run, (inode.size + BLOCK - 1) // BLOCK - page)
    yield inode.pages.fill(page, count, CLEAN)
    yield device.read(inode.disk_offset + page * BLOCK, BLOCK)
    yield from add_checksums(BLOCK)
    if count > 1:
        yield inode.stray.inc()
        yield device.submit_read(inode.disk_offset + (page + 1) * BLOCK, (count - 1) * BLOCK, to=inode.stray)


@protocol
def read_page(page: int, inode: Inode):
    """Make a page cached: by read-ahead if what precedes it is; who reaches the newest window starts the next."""
    state, run = yield inode.pages.lookup(page, 1)
    if state == ABSENT:
        before = CLEAN
        if page != 0:
            before, run = yield inode.pages.lookup(page - 1, 1)
        if before != ABSENT:
            known, run = yield inode.pages.lookup(max(page - HISTORY, 0), HISTORY)
            if known == ABSENT or run < min(page, HISTORY) or inode.ahead_pages == 0:
                inode.ahead_pages = INITIAL_AHEAD
            yield from read_ahead(page, inode)
        state, run = yield inode.pages.lookup(page, 1)
        if state == ABSENT:
            yield from read_at_random(page, inode)
            return
    newest = inode.windows[inode.newest]
    if newest.begin <= page and page < newest.end:
        yield from read_ahead(newest.end, inode)
    for k in range(2):
        window = inode.windows[k]
        if window.begin <= page and page < window.end:
            yield window.in_flight.wait_zero()


@protocol
def buffered_read(io: IO, inode: Inode):
    """Copy from the page cache, page by page; a system call that finds its page costs much less than direct I/O."""
    end = min(io.offset + io.length, inode.size)
    position = io.offset
    while position < end:
        page = position // BLOCK
        yield from read_page(page, inode)
        yield cpu(path.page_cache_copy)
        position = (page + 1) * BLOCK


@protocol
def copy_to_pages(io: IO, inode: Inode):
    """Copy into the page cache; a page of which only a part is written, and that has data, is read before.

    If the device is still programming what was written last, the read waits for that: a property of flash that the
    device model does not have.
    """
    end = io.offset + io.length
    position = io.offset
    while position < end:
        page = position // BLOCK
        after = min((page + 1) * BLOCK, end)
        state, _ = yield inode.pages.lookup(page, 1)
        if state == ABSENT and after - position < BLOCK:
            exists, _ = yield inode.extents.lookup(page, 1)
            if exists == WRITTEN and page * BLOCK < inode.size:
                if page == inode.last_written and now() < inode.programmed_at:
                    yield sleep(inode.programmed_at - now())
                yield device.read(inode.disk_offset + page * BLOCK, BLOCK)
                yield from add_checksums(BLOCK)
        yield cpu(path.btrfs_copy_page)
        yield inode.pages.fill(page, 1, DIRTY)
        position = after
    if end > inode.size:
        inode.size = end


@protocol
def start_write_back(io: IO, ordered: OrderedExtent, inode: Inode):
    """Hand dirty pages to the checksum workers."""
    yield from lock_range(io, inode)
    yield from begin_ordered(io, ordered, inode)
    yield from unlock_range(io, inode)
    yield inode.pages.fill(ordered.offset // BLOCK, ordered.length // BLOCK, CLEAN)
    yield ordered.owner.pending.inc()
    if NODATACOW:
        yield device.submit_write(ordered.at, ordered.length, to=inode.mount.written, tag=ordered)
    else:
        yield inode.mount.checksums.put(ordered)


@protocol
def wait_for_write_back(io: IO, ordered: OrderedExtent, inode: Inode):
    """Wait until all that `ordered` owns is complete, and throw the pages away: a direct read asks the device."""
    yield ordered.pending.wait_zero()
    yield inode.mount.ordered.put(ordered)
    inode.last_written = (io.offset + io.length - 1) // BLOCK
    inode.programmed_at = now() + path.flash_program
    page = io.offset // BLOCK
    last = yield from last_block(io)
    while page <= last:
        state, run = yield inode.pages.lookup(page, last + 1 - page)
        if state == CLEAN:
            yield inode.pages.fill(page, run, ABSENT)
        page += run


# --- truncate and fallocate, under the inode's lock


@protocol
def change_size(size: int, inode: Inode):
    """No ordered extent in flight; free what is beyond the size, in a transaction."""
    yield inode.in_order.wait_zero()
    inode.size = size
    yield from drop_pages_from((size + BLOCK - 1) // BLOCK, inode)
    yield inode.mount.tree.acquire()
    yield cpu(path.btrfs_drop_extent)
    yield from free_blocks_from((size + BLOCK - 1) // BLOCK, inode)
    inode.disk_size = size
    yield inode.mount.tree.release()


@protocol
def preallocate(offset: int, length: int, state: int, inode: Inode):
    """Fill holes with blocks of this state, in a transaction; then publish the size."""
    yield inode.in_order.wait_zero()
    block = offset // BLOCK
    yield inode.mount.tree.acquire()
    yield cpu(path.btrfs_insert_extent)
    yield from fill_holes(block, (offset + length + BLOCK - 1) // BLOCK - block, state, inode)
    inode.size = max(inode.size, offset + length)
    inode.disk_size = max(inode.disk_size, offset + length)
    yield inode.mount.tree.release()


# --- daemons


@protocol
def write_metadata(mount: Mount):
    """Tree blocks are copied on write too: each is written once in every transaction that changes it."""
    while True:
        yield mount.metadata.get()
        yield device.write(0, METADATA_CHUNK)


@protocol
def checksum_pages(mount: Mount):
    """Workers: checksums, then the device."""
    while True:
        ordered = yield mount.checksums.get()
        yield from add_checksums(ordered.length)
        yield device.submit_write(ordered.at, ordered.length, to=mount.written, tag=ordered)


@protocol
def finish_writes(mount: Mount):
    """Workers: complete ordered extents, and wake who waits for them."""
    while True:
        ordered = yield mount.written.get()
        io = IO(offset=ordered.offset, length=ordered.length)
        yield from finish_ordered(io, ordered.inode)
        owner = ordered.owner
        if ordered.is_owner == 0:
            yield mount.ordered.put(ordered)
        yield owner.pending.dec()
