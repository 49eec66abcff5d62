"""XFS direct I/O, by kernel version.

Described in our own words from the behaviour of the named kernels; see `docs/filesystems.md` for the step lists.
Lock order: i_mutex, iolock, ilock.
"""

from fssim.filesystem import Filesystem
from fssim.protocol import (
    EXCLUSIVE,
    IO,
    SHARED,
    Monotonic,
    Mutex,
    RWLock,
    Shared,
    cpu,
    device,
    path,
    protocol,
)

SECTOR = 512


class Inode(Shared):
    """An XFS inode.  `disk_offset`: where the file's only extent starts on the device."""

    i_mutex: Mutex
    iolock: RWLock
    ilock: RWLock
    size: Monotonic
    cached_pages: int
    disk_offset: int


@protocol
def lock_exclusive(inode: Inode):
    """Exclusive iolock in 2011: i_mutex comes with it, and first."""
    yield inode.i_mutex.acquire()
    yield inode.iolock.acquire(EXCLUSIVE)


@protocol
def demote_to_shared(inode: Inode):
    """Downgrade the iolock first, let go of i_mutex afterwards."""
    yield inode.iolock.demote()
    yield inode.i_mutex.release()


@protocol
def drop_cached_pages(io: IO, inode: Inode):
    """Write back and truncate the page cache from the read's first page to the end of the file."""
    yield cpu(path.drop_cached_pages)
    inode.cached_pages = 0


@protocol
def map_blocks(io: IO, inode: Inode):
    """Look up the extent that holds the range."""
    yield inode.ilock.acquire(SHARED)
    yield cpu(path.xfs_map_blocks)
    yield inode.ilock.release(SHARED)


@protocol
def read_and_wait(io: IO, inode: Inode):
    """Map, build the I/O sector by sector, submit it and sleep until it is done, under the lock the caller holds."""
    yield from map_blocks(io, inode)
    yield cpu(path.xfs_submit_sector * (io.length // SECTOR))
    yield device.read(inode.disk_offset + io.offset, io.length)
    yield cpu(path.read_complete)


@protocol
def direct_read_exclusive_first(io: IO, inode: Inode):
    """2.6.39 and 3.0: every direct read takes the iolock exclusively to look at the page cache, and demotes it.

    The exclusive lock is granted only when all reads in flight have finished: one read at a time on a file.
    """
    yield cpu(path.read_entry + path.xfs_read_entry)
    yield from lock_exclusive(inode)
    if inode.cached_pages > 0:
        yield from drop_cached_pages(io, inode)
    yield from demote_to_shared(inode)
    yield from read_and_wait(io, inode)
    yield inode.iolock.release(SHARED)
    yield cpu(path.read_exit)


@protocol
def direct_read_shared_first(io: IO, inode: Inode):
    """ "xfs: don't serialise direct IO reads on page cache checks" (Dave Chinner, July 2011; merged in 3.2).

    Takes the iolock shared; only if there are cached pages it lets go, takes it exclusively, looks again, and demotes.
    """
    yield cpu(path.read_entry + path.xfs_read_entry)
    yield inode.iolock.acquire(SHARED)
    if inode.cached_pages > 0:
        yield inode.iolock.release(SHARED)
        yield from lock_exclusive(inode)
        if inode.cached_pages > 0:
            yield from drop_cached_pages(io, inode)
        yield from demote_to_shared(inode)
    yield from read_and_wait(io, inode)
    yield inode.iolock.release(SHARED)
    yield cpu(path.read_exit)


FILESYSTEMS = {
    filesystem.name: filesystem
    for filesystem in (
        Filesystem(
            name="xfs-2.6.39",
            description="XFS of 2.6.39 and 3.0: direct reads take the iolock exclusively, then demote it",
            inode=Inode,
            read=direct_read_exclusive_first,
            provenance="behaviour of Linux 2.6.39 to 3.1, fs/xfs",
        ),
        Filesystem(
            name="xfs-2.6.39+shared-read-lock",
            description="the same with direct reads under the shared iolock",
            inode=Inode,
            read=direct_read_shared_first,
            provenance="'xfs: don't serialise direct IO reads on page cache checks', linux-fsdevel, 18 July 2011; "
            "merged as 0c38a2512df2 in Linux 3.2",
        ),
    )
}
