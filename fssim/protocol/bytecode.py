"""The register bytecode into which protocols are compiled, and the linked program that engines execute.

An instruction is five integers: an opcode and four operands.  `OPERANDS` names the operands of every opcode; the
linker, the disassembler and the engines' loaders read it, so an opcode is described once.

Operand kinds
    dst, a, b, c   a register of the executing thread (constants are registers too, preloaded and never written)
    obj            a register that holds a handle to a shared object
    member         an index into `Program.members`; each engine replaces it by its own address of that member
    dst2           the first of two registers in a row that take two results
    pair           the first of two registers in a row that are read
    property       which property of a primitive: an index into `PROPERTIES`
    target         an instruction index
    text           an index into `Program.texts`
    -              unused, 0
"""

from __future__ import annotations

from dataclasses import dataclass, field

OPERANDS: dict[str, tuple[str, ...]] = {
    # control
    "JMP": ("target",),
    "JZ": ("a", "target"),  # jump if a == 0
    "JNZ": ("a", "target"),
    "JLT": ("a", "b", "target"),  # jump if a < b
    "JLE": ("a", "b", "target"),
    "JEQ": ("a", "b", "target"),
    "JNE": ("a", "b", "target"),
    "TICK": (),  # head of a loop body: counts towards the no-progress limit
    "END": (),  # the thread's program returns
    # values, local to the thread
    "MOV": ("dst", "a"),
    "ADD": ("dst", "a", "b"),
    "SUB": ("dst", "a", "b"),
    "MUL": ("dst", "a", "b"),
    "DIV": ("dst", "a", "b"),  # floor division
    "MOD": ("dst", "a", "b"),  # floor modulo
    "AND": ("dst", "a", "b"),
    "OR": ("dst", "a", "b"),
    "XOR": ("dst", "a", "b"),
    "SHL": ("dst", "a", "b"),
    "SHR": ("dst", "a", "b"),
    "MIN": ("dst", "a", "b"),
    "MAX": ("dst", "a", "b"),
    "LT": ("dst", "a", "b"),  # 0 or 1
    "LE": ("dst", "a", "b"),
    "EQ": ("dst", "a", "b"),
    "NE": ("dst", "a", "b"),
    "NEG": ("dst", "a"),
    "NOT": ("dst", "a"),  # logical
    "INV": ("dst", "a"),  # bitwise
    "TID": ("dst",),
    "NOW": ("dst",),
    # shared memory
    "LOAD": ("dst", "obj", "member"),
    "STORE": ("obj", "member", "a"),
    "LOADX": ("dst", "obj", "member", "a"),  # element a of a list member
    "LEN": ("dst", "obj", "member"),
    "PEEK": ("dst", "obj", "member", "property"),  # a property of a primitive, such as the length of a queue
    # effects that may wait or cost time
    "ACQUIRE": ("obj", "member", "a"),  # a: SHARED or EXCLUSIVE
    "TRY": ("dst", "obj", "member", "a"),
    "RELEASE": ("obj", "member", "a"),
    "DEMOTE": ("obj", "member"),
    "INC": ("obj", "member"),  # counter
    "DEC": ("dst", "obj", "member"),
    "WAITZERO": ("obj", "member"),
    "CPU": ("a",),  # run for a nanoseconds
    "SLEEP": ("a",),
    "READ": ("a", "b"),  # device offset and length in bytes
    "WRITE": ("a", "b"),
    "SUBMITR": ("pair", "obj", "member", "a"),  # device offset and length; queue or counter told; what the queue gets
    "SUBMITW": ("pair", "obj", "member", "a"),
    "PUT": ("obj", "member", "a"),  # queue
    "GET": ("dst", "obj", "member"),
    "TAKE": ("obj", "member", "a"),  # space
    "GIVE": ("obj", "member", "a"),
    "LOOKUP": ("dst2", "obj", "member", "pair"),  # block map: state and run of block and count
    "FILL": ("obj", "member", "pair", "a"),  # block and count; state
    "CHOOSE": ("dst", "a"),
    "EXPONENTIAL": ("dst", "a"),
    "BEGIN": (),  # an I/O of this thread begins: the clock of its latency starts, and its submission
    "SUBMITTED": (),  # the submission is over, the I/O goes on without the thread
    "COMPLETE": ("a",),  # an I/O that began at a (-1: the thread's own) ends; counts as one I/O
    "ASSERT": ("a", "text"),
}

OPCODES: dict[str, int] = {name: number for number, name in enumerate(OPERANDS)}
OPCODE_NAMES: tuple[str, ...] = tuple(OPERANDS)
WIDTH = 5

PROPERTIES = ("value", "length", "free", "runs", "present")
"""Of a Counter, a Queue, a Space, and two of a BlockMap."""

# Rows of an event log that are not the issue of an effect.
LOG_GRANT = 100  # a lock was handed to a waiting thread
LOG_RESUME = 101  # a thread that had waited runs again
LOG_DEVICE_DONE = 102  # the device finished the thread's I/O
LOG_END = 103  # the thread's program returned
LOG_NAMES = {LOG_GRANT: "GRANT", LOG_RESUME: "RESUME", LOG_DEVICE_DONE: "DEVICE_DONE", LOG_END: "END"}


@dataclass(frozen=True)
class Program:
    """One thread program: a protocol with everything it calls inlined and every constant known.

    `code` has one row of `WIDTH` integers an instruction; `lines` and `files` say where each came from.  A thread's
    register row starts with its arguments (`arguments` gives the kind of each, in order), and holds `constants`
    (register, value) from the beginning.
    """

    name: str
    code: tuple[tuple[int, ...], ...]
    lines: tuple[int, ...]
    files: tuple[str, ...]
    registers: int
    constants: tuple[tuple[int, int], ...]
    arguments: tuple[object, ...]  # int, or the Shared class of an object argument
    members: tuple[tuple[type, str], ...]
    texts: tuple[str, ...] = ()
    register_names: dict[int, str] = field(default_factory=dict)
    overrides_used: frozenset[str] = frozenset()
