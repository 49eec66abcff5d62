"""Little filesystems of which an explanation is known, and machines to run them on."""

from __future__ import annotations

from typing import Any

from fssim.explain.cell import Cell
from fssim.filesystem import File, Filesystem
from fssim.filesystem import Volume as VolumeBase
from fssim.machine.device import Device, SimpleDevice
from fssim.machine.host import Host
from fssim.profile import Machine
from fssim.protocol import EXCLUSIVE, IO, SHARED, Counter, Mutex, Protocol, Queue, RWLock, cpu, device, protocol, sleep
from fssim.protocol.language import thread_id

COMPUTES = 3_000
SLEEPS = 5_000
CHAIN_SLEEPS = 10_000
CHAIN_COMPUTES = 1_000
SERVES = 4_000
DEVICE_NS = 10_000


class Inode(File):
    """A file with locks for every purpose."""

    outer: Mutex
    inner: Mutex
    iolock: RWLock
    expected: int
    in_flight: Counter


@protocol
def one_lock(io: IO, inode: Inode):
    """Computes and sleeps under an exclusive lock."""
    yield inode.outer.acquire()
    yield cpu(COMPUTES)
    yield sleep(SLEEPS)
    yield inode.outer.release()


@protocol
def computes_only(io: IO, inode: Inode):
    yield inode.outer.acquire()
    yield cpu(COMPUTES)
    yield inode.outer.release()


@protocol
def chain(io: IO, inode: Inode):
    """Thread 0 sleeps under the inner lock, for which another waits that holds the outer one."""
    if thread_id() == 0:
        yield inode.inner.acquire()
        yield sleep(CHAIN_SLEEPS)
        yield inode.inner.release()
    else:
        yield inode.outer.acquire()
        yield inode.inner.acquire()
        yield cpu(CHAIN_COMPUTES)
        yield inode.inner.release()
        yield inode.outer.release()


@protocol
def penalty():
    """What a block out of order costs."""
    yield cpu(7_000)


@protocol
def order_matters(io: IO, inode: Inode):
    """Every fourth block comes late if there are others; a block that does not follow the one before costs more."""
    yield cpu(1_000)
    if io.offset // io.length % 4 == 0:
        yield sleep(30_000)
    yield inode.outer.acquire()
    expected = inode.expected
    inode.expected = io.offset + io.length
    if expected != io.offset:
        yield from penalty()
    yield device.read(io.offset, io.length)
    yield inode.outer.release()


@protocol
def tries(io: IO, inode: Inode):
    """Takes a lock exclusively and demotes it; of those that then try another one, most fail and go on without it."""
    yield inode.iolock.acquire(EXCLUSIVE)
    yield cpu(500)
    yield inode.iolock.demote()
    yield cpu(500)
    yield inode.iolock.release(SHARED)
    got = yield inode.inner.try_acquire()
    if got != 0:
        yield device.read(io.offset, io.length)
        yield inode.inner.release()


@protocol
def never_lets_go(io: IO, inode: Inode):
    yield inode.outer.acquire()
    yield inode.outer.acquire()


class Volume(VolumeBase):
    requests: Queue[int]
    answers: Counter


class ServedInode(File):
    volume: Volume


@protocol
def asks(io: IO, inode: ServedInode):
    """A daemon does the work."""
    yield inode.volume.answers.inc()
    yield inode.volume.requests.put(io.offset)
    yield inode.volume.answers.wait_zero()


@protocol
def server(volume: Volume):
    while True:
        offset = yield volume.requests.get()
        yield cpu(SERVES)
        yield device.write(offset, 4096)
        yield volume.answers.dec()


@protocol
def submits(io: IO, inode: Inode):
    yield inode.in_flight.inc()
    yield device.submit_read(io.offset, io.length, to=inode.in_flight)
    yield inode.in_flight.wait_zero()


def served() -> Filesystem:
    """A filesystem whose writes are done by a daemon."""
    return Filesystem(
        name="served",
        description="for tests",
        provenance="made up",
        inode=ServedInode,
        mount=lambda geometry: Volume(),
        place=lambda volume, offset: {"volume": volume},
        read=asks,
        write=asks,
        daemons={server: 1},
    )


def filesystem(read: Protocol, write: Protocol | None = None) -> Filesystem:
    return Filesystem(name="little", description="for tests", provenance="made up", inode=Inode, read=read, write=write)


def machine(device: Device = SimpleDevice(latency_ns=DEVICE_NS, queue_depth=64), **host: Any) -> Machine:
    """A machine on which nothing but what a test is about takes time."""
    path_ns = {"sysbench_request": 0, "sysbench_copy": 0, **host.pop("path_ns", {})}
    settings: dict[str, Any] = {"cpus": 8, "mutex": "fifo", **host}
    return Machine("little", "", "", Host(path_ns=path_ns, **settings), device, None, "")


def cell(
    read: Protocol | Filesystem, threads: int, on: Machine, *, pattern: str = "seqrd", ios: int = 64, seed: int = 1
) -> Cell:
    """Threads share the position in one file."""
    given = read if isinstance(read, Filesystem) else filesystem(read)
    return Cell(given, on, pattern, 4096, threads, 64 * 2**20, seed, ios)
