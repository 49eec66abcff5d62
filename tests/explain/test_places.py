"""A row of the log is found in the text, also where line numbers alone do not tell."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from fssim import engine
from fssim.explain.places import Route, place_of
from fssim.explain.timeline import timeline_of
from fssim.machine.host import Host
from fssim.protocol.bytecode import OPCODES
from fssim.system import System, Thread

ONE_LINE = """
from fssim.protocol import cpu, protocol

@protocol
def NAME():
    yield cpu(COST)
    yield cpu(1)
"""

CALLS = """
from fssim.protocol import Mutex, Shared, cpu, protocol
from tests_explain_first import first
from tests_explain_second import second

class Box(Shared):
    mutex: Mutex

@protocol
def main(choice: int, box: Box):
    yield box.mutex.acquire()
    if choice == 0:
        yield from first()
    else:
        yield from second()
        yield box.mutex.release()
        yield box.mutex.acquire()
    yield box.mutex.release()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A program that calls one of two protocols, with the same effects in the same lines of two files."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, cost in (("first", 10), ("second", 20)):
        text = ONE_LINE.replace("NAME", name).replace("COST", str(cost))
        (tmp_path / f"tests_explain_{name}.py").write_text(text)
    file = tmp_path / "tests_explain_calls.py"
    file.write_text(CALLS)
    spec = importlib.util.spec_from_file_location("tests_explain_calls", file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize(("choice", "name"), [(0, "first"), (1, "second")])
def test_lines_of_two_files_are_told_apart_by_what_comes_after(module: Any, choice: int, name: str) -> None:
    system = System(threads=[Thread(module.main, (choice, module.Box()))], host=Host(cpus=1), log=True)
    timeline = timeline_of(system, engine.run(system))
    computed = [place for (_, _, kind, _, _), place in timeline.steps[0] if kind == OPCODES["CPU"]]
    assert [place.function for place in computed] == [name, name]
    assert [Path(place.file).name for place in computed] == [f"tests_explain_{name}.py"] * 2
    assert computed[1].text == "yield cpu(1)"


def test_a_log_of_another_program_is_refused(module: Any) -> None:
    program = module.first.compile()
    with pytest.raises(AssertionError, match="line 99, to which no way"):
        Route(program, ()).follow([(0, 99, OPCODES["CPU"], -1, 10)])


def test_the_innermost_function_is_named() -> None:
    line = place_of.__wrapped__.__code__.co_firstlineno + 2
    assert place_of(place_of.__wrapped__.__code__.co_filename, line).function == "place_of"
    assert place_of("no such file", 3).function == ""
