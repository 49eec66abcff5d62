"""Small scenes for tests of single rules: a box of locks, programs that use it, and what happened as short tuples."""

from __future__ import annotations

from typing import Any

from fssim.engine import run
from fssim.machine.host import Host
from fssim.protocol import (
    EXCLUSIVE,
    Counter,
    Mutex,
    RWLock,
    Shared,
    SpinLock,
    cpu,
    protocol,
    sleep,
)
from fssim.protocol.bytecode import LOG_NAMES, OPCODE_NAMES
from fssim.system import RunResult, System, Thread

ENGINES = ("reference", "compiled")


class Box(Shared):
    rwlock: RWLock
    other: RWLock
    mutex: Mutex
    spin: SpinLock
    latch: SpinLock
    count: Counter
    value: int


@protocol
def use_rwlock(box: Box, after: int, mode: int, work: int):
    """Run, take the rwlock, run, release it."""
    yield cpu(after)
    yield box.rwlock.acquire(mode)
    yield cpu(work)
    yield box.rwlock.release(mode)


@protocol
def sleep_with_rwlock(box: Box, after: int, mode: int, rest: int):
    """As `use_rwlock`, but the owner sleeps."""
    yield cpu(after)
    yield box.rwlock.acquire(mode)
    yield sleep(rest)
    yield box.rwlock.release(mode)


@protocol
def demote_rwlock(box: Box, before: int, behind: int):
    yield box.rwlock.acquire(EXCLUSIVE)
    yield cpu(before)
    yield box.rwlock.demote()
    yield cpu(behind)
    yield box.rwlock.release(1)


@protocol
def use_mutex(box: Box, after: int, work: int):
    yield cpu(after)
    yield box.mutex.acquire()
    yield cpu(work)
    yield box.mutex.release()


@protocol
def sleep_with_mutex(box: Box, after: int, rest: int):
    yield cpu(after)
    yield box.mutex.acquire()
    yield sleep(rest)
    yield box.mutex.release()


@protocol
def use_spin(box: Box, after: int, work: int):
    yield cpu(after)
    yield box.spin.acquire()
    yield cpu(work)
    yield box.spin.release()


@protocol
def compute(box: Box, first: int, second: int):
    yield cpu(first)
    yield cpu(second)


@protocol
def rest(box: Box, nanoseconds: int):
    yield sleep(nanoseconds)


def play(engine: str, *programs: tuple[Any, ...], host: Host | None = None, **options: Any) -> RunResult:
    """Run programs on one box: each is (protocol, integers...).  The default host has 8 CPUs and no latency."""
    box = Box()
    threads = [Thread(program, (box, *integers)) for program, *integers in programs]
    check = options.pop("check", True)
    system = System(threads=threads, host=host or Host(cpus=8), log=True, **options)
    return run(system, engine=engine, check=check)


def rows(result: RunResult, *kinds: str) -> list[tuple[Any, ...]]:
    """(time, thread, kind, value) of the rows of these kinds, or all; `kind` alone decides, not the object."""
    assert result.log is not None
    found = []
    for time_ns, thread, _, kind, _, value in result.log.tolist():
        name = OPCODE_NAMES[kind] if kind < len(OPCODE_NAMES) else LOG_NAMES[kind]
        if not kinds or name in kinds:
            found.append((time_ns, thread, name, value))
    return found


def times(result: RunResult, kind: str) -> list[tuple[int, int]]:
    """(time, thread) of the rows of one kind."""
    return [(time_ns, thread) for time_ns, thread, _, _ in rows(result, kind)]
