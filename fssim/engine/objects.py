"""What both engines must agree on about a run's objects: their order, numbers and names.

The canonical order is that of `docs/semantics.md` section 9: thread arguments in order, each object's fields in
declaration order, lists in order, depth first, each object once.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fssim.errors import UserError
from fssim.protocol.language import (
    INTEGERS,
    WAITED,
    BlockMap,
    Primitive,
    Queue,
    RWLock,
    Shared,
    field_kinds,
    item_of,
    primitive_of,
)
from fssim.system import LockUse, Thread

INT64 = range(-(2**63), 2**63)
NO_PROGRESS_LIMIT = 1_000_000
HANDOFF_AFTER_NS = 4_000_000  # RWSEM_WAIT_TIMEOUT, a 250th of a second, of kernel/locking/rwsem.c
IDLE_LIMIT_NS = 1 << 20  # a CPU that has been idle for longer sleeps no deeper
READER_BATCH = 256  # MAX_READERS_WAKEUP of the same file

CATEGORIES = ("cpu", "ready", "wakeup", "device", "sleep")
"""Thread-time categories before those of the lock classes."""


class Category(enum.IntEnum):
    """What a field is, or what its elements are."""

    INTEGER = 0
    PRIMITIVE = 1
    OBJECT = 2


@dataclass(frozen=True, slots=True)
class Field:
    """A declared field of a `Shared` class.

    `kind`: the class of the field, or of its elements if it is a list.  `item`: what it holds if it is a queue.
    """

    name: str
    kind: Any
    category: Category
    is_list: bool
    item: Any = None


@cache
def fields(cls: type[Shared]) -> tuple[Field, ...]:
    """Return the fields of a class in declaration order."""
    plan = []
    for name, kind in field_kinds(cls).items():
        is_list = getattr(kind, "__origin__", None) is list
        inner = kind.__args__[0] if is_list else kind
        primitive = primitive_of(inner)
        if primitive is not None:
            item = item_of(inner) if primitive is Queue else None
            plan.append(Field(name, primitive, Category.PRIMITIVE, is_list, item))
        else:
            plan.append(Field(name, inner, Category.INTEGER if inner in INTEGERS else Category.OBJECT, is_list))
    return tuple(plan)


# Not frozen: a run makes thousands of these, and frozen ones take three times as long to make.
@dataclass(slots=True, eq=False)
class NamedObject:
    """A `Shared` object of a run, its number in `Objects.shared` and its path name, such as "mount.files[3]"."""

    value: Shared
    number: int
    name: str


@dataclass(frozen=True)
class PrimitiveClass:
    """A class of primitives, as lock_stat groups locks: "Inode.iolock" and the kind of the member."""

    name: str
    kind: type[Primitive]


@dataclass(slots=True, eq=False)
class NamedPrimitive:
    """A primitive: its canonical number, path name and the index of its class in `Objects.classes`."""

    value: Primitive
    number: int
    name: str
    class_index: int


@dataclass(slots=True, eq=False)
class NamedInteger:
    """An integer field, number `offset` of its owner, or element `index` of a list of integers (else `index` is -1)."""

    owner: NamedObject
    offset: int
    field: str
    index: int

    @property
    def name(self) -> str:
        return f"{self.owner.name}.{self.field}" if self.index < 0 else f"{self.owner.name}.{self.field}[{self.index}]"

    def read(self) -> int:
        value = getattr(self.owner.value, self.field)
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


def walk(threads: Iterable[Thread]) -> Objects:
    """Find every object reachable from the threads' arguments, in canonical order.

    A root object is called after the parameter of the thread program; a second, different object under the same
    parameter name becomes "inode#2".  Errors: UserError for a field whose value does not fit its declaration.
    """
    walker = _Walker()
    root_names: dict[str, int] = {}
    for thread in threads:
        for position, argument in enumerate(thread.arguments):
            if isinstance(argument, Shared) and id(argument) not in walker.seen:
                name = thread.protocol.parameters[position][0]
                root_names[name] = count = root_names.get(name, 0) + 1
                walker.visit(argument, name if count == 1 else f"{name}#{count}")
    return walker.objects


class _Walker:
    def __init__(self) -> None:
        self.objects = Objects()
        self.seen: set[int] = set()
        self.class_indexes: dict[tuple[type, str], int] = {}

    def visit(self, value: Shared, name: str) -> None:
        """Add an object that has not been seen, and all that it leads to, depth first."""
        self.seen.add(id(value))
        owner = NamedObject(value, len(self.objects.shared), name)
        self.objects.shared.append(owner)
        for offset, declared in enumerate(fields(type(value))):
            content = getattr(value, declared.name)
            if not declared.is_list:
                self.member(owner, offset, declared, content, -1)
                continue
            if not isinstance(content, (list, tuple)):
                raise UserError(f"{name}.{declared.name} is {content!r}; it must be a list")
            for index, element in enumerate(content):
                self.member(owner, offset, declared, element, index)

    def member(self, owner: NamedObject, offset: int, declared: Field, value: Any, index: int) -> None:
        """Add a field, or an element of a list."""
        if declared.category is Category.INTEGER:
            named = NamedInteger(owner, offset, declared.name, index)
            if type(value) is bool or not isinstance(value, int) or value not in INT64:
                raise UserError(f"{named.name} is {value!r}; it must be an integer of 64 bits")
            self.objects.integers.append(named)
            return
        name = f"{owner.name}.{declared.name}" if index < 0 else f"{owner.name}.{declared.name}[{index}]"
        if not isinstance(value, declared.kind):
            raise UserError(f"{name} is {value!r}; it must be a {declared.kind.__name__}")
        if id(value) in self.seen:
            return
        if declared.category is Category.OBJECT:
            self.visit(value, name)
            return
        self.seen.add(id(value))
        key = (type(owner.value), declared.name)
        class_index = self.class_indexes.get(key, -1)
        if class_index < 0:
            primitive_class = PrimitiveClass(f"{type(owner.value).__name__}.{declared.name}", declared.kind)
            if primitive_class not in self.objects.classes:  # classes of one name in two modules are one
                self.objects.classes.append(primitive_class)
            self.class_indexes[key] = class_index = self.objects.classes.index(primitive_class)
        self.objects.primitives.append(NamedPrimitive(value, len(self.objects.primitives), name, class_index))
        if isinstance(value, Queue):
            self.items(value, declared.item, name)

    def items(self, queue: Queue[Any], kind: Any, name: str) -> None:
        """Visit what a queue holds at the beginning."""
        for index, item in enumerate(queue.items):
            if not isinstance(item, kind) or isinstance(item, bool) or (kind is int and item not in INT64):
                raise UserError(f"{name}[{index}] is {item!r}; it must be {kind.__name__}")
            if kind is not int and id(item) not in self.seen:
                self.visit(item, f"{name}[{index}]")


MODES = ("shared", "exclusive")


def class_modes(classes: Sequence[PrimitiveClass]) -> Iterator[tuple[int, str, str]]:
    """Yield (row, class name, mode) of every class and mode on which threads can wait; without modes it is "".

    Engines keep two rows a class, the first for shared, the second for exclusive; what has no modes uses the first.
    """
    for index, primitive_class in enumerate(classes):
        for mode, mode_name in enumerate(MODES):
            if primitive_class.kind in WAITED:
                if mode == 0:
                    yield 2 * index, primitive_class.name, ""
            elif primitive_class.kind is BlockMap:
                pass
            elif primitive_class.kind is RWLock or mode == 1:
                yield 2 * index + mode, primitive_class.name, mode_name


def time_by_category(classes: Sequence[PrimitiveClass], totals: Sequence[int]) -> dict[str, int]:
    """Name totals by category of thread time: those of `CATEGORIES`, then that of each row of `class_modes`."""
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
    "holds",
)


def lock_uses(classes: Sequence[PrimitiveClass], table: Sequence[Sequence[int]]) -> tuple[LockUse, ...]:
    """Name the rows of a table of lock uses (columns `USE_FIELDS`); counters have none."""
    return tuple(
        LockUse(class_name, mode, *map(int, table[row])) for row, class_name, mode in class_modes(classes) if mode
    )
