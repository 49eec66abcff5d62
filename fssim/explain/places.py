"""Where in the text a row of the log was written: a thread is followed through its program.

A row has a line but no file, and the same line may stand in a protocol that is called from two places.  The program is
one flat piece of code, so that the effects which may come after an effect are few: opcode, line and object of the next
row tell which of them it is.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from fssim.protocol.bytecode import OPCODES, OPERANDS, Program

Row = tuple[int, int, int, int, int]
"""(time_ns, line, kind, object, value) of one thread."""

_EFFECTS = {number for name, number in OPCODES.items() if number >= OPCODES["ACQUIRE"] and name != "ASSERT"}
_TARGETS = {OPCODES[name]: 1 + kinds.index("target") for name, kinds in OPERANDS.items() if "target" in kinds}
_MEMBERS = {OPCODES[name]: 1 + kinds.index("member") for name, kinds in OPERANDS.items() if "member" in kinds}
_JUMP, _END, _WAITZERO = OPCODES["JMP"], OPCODES["END"], OPCODES["WAITZERO"]


@dataclass(frozen=True)
class Place:
    """A line of a protocol: the innermost sub-protocol, and its text."""

    function: str
    file: str
    line: int
    text: str


NOWHERE = Place("", "", 0, "")


@cache
def place_of(file: str, line: int) -> Place:
    """Return what stands at a line of a file of protocols."""
    spans = [span for span in _functions(file) if span[0] <= line <= span[1]]
    name = max(spans)[2] if spans else ""  # the innermost begins last
    return Place(name, file, line, linecache.getline(file, line).strip())


@cache
def _functions(file: str) -> tuple[tuple[int, int, str], ...]:
    """First line, last line and name of every function of a file, or of a notebook's cell."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # the magic commands of a notebook
        return ()
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return tuple((node.lineno, node.end_lineno or node.lineno, node.name) for node in nodes)


class Route:
    """The ways through a program, from effect to effect."""

    def __init__(self, program: Program, objects: Sequence[str]) -> None:
        self._program = program
        self._members = [name.rsplit(".", 1)[-1].split("[")[0] for name in objects]
        self._next: dict[int, dict[tuple[int, int], list[int]]] = {}
        self.places = [
            place_of(file, line) if line else NOWHERE for file, line in zip(program.files, program.lines, strict=True)
        ]

    def follow(self, rows: Sequence[Row]) -> list[int]:
        """Return, for each row of a thread, the instruction of its effect; -1 for rows that are no effects.

        Where two files have the same effect in the same line, what comes after tells which of them it was.
        """
        possible: list[set[int]] = []
        at = {-1}
        again = False  # a woken waiter looks at its counter again: a new row of the same effect
        for _, line, kind, obj, value in rows:
            if kind in _EFFECTS and not (again and kind == _WAITZERO):
                at = self._step(at, line, kind, obj)
            if kind in _EFFECTS:
                again = kind == _WAITZERO and value > 0
            possible.append(at)
        found = [-1] * len(rows)
        after: int | None = None
        for number in range(len(rows) - 1, -1, -1):
            at = possible[number]
            if len(at) > 1 and after is not None and after not in at:
                at = {here for here in at if self._leads(here, after)}
            here = after if after in at else min(at)
            after = here
            if rows[number][2] in _EFFECTS:
                found[number] = here
        return found

    def _leads(self, here: int, there: int) -> bool:
        return any(there in targets for targets in self._after(here).values())

    def _step(self, at: set[int], line: int, kind: int, obj: int) -> set[int]:
        found = {there for here in at for there in self._after(here).get((kind, line), ())}
        if len(found) > 1 and obj >= 0:
            same = {there for there in found if self._member(there) == self._members[obj]}
            found = same or found
        if not found:
            raise AssertionError(f"the log has line {line}, to which no way through {self._program.name} leads")
        return found

    def _member(self, instruction: int) -> str:
        row = self._program.code[instruction]
        position = _MEMBERS.get(row[0])
        return self._program.members[row[position]][1] if position is not None else ""

    def _after(self, instruction: int) -> dict[tuple[int, int], list[int]]:
        """The effects to which control may come next, by opcode and line."""
        if instruction in self._next:
            return self._next[instruction]
        code, lines = self._program.code, self._program.lines
        found: dict[tuple[int, int], list[int]] = {}
        seen: set[int] = set()
        todo = [instruction + 1]
        while todo:
            here = todo.pop()
            if here in seen:
                continue
            seen.add(here)
            opcode = code[here][0]
            if opcode in _EFFECTS:
                found.setdefault((opcode, lines[here]), []).append(here)
                continue
            if opcode in _TARGETS:
                todo.append(code[here][_TARGETS[opcode]])
            if opcode not in (_JUMP, _END):
                todo.append(here + 1)
        self._next[instruction] = found
        return found
