"""What both engines must agree on about a run's objects: their order, numbers and names.

The canonical order is that of `docs/semantics.md` section 9: thread arguments in order, each object's fields in
declaration order, lists in order, depth first, each object once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fssim.errors import UserError
from fssim.protocol.language import INTEGERS, PRIMITIVES, Counter, Primitive, RWLock, Shared, field_kinds
from fssim.system import LockUse, Thread

INT64 = range(-(2**63), 2**63)
NO_PROGRESS_LIMIT = 1_000_000
HANDOFF_AFTER_NS = 4_000_000  # RWSEM_WAIT_TIMEOUT, a 250th of a second, of kernel/locking/rwsem.c
READER_BATCH = 256  # MAX_READERS_WAKEUP of the same file

CATEGORIES = ("cpu", "ready", "wakeup", "device", "sleep")
"""Thread-time categories before those of the lock classes."""


@dataclass(frozen=True, eq=False)
class NamedObject:
    """A `Shared` object of a run and its path name, such as "mount.files[3]"."""

    value: Shared
    name: str


@dataclass(frozen=True)
class PrimitiveClass:
    """A class of locks or counters, as lock_stat groups them: "Inode.iolock" and the kind of the member."""

    name: str
    kind: type[Primitive]


@dataclass(frozen=True, eq=False)
class NamedPrimitive:
    """A lock or counter: its canonical number, path name and the index of its class in `Objects.classes`."""

    value: Primitive
    number: int
    name: str
    class_index: int


@dataclass(frozen=True, eq=False)
class NamedInteger:
    """An integer field, or element `index` of a list of integers (`index` -1: the field itself)."""

    owner: Shared
    field: str
    index: int
    name: str

    def read(self) -> int:
        value = getattr(self.owner, self.field)
        return int(value if self.index < 0 else value[self.index])


@dataclass
class Objects:
    """All objects of a run in canonical order.  `classes`: lock and counter classes in the order met."""

    shared: list[NamedObject] = field(default_factory=list)
    primitives: list[NamedPrimitive] = field(default_factory=list)
    integers: list[NamedInteger] = field(default_factory=list)
    classes: list[PrimitiveClass] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of locks and counters by canonical number."""
        return tuple(primitive.name for primitive in self.primitives)

    def number(self) -> dict[int, int]:
        """Return the canonical number of every lock and counter by its `id`."""
        return {id(primitive.value): primitive.number for primitive in self.primitives}


def parameter_names(protocol: Any) -> tuple[str, ...]:
    """Return the names of a thread program's parameters."""
    return tuple(name for name, _ in protocol.parameters)


def walk(threads: Iterable[Thread]) -> Objects:
    """Find every object reachable from the threads' arguments, in canonical order.

    A root object is called after the parameter of the thread program; a second, different object under the same
    parameter name becomes "inode#2".  Errors: UserError for a field whose value does not fit its declaration.
    """
    objects = Objects()
    seen: set[int] = set()
    root_names: dict[str, int] = {}
    for thread in threads:
        for name, argument in zip(parameter_names(thread.protocol), thread.arguments, strict=True):
            if isinstance(argument, Shared) and id(argument) not in seen:
                root_names[name] = count = root_names.get(name, 0) + 1
                _walk_object(objects, seen, argument, name if count == 1 else f"{name}#{count}")
    return objects


def _walk_object(objects: Objects, seen: set[int], root: Shared, root_name: str) -> None:
    """Depth first without recursion, so that long chains of objects do not end in a RecursionError."""
    stack: list[Iterator[tuple[str, Any, Any, NamedObject, str, int]]] = []

    def enter(value: Shared, name: str) -> None:
        seen.add(id(value))
        objects.shared.append(NamedObject(value, name))
        stack.append(_fields(objects.shared[-1]))

    enter(root, root_name)
    while stack:
        for name, kind, value, owner, field_name, index in stack[-1]:
            if kind in INTEGERS:
                if type(value) is bool or not isinstance(value, int) or value not in INT64:
                    raise UserError(f"{name} is {value!r}; it must be an integer of 64 bits")
                objects.integers.append(NamedInteger(owner.value, field_name, index, name))
                continue
            if not isinstance(value, kind):
                raise UserError(f"{name} is {value!r}; it must be a {kind.__name__}")
            if id(value) in seen:
                continue
            if kind not in PRIMITIVES:
                enter(value, name)
                break
            seen.add(id(value))
            primitive_class = PrimitiveClass(f"{type(owner.value).__name__}.{field_name}", kind)
            if primitive_class not in objects.classes:
                objects.classes.append(primitive_class)
            class_index = objects.classes.index(primitive_class)
            objects.primitives.append(NamedPrimitive(value, len(objects.primitives), name, class_index))
        else:
            stack.pop()


def _fields(owner: NamedObject) -> Iterator[tuple[str, Any, Any, NamedObject, str, int]]:
    """Yield (path name, kind, value, owner, field, index) of every field, lists element by element."""
    for field_name, kind in field_kinds(type(owner.value)).items():
        value = getattr(owner.value, field_name)
        if getattr(kind, "__origin__", None) is list:
            if not isinstance(value, (list, tuple)):
                raise UserError(f"{owner.name}.{field_name} is {value!r}; it must be a list")
            for index, element in enumerate(value):
                yield f"{owner.name}.{field_name}[{index}]", kind.__args__[0], element, owner, field_name, index
        else:
            yield f"{owner.name}.{field_name}", kind, value, owner, field_name, -1


MODES = ("shared", "exclusive")


def class_modes(classes: Sequence[PrimitiveClass]) -> Iterator[tuple[int, str, str]]:
    """Yield (row, class name, mode) of every class and mode that can occur; counters have the mode "".

    Engines keep two rows a class, the first for shared, the second for exclusive; a counter uses the first.
    """
    for index, primitive_class in enumerate(classes):
        for mode, mode_name in enumerate(MODES):
            if primitive_class.kind is Counter:
                if mode == 0:
                    yield 2 * index, primitive_class.name, ""
            elif primitive_class.kind is RWLock or mode == 1:
                yield 2 * index + mode, primitive_class.name, mode_name


def time_by_category(classes: Sequence[PrimitiveClass], totals: Sequence[int]) -> dict[str, int]:
    """Name the thread-time totals: those of `CATEGORIES`, then the wait time of each row of `class_modes`."""
    named = {name: int(total) for name, total in zip(CATEGORIES, totals, strict=False)}
    for row, class_name, mode in class_modes(classes):
        named[f"wait {class_name} {mode}".rstrip()] = int(totals[len(CATEGORIES) + row])
    return named


USE_FIELDS = (
    "acquisitions",
    "contentions",
    "bounces",
    "wait_total_ns",
    "wait_min_ns",
    "wait_max_ns",
    "hold_total_ns",
    "hold_min_ns",
    "hold_max_ns",
)


def lock_uses(classes: Sequence[PrimitiveClass], table: Sequence[Sequence[int]]) -> tuple[LockUse, ...]:
    """Name the rows of a table of lock uses (columns `USE_FIELDS`); counters have none."""
    return tuple(
        LockUse(class_name, mode, *map(int, table[row])) for row, class_name, mode in class_modes(classes) if mode
    )
