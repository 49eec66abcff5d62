"""A filesystem of the tests' own: one lock, unwritten blocks, asynchronous I/O with an interrupt and a worker."""

from __future__ import annotations

from fssim.filesystem import BLOCK, File, Filesystem, Geometry, Request, Volume
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.profile import Machine
from fssim.protocol import EXCLUSIVE, IO, SHARED, UNWRITTEN, WRITTEN, Queue, RWLock, cpu, device, path, protocol

PATHS = {"fio_request": 200, "create_request": 200, "submit": 300, "interrupt": 400, "convert": 5_000}
LATENCY_NS = 20_000


def machine(device: SimpleDevice | None = None, **host: int) -> Machine:
    """A machine with a device of many slots and a fixed latency, if none is given."""
    return Machine(
        "mine",
        "",
        "",
        Host(**{"cpus": 4, "interrupt_ns": 500, "wakeup_ns": 700, "path_ns": PATHS, **host}),
        device or SimpleDevice(latency_ns=LATENCY_NS, queue_depth=4096),
        None,
        "",
    )


class Inode(File):
    ilock: RWLock
    mount: Mount


class PlainRequest(Request):
    inode: Inode


class Mount(Volume):
    interrupts: Queue[PlainRequest]
    work: Queue[PlainRequest]


@protocol
def read(io: IO, inode: Inode):
    yield cpu(path.submit)
    yield device.read(inode.disk_offset + io.offset, io.length)


@protocol
def convert(offset: int, length: int, inode: Inode):
    state, _ = yield inode.extents.lookup(offset // BLOCK, 1)
    if state != WRITTEN:
        yield inode.ilock.acquire(EXCLUSIVE)
        yield cpu(path.convert)
        yield inode.extents.fill(offset // BLOCK, (length + BLOCK - 1) // BLOCK, WRITTEN)
        yield inode.ilock.release(EXCLUSIVE)


@protocol
def write(io: IO, inode: Inode):
    yield cpu(path.submit)
    yield device.write(inode.disk_offset + io.offset, io.length)
    yield from convert(io.offset, io.length, inode)
    inode.size = max(inode.size, io.offset + io.length)


@protocol
def submit_read(request: PlainRequest):
    yield cpu(path.submit)
    yield request.bios.inc()
    inode = request.inode
    yield device.submit_read(inode.disk_offset + request.offset, request.length, inode.mount.interrupts, request)


@protocol
def submit_write(request: PlainRequest):
    inode = request.inode
    yield cpu(path.submit)
    yield inode.ilock.acquire(SHARED)
    state, _ = yield inode.extents.lookup(request.offset // BLOCK, 1)
    if state != WRITTEN:
        request.flags = UNWRITTEN
    yield inode.ilock.release(SHARED)
    yield request.bios.inc()
    yield device.submit_write(inode.disk_offset + request.offset, request.length, inode.mount.interrupts, request)


@protocol
def interrupt(mount: Mount):
    while True:
        request = yield mount.interrupts.get()
        yield cpu(path.interrupt)
        left = yield request.bios.dec()
        if left == 0:
            if request.flags != 0:
                yield mount.work.put(request)
            else:
                yield request.ring.done.put(request)


@protocol
def worker(mount: Mount):
    while True:
        request = yield mount.work.get()
        yield from convert(request.offset, request.length, request.inode)
        yield request.ring.done.put(request)


def mount(geometry: Geometry) -> Mount:
    return Mount()


PLAIN = Filesystem(
    name="plain",
    description="one lock",
    provenance="made up",
    inode=Inode,
    mount=mount,
    place=lambda volume, disk_offset: {"mount": volume},
    read=read,
    write=write,
    submit_read=submit_read,
    submit_write=submit_write,
    request=PlainRequest,
    daemons={interrupt: 1, worker: 0},
)
