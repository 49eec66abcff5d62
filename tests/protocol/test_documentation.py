"""The examples of `docs/language.md` run, one after the other as one program, and print what the text says."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import sys
import types
from pathlib import Path

import pytest

from fssim.protocol.bytecode import OPCODE_NAMES
from fssim.protocol.language import PRIMITIVES
from fssim.protocol.subset import EFFECTS, METHODS, READABLE

TEXT = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def program():
    """An empty module that Python knows by name, for classes that refer to each other."""
    made = types.ModuleType("fssim_language_example")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_the_examples_run_and_print_what_is_written_below_them(program):
    assert [language for language, _ in BLOCKS] == ["python", "python", "text"]
    printed = ""
    for number, (language, text) in enumerate(BLOCKS):
        if language == "text":
            assert printed == text
            continue
        filename = f"<docs/language.md, example {number}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            exec(compile(text, filename, "exec"), program.__dict__)
        printed = shown.getvalue()


def test_every_primitive_method_property_and_effect_is_described():
    missing = [kind.__name__ for kind in PRIMITIVES if f"`{kind.__name__}" not in TEXT]
    missing += [name for methods in METHODS.values() for name in methods if f".{name}(" not in TEXT]
    missing += [
        name for names in READABLE.values() for name in names if f"`{name}`" not in TEXT and f".{name}`" not in TEXT
    ]
    missing += [function.__name__ for function in EFFECTS if f"yield {function.__name__}(" not in TEXT]
    assert missing == []


def test_every_effect_of_the_bytecode_comes_from_the_vocabulary():
    """So that the tables, and with them the check above, are complete."""
    effects = OPCODE_NAMES[OPCODE_NAMES.index("ACQUIRE") : OPCODE_NAMES.index("ASSERT")]
    named = {method.opcode for methods in METHODS.values() for method in methods.values()}
    named |= {opcode for opcode, _, _ in EFFECTS.values()} | {"READ", "WRITE", "SUBMITR", "SUBMITW"}
    assert named == set(effects)
