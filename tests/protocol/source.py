"""Makes protocols from source text, as if they stood in a file."""

from __future__ import annotations

import itertools
import linecache
import sys
import textwrap
import types
from typing import Any

_NUMBER = itertools.count()

HEADER = """
from fssim.protocol import *
MODE = SHARED
LIMIT = 3
lower = 4

class Inode(Shared):
    iolock: RWLock
    mutex: Mutex
    flags: SpinLock
    dio: Counter
    size: Monotonic
    pages: int
    owner: GhostThread
    shadow: Ghost

class Mount(Shared):
    files: list[Inode]
    root: Inode
    position: int

class Request(Shared):
    number: int
    next: Inode

class Urgent(Request):
    deadline: int

class Ring(Shared):
    slots: Queue[int]
    requests: Queue[Request]
    log: Space
    extents: BlockMap
    pending: Counter
    latest: Request

READ = Operation(IO, Inode)

@protocol
def pair(io: IO, inode: Inode):
    yield cpu(1)
    return io.offset, inode.size

@protocol
def bump(io: IO):
    io.offset += 1
    yield cpu(0)

@protocol
def one(inode: Inode):
    yield cpu(1)
    return inode.size
"""


def module(text: str, header: str = HEADER) -> Any:
    """Execute `header` and `text` as a module of its own, whose source `inspect` finds."""
    name = f"fssim_test_source_{next(_NUMBER)}"
    filename = f"<{name}>"
    source = header + textwrap.dedent(text)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    made = types.ModuleType(name)
    made.__file__ = filename
    sys.modules[name] = made
    exec(compile(source, filename, "exec"), made.__dict__)
    return made


def line_of(text: str, marker: str = "# HERE") -> int:
    """Number of the line that carries the marker, in a module made from `text`."""
    for number, line in enumerate((HEADER + textwrap.dedent(text)).splitlines(), start=1):
        if marker in line:
            return number
    raise AssertionError("no marker")
