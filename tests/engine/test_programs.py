"""What both engines refuse before a run begins, in the same words."""

from __future__ import annotations

from typing import Any

import pytest

from fssim.engine import run
from fssim.errors import ProtocolError, UserError
from fssim.machine.host import Host
from fssim.protocol import Operation, cpu, path, protocol
from fssim.system import System, Thread
from tests.engine.scenes import ENGINES, Box

STEPS = 3
OTHER = 1
WORK = Operation(Box)


@protocol
def steps(box: Box):
    for _ in range(STEPS):
        yield cpu(path.step)


@protocol
def other(box: Box):
    yield cpu(OTHER)


@protocol
def bound(box: Box):
    yield from WORK(box)


def refused(*programs: Any, arguments: tuple[Any, ...] | None = None, **options: Any) -> list[UserError]:
    """The error of each engine."""
    errors = []
    for engine in ENGINES:
        given = (Box(),) if arguments is None else arguments
        threads = [Thread(program, given) for program in programs]
        with pytest.raises(UserError) as caught:
            run(System(threads=threads, **{"host": Host(cpus=1, path_ns={"step": 5}), **options}), engine=engine)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]) == str(errors[1])
    return errors


def test_a_code_path_that_the_host_does_not_have() -> None:
    error, _ = refused(steps, host=Host(cpus=1, path_ns={"stop": 5}))
    assert isinstance(error, ProtocolError)
    assert "step" in str(error)


def test_a_constant_that_no_program_uses() -> None:
    assert "constant STEP is used by no protocol" in str(refused(steps, constants={"STEP": 2})[0])
    assert "constant OTHER" in str(refused(steps, constants={"OTHER": 2})[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_one_program_that_uses_a_constant_is_enough(engine: str) -> None:
    threads = [Thread(program, (Box(),)) for program in (steps, other)]
    constants = {"STEPS": 2, "OTHER": 30}
    assert run(System(threads, Host(cpus=2, path_ns={"step": 5}), constants=constants), engine=engine).time_ns == 30


def test_an_operation_that_is_not_bound() -> None:
    assert "WORK" in str(refused(bound)[0])


def test_arguments_of_the_wrong_kind() -> None:
    assert "box is Box" in str(refused(steps, arguments=(3,))[0])
