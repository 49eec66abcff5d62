"""jbd2, the journal of ext4: handles, the running transaction, its commit, and the space of the log.

A handle is part of the running transaction.  Whoever starts one waits while the transaction is *locked*: from the
moment a commit has begun until the handles that are open have been stopped.  A commit begins when the transaction has
grown to a quarter of the journal or is five seconds old; whoever stops a handle looks at that, and wakes the daemon.
Behaviour of fs/jbd2 from 3.0 on, in our own words.
"""

from fssim.protocol import Counter, Queue, Shared, Space, SpinLock, cpu, device, now, path, protocol

HANDLE_BYTES = 32 * 4096  # credits of a handle: blocks that it may change at most
HANDLE_USED = 64  # bytes that a handle which changes something adds: most of its blocks have been logged already
TRANSACTION_FRACTION = 4  # a transaction may grow to the journal over this
TRANSACTION_AGE = 5_000_000_000  # ns, the mount option commit=5
CHECKPOINT_FRACTION = 2  # metadata is written back when more than the journal over this waits for it
COMMIT_CHUNK = 65_536  # bytes of log or metadata that are written at a time


class Journal(Shared):
    """The journal of a mount.

    `state_lock`: short and global, taken at each start of a handle.  `updates`: handles that are open.
    `barrier`: 1 while the transaction is locked.  `used`: bytes of the running transaction; `expires`: when it is five
    seconds old.  `committed`: bytes in the log whose metadata has yet to be written back.  `commits`: kicks of the
    daemon.
    """

    state_lock: SpinLock
    updates: Counter
    barrier: Counter
    space: Space
    journal_bytes: int
    used: int
    expires: int
    committed: int
    kicked: int
    commits: Queue[int]


def make_journal(volume_bytes: int, log_bytes: int) -> Journal:
    """Make a journal as mkfs.ext4 does: 128 MiB for 16 GiB and more, a 128th of smaller volumes, at least 4 MiB."""
    size = log_bytes or min(max(volume_bytes // 128, 4 * 2**20), 128 * 2**20)
    return Journal(space=Space(size), journal_bytes=size, expires=TRANSACTION_AGE)


@protocol
def start_handle(journal: Journal):
    """Find room in the log for the credits, then join the running transaction; if it is locked, wait for the next."""
    yield cpu(path.jbd2_handle)
    yield journal.space.take(HANDLE_BYTES)
    while True:
        yield journal.state_lock.acquire()
        yield cpu(path.jbd2_state_lock)
        if journal.barrier.value == 0:
            break
        yield journal.state_lock.release()
        yield journal.barrier.wait_zero()
    yield journal.updates.inc()
    yield journal.state_lock.release()


@protocol
def stop_handle(journal: Journal, used: int):
    """Leave the transaction, give back what was not `used`; a transaction that is large or old is to be committed.

    Without the lock: credits and updates are atomic counters since 2.6.36.
    """
    kick = 0
    journal.used += used
    due = 1 if journal.used > journal.journal_bytes // TRANSACTION_FRACTION or now() >= journal.expires else 0
    if due != 0 and journal.kicked == 0:
        journal.kicked = 1
        kick = 1
    yield journal.updates.dec()
    yield journal.space.give(HANDLE_BYTES - used)
    if kick != 0:
        yield journal.commits.put(1)


@protocol
def write_in_chunks(journal: Journal, length: int):
    """Log blocks or metadata; where they lie does not matter here."""
    left = length
    while left > 0:
        chunk = min(left, COMMIT_CHUNK)
        yield device.write(0, chunk)
        left -= chunk


@protocol
def run_journal(journal: Journal):
    """jbd2's thread: lock the transaction, drain its handles, let the next one begin, write the log, write back."""
    while True:
        yield journal.commits.get()
        yield journal.state_lock.acquire()
        yield journal.barrier.inc()
        yield journal.state_lock.release()
        yield journal.updates.wait_zero()
        yield journal.state_lock.acquire()
        length = journal.used
        journal.used = 0
        journal.kicked = 0
        journal.expires = now() + TRANSACTION_AGE
        yield journal.barrier.dec()
        yield journal.state_lock.release()
        yield from write_in_chunks(journal, length)
        journal.committed += length
        if journal.committed > journal.journal_bytes // CHECKPOINT_FRACTION:
            yield from write_in_chunks(journal, journal.committed)
            yield journal.space.give(journal.committed)
            journal.committed = 0
