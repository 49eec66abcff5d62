"""The vocabulary in which a locking protocol is written.

A protocol is a generator function decorated with `@protocol` (in `fssim.protocol`).  `yield` marks whatever may wait or
cost time; plain attribute reads and writes of shared objects are shared-memory steps; `yield from other(io, inode)`
inlines a sub-protocol.  The methods below only build `Effect` tuples: an engine interprets them.

    class Inode(Shared):
        iolock: RWLock
        size: Monotonic
        pages: BlockMap

    @protocol
    def direct_read(io: IO, inode: Inode):
        yield inode.iolock.acquire(SHARED)
        yield device.read(inode.disk_offset + io.offset, io.length)
        yield inode.iolock.release(SHARED)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Generic, NewType, TypeVar, get_type_hints

SHARED = 1
EXCLUSIVE = 2

Effect = tuple[str, Any, Any]
"""(name of the opcode, object it acts on or None, operand)."""

Monotonic = NewType("Monotonic", int)
"""An integer field that must never decrease (the checker proves it; timed runs treat it as an int)."""

Ghost = NewType("Ghost", int)
"""An integer field that exists for properties only.  Statements that touch it are compiled out of timed runs."""

GhostThread = NewType("GhostThread", int)
"""A ghost field that holds a thread number, or -1."""

GHOSTS = (Ghost, GhostThread)
INTEGERS = (int, Monotonic, Ghost, GhostThread)


class Primitive:
    """A member of a shared object on which threads wait: a lock or a counter."""

    __slots__ = ("name", "state")

    def __init__(self) -> None:
        self.name = ""  # "inode[3].iolock", set by the engine for messages and tables
        self.state: Any = None  # the engine's own


class _Lock(Primitive):
    __slots__ = ()


class RWLock(_Lock):
    """A reader-writer semaphore.  The host's kernel profile decides its fairness."""

    __slots__ = ()

    def acquire(self, mode: int) -> Effect:
        return ("ACQUIRE", self, mode)

    def try_acquire(self, mode: int) -> Effect:
        """`got = yield lock.try_acquire(mode)`: 1 if granted, 0 if not; never waits."""
        return ("TRY", self, mode)

    def release(self, mode: int) -> Effect:
        return ("RELEASE", self, mode)

    def demote(self) -> Effect:
        """Turn an exclusive hold into a shared one without letting a writer in between."""
        return ("DEMOTE", self, 0)


class _ExclusiveLock(_Lock):
    __slots__ = ()

    def acquire(self) -> Effect:
        return ("ACQUIRE", self, EXCLUSIVE)

    def try_acquire(self) -> Effect:
        return ("TRY", self, EXCLUSIVE)

    def release(self) -> Effect:
        return ("RELEASE", self, EXCLUSIVE)


class Mutex(_ExclusiveLock):
    """A sleeping lock with one holder.  The host's kernel profile decides spinning and barging."""

    __slots__ = ()


class SpinLock(_ExclusiveLock):
    """A lock whose waiters spin; its holder must not sleep."""

    __slots__ = ()


class Counter(Primitive):
    """An atomic count that can be drained, such as an inode's direct I/O count."""

    __slots__ = ()

    @property
    def value(self) -> int:
        """The count now; a plain read."""
        return int(self.state.value)

    def inc(self) -> Effect:
        return ("INC", self, 0)

    def dec(self) -> Effect:
        """`left = yield counter.dec()`: the new value."""
        return ("DEC", self, 0)

    def wait_zero(self) -> Effect:
        """Wait until the count is zero; looks again when it runs, as the kernel does."""
        return ("WAITZERO", self, 0)


Element = TypeVar("Element")


class Queue(Primitive, Generic[Element]):
    """A first-in first-out queue of integers or of objects of one `Shared` class: `done: Queue[Request]`.

    A pool of requests is a queue that holds them all at the beginning: `Queue([Request(...), ...])`.
    """

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__()
        self.items = tuple(items)  # at the beginning of a run

    @property
    def length(self) -> int:
        """How many it holds now; a plain read."""
        return int(self.state.length)

    def put(self, item: Any) -> Effect:
        """Hand it to the thread that has waited longest, or else keep it."""
        return ("PUT", self, item)

    def get(self) -> Effect:
        """`request = yield queue.get()`: waits until there is one."""
        return ("GET", self, 0)


class Space(Primitive):
    """So many units that are taken and given back, first come, first served: the space of a log."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        super().__init__()
        if isinstance(capacity, bool) or not isinstance(capacity, int) or not 1 <= capacity < 2**63:
            raise ValueError(f"a Space has a capacity of 1 ... 2**63 - 1, not {capacity!r}")
        self.capacity = capacity

    @property
    def free(self) -> int:
        """Units that nobody has taken; a plain read."""
        return int(self.state.free)

    def take(self, units: int) -> Effect:
        """Wait until so many are free and nobody waits longer, and take them."""
        return ("TAKE", self, units)

    def give(self, units: int) -> Effect:
        return ("GIVE", self, units)


HOLE, UNWRITTEN, WRITTEN = 0, 1, 2
"""States of a file's blocks, for a `BlockMap` of extents."""

