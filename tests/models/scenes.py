"""Small scenes for filesystem versions: a few threads that each do some I/Os on one file, on a device of many slots."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fssim import engine, resources
from fssim.filesystem import BLOCK, File, Filesystem, Geometry, load_filesystem
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.profile import Machine
from fssim.protocol import IO, Operation, Protocol, begin_io, complete_io, protocol, sleep
from fssim.protocol.bytecode import LOG_DEVICE_DONE, LOG_END, OPCODES
from fssim.system import RunResult, System, Thread
from fssim.workload.files import Preparation, make_files
from fssim.workload.threads import daemons

LATENCY_NS = 100_000
FILE_BYTES = 2**20

PROGRAMS = ("sysbench_request", "sysbench_copy", "fio_request")
"""Code paths of the workloads."""


def code_paths() -> set[str]:
    """The names of all code paths of the filesystems' protocols."""
    files = resources.models("filesystems").glob("*.py")
    return {name for file in files for name in re.findall(r"\bpath\.(\w+)", file.read_text(encoding="utf-8"))}


CPUS = 8


def machine(cpus: int = CPUS, path_ns: int = 100) -> Machine:
    """A machine on which every code path costs the same, and every device I/O takes 100 us, 64 at a time."""
    costs = dict.fromkeys([*sorted(code_paths()), *PROGRAMS], path_ns)
    host = Host(cpus=cpus, wakeup_ns=1000, interrupt_ns=500, path_ns=costs)
    return Machine("scenes", "", "", host, SimpleDevice(latency_ns=LATENCY_NS, queue_depth=64), None, "")


def load(name: str) -> Filesystem:
    """A version with as many of each daemon as the machine has CPUs, where it says so by 0."""
    filesystem = load_filesystem(name)
    return replace(filesystem, daemons={each: count or CPUS for each, count in filesystem.daemons.items()})


READ = Operation(IO, File)
WRITE = Operation(IO, File)
TRUNCATE = Operation(int, File)
FALLOCATE = Operation(int, int, File)


@protocol
def reader(inode: File, offset: int, length: int):
    io = IO(offset=offset, length=length)
    yield begin_io()
    yield from READ(io, inode)
    yield complete_io()


@protocol
def writer(inode: File, offset: int, length: int):
    io = IO(offset=offset, length=length)
    yield begin_io()
    yield from WRITE(io, inode)
    yield complete_io()


@protocol
def read_after(inode: File, after_ns: int, offset: int, length: int):
    """Read, after a while."""
    yield sleep(after_ns)
    io = IO(offset=offset, length=length)
    yield from READ(io, inode)


@protocol
def write_then_expect(inode: File, offset: int, length: int, block: int, count: int, state: int):
    """Write, then look whether so many blocks from `block` on, and no more, have this state."""
    io = IO(offset=offset, length=length)
    yield from WRITE(io, inode)
    found, run = yield inode.extents.lookup(block, count + 1)
    assert found == state, "state"
    assert run == count, "blocks"


@protocol
def change_size(inode: File, after_ns: int, size: int, present: int):
    """Truncate, after a while, then look whether so many blocks are left."""
    yield sleep(after_ns)
    yield from TRUNCATE(size, inode)
    assert inode.size == size, "size"
    assert inode.extents.present == present, "blocks"


@protocol
def preallocate(inode: File, offset: int, length: int, present: int):
    """Fallocate, then look whether so many blocks are there."""
    yield from FALLOCATE(offset, length, inode)
    assert inode.size >= offset + length, "size"
    assert inode.extents.present == present, "blocks"


def run(
    filesystem: Filesystem,
    threads: Sequence[tuple[Protocol, tuple[int, ...]]],
    *,
    preparation: Preparation = Preparation.WRITTEN,
    file_bytes: int = FILE_BYTES,
    geometry: Geometry = Geometry(),
    constants: Mapping[str, Any] | None = None,
    engine_name: str = "compiled",
) -> RunResult:
    """Run each program with the one file and its integers as arguments, beside the daemons of the filesystem."""
    made = machine()
    volume, [inode] = make_files(filesystem, geometry, 1, file_bytes, preparation)
    programs = {program for program, _ in threads}
    bound = {
        name: bound
        for name, bound, users in (
            ("READ", filesystem.read, {reader, read_after}),
            ("WRITE", filesystem.write, {writer, write_then_expect}),
            ("TRUNCATE", filesystem.truncate, {change_size}),
            ("FALLOCATE", filesystem.fallocate, {preallocate}),
        )
        if users & programs
    }
    system = System(
        threads=[
            *(Thread(program, (inode, *arguments)) for program, arguments in threads),
            *daemons(filesystem, volume, made.host),
        ],
        host=made.host,
        device=made.device,
        constants={**bound, **(constants or {})},
        version=filesystem.constants,
        log=True,
    )
    return engine.run(system, engine=engine_name)


def most_in_flight(result: RunResult, lengths: Sequence[int] = ()) -> int:
    """How many I/Os the device had at the same time at most; only those of these lengths, if any are given."""
    assert result.log is not None
    issued = [OPCODES[name] for name in ("READ", "WRITE", "SUBMITR", "SUBMITW")]
    now = most = 0
    for _, _, _, kind, _, value in result.log.tolist():
        if lengths and value not in lengths:
            continue
        if kind in issued:
            now += 1
            most = max(most, now)
        elif kind == LOG_DEVICE_DONE:
            now -= 1
    return most


def device_ios(result: RunResult) -> list[tuple[str, int]]:
    """Name of the opcode and length of every I/O, in the order of issue."""
    assert result.log is not None
    names = {OPCODES[name]: name for name in ("READ", "WRITE", "SUBMITR", "SUBMITW")}
    return [(names[kind], value) for _, _, _, kind, _, value in result.log.tolist() if kind in names]


def ended_ns(result: RunResult, thread: int) -> int:
    """When a thread's program returned."""
    assert result.log is not None
    [end] = [time for time, number, _, kind, _, _ in result.log.tolist() if kind == LOG_END and number == thread]
    return int(end)


def final(result: RunResult, field: str) -> list[int]:
    """Values of an integer field at the end, of all objects that have it."""
    return [value for name, value in result.final if name.split(".")[-1] == field]


__all__ = [
    "BLOCK",
    "FILE_BYTES",
    "LATENCY_NS",
    "change_size",
    "device_ios",
    "ended_ns",
    "final",
    "load",
    "machine",
    "most_in_flight",
    "preallocate",
    "read_after",
    "reader",
    "run",
    "write_then_expect",
    "writer",
]
