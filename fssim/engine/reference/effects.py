"""Interprets the effects that a protocol yields: the language's rules and their log rows (sections 4 to 9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from fssim.engine import messages
from fssim.engine.random import MASK, below
from fssim.engine.reference.block_maps import BlockStates
from fssim.engine.reference.counters import WaitedCounter
from fssim.engine.reference.devices import Request, StorageDevice, Target
from fssim.engine.reference.locks import Lock
from fssim.engine.reference.queues import WaitedQueue
from fssim.engine.reference.scheduler import Scheduler
from fssim.engine.reference.simulation import WAITS, Finished
from fssim.engine.reference.spaces import WaitedSpace
from fssim.engine.reference.statistics import Statistics
from fssim.engine.reference.thread import SimThread
from fssim.errors import (
    AssertionFailed,
    BadValue,
    DemoteNotHeld,
    DoubleRelease,
    HeldAtExit,
    NoProgress,
    NotHeld,
    RecursiveAcquire,
    RunError,
    SleepInAtomic,
    StepLimit,
)
from fssim.protocol import language, native
from fssim.protocol.bytecode import LOG_DEVICE_DONE, LOG_END, LOG_RESUME, OPCODES
from fssim.protocol.language import EXCLUSIVE, LAST_STATE, SHARED, Primitive, StandsStill, running

NO_OBJECT = -1

HELPER_FILES = {__file__, language.__file__, native.__file__}
"""Files with frames that are not a protocol's own when it raises an exception."""

PROTOCOL_FAULTS: dict[type[Exception], tuple[type[RunError], str]] = {
    ZeroDivisionError: (BadValue, messages.DIVISION_BY_ZERO),
    IndexError: (BadValue, messages.BAD_INDEX),
    ValueError: (BadValue, messages.BAD_SHIFT),
    native.DoesNotFit: (BadValue, messages.OVERFLOW),
    OverflowError: (BadValue, messages.BAD_SHIFT),
    AssertionError: (AssertionFailed, messages.ASSERTION_FAILED),
    StandsStill: (NoProgress, messages.NO_PROGRESS),
}
"""What Python raises inside a protocol, and the error that the run ends with."""


