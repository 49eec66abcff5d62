"""Protocols of the fixed scenarios with asynchronous I/O, polled and sub-block writes.

Line numbers are part of the fingerprints: append, and regenerate after edits.
"""

from __future__ import annotations

from fssim.protocol import (
    EXCLUSIVE,
    HOLE,
    SHARED,
    UNWRITTEN,
    WRITTEN,
    BlockMap,
    Counter,
    Mutex,
    Queue,
    RWLock,
    Shared,
    Space,
    begin_io,
    choose,
    complete_io,
    cpu,
    device,
    end_submission,
    now,
    protocol,
    sleep,
)

BLOCK = 4096
BLOCKS = 2_000
RESERVATION = 3
SUBMIT_NS = 600
INTERRUPT_NS = 250
CONVERT_NS = 900


class Inode(Shared):
    ilock: RWLock
    i_mutex: Mutex
    extents: BlockMap
    dio: Counter
    disk_offset: int
    size: int


class Request(Shared):
    ring: Ring
    inode: Inode
    begun: int
    block: int
    count: int
    converts: int
    bios: Counter


class Ring(Shared):
    done: Queue[Request]


class Mount(Shared):
    log: Space
    interrupts: Queue[Request]
    conversions: Queue[Request]
    latest: Inode
    commits: int


@protocol
def allocate(mount: Mount, inode: Inode, block: int, count: int):
    """Fill a hole in a transaction; somebody else may have done it since."""
    yield mount.log.take(RESERVATION)
    yield inode.ilock.acquire(EXCLUSIVE)
    state, run = yield inode.extents.lookup(block, count)
    if state == HOLE:
        yield inode.extents.fill(block, run, UNWRITTEN)
    yield cpu(CONVERT_NS)
    yield inode.ilock.release(EXCLUSIVE)
    yield mount.log.give(RESERVATION)


@protocol
def submit(mount: Mount, inode: Inode, request: Request):
    """Map up to four blocks, and write them in two pieces."""
    block = yield choose(BLOCKS - 4)
    yield cpu(SUBMIT_NS)
    yield inode.ilock.acquire(SHARED)
    state, run = yield inode.extents.lookup(block, 4)
    yield inode.ilock.release(SHARED)
    if state == HOLE:
        yield from allocate(mount, inode, block, run)
    request.block = block
    request.count = run
    request.converts = 1 if state != WRITTEN else 0
    start = inode.disk_offset + block * BLOCK
    half = run * BLOCK // 2
    yield request.bios.inc()
    yield request.bios.inc()
    yield device.submit_write(start, half, mount.interrupts, request)
    yield device.submit_write(start + half, half, to=mount.interrupts, tag=request)


@protocol
def submitter(mount: Mount, ring: Ring, inode: Inode):
    """Keeps all requests of the ring in flight; every fifth is a read, which completes without a daemon."""
    mount.latest = inode
    while True:
        request = yield ring.done.get()
        if request.begun >= 0:
            yield complete_io(request.begun)
        request.begun = now()
        request.inode = inode
        yield begin_io()
        kind = yield choose(5)
        if kind == 0:
            yield device.submit_read(request.inode.disk_offset + request.block * BLOCK, BLOCK, ring.done, request)
        else:
            yield from submit(mount, inode, request)
        yield end_submission()


@protocol
def interrupt(mount: Mount):
    """The last piece of a request completes it, or hands it on to those who convert extents."""
    while True:
        request = yield mount.interrupts.get()
        yield cpu(INTERRUPT_NS)
        left = yield request.bios.dec()
        if left == 0:
            if request.converts != 0 or mount.conversions.length > 100:
                yield mount.conversions.put(request)
            else:
                yield request.ring.done.put(request)


@protocol
def convert(mount: Mount):
    """A worker: unwritten blocks become written ones in a transaction."""
    while True:
        request = yield mount.conversions.get()
        inode = request.inode
        yield mount.log.take(RESERVATION)
        yield inode.ilock.acquire(EXCLUSIVE)
        yield cpu(CONVERT_NS + inode.extents.runs)
        yield inode.extents.fill(request.block, request.count, WRITTEN)
        inode.size = max(inode.size, (request.block + request.count) * BLOCK)
        yield inode.ilock.release(EXCLUSIVE)
        mount.commits += 1
        mount.latest = inode
        yield mount.log.give(RESERVATION)
        yield request.ring.done.put(request)


@protocol
def writes(mount: Mount, inode: Inode):
    """Synchronous writes of whole blocks, some of several segments; two threads share an inode."""
    while True:
        yield begin_io()
        block = yield choose(BLOCKS - 8)
        count = yield choose(8)
        yield inode.ilock.acquire(SHARED)
        state, run = yield inode.extents.lookup(block, count + 1)
        yield inode.ilock.release(SHARED)
        if state == HOLE:
            yield from allocate(mount, inode, block, run)
        yield inode.dio.inc()
        yield device.write(inode.disk_offset + block * BLOCK, run * BLOCK)
        left = yield inode.dio.dec()
        if left == 0:
            yield cpu(100)
        if state != WRITTEN:
            yield mount.log.take(1)
            yield inode.ilock.acquire(EXCLUSIVE)
            yield inode.extents.fill(block, run, WRITTEN)
            yield cpu(CONVERT_NS)
            yield inode.ilock.release(EXCLUSIVE)
            yield mount.log.give(1)
        yield complete_io()


@protocol
def sub_block_writes(mount: Mount, inode: Inode):
    """Writes of sectors: alone in the file while the block is new, its rest zeroed beside the data."""
    while True:
        yield begin_io()
        sector = yield choose(BLOCKS * 8 - 8)
        count = yield choose(7)
        start = sector * 512
        length = (count + 1) * 512
        block = start // BLOCK
        yield inode.i_mutex.acquire()
        state, run = yield inode.extents.lookup(block, (start + length - 1) // BLOCK - block + 1)
        if state == WRITTEN:
            yield inode.dio.inc()
            yield inode.i_mutex.release()
            yield device.write(inode.disk_offset + start, length)
            yield inode.dio.dec()
        else:
            yield inode.dio.wait_zero()
            yield inode.extents.fill(block, run, WRITTEN)
            if start % BLOCK != 0:
                yield device.write(inode.disk_offset + block * BLOCK, start % BLOCK)
            yield inode.dio.inc()
            yield device.submit_write(inode.disk_offset + start, length, inode.dio)
            yield inode.dio.wait_zero()
            yield sleep(block % 3 * 100)
            yield inode.i_mutex.release()
        yield complete_io()