ABSENT, CLEAN, DIRTY = 0, 1, 2
"""States of a file's pages, for a `BlockMap` of the page cache."""

LAST_STATE = 3


class BlockMap(Primitive):
    """The state of each block of a file, 0 ... 3: its extents, or what the page cache has of it.

    `blocks`: how many there are; `state`: of all of them at the beginning, unless `contents` gives a byte for each.
    What lies beyond the last block has the state 0 and cannot be changed.
    """

    __slots__ = ("blocks", "contents", "initial")

    def __init__(self, blocks: int = 0, state: int = 0, contents: bytes | None = None) -> None:
        super().__init__()
        if contents is not None:
            blocks = len(contents)
        if blocks < 0 or not 0 <= max(contents or b"", default=state) <= LAST_STATE:
            raise ValueError(f"a BlockMap has 0 or more blocks in states 0 ... {LAST_STATE}")
        self.blocks = blocks
        self.initial = state
        self.contents = contents

    @property
    def runs(self) -> int:
        """Number of extents: longest runs of blocks in one state other than 0; a plain read."""
        return int(self.state.runs)

    @property
    def present(self) -> int:
        """Number of blocks in a state other than 0; a plain read."""
        return int(self.state.present)

    def lookup(self, block: int, count: int) -> Effect:
        """`state, run = yield extents.lookup(block, count)`: of how many of these blocks it is the state."""
        return ("LOOKUP", self, (block, count))

    def fill(self, block: int, count: int, state: int) -> Effect:
        """Give these blocks a state."""
        return ("FILL", self, (block, count, state))


PRIMITIVES = (RWLock, Mutex, SpinLock, Counter, Queue, Space, BlockMap)
WAITED = (Counter, Queue, Space)
"""Primitives on which threads wait without a mode."""


def primitive_of(kind: Any) -> type[Primitive] | None:
    """Return the class of primitives that a declared kind stands for, such as `Queue` for `Queue[Request]`."""
    origin = getattr(kind, "__origin__", kind)
    return origin if isinstance(origin, type) and issubclass(origin, PRIMITIVES) else None


def item_of(kind: Any) -> Any:
    """Return what the queues of a declared kind hold: int or a `Shared` class."""
    return kind.__args__[0]


