"""The order of the blocks: recorded in one run, repeated by a single thread in another.

What a path costs depends on the order in which blocks are written: extents, gaps that are zeroed, pages that are
flushed.  One thread that repeats the order of many pays all that and waits for nobody.

The log has lengths but no offsets.  A filesystem is therefore wrapped: each transfer first takes from a space, and
gives back, as many units as its block has for a number.  That takes no time, draws nothing and never waits, so that the
run is the same to the nanosecond, with two rows more an I/O.
"""

# No `from __future__ import annotations`: the types of a nested protocol's parameters must be there when it is made.
import dataclasses
from typing import TYPE_CHECKING, Any

from fssim.filesystem import Filesystem
from fssim.protocol import protocol
from fssim.protocol.bytecode import OPCODES
from fssim.protocol.language import IO, Operation, Queue, Shared, Space, begin_io, complete_io, cpu, path
from fssim.system import RunResult, System, Thread
from fssim.workload.sysbench import FILE_SIZE, FileSet, Inode, think

if TYPE_CHECKING:
    from fssim.protocol import Protocol

UNITS = 2**61  # more than any block's number
MEMBER = "block_numbers"
BLOCK_SIZE = 16384
IN_SEQUENCE = 1  # the sequential modes copy the position that their threads share
READ = Operation(IO, Inode)
WRITE = Operation(IO, Inode)

_STARTS_TRANSFER = {OPCODES[name] for name in ("READ", "WRITE", "SUBMITR", "SUBMITW", "COMPLETE")}


def recording(filesystem: Filesystem) -> Filesystem:
    """Return the same filesystem, whose transfers leave their block's number in the log."""
    inode = type(filesystem.inode.__name__, (filesystem.inode,), {"__annotations__": {MEMBER: Space}})
    inode.__module__ = filesystem.inode.__module__
    numbers = Space(UNITS)

    def place(volume: Any, disk_offset: int) -> dict[str, Any]:
        own = filesystem.place(volume, disk_offset) if filesystem.place is not None else {}
        return {**own, MEMBER: numbers}

    write = _recorded(filesystem.write, inode, 1) if filesystem.write is not None else None
    return dataclasses.replace(
        filesystem, inode=inode, place=place, read=_recorded(filesystem.read, inode, 0), write=write
    )


def _recorded(transfer: "Protocol", inode_class: type[Shared], writes: int) -> "Protocol":
    IS_WRITE = writes

    @protocol
    def recorded(io: IO, inode: inode_class):  # type: ignore[no-untyped-def, valid-type]
        yield inode.block_numbers.take((io.file * FILE_SIZE + io.offset) * 2 + IS_WRITE + 1)  # type: ignore[attr-defined]
        yield inode.block_numbers.give((io.file * FILE_SIZE + io.offset) * 2 + IS_WRITE + 1)  # type: ignore[attr-defined]
        yield from transfer(io, inode)

    return recorded


def recorded_order(result: RunResult) -> list[int]:
    """Return the numbers of the blocks in the order in which they reached the device, or else were complete.

    That order, and not the one in which the program asked for them, is what the extents come to see.
    """
    assert result.log is not None
    order_object = next(number for number, name in enumerate(result.objects) if name.endswith(f".{MEMBER}"))
    pending: dict[int, int] = {}
    order = []
    for _, thread, _, kind, obj, value in result.log.tolist():
        if kind == OPCODES["TAKE"] and obj == order_object:
            pending[thread] = value - 1
        elif kind in _STARTS_TRANSFER and thread in pending:
            order.append(pending.pop(thread))
    return order


class Script(Shared):
    """The blocks that one thread is to transfer."""

    blocks: Queue[int]


@protocol
def repeat(script: Script, files: FileSet):  # type: ignore[no-untyped-def]
    """One thread that transfers the blocks of a script, thinking as the workload does."""
    while True:
        yield from think()
        if IN_SEQUENCE:
            yield cpu(path.sysbench_copy)
        number = yield script.blocks.get()
        position = number // 2
        offset = position % FILE_SIZE
        io = IO(file=position // FILE_SIZE, offset=offset, length=min(BLOCK_SIZE, FILE_SIZE - offset))
        yield begin_io()
        if number % 2 != 0:
            yield from WRITE(io, files.inodes[io.file])
        else:
            yield from READ(io, files.inodes[io.file])
        yield complete_io()


def repeating(system: System, filesystem: Filesystem, pattern: str, order: list[int], warmup_ios: int) -> System:
    """Return the system of one thread that transfers these blocks of the files of `system`, a system of one thread."""
    (files,) = system.threads[0].arguments
    constants = {name: system.constants[name] for name in ("FILE_SIZE", "BLOCK_SIZE")}
    constants |= {
        "IN_SEQUENCE": int(pattern.startswith("seq")),
        "READ": filesystem.read,
        "WRITE": filesystem.write or filesystem.read,
    }
    script = Script(blocks=Queue(order))
    return dataclasses.replace(
        system,
        threads=[Thread(repeat, (script, files)), *system.threads[1:]],
        constants=constants,
        ios=max(len(order) - warmup_ios, 1),
        warmup_ios=min(warmup_ios, len(order) - 1),
        batch_ios=0,
    )


__all__ = ["recorded_order", "recording", "repeating"]
