"""`complete_io(since)`: the instant at which an I/O began lies not behind now (section 4)."""

from __future__ import annotations

import pytest

from fssim.engine import messages, run
from fssim.errors import BadValue
from fssim.machine.host import Host
from fssim.protocol import Shared, begin_io, complete_io, cpu, protocol
from fssim.system import RunResult, System, Thread
from tests.engine.scenes import ENGINES, rows

pytestmark = pytest.mark.parametrize("engine", ENGINES)


class Nothing(Shared):
    value: int


@protocol
def complete_since(nothing: Nothing, since: int):
    yield cpu(10)
    yield begin_io()
    yield complete_io(since)
    nothing.value = 1


def play(engine: str, since: int) -> RunResult:
    system = System(threads=[Thread(complete_since, (Nothing(), since))], host=Host(cpus=1), log=True, seed=4)
    return run(system, engine=engine, check=False)


@pytest.mark.parametrize(("since", "latency_ns"), [(10, 0), (9, 1), (0, 10), (-1, 0), (-(2**63), 0)])
def test_an_io_that_began_now_or_before_is_complete(engine: str, since: int, latency_ns: int) -> None:
    result = play(engine, since)
    assert (result.error, result.ios, result.latency_ns) == (None, 1, latency_ns)


@pytest.mark.parametrize("since", [11, 2**63 - 1])
def test_an_io_that_began_later_than_now_ends_the_run_and_is_not_counted(engine: str, since: int) -> None:
    result = play(engine, since)
    error = result.error
    assert isinstance(error, BadValue)
    assert (error.detail, error.thread, error.lock, error.time_ns, error.seed) == (messages.BAD_SINCE, 0, "", 10, 4)
    assert error.line == complete_since.tree.lineno + 3
    assert [kind for _, _, kind, _ in rows(result)] == ["CPU", "BEGIN"]
    assert (result.ios, result.in_flight_ns) == (0, 0)