def _annotations(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations of a class whose namespace this is, before the class exists."""
    if sys.version_info >= (3, 14):  # evaluated on demand since then
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is not None:
            return annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)
    found: dict[str, Any] = namespace.get("__annotations__", {})
    return found


class _DeclaredMeta(type):
    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
        annotations = _annotations(namespace)
        for field in annotations:
            if field in namespace:
                raise TypeError(
                    f"{name}.{field}: a field takes no default here; give the value when an object is made, "
                    f"{name}({field}=...)"
                )
        namespace.setdefault("__slots__", tuple(annotations))
        return super().__new__(mcs, name, bases, namespace)


class Shared(metaclass=_DeclaredMeta):
    """Base of objects that threads share.

    Fields are declared by annotation: `int`, `Monotonic`, `Ghost`, `GhostThread`, `RWLock`, `Mutex`, `SpinLock`,
    `Counter`, `Queue[...]`, `Space`, `BlockMap`, another `Shared` class, or `list[...]` of one.  Integers start at 0
    unless given by keyword.
    """

    def __init__(self, **values: Any) -> None:
        for name, kind in field_kinds(type(self)).items():
            if name in values:
                value = values.pop(name)
            elif kind in INTEGERS:
                value = 0
            elif kind is Space:
                raise TypeError(f"{type(self).__name__}.{name}: a Space must be given, {name}=Space(capacity)")
            elif (primitive := primitive_of(kind)) is not None:
                value = primitive()
            else:
                raise TypeError(f"{type(self).__name__}.{name}: an object or list must be given")
            setattr(self, name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no field {sorted(values)[0]!r}")


class Local(metaclass=_DeclaredMeta):
    """Base of records of one thread, such as an I/O: their fields become registers."""

    def __init__(self, **values: int) -> None:
        for name in field_kinds(type(self)):
            setattr(self, name, values.pop(name, 0))
        if values:
            raise TypeError(f"{type(self).__name__} has no field {sorted(values)[0]!r}")


_KINDS: dict[type, dict[str, Any]] = {}


def field_kinds(cls: type) -> dict[str, Any]:
    """Return the fields of a `Shared` or `Local` class in declaration order, name to kind, base classes first."""
    if cls not in _KINDS:
        kinds = get_type_hints(cls)
        for name, kind in kinds.items():
            if kind is not int if issubclass(cls, Local) else not _may_be_shared(kind):
                allowed = (
                    "an int"
                    if issubclass(cls, Local)
                    else "an integer, a lock, a Counter, Queue[...], Space, BlockMap, a Shared class or a list"
                )
                raise TypeError(f"{cls.__name__}.{name} is declared {kind!r}; it may be {allowed}")
        _KINDS[cls] = kinds
    return _KINDS[cls]


def _may_be_shared(kind: Any) -> bool:
    if getattr(kind, "__origin__", None) is Queue:
        kind = item_of(kind)
        return kind is int or (isinstance(kind, type) and issubclass(kind, Shared))
    inner = kind if (element := element_class(kind)) is None else element
    if inner is Queue:
        return False
    return inner in INTEGERS or inner in PRIMITIVES or (isinstance(inner, type) and issubclass(inner, Shared))


def element_class(kind: Any) -> type | None:
    """Return C for the kind `list[C]` with a `Shared` class C, else None."""
    if getattr(kind, "__origin__", None) is list:
        return kind.__args__[0]
    return None


class IO(Local):
    """One read or write: which file, and which bytes of it."""

    file: int
    offset: int
    length: int


class _Device:
    """The block device of the machine.  Offsets are bytes from the start of the device."""

    def read(self, offset: int, length: int) -> Effect:
        return ("READ", None, (offset, length))

    def write(self, offset: int, length: int) -> Effect:
        return ("WRITE", None, (offset, length))

    def submit_read(self, offset: int, length: int, to: Counter | Queue[Any], tag: Any = 0) -> Effect:
        """Start a read and go on.  When it is done, `to` gets `tag` if it is a queue, or is decremented."""
        return ("SUBMITR", to, (offset, length, tag))

    def submit_write(self, offset: int, length: int, to: Counter | Queue[Any], tag: Any = 0) -> Effect:
        """Start a write and go on.  When it is done, `to` gets `tag` if it is a queue, or is decremented."""
        return ("SUBMITW", to, (offset, length, tag))


device = _Device()


class _Path:
    """`path.NAME`: the CPU time in nanoseconds that the host profile gives to a code path, known at link time."""

    def __getattr__(self, name: str) -> int:
        raise AttributeError(f"path.{name} has a value only inside a protocol")


path = _Path()


def cpu(nanoseconds: int) -> Effect:
    """Run on the CPU for this long."""
    return ("CPU", None, nanoseconds)


def sleep(nanoseconds: int) -> Effect:
    """Give up the CPU for this long."""
    return ("SLEEP", None, nanoseconds)


def choose(n: int) -> Effect:
    """`x = yield choose(n)`: a number in 0 ... n-1; random in timed runs, every branch in the checker (n < 2**31)."""
    return ("CHOOSE", None, n)


def exponential(mean: int) -> Effect:
    """`x = yield exponential(mean)`: exponentially distributed nanoseconds, for think times and arrivals."""
    return ("EXPONENTIAL", None, mean)


def begin_io() -> Effect:
    """An I/O of this thread begins: its latency is measured from here, and what its submission has to wait for."""
    return ("BEGIN", None, 0)


def end_submission() -> Effect:
    """The submission of the I/O that this thread began is over: from here on it may sleep without harm."""
    return ("SUBMITTED", None, 0)


def complete_io(since: int = -1) -> Effect:
    """An I/O is complete and counts towards IOPS: the thread's own, or one that began at `since`, now or before."""
    return ("COMPLETE", None, since)


TICK_LIMIT = 1_000_000


class StandsStill(Exception):
    """Internal: over `TICK_LIMIT` ticks and events while the clock stood; the engine turns it into `NoProgress`."""


class _Running:
    """What `thread_id()` and `now()` answer.

    The reference engine keeps `thread` and `time_ns` up to date before it resumes a thread, counts its events in
    `ticks`, and sets `ticks` to 0 when the clock moves.
    """

    __slots__ = ("thread", "ticks", "time_ns")

    def __init__(self) -> None:
        self.thread = -1
        self.time_ns = 0
        self.ticks = 0

    def tick(self) -> None:
        """Count one loop iteration (inserted at the head of every loop body) or one event."""
        self.ticks += 1
        if self.ticks > TICK_LIMIT:
            raise StandsStill


running = _Running()


def thread_id() -> int:
    """The number of the executing thread, 0 ... threads-1."""
    return running.thread


def now() -> int:
    """Simulated time in nanoseconds."""
    return running.time_ns


class Operation:
    """A sub-protocol that a run binds: `READ = Operation(IO, Inode)`, then `yield from READ(io, inode)`.

    The arguments are the kinds of the parameters.  Bind it with `System(constants={"READ": direct_read})`.
    """

    def __init__(self, *parameters: type) -> None:
        self.parameters = parameters

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError("an Operation must be bound to a protocol before it can run")
