"""What direct I/O has in common in all filesystems: cutting at sectors and blocks, the page cache beside it."""

from fssim.filesystem import BLOCK
from fssim.protocol import ABSENT, CLEAN, DIRTY, IO, cpu, device, path, protocol
from fssim.filesystem import File

SECTOR = 512

__all__ = ["BLOCK", "SECTOR", "flush_range", "is_unaligned", "last_block", "write_zeroed", "zero_through_page_cache"]


@protocol
def is_unaligned(io: IO):
    """Does the write begin or end inside a block?"""
    return 1 if io.offset % BLOCK != 0 or io.length % BLOCK != 0 else 0


@protocol
def last_block(io: IO):
    return (io.offset + io.length - 1) // BLOCK


@protocol
def write_zeroed(io: IO, inode: File, new: int):
    """Write the data.  If the blocks are `new`, what the write leaves of the first and last is zeroed by bios of its own."""
    if new != 0:
        head = io.offset % BLOCK
        if head != 0:
            yield device.write(inode.disk_offset + io.offset - head, head)
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
        state, run = yield inode.pages.lookup(page, 1)
        if state == ABSENT:
            yield device.read(inode.disk_offset + page * BLOCK, BLOCK)
        yield cpu(path.page_cache_zero)
        yield inode.pages.fill(page, 1, DIRTY)
        page += 1
