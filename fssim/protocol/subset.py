"""The subset of Python that is the protocol language, as tables: operators, effects, and advice on what is refused."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fssim.protocol import language
from fssim.protocol.language import element_class, item_of, primitive_of

BINARY = {
    ast.Add: "ADD",
    ast.Sub: "SUB",
    ast.Mult: "MUL",
    ast.FloorDiv: "DIV",
    ast.Mod: "MOD",
    ast.BitAnd: "AND",
    ast.BitOr: "OR",
    ast.BitXor: "XOR",
    ast.LShift: "SHL",
    ast.RShift: "SHR",
}
# Comparison: value opcode, jump opcode, operands swapped; and the jump for the opposite.
COMPARE = {
    ast.Lt: ("LT", "JLT", False),
    ast.LtE: ("LE", "JLE", False),
    ast.Gt: ("LT", "JLT", True),
    ast.GtE: ("LE", "JLE", True),
    ast.Eq: ("EQ", "JEQ", False),
    ast.NotEq: ("NE", "JNE", False),
}
OPPOSITE = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
FOLD: dict[str, Callable[[int, int], int]] = {
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "MUL": lambda a, b: a * b,
    "DIV": lambda a, b: a // b,
    "MOD": lambda a, b: a % b,
    "AND": lambda a, b: a & b,
    "OR": lambda a, b: a | b,
    "XOR": lambda a, b: a ^ b,
    "SHL": lambda a, b: a << b,
    "SHR": lambda a, b: a >> b,
    "MIN": min,
    "MAX": max,
    "LT": lambda a, b: int(a < b),
    "LE": lambda a, b: int(a <= b),
    "EQ": lambda a, b: int(a == b),
    "NE": lambda a, b: int(a != b),
}

# Statements and expressions outside the language, with what to write instead.
REFUSED: dict[type[ast.AST], str] = {
    ast.FunctionDef: "a function inside a protocol; define a @protocol at module level and `yield from` it",
    ast.AsyncFunctionDef: "async; a protocol is a plain generator, write `def` and `yield`",
    ast.ClassDef: "a class inside a protocol; declare Shared and Local classes at module level",
    ast.Try: "try; a protocol has no exceptions, test a value with `if`",
    ast.Raise: "raise; write `assert condition, 'message'`",
    ast.With: "with; write `yield lock.acquire(mode)` and `yield lock.release(mode)` as the kernel does",
    ast.Import: "import inside a protocol; import at module level",
    ast.ImportFrom: "import inside a protocol; import at module level",
    ast.Global: "global; put shared state into a Shared class",
    ast.Nonlocal: "nonlocal; put shared state into a Shared class",
    ast.Delete: "del; nothing in a protocol needs deleting",
    ast.Match: "match; write if / elif",
    ast.Lambda: "lambda; write a sub-protocol",
    ast.List: "a list; shared lists are fields declared `list[Class]`",
    ast.Dict: "a dict; declare fields in a Shared class",
    ast.Set: "a set; declare fields in a Shared class",
    ast.ListComp: "a comprehension; write a `for ... in range(...)` loop",
    ast.SetComp: "a comprehension; write a `for ... in range(...)` loop",
    ast.DictComp: "a comprehension; write a `for ... in range(...)` loop",
    ast.GeneratorExp: "a generator expression; write a `for ... in range(...)` loop",
    ast.Await: "await; write `yield`",
    ast.NamedExpr: "`:=`; assign in a statement of its own",
    ast.JoinedStr: "an f-string; messages are plain text",
    ast.Starred: "`*`; name every argument",
    ast.Slice: "a slice; index one element",
    ast.AsyncFor: "async; a protocol is a plain generator",
    ast.AsyncWith: "async; a protocol is a plain generator",
    ast.Tuple: "a tuple; only `return a, b` and `a, b = yield from ...` have them",
}

# Functions of the vocabulary that are effects: opcode, number of arguments, has a result.
EFFECTS: dict[Any, tuple[str, int, bool]] = {
    language.cpu: ("CPU", 1, False),
    language.sleep: ("SLEEP", 1, False),
    language.choose: ("CHOOSE", 1, True),
    language.exponential: ("EXPONENTIAL", 1, True),
    language.begin_io: ("BEGIN", 0, False),
    language.end_submission: ("SUBMITTED", 0, False),
    language.complete_io: ("COMPLETE", 1, False),
}
DEFAULTS = {language.complete_io: -1}
"""Value of the last argument where it may be left out."""


@dataclass(frozen=True)
class Method:
    """A method of a primitive as an effect: `opcode`; what it takes besides the primitive; how many results it has.

    `takes`: "" nothing, "mode" a lock mode, "integer", "item" of the queue, "pair" two integers, "pair, integer" three.
    `results`: 0, 1, or 2 (by `a, b = yield ...`); `gives_item`: the result is an item of the queue.
    """

    opcode: str
    takes: str = ""
    results: int = 0
    gives_item: bool = False

    @property
    def arguments(self) -> int:
        return {"": 0, "mode": 1, "integer": 1, "item": 1, "pair": 2, "pair, integer": 3}[self.takes]


_EXCLUSIVE_METHODS = {
    "acquire": Method("ACQUIRE"),
    "try_acquire": Method("TRY", results=1),
    "release": Method("RELEASE"),
}
METHODS: dict[Any, dict[str, Method]] = {
    language.RWLock: {
        "acquire": Method("ACQUIRE", "mode"),
        "try_acquire": Method("TRY", "mode", results=1),
        "release": Method("RELEASE", "mode"),
        "demote": Method("DEMOTE"),
    },
    language.Mutex: _EXCLUSIVE_METHODS,
    language.SpinLock: _EXCLUSIVE_METHODS,
    language.Counter: {
        "inc": Method("INC"),
        "dec": Method("DEC", results=1),
        "wait_zero": Method("WAITZERO"),
    },
    language.Queue: {
        "put": Method("PUT", "item"),
        "get": Method("GET", results=1, gives_item=True),
    },
    language.Space: {
        "take": Method("TAKE", "integer"),
        "give": Method("GIVE", "integer"),
    },
    language.BlockMap: {
        "lookup": Method("LOOKUP", "pair", results=2),
        "fill": Method("FILL", "pair, integer"),
    },
}
READABLE: dict[Any, tuple[str, ...]] = {
    language.Counter: ("value",),
    language.Queue: ("length",),
    language.Space: ("free",),
    language.BlockMap: ("runs", "present"),
}
"""Properties of the primitives, which are read like fields."""


def kind_name(kind: Any) -> str:
    if kind is int:
        return "an integer"
    element = element_class(kind)
    if element is not None:
        return f"a list of {element.__name__}"
    if getattr(kind, "__origin__", None) is language.Queue:
        return f"a Queue of {item_of(kind).__name__}"
    return f"a {getattr(kind, '__name__', kind)}"


def use_of(kind: Any) -> str:
    primitive = primitive_of(kind)
    if primitive is not None:
        return f"use its methods: {', '.join((*METHODS[primitive], *READABLE.get(primitive, ())))}"
    if element_class(kind) is not None:
        return "index it or take its len()"
    return "use its fields"
