"""What direct I/O has in common in all filesystems: cutting at sectors and blocks, the page cache beside it."""

from fssim.filesystem import BLOCK, File
from fssim.protocol import ABSENT, CLEAN, DIRTY, HOLE, IO, UNWRITTEN, WRITTEN, cpu, device, path, protocol

SECTOR = 512
EVERY_BLOCK = 2**40  # more than any file has

__all__ = [
    "BLOCK",
    "SECTOR",
    "convert_unwritten",
    "drop_pages_from",
    "fill_holes",
    "flush_range",
    "free_blocks_from",
    "is_unaligned",
    "last_block",
    "write_with_zeroes",
    "write_zeroed",
    "written_part",
    "zero_through_page_cache",
]


@protocol
def is_unaligned(io: IO):
    """Does the write begin or end inside a block?"""
    return 1 if io.offset % BLOCK != 0 or io.length % BLOCK != 0 else 0


@protocol
def last_block(io: IO):
    return (io.offset + io.length - 1) // BLOCK


@protocol
def write_zeroed(io: IO, inode: File, new: int):
    """Write the data of XFS of 2011.

    If the blocks are `new`, what the write leaves of the first and last is zeroed by bios of its own.
    """
    if new != 0:
        head = io.offset % BLOCK
        if head != 0:
            yield device.write(inode.disk_offset + io.offset - head, head)
    yield cpu(path.xfs_write_sector * (io.length // SECTOR))
    yield device.write(inode.disk_offset + io.offset, io.length)
    if new != 0:
        end = io.offset + io.length
        tail = -end % BLOCK
        if tail != 0:
            yield device.write(inode.disk_offset + end, tail)


@protocol
def flush_range(inode: File, offset: int, end: int, keep: int):
    """Write back what the page cache has of the bytes from `offset` to `end`, and drop it unless `keep`."""
    yield cpu(path.page_cache_flush)
    page = offset // BLOCK
    last = (end + BLOCK - 1) // BLOCK
    while page < last:
        state, run = yield inode.pages.lookup(page, last - page)
        if state == DIRTY:
            yield device.write(inode.disk_offset + page * BLOCK, run * BLOCK)
        if state != ABSENT:
            yield inode.pages.fill(page, run, CLEAN if keep != 0 else ABSENT)
        page += run


@protocol
def zero_through_page_cache(inode: File, offset: int, end: int):
    """Zero bytes of written blocks in the page cache: read pages that are not there, make them dirty."""
    page = offset // BLOCK
    last = (end + BLOCK - 1) // BLOCK
    while page < last:
        state, _ = yield inode.pages.lookup(page, 1)
        if state == ABSENT:
            yield device.read(inode.disk_offset + page * BLOCK, BLOCK)
        yield cpu(path.page_cache_zero)
        yield inode.pages.fill(page, 1, DIRTY)
        page += 1


@protocol
def write_with_zeroes(io: IO, inode: File, first_new: int, last_new: int):
    """Write the data, and zeroes over what it leaves of its first and last block, each if that block is new."""
    head = io.offset % BLOCK
    tail = -(io.offset + io.length) % BLOCK
    if first_new != 0 and head != 0:
        yield device.write(inode.disk_offset + io.offset - head, head)
    yield device.write(inode.disk_offset + io.offset, io.length)
    if last_new != 0 and tail != 0:
        yield device.write(inode.disk_offset + io.offset + io.length, tail)


@protocol
def drop_pages_from(first: int, inode: File):
    """Throw away what the page cache has from a page on, as a truncation does."""
    page = first
    last = first + EVERY_BLOCK
    while page < last:
        state, run = yield inode.pages.lookup(page, last - page)
        if state != ABSENT:
            yield inode.pages.fill(page, run, ABSENT)
        page += run


@protocol
def free_blocks_from(first: int, inode: File):
    """Make a hole of all blocks from one on."""
    block = first
    last = first + EVERY_BLOCK
    while block < last:
        state, run = yield inode.extents.lookup(block, last - block)
        if state != HOLE:
            yield inode.extents.fill(block, run, HOLE)
        block += run


@protocol
def fill_holes(first: int, count: int, state: int, inode: File):
    """Give the holes among these blocks a state; somebody else may have filled some since they were looked up."""
    block = first
    while block < first + count:
        found, run = yield inode.extents.lookup(block, first + count - block)
        if found == HOLE:
            yield inode.extents.fill(block, run, state)
        block += run


@protocol
def convert_unwritten(first: int, count: int, inode: File):
    """Make the unwritten blocks among these written ones."""
    block = first
    while block < first + count:
        found, run = yield inode.extents.lookup(block, first + count - block)
        if found == UNWRITTEN:
            yield inode.extents.fill(block, run, WRITTEN)
        block += run


@protocol
def written_part(io: IO, inode: File):
    """Return from where to where a read has to ask the device: holes, unwritten blocks, and what is beyond the end are
    zeroes.
    """
    begin = 0
    end = 0
    position = io.offset
    last = min(io.offset + io.length, inode.size)
    while position < last:
        block = position // BLOCK
        state, run = yield inode.extents.lookup(block, (last + BLOCK - 1) // BLOCK - block)
        after = min((block + run) * BLOCK, last)
        if state == WRITTEN:
            if begin == end:
                begin = position
            end = after
        position = after
    return begin, end
