"""Results that do not fit into 64 bits end a run, on both engines and at the same operation."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from fssim.errors import BadValue
from fssim.protocol import cpu, protocol
from tests.engine.scenes import ENGINES, Box, play

pytestmark = pytest.mark.parametrize("engine", ENGINES)

HIGHEST = 2**63 - 1
LOWEST = -(2**63)
EDGES = (LOWEST, LOWEST + 1, LOWEST // 2, -(2**32), -(2**31), -2, -1, 0, 1, 2, 2**31, 2**32 - 1, 2**62, HIGHEST)


@protocol
def add(box: Box, a: int, b: int):
    box.value = a + b


@protocol
def subtract(box: Box, a: int, b: int):
    box.value = a - b


@protocol
def multiply(box: Box, a: int, b: int):
    box.value = a * b


@protocol
def divide(box: Box, a: int, b: int):
    box.value = a // b


@protocol
def remainder(box: Box, a: int, b: int):
    box.value = a % b


@protocol
def negate(box: Box, a: int, b: int):
    box.value = -a


@protocol
def shift(box: Box, a: int, b: int):
    box.value = a << 31


@protocol
def add_to_field(box: Box, a: int, b: int):
    box.value = a
    box.value += b


@protocol
def subtract_from_variable(box: Box, a: int, b: int):
    a -= b
    box.value = a


OPERATIONS: tuple[tuple[Any, Callable[[int, int], int]], ...] = (
    (add, operator.add),
    (subtract, operator.sub),
    (multiply, operator.mul),
    (divide, operator.floordiv),
    (remainder, operator.mod),
    (negate, lambda a, b: -a),
    (shift, lambda a, b: a << 31),
    (add_to_field, operator.add),
    (subtract_from_variable, operator.sub),
)


@pytest.mark.parametrize(("program", "exact"), OPERATIONS, ids=[program.name for program, _ in OPERATIONS])
def test_a_result_is_exact_or_the_run_ends(engine: str, program: Any, exact: Callable[[int, int], int]) -> None:
    random = Random(1)
    pairs = [(a, b) for a in EDGES for b in EDGES]
    pairs += [(random.getrandbits(n) - 2 ** (n - 1), random.getrandbits(n) - 2 ** (n - 1)) for n in range(25, 65)]
    for a, b in pairs:
        if b == 0 and exact in (operator.floordiv, operator.mod):
            continue
        result = play(engine, (program, a, b), check=False)
        if LOWEST <= exact(a, b) <= HIGHEST:
            assert result.error is None, (a, b)
            assert dict(result.final)["box.value"] == exact(a, b), (a, b)
        else:
            assert isinstance(result.error, BadValue), (a, b)
            assert result.error.detail == "a result that does not fit into 64 bits"


@protocol
def in_the_middle(box: Box, a: int):
    box.value = (
        a - 1
        + (a + 1)  # HERE
        - a
    )  # fmt: skip
    yield cpu(1)


def test_the_error_names_the_line_of_the_operation(engine: str) -> None:
    result = play(engine, (in_the_middle, HIGHEST), check=False)
    assert isinstance(result.error, BadValue)
    lines = inspect.getsource(in_the_middle.function).splitlines()
    here = next(number for number, line in enumerate(lines) if "HERE" in line)
    assert result.error.line == in_the_middle.function.__code__.co_firstlineno + here
    assert dict(result.final)["box.value"] == 0


@protocol
def count_by_steps(box: Box, start: int, stop: int):
    for _ in range(start, stop, 5):
        box.value += 1


@protocol
def count_down(box: Box, start: int, stop: int):
    for _ in range(start, stop, -5):
        box.value += 1


@protocol
def count_by_ones(box: Box, start: int, stop: int):
    for _ in range(start, stop):
        box.value += 1


@pytest.mark.parametrize(
    ("program", "start", "stop", "turns", "fits"),
    [
        (count_by_steps, HIGHEST - 10, HIGHEST, 2, True),
        (count_by_steps, HIGHEST - 9, HIGHEST, 2, False),
        (count_down, LOWEST + 10, LOWEST, 2, True),
        (count_down, LOWEST + 9, LOWEST, 2, False),
        (count_by_ones, HIGHEST - 3, HIGHEST, 3, True),
        (count_by_steps, 3, 3, 0, True),
        (count_down, 3, 3, 0, True),
    ],
)
def test_the_counter_of_a_loop(engine: str, program: Any, start: int, stop: int, turns: int, fits: bool) -> None:
    result = play(engine, (program, start, stop), check=False)
    assert dict(result.final)["box.value"] == turns
    assert (result.error is None) is fits
