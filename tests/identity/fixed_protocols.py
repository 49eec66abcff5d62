"""Protocols of the fixed scenarios.  Line numbers are part of the fingerprints: append, and regenerate after edits."""

from __future__ import annotations

from fssim.protocol import (
    EXCLUSIVE,
    IO,
    SHARED,
    Counter,
    Monotonic,
    Mutex,
    RWLock,
    Shared,
    SpinLock,
    begin_io,
    choose,
    complete_io,
    cpu,
    device,
    exponential,
    protocol,
    sleep,
)

BLOCK = 4096
THINK_NS = 700


class Inode(Shared):
    iolock: RWLock
    ilock: RWLock
    dio: Counter
    flags: SpinLock
    size: Monotonic
    pages: int


class Mount(Shared):
    journal: Mutex
    inodes: list[Inode]
    transactions: int


@protocol
def map_blocks(io: IO, inode: Inode):
    yield inode.ilock.acquire(SHARED)
    yield cpu(300)
    yield inode.ilock.release(SHARED)
    return io.offset + 65536, io.length


@protocol
def direct_read(io: IO, inode: Inode):
    yield inode.iolock.acquire(SHARED)
    yield cpu(500)
    start, length = yield from map_blocks(io, inode)
    yield device.read(start, length)
    yield cpu(200)
    yield inode.iolock.release(SHARED)


@protocol
def append(io: IO, mount: Mount, inode: Inode):
    yield inode.iolock.acquire(EXCLUSIVE)
    io.offset = inode.size
    yield cpu(900)
    yield inode.dio.inc()
    yield inode.iolock.demote()
    yield from map_blocks(io, inode)
    yield device.write(io.offset, io.length)
    yield inode.iolock.release(SHARED)
    yield inode.flags.acquire()
    if io.offset + io.length > inode.size:
        inode.size = io.offset + io.length
    yield cpu(50)
    yield inode.flags.release()
    left = yield inode.dio.dec()
    if left == 0:
        yield mount.journal.acquire()
        mount.transactions += 1
        yield cpu(400)
        yield mount.journal.release()


@protocol
def truncate(mount: Mount, inode: Inode):
    yield inode.iolock.acquire(EXCLUSIVE)
    yield inode.dio.wait_zero()
    yield mount.journal.acquire()
    yield sleep(2_000)
    mount.transactions += 1
    inode.pages = 0
    yield mount.journal.release()
    yield inode.iolock.release(EXCLUSIVE)


@protocol
def readers(mount: Mount, inode: Inode):
    io = IO(length=BLOCK)
    while True:
        yield begin_io()
        block = yield choose(1000)
        io.offset = block * BLOCK
        yield from direct_read(io, inode)
        yield complete_io()


@protocol
def appenders(mount: Mount, inode: Inode):
    io = IO(length=BLOCK)
    while True:
        yield begin_io()
        yield from append(io, mount, inode)
        yield complete_io()


@protocol
def mixture(mount: Mount, inode: Inode):
    io = IO()
    while True:
        yield begin_io()
        io.length = BLOCK
        what = yield choose(10)
        if what == 0:
            yield from truncate(mount, inode)
        elif what < 5:
            yield from append(io, mount, inode)
        else:
            io.offset = what * 3 * BLOCK
            yield from direct_read(io, inode)
        yield complete_io()
        think = yield exponential(THINK_NS)
        yield sleep(think)


@protocol
def cached(mount: Mount, inode: Inode):
    while True:
        yield begin_io()
        yield inode.flags.acquire()
        inode.pages += 1
        yield cpu(30)
        yield inode.flags.release()
        got = yield inode.iolock.try_acquire(SHARED)
        if got:
            yield cpu(400)
            yield inode.iolock.release(SHARED)
        else:
            yield mount.journal.acquire()
            yield cpu(250)
            yield mount.journal.release()
        turns = yield choose(3)
        for turn in range(turns):
            if turn == 1 and inode.pages % 5 == 0:
                break
            yield inode.ilock.acquire(EXCLUSIVE)
            yield cpu(150 * (turn + 1))
            yield inode.ilock.release(EXCLUSIVE)
        if turns == 2:
            yield inode.iolock.acquire(EXCLUSIVE)
            yield cpu(100)
            yield inode.iolock.release(EXCLUSIVE)
        yield complete_io()
