"""Block maps: `docs/semantics.md` section 5, by hand and against a plain list of states."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from fssim.engine import messages, run
from fssim.errors import BadValue
from fssim.machine.host import Host
from fssim.protocol import BlockMap, Shared, SpinLock, choose, cpu, protocol
from fssim.system import RunResult, System, Thread
from tests.engine.scenes import ENGINES, rows

pytestmark = pytest.mark.parametrize("engine", ENGINES)

LARGEST = 2**63 - 1


class File(Shared):
    extents: BlockMap
    latch: SpinLock
    state: int
    run: int


def play(engine: str, extents: BlockMap, program: Any, *integers: int, **options: Any) -> RunResult:
    file = File(extents=extents)
    check = options.pop("check", True)
    system = System(threads=[Thread(program, (file, *integers))], host=Host(cpus=1, cache_line_ns=9), log=True)
    return run(system, engine=engine, check=check)


@protocol
def look_up(file: File, block: int, count: int):
    state, run = yield file.extents.lookup(block, count)
    file.state = state
    file.run = run


@pytest.mark.parametrize(
    ("block", "count", "state", "run"),
    [
        (0, 1, 0, 1),
        (0, 9, 0, 2),  # ends where the state changes
        (1, 9, 0, 1),  # begins at the block that is asked for, not where its run does
        (2, 2, 1, 2),  # ends with what is asked for
        (2, 9, 1, 3),
        (5, 9, 3, 1),  # ends where another state follows, also if that is not 0
        (6, 9, 2, 2),  # what lies beyond the last block has the state 0
        (8, 5, 0, 5),
        (LARGEST, 5, 0, 5),
    ],
)
def test_a_lookup_tells_the_state_and_of_how_many_blocks_it_is(
    engine: str, block: int, count: int, state: int, run: int
) -> None:
    result = play(engine, BlockMap(contents=bytes([0, 0, 1, 1, 1, 3, 2, 2])), look_up, block, count)
    assert rows(result) == [(0, 0, "LOOKUP", run * 4 + state), (0, 0, "END", 0)]
    assert result.final == (("file.state", state), ("file.run", run))


def test_the_holes_at_the_end_go_on_beyond_the_last_block(engine: str) -> None:
    assert rows(play(engine, BlockMap(contents=bytes([1, 0, 0])), look_up, 1, 50), "LOOKUP")[0][3] == 50 * 4
    assert rows(play(engine, BlockMap(), look_up, 0, 50), "LOOKUP")[0][3] == 50 * 4
    assert rows(play(engine, BlockMap(3, state=2), look_up, 1, 50), "LOOKUP")[0][3] == 2 * 4 + 2


def test_the_largest_numbers_are_no_error(engine: str) -> None:
    result = play(engine, BlockMap(4), look_up, LARGEST, LARGEST)
    assert result.final == (("file.state", 0), ("file.run", LARGEST))
    result = play(engine, BlockMap(4, state=1), look_up, 1, LARGEST)
    assert result.final == (("file.state", 1), ("file.run", 3))


@protocol
def fill(file: File, block: int, count: int, state: int):
    yield file.extents.fill(block, count, state)


@pytest.mark.parametrize(
    ("program", "operands"),
    [
        (look_up, (-1, 1)),
        (look_up, (0, 0)),
        (look_up, (0, -1)),
        (fill, (-1, 1, 0)),
        (fill, (0, 0, 0)),
        (fill, (0, 5, 0)),
        (fill, (3, 2, 0)),
        (fill, (4, 1, 0)),
        (fill, (1, LARGEST, 0)),
        (fill, (LARGEST, 1, 0)),
        (fill, (0, 1, -1)),
        (fill, (0, 1, 4)),
        (fill, (0, 1, 2**32)),
    ],
)
def test_blocks_and_states_out_of_range_end_the_run_without_a_row(
    engine: str, program: Any, operands: tuple[int, ...]
) -> None:
    result = play(engine, BlockMap(4), program, *operands, check=False)
    assert isinstance(result.error, BadValue)
    assert (result.error.detail, result.error.thread, result.error.lock) == (messages.BAD_BLOCKS, 0, "file.extents")
    assert result.error.line > 0
    assert rows(result) == []


@protocol
def fill_and_look(file: File):
    yield file.latch.acquire()
    yield cpu(file.extents.runs)
    yield cpu(file.extents.present)
    yield file.extents.fill(4, 2, 1)
    yield cpu(file.extents.runs)
    yield cpu(file.extents.present)
    yield file.extents.fill(6, 2, 2)
    yield cpu(file.extents.runs)
    yield cpu(file.extents.present)
    yield file.extents.fill(2, 3, 2)
    yield cpu(file.extents.runs)
    yield cpu(file.extents.present)
    yield file.extents.fill(5, 1, 2)
    yield cpu(file.extents.runs)
    yield cpu(file.extents.present)
    yield file.extents.fill(4, 1, 0)
    yield cpu(file.extents.runs)
    yield cpu(file.extents.present)
    yield file.latch.release()


def test_runs_and_present_blocks_are_up_to_date_after_every_fill(engine: str) -> None:
    result = play(engine, BlockMap(8), fill_and_look)
    assert [value for _, _, _, value in rows(result, "CPU")] == [
        *(0, 0),  # 00000000
        *(1, 2),  # 00001100
        *(2, 4),  # 00001122: a neighbour in another state does not merge
        *(3, 6),  # 00222122
        *(1, 6),  # 00222222: two merge with what is between them
        *(2, 5),  # 00220222
    ]
    assert [value for _, _, _, value in rows(result, "FILL")] == [9, 10, 14, 6, 4]
    # Nothing of this costs time but the CPU effects; a spinlock holder may do it all.
    assert result.time_ns == 0 + 0 + 1 + 2 + 2 + 4 + 3 + 6 + 1 + 6 + 2 + 5


@protocol
def peek(file: File):
    file.state = file.extents.present
    file.run = file.extents.runs
    yield cpu(0)


@pytest.mark.parametrize(
    ("extents", "present", "runs"),
    [
        (BlockMap(), 0, 0),
        (BlockMap(7), 0, 0),
        (BlockMap(7, state=3), 7, 1),
        (BlockMap(contents=bytes([1, 2, 2, 0, 2])), 4, 3),
        (BlockMap(3_000_000, state=1), 3_000_000, 1),
    ],
)
def test_a_map_is_counted_as_it_is_at_the_beginning(engine: str, extents: BlockMap, present: int, runs: int) -> None:
    result = play(engine, extents, peek)
    assert result.final == (("file.state", present), ("file.run", runs))


def test_a_run_works_on_its_own_copy_of_the_map(engine: str) -> None:
    extents = BlockMap(contents=bytes(8))
    first = play(engine, extents, fill_and_look)
    assert play(engine, extents, fill_and_look).fingerprint == first.fingerprint
    assert extents.contents == bytes(8)


BLOCKS = 40


@protocol
def fill_at_random(file: File, times: int):
    """Every turn logs what it draws, fills, and then looks at the counts and at one lookup."""
    for _ in range(times):
        block = yield choose(40)
        count = yield choose(40 - block)
        state = yield choose(4)
        yield file.extents.fill(block, count + 1, state)
        yield cpu(file.extents.runs)
        yield cpu(file.extents.present)
        block = yield choose(50)
        count = yield choose(50)
        yield file.extents.lookup(block, count + 1)


def test_a_map_does_what_a_list_of_states_does(engine: str) -> None:
    states = [0] * BLOCKS
    values = [value for _, _, _, value in rows(play(engine, BlockMap(BLOCKS), fill_at_random, 300))]
    for at in range(0, 300 * 9, 9):
        block, more, state, filled, runs, present, asked, asked_more, found = values[at : at + 9]
        states[block : block + more + 1] = [state] * (more + 1)
        assert filled == (more + 1) * 4 + state
        assert runs == sum(1 for state, _ in groupby(states) if state)
        assert present == sum(1 for state in states if state)
        part = (states + [0] * 100)[asked : asked + asked_more + 1]
        state, run = next((state, len(list(run))) for state, run in groupby(part))
        assert found == run * 4 + state
