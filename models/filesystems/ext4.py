"""ext4 direct I/O, by kernel version.  Lock order: i_mutex, i_alloc_sem, i_data_sem."""

from fssim.filesystem import Filesystem
from fssim.protocol import IO, SHARED, Monotonic, Mutex, RWLock, Shared, cpu, device, path, protocol

SECTOR = 512
SECTORS_IN_BLOCK = 8


class Inode(Shared):
    """An ext4 inode.  `disk_offset`: where the file's only extent starts on the device."""

    i_mutex: Mutex
    i_alloc_sem: RWLock
    i_data_sem: RWLock
    size: Monotonic
    cached_pages: int
    disk_offset: int


@protocol
def submit(io: IO, inode: Inode):
    """Look up the extent under the extent tree's lock and build the I/O, sector by sector within the first block."""
    yield inode.i_data_sem.acquire(SHARED)
    yield cpu(path.ext4_submit)
    yield inode.i_data_sem.release(SHARED)
    yield cpu(path.ext4_submit_sector * min(io.length // SECTOR, SECTORS_IN_BLOCK))


@protocol
def direct_read_locked_submission(io: IO, inode: Inode):
    """3.0 without dioread_nolock: i_mutex during submission, i_alloc_sem shared until the I/O is complete."""
    yield cpu(path.read_entry)
    yield inode.i_mutex.acquire()
    yield inode.i_alloc_sem.acquire(SHARED)
    yield from submit(io, inode)
    yield inode.i_mutex.release()
    yield device.read(inode.disk_offset + io.offset, io.length)
    yield cpu(path.read_complete)
    yield inode.i_alloc_sem.release(SHARED)
    yield cpu(path.read_exit)


FILESYSTEMS = {
    "ext4-3.0": Filesystem(
        name="ext4-3.0",
        description="ext4 of 3.0: direct reads hold i_mutex while they are submitted, not while they are in flight",
        inode=Inode,
        read=direct_read_locked_submission,
        provenance="behaviour of Linux 2.6.39 to 3.0, fs/ext4 and fs/direct-io.c, without dioread_nolock",
    )
}
