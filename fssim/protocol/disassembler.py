"""Bytecode as text, each run of instructions under the source line it came from."""

from __future__ import annotations

import linecache
from pathlib import Path

from fssim.protocol.bytecode import OPCODE_NAMES, OPERANDS, PROPERTIES, Program


def disassemble(program: Program) -> str:
    """Return one line an instruction: index, opcode, operands; source lines stand above the code made from them."""
    constants = dict(program.constants)
    targets = {
        row[1 + OPERANDS[OPCODE_NAMES[row[0]]].index("target")]
        for row in program.code
        if "target" in OPERANDS[OPCODE_NAMES[row[0]]]
    }

    def operand(kind: str, value: int) -> str:
        if kind == "target":
            return f"->{value}"
        if kind == "member":
            cls, name = program.members[value]
            return f"{cls.__name__}.{name}"
        if kind == "text":
            return repr(program.texts[value])
        if kind == "property":
            return PROPERTIES[value]
        if kind in ("dst2", "pair"):
            return f"{operand('a', value)}, {operand('a', value + 1)}"
        if value in constants:
            return f"#{constants[value]}"
        known = program.register_names.get(value)
        return f"r{value}" + (f":{known}" if known else "")

    lines = [f"program {program.name}: {len(program.code)} instructions, {program.registers} registers"]
    previous = ("", -1)
    for index, row in enumerate(program.code):
        here = (program.files[index], program.lines[index])
        if here != previous and here[1]:
            text = linecache.getline(*here).strip()
            lines.append(f"{Path(here[0]).name}:{here[1]:<5} {text}")
        previous = here
        name = OPCODE_NAMES[row[0]]
        operands = ", ".join(operand(kind, row[k]) for k, kind in enumerate(OPERANDS[name], start=1))
        mark = ">" if index in targets else " "
        lines.append(f"  {mark}{index:4d}  {name:<11} {operands}".rstrip())
    return "\n".join(lines) + "\n"