class Interpreter:
    """Runs thread programs: sends results into a generator until its thread must wait or ends."""

    def __init__(self, scheduler: Scheduler, statistics: Statistics, max_effects: int) -> None:
        self.device: StorageDevice | None = None
        self._scheduler = scheduler
        self._statistics = statistics
        self._simulation = scheduler.simulation
        self._touches_cost = scheduler.simulation.host.cache_line_ns > 0
        self._effects_left = max_effects
        self._unfinished = 0
        self._perform: dict[str, Callable[[SimThread, Any, Any], Any]] = {
            "ACQUIRE": self._acquire,
            "TRY": self._try_acquire,
            "RELEASE": self._release,
            "DEMOTE": self._demote,
            "INC": self._increment,
            "DEC": self._decrement,
            "WAITZERO": self._wait_zero,
            "PUT": self._put,
            "GET": self._get,
            "TAKE": self._take,
            "GIVE": self._give,
            "LOOKUP": self._lookup,
            "FILL": self._fill,
            "CPU": self._cpu,
            "SLEEP": self._sleep,
            "READ": partial(self._transfer, "READ"),
            "WRITE": partial(self._transfer, "WRITE"),
            "SUBMITR": partial(self._submit, "SUBMITR"),
            "SUBMITW": partial(self._submit, "SUBMITW"),
            "CHOOSE": self._choose,
            "EXPONENTIAL": self._exponential,
            "BEGIN": self._begin,
            "SUBMITTED": self._submitted,
            "COMPLETE": self._complete,
        }

    def start(self, thread: SimThread) -> None:
        """Schedule the beginning of a thread's program."""
        self._unfinished += not thread.daemon
        thread.then = self.go_on
        self._scheduler.start(thread)

    @property
    def has_unfinished_threads(self) -> bool:
        """True while a thread that is no daemon has not returned."""
        return self._unfinished > 0

    def go_on(self, thread: SimThread, result: Any = None) -> None:
        """Send its last effect's result into the thread's program, and perform what it yields until it must wait."""
        send = thread.generator.send
        running.thread = thread.number
        while True:
            try:
                name, target, operand = send(result)
            except StopIteration:
                self._end(thread)
                return
            except tuple(PROTOCOL_FAULTS) as fault:
                raise self._protocol_fault(thread, fault) from fault
            if self._effects_left == 0:
                raise self._simulation.error(StepLimit, messages.STEP_LIMIT, thread)
            self._effects_left -= 1
            result = self._perform[name](thread, target, operand)
            if result is WAITS:
                return

    def go_on_after_wait(self, thread: SimThread, result: Any = None) -> None:
        """A thread that blocked or spun has what it waited for, and a CPU."""
        self._simulation.log(thread, LOG_RESUME, NO_OBJECT, 0)
        self.go_on(thread, result)

    def device_done(self, request: Request) -> None:
        """The device has completed a request."""
        self._simulation.log(request.thread, LOG_DEVICE_DONE, NO_OBJECT, request.length, line=request.line)
        if request.target is None:
            self._scheduler.interrupt(request.thread)
        else:
            request.target.tell(request)

    # Locks

    def _acquire(self, thread: SimThread, primitive: Primitive, mode: int) -> Any:
        lock: Lock = primitive.state
        self._check_mode(thread, lock, mode)
        if lock in thread.held:
            raise self._simulation.error(RecursiveAcquire, messages.RECURSIVE_ACQUIRE, thread, lock.name)
        if lock.sleeps:
            self._check_may_sleep(thread, lock.name)
        self._simulation.log(thread, OPCODES["ACQUIRE"], lock.number, mode)
        return self._after_touch(thread, lock, lock.acquire, mode)

    def _try_acquire(self, thread: SimThread, primitive: Primitive, mode: int) -> Any:
        lock: Lock = primitive.state
        self._check_mode(thread, lock, mode)
        if lock in thread.held:
            self._simulation.log(thread, OPCODES["TRY"], lock.number, 0)
            return 0
        return self._after_touch(thread, lock, partial(self._try_now, lock), mode)

    def _try_now(self, lock: Lock, thread: SimThread, mode: int) -> int:
        got = lock.try_acquire(thread, mode)
        self._simulation.log(thread, OPCODES["TRY"], lock.number, got)
        return got

    def _release(self, thread: SimThread, primitive: Primitive, mode: int) -> Any:
        lock: Lock = primitive.state
        hold = thread.held.get(lock)
        if hold is None and lock.last_released_by is thread:
            raise self._simulation.error(DoubleRelease, messages.DOUBLE_RELEASE, thread, lock.name)
        if hold is None or hold[0] != mode:
            raise self._simulation.error(NotHeld, messages.NOT_HELD, thread, lock.name)
        self._simulation.log(thread, OPCODES["RELEASE"], lock.number, mode)
        return self._after_touch(thread, lock, lock.release, mode)

    def _demote(self, thread: SimThread, primitive: Primitive, operand: int) -> Any:
        lock: Lock = primitive.state
        hold = thread.held.get(lock)
        if hold is None or hold[0] != EXCLUSIVE:
            raise self._simulation.error(DemoteNotHeld, messages.DEMOTE_NOT_HELD, thread, lock.name)
        self._simulation.log(thread, OPCODES["DEMOTE"], lock.number, 0)
        return self._after_touch(thread, lock, lock.demote, operand)

    # Counters

    def _increment(self, thread: SimThread, primitive: Primitive, operand: int) -> Any:
        counter: WaitedCounter = primitive.state
        return self._after_touch(thread, counter, counter.increment, operand)

    def _decrement(self, thread: SimThread, primitive: Primitive, operand: int) -> Any:
        counter: WaitedCounter = primitive.state
        return self._after_touch(thread, counter, counter.decrement, operand)

    def _wait_zero(self, thread: SimThread, primitive: Primitive, _: int) -> Any:
        counter: WaitedCounter = primitive.state
        self._check_may_sleep(thread, counter.name)
        return counter.wait_zero(thread)

    def _after_touch(
        self,
        thread: SimThread,
        target: Lock | WaitedCounter,
        operation: Callable[[SimThread, int], Any],
        operand: int,
    ) -> Any:
        """Perform an operation on a lock or counter when its cache line is there; return its result or `WAITS`."""
        delay_ns = target.line.touch(thread, self._simulation.now) if self._touches_cost else 0
        if delay_ns == 0:
            return operation(thread, operand)

        def perform(thread: SimThread) -> None:
            result = operation(thread, operand)
            if result is not WAITS:
                self.go_on(thread, result)

        thread.then = perform
        self._scheduler.run_after(thread, delay_ns)
        return WAITS

    # Queues, spaces and block maps

    def _put(self, thread: SimThread, primitive: Primitive, item: Any) -> None:
        queue: WaitedQueue = primitive.state
        queue.put(thread, item)

    def _get(self, thread: SimThread, primitive: Primitive, _: int) -> Any:
        queue: WaitedQueue = primitive.state
        self._check_may_sleep(thread, queue.name)
        return queue.get(thread)

    def _take(self, thread: SimThread, primitive: Primitive, units: int) -> Any:
        space: WaitedSpace = primitive.state
        if not 1 <= units <= space.capacity:
            raise self._simulation.error(BadValue, messages.BAD_UNITS, thread, space.name)
        self._check_may_sleep(thread, space.name)
        return space.take(thread, units)

    def _give(self, thread: SimThread, primitive: Primitive, units: int) -> None:
        space: WaitedSpace = primitive.state
        if units < 1:
            raise self._simulation.error(BadValue, messages.BAD_UNITS, thread, space.name)
        if space.free + units > space.capacity:
            raise self._simulation.error(BadValue, messages.TOO_MUCH_GIVEN, thread, space.name)
        space.give(thread, units)

    def _lookup(self, thread: SimThread, primitive: Primitive, extent: tuple[int, int]) -> tuple[int, int]:
        states: BlockStates = primitive.state
        block, count = extent
        if block < 0 or count < 1:
            raise self._simulation.error(BadValue, messages.BAD_BLOCKS, thread, states.name)
        state, run = states.lookup(block, count)
        self._simulation.log(thread, OPCODES["LOOKUP"], states.number, wrapped(run * 4 + state))
        return state, run

    def _fill(self, thread: SimThread, primitive: Primitive, extent: tuple[int, int, int]) -> None:
        states: BlockStates = primitive.state
        block, count, state = extent
        if block < 0 or count < 1 or block + count > states.blocks or not 0 <= state <= LAST_STATE:
            raise self._simulation.error(BadValue, messages.BAD_BLOCKS, thread, states.name)
        self._simulation.log(thread, OPCODES["FILL"], states.number, count * 4 + state)
        states.fill(block, count, state)

    # Time

    def _cpu(self, thread: SimThread, _: None, duration_ns: int) -> Any:
        self._check_time(thread, duration_ns)
        self._simulation.log(thread, OPCODES["CPU"], NO_OBJECT, duration_ns)
        if duration_ns == 0:
            return None
        thread.then = self._end_of_cpu
        self._scheduler.run_after(thread, duration_ns)
        return WAITS

    def _end_of_cpu(self, thread: SimThread) -> None:
        if self._scheduler.may_be_preempted(thread):
            thread.then = self.go_on
            self._scheduler.preempt(thread)
        else:
            self.go_on(thread)

    def _sleep(self, thread: SimThread, _: None, duration_ns: int) -> Any:
        self._check_time(thread, duration_ns)
        self._check_may_sleep(thread)
        self._simulation.log(thread, OPCODES["SLEEP"], NO_OBJECT, duration_ns)
        if duration_ns == 0:
            return None
        thread.then = self.go_on_after_wait
        self._scheduler.sleep(thread, duration_ns)
        return WAITS

    # Device

    def _transfer(self, name: str, thread: SimThread, _: None, extent: tuple[int, int]) -> Any:
        offset, length = extent
        device = self._check_transfer(thread, offset, length)
        self._check_may_sleep(thread)
        self._simulation.log(thread, OPCODES[name], NO_OBJECT, length)
        self._scheduler.submits(thread)
        polled_ns = device.poll_write(length) if name == "WRITE" else None
        if polled_ns is not None:
            if polled_ns == 0:
                self._simulation.log(thread, LOG_DEVICE_DONE, NO_OBJECT, length)
                return None
            thread.then = partial(self._has_polled, length=length)
            self._scheduler.run_after(thread, polled_ns)
            return WAITS
        thread.then = self.go_on_after_wait
        device.submit(Request(thread, thread.line, name == "WRITE", offset, length))
        self._scheduler.block(thread, self._statistics.device)
        return WAITS

    def _has_polled(self, thread: SimThread, length: int) -> None:
        self._simulation.log(thread, LOG_DEVICE_DONE, NO_OBJECT, length)
        self.go_on(thread)

    def _submit(self, name: str, thread: SimThread, primitive: Primitive, operands: tuple[int, int, Any]) -> None:
        target: Target = primitive.state
        offset, length, tag = operands
        device = self._check_transfer(thread, offset, length, target.name)
        self._simulation.log(thread, OPCODES[name], target.number, length)
        self._scheduler.submits(thread)
        device.submit(Request(thread, thread.line, name == "SUBMITW", offset, length, target, tag))

    # Chance

    def _choose(self, thread: SimThread, _: None, n: int) -> int:
        if not 1 <= n < 2**31:
            raise self._simulation.error(BadValue, messages.BAD_CHOICE, thread)
        chosen = below(thread.draw(), n)
        self._simulation.log(thread, OPCODES["CHOOSE"], NO_OBJECT, chosen)
        return chosen

    def _exponential(self, thread: SimThread, _: None, mean: int) -> int:
        if mean < 0:
            raise self._simulation.error(BadValue, messages.BAD_MEAN, thread)
        drawn = thread.exponential(mean)
        self._simulation.log(thread, OPCODES["EXPONENTIAL"], NO_OBJECT, drawn)
        return drawn

    # I/Os and ends

    def _begin(self, thread: SimThread, *_: Any) -> None:
        self._simulation.log(thread, OPCODES["BEGIN"], NO_OBJECT, 0)
        self._statistics.begin_io(thread, self._simulation.now)

    def _submitted(self, thread: SimThread, *_: Any) -> None:
        self._simulation.log(thread, OPCODES["SUBMITTED"], NO_OBJECT, 0)
        thread.submits_io = False

    def _complete(self, thread: SimThread, _: None, since: int) -> None:
        if since > self._simulation.now:
            raise self._simulation.error(BadValue, messages.BAD_SINCE, thread)
        self._simulation.log(thread, OPCODES["COMPLETE"], NO_OBJECT, 0)
        if self._statistics.complete_io(thread, since, self._simulation.now):
            raise Finished

    def _end(self, thread: SimThread) -> None:
        if thread.held:
            lock = next(iter(thread.held))
            raise self._simulation.error(HeldAtExit, messages.HELD_AT_EXIT, thread, lock.name)
        self._simulation.log(thread, LOG_END, NO_OBJECT, 0)
        self._scheduler.end(thread)
        self._unfinished -= not thread.daemon
        if not thread.daemon and self._unfinished == 0:
            raise Finished

    # Checks

    def _check_mode(self, thread: SimThread, lock: Lock, mode: int) -> None:
        if mode not in (SHARED, EXCLUSIVE):
            raise self._simulation.error(BadValue, messages.BAD_MODE, thread, lock.name)

    def _check_may_sleep(self, thread: SimThread, name: str = "") -> None:
        if thread.atomic:
            raise self._simulation.error(SleepInAtomic, messages.SLEEP_IN_ATOMIC, thread, name)

    def _check_time(self, thread: SimThread, duration_ns: int) -> None:
        if duration_ns < 0:
            raise self._simulation.error(BadValue, messages.BAD_TIME, thread)

    def _check_transfer(self, thread: SimThread, offset: int, length: int, name: str = "") -> StorageDevice:
        if self.device is None:
            raise self._simulation.error(BadValue, messages.NO_DEVICE, thread, name)
        if offset < 0 or length <= 0:
            raise self._simulation.error(BadValue, messages.BAD_RANGE, thread, name)
        return self.device

    def _protocol_fault(self, thread: SimThread, fault: Exception) -> RunError:
        kind, detail = next(entry for cause, entry in PROTOCOL_FAULTS.items() if isinstance(fault, cause))
        if isinstance(fault, AssertionError) and fault.args:
            detail = str(fault.args[0])
        return self._simulation.error(kind, detail, thread, line=_protocol_line(fault.__traceback__))


def wrapped(value: int) -> int:
    """The value modulo 2**64, for a row of the log: beyond its last block a map has runs as long as one asks for."""
    return ((value + 2**63) & MASK) - 2**63


def _protocol_line(trace: TracebackType | None) -> int:
    """Innermost line of the protocol's own text in the traceback of what it raised."""
    # The frames of a generator that has raised are gone, but the traceback has kept their lines.
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename not in HELPER_FILES:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
