"""What the compiler's parts share: registers, emitted code, frames of inlined calls, names and fields."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from fssim.errors import ProtocolError, nearest
from fssim.protocol.bytecode import OPCODE_NAMES, OPCODES, OPERANDS, WIDTH
from fssim.protocol.language import GHOSTS, Local, Shared, element_class, field_kinds
from fssim.protocol.subset import REFUSED

if TYPE_CHECKING:
    from fssim.protocol.definition import Protocol

MISSING = object()
# Registers at this number and above belong to Local records, which live as long as the program; the rest is a stack.
RECORDS = 1 << 20


@dataclass(frozen=True)
class Value:
    """Where a value is: `constant`, or else register `register`.  `kind` is int or a Shared class.

    `stable`: nothing that is evaluated later in the same expression can change the register.  Only the field of a Local
    record is not stable: a sub-protocol may assign it.
    """

    kind: Any = int
    register: int = 0
    constant: int | None = None
    stable: bool = True


@dataclass(frozen=True)
class Record:
    """A `Local` object: one register a field."""

    cls: type[Local]
    registers: Mapping[str, int]


@dataclass
class Frame:
    """One inlined call: its variables, and where `return` goes."""

    protocol: Protocol
    names: dict[str, Value | Record]
    declared: dict[str, int]  # register of every variable that is assigned somewhere
    first_temporary: int  # registers below it keep their values while the frame runs
    assigned: set[str] | None  # definitely assigned here; None where control never comes
    result_base: int | None = None  # first of the registers that take the results; None: nobody wants them
    returns: list[int] = field(default_factory=list)  # jumps to patch
    results: tuple[Value, ...] | None = None
    returned_nothing: bool = False
    loops: list[Loop] = field(default_factory=list)


@dataclass
class Loop:
    breaks: list[int] = field(default_factory=list)
    continues: list[int] = field(default_factory=list)
    break_states: list[set[str] | None] = field(default_factory=list)


def merge(a: set[str] | None, b: set[str] | None) -> set[str] | None:
    if a is None:
        return b
    if b is None:
        return a
    return a & b


def waits(node: ast.AST) -> bool:
    """Whether evaluating the expression can run something else: another thread, or a sub-protocol."""
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node))


class Emitter:
    """Code under construction.

    `constants`: overrides of upper-case names.  `path_ns`: costs of code paths; None at decoration: no host is known.
    `ghosts`: keep ghost statements.  `fixed`: every operation must be bound (linking), else it need not (decoration).
    """

    def __init__(
        self,
        constants: Mapping[str, Any],
        path_ns: Mapping[str, int] | None,
        ghosts: bool,
        fixed: bool,
    ) -> None:
        self.constants = constants
        self.path_ns = path_ns
        self.ghosts = ghosts
        self.fixed = fixed
        self.code: list[list[int]] = []
        self.lines: list[int] = []
        self.files: list[str] = []
        self.pool: dict[int, int] = {}
        self.members: dict[tuple[type, str], int] = {}
        self.texts: dict[str, int] = {}
        self.top = 0
        self.most = 0
        self.record_registers = 0
        self.label = 0  # the last instruction index that a jump leads to
        self.register_names: dict[int, str] = {}
        self.frames: list[Frame] = []
        self.in_ghost = False  # the statement being compiled exists for properties only
        self.used: set[str] = set()
        self.node: ast.AST | None = None

    # -- errors --------------------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        raise ProtocolError(self.frame.protocol.filename, getattr(node, "lineno", 0), message)

    def refuse(self, node: ast.AST) -> NoReturn:
        what = REFUSED.get(type(node))
        if what is None:
            what = f"`{ast.unparse(node).splitlines()[0]}`; see the documentation of the protocol language"
        self.fail(node, f"outside the protocol language: {what}")

    # -- emission ------------------------------------------------------------------------------------------------------

    def emit(self, opcode: str, *operands: int) -> int:
        """Append an instruction; return its index."""
        row = [OPCODES[opcode], *operands]
        self.code.append(row + [0] * (WIDTH - len(row)))
        self.lines.append(getattr(self.node, "lineno", 0))
        self.files.append(self.frame.protocol.filename if self.frames else "")
        return len(self.code) - 1

    def move(self, to: int, value: Value) -> None:
        """Copy a value to a register; if the last instruction made it just for this, let that write there itself."""
        temporary = value.constant is None and self.frame.first_temporary <= value.register < RECORDS
        if temporary and self.code and self.label < len(self.code):
            last = self.code[-1]
            kinds = OPERANDS[OPCODE_NAMES[last[0]]]
            if kinds[:1] == ("dst",) and last[1] == value.register:
                last[1] = to
                return
        self.emit("MOV", to, self.use(value))

    def copy(self, value: Value) -> Value:
        at = self.register()
        self.emit("MOV", at, self.use(value))
        return Value(value.kind, at)

    def patch(self, jumps: list[int]) -> None:
        """Let these jumps lead to the next instruction."""
        if jumps:
            self.label = len(self.code)
        for index in jumps:
            kinds = OPERANDS[OPCODE_NAMES[self.code[index][0]]]
            self.code[index][1 + kinds.index("target")] = len(self.code)

    def register(self) -> int:
        self.top += 1
        self.most = max(self.most, self.top)
        return self.top - 1

    def use(self, value: Value) -> int:
        """Return the register that holds the value; constants live in registers behind all others (negative here)."""
        if value.constant is None:
            return value.register
        return -1 - self.pool.setdefault(value.constant, len(self.pool))

    def member(self, cls: type, name: str) -> int:
        for base in cls.__mro__:  # the class that declares it, so that base and derived class name one member
            if name in inspect.get_annotations(base):
                cls = base
        return self.members.setdefault((cls, name), len(self.members))

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    @contextmanager
    def discarded(self) -> Iterator[None]:
        """Compile for the sake of the checks only: the code is thrown away."""
        code, lines, files = len(self.code), len(self.lines), len(self.files)
        used, assigned, top = set(self.used), self.frame.assigned, self.top
        counts = [(loop, len(loop.breaks), len(loop.continues), len(loop.break_states)) for loop in self.frame.loops]
        returns = len(self.frame.returns)
        yield
        del self.code[code:], self.lines[lines:], self.files[files:]
        self.used, self.frame.assigned, self.top = used, assigned, top
        for loop, breaks, continues, states in counts:
            del loop.breaks[breaks:], loop.continues[continues:], loop.break_states[states:]
        del self.frame.returns[returns:]

    # -- names and fields ----------------------------------------------------------------------------------------------

    def is_variable(self, name: str) -> bool:
        return name in self.frame.names or name in self.frame.declared

    def lookup(self, name: str) -> Any:
        """Value of a global name as the protocol sees it, `MISSING` if there is none or a variable hides it."""
        if self.is_variable(name):
            return MISSING
        if name.isupper() and name in self.constants:
            self.used.add(name)
            return self.constants[name]
        return self.frame.protocol.namespace(name, MISSING)

    def called(self, node: ast.Name) -> Any:
        """What a name that is called stands for, `MISSING` if it is no global."""
        if self.is_variable(node.id):
            self.fail(node, f"{node.id} is a variable here and cannot be called; give the variable another name")
        return self.lookup(node.id)

    def check_assigned(self, node: ast.Name) -> None:
        assigned = self.frame.assigned
        if assigned is not None and node.id not in assigned:
            self.fail(node, f"{node.id} has no value on some path to here; give it one before the branch or loop")

    def record_of(self, node: ast.expr) -> Record | None:
        if isinstance(node, ast.Name):
            known = self.frame.names.get(node.id)
            if isinstance(known, Record):
                self.check_assigned(node)
                return known
        return None

    def record_field(self, node: ast.Attribute, record: Record) -> int:
        at = record.registers.get(node.attr)
        if at is None:
            self.fail(node, f"{record.cls.__name__} has no field {node.attr!r}{nearest(node.attr, record.registers)}")
        return at

    def field_kind(self, node: ast.Attribute, cls: type) -> Any:
        kinds = field_kinds(cls)
        if node.attr not in kinds:
            self.fail(node, f"{cls.__name__} has no field {node.attr!r}{nearest(node.attr, kinds)}")
        if kinds[node.attr] in GHOSTS and not self.in_ghost:
            self.fail(
                node,
                "a ghost field may be read in an assert or to set a ghost field only; real state cannot depend on it",
            )
        return kinds[node.attr]

    def kind_of(self, node: ast.expr) -> Any:
        """The declared kind of a name or field, None if it has none; emits nothing and never fails."""
        match node:
            case ast.Name(id=name):
                known = self.frame.names.get(name)
                return known.cls if isinstance(known, Record) else known.kind if known else None
            case ast.Attribute(value=base, attr=attr):
                cls = self.kind_of(base)
                if isinstance(cls, type) and issubclass(cls, (Shared, Local)):
                    return field_kinds(cls).get(attr)
            case ast.Subscript(value=base):
                return element_class(self.kind_of(base))
        return None
