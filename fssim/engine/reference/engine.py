"""Builds a `System` from the parts of the reference engine, runs it and collects the result."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from types import GeneratorType
from typing import Any

import numpy as np

from fssim.engine import messages
from fssim.engine.objects import NamedPrimitive, Objects, walk
from fssim.engine.programs import compile_programs
from fssim.engine.reference.block_maps import BlockStates
from fssim.engine.reference.counters import WaitedCounter
from fssim.engine.reference.devices import Completion, SimpleStorage, StorageDevice
from fssim.engine.reference.effects import Interpreter
from fssim.engine.reference.flash import FlashStorage
from fssim.engine.reference.locks import FifoMutex, FifoRWLock, Lock, SpinLock
from fssim.engine.reference.queues import WaitedQueue
from fssim.engine.reference.scheduler import Scheduler
from fssim.engine.reference.simulation import Finished, Simulation
from fssim.engine.reference.spaces import WaitedSpace
from fssim.engine.reference.spinning import BargingMutex, SpinningRWLock
from fssim.engine.reference.statistics import Statistics
from fssim.engine.reference.thread import SimThread, State
from fssim.engine.reference.waited import Waited
from fssim.errors import Deadlock, RunError
from fssim.machine.device import Device, SimpleDevice
from fssim.machine.host import Host
from fssim.protocol import Protocol, language
from fssim.protocol.native import Native
from fssim.system import RunResult, System, Thread

LOCK_KINDS: dict[type[language.Primitive], dict[str, type[Lock]]] = {
    language.RWLock: {"fifo": FifoRWLock, "spinning": SpinningRWLock},
    language.Mutex: {"fifo": FifoMutex, "barging": BargingMutex},
}


def run_reference(system: System) -> RunResult:
    """Run a system to its end.  A `RunError` of the protocol is part of the result, not raised."""
    return _Run(system).result()


class _Run:
    """The parts of one run, put together."""

    def __init__(self, system: System) -> None:
        self.system = system
        template = _own_copy(system.threads)
        self.objects: Objects = walk(template)
        compile_programs(system)  # refuses what the compiled engine would refuse
        programs = dict.fromkeys(thread.protocol for thread in template)
        natives = {program: _native(program, system) for program in programs}
        self.threads = [
            _make_thread(number, thread, natives[thread.protocol], system.seed)
            for number, thread in enumerate(template)
        ]
        self.simulation = Simulation(system.host, system.seed, system.log)
        self.statistics = Statistics(
            self.threads, self.objects.classes, system.warmup_ios, system.ios, system.batch_ios
        )
        self.scheduler = Scheduler(self.simulation, self.statistics)
        self.interpreter = Interpreter(self.scheduler, self.statistics, system.max_effects)
        if system.device is not None:
            device = make_device(system.device, self.simulation, self.interpreter.device_done)
            self.interpreter.device = device
            self.statistics.resources.update(device.resources)
        for named in self.objects.primitives:
            named.value.state = self._make_primitive(named)

    def result(self) -> RunResult:
        error = self._run()
        now = self.simulation.now
        statistics = self.statistics
        statistics.close(now)
        rows = self.simulation.rows
        return RunResult(
            error=error,
            seed=self.system.seed,
            time_ns=now,
            window_ns=statistics.window_ns(now),
            ios=statistics.ios,
            latency_ns=statistics.latency_ns,
            in_flight_ns=statistics.in_flight_ns(now),
            batch_end_ns=np.array(statistics.batch_ends, dtype=np.int64),
            time_by_category_ns=statistics.time_by_category_ns(),
            sleeps_in_submission=statistics.sleeps_in_submission(),
            locks=statistics.lock_uses(),
            busy_ns=statistics.busy_ns(now),
            final=tuple((integer.name, integer.read()) for integer in self.objects.integers),
            objects=self.objects.names,
            events=self.simulation.events,
            log=None if rows is None else np.array(rows, dtype=np.int64).reshape(-1, 6),
        )

    def _run(self) -> RunError | None:
        for thread in self.threads:
            self.interpreter.start(thread)
        try:
            reached_limit = self.simulation.run(self.system.time_limit_ns)
        except Finished:
            return None
        except RunError as error:
            return error
        return self._deadlock() if self.interpreter.has_unfinished_threads and not reached_limit else None

    def _make_primitive(self, named: NamedPrimitive) -> Lock | Waited | BlockStates:
        primitive = named.value
        if isinstance(primitive, language.BlockMap):
            return BlockStates(named, primitive)
        uses = self.statistics.uses[named.class_index]
        without_mode = (named, uses[0].waiting, self.scheduler, self.interpreter.go_on_after_wait)
        if isinstance(primitive, language.Counter):
            return WaitedCounter(*without_mode)
        if isinstance(primitive, language.Queue):
            return WaitedQueue(primitive.items, *without_mode)
        if isinstance(primitive, language.Space):
            return WaitedSpace(primitive.capacity, *without_mode)
        by_mode = {language.SHARED: uses[0], language.EXCLUSIVE: uses[1]}
        kind = lock_kind(primitive, self.system.host)
        return kind(named, by_mode, self.scheduler, self.interpreter.go_on_after_wait)

    def _deadlock(self) -> Deadlock:
        stuck = [thread for thread in self.threads if thread.state is not State.ENDED]
        waiting = [
            messages.Waiting(
                thread=thread.number,
                lock=thread.waits_for.name if thread.waits_for else "",
                mode=thread.wait_mode,
                line=thread.line,
                holders=[
                    (holder.number, holder.held[thread.waits_for][0])
                    for holder in self.threads
                    if isinstance(thread.waits_for, Lock) and thread.waits_for in holder.held
                ],
            )
            for thread in stuck
        ]
        blamed = next(thread for thread in stuck if not thread.daemon)
        return Deadlock(
            messages.deadlock(waiting),
            thread=blamed.number,
            lock=blamed.waits_for.name if blamed.waits_for else "",
            time_ns=self.simulation.now,
            seed=self.system.seed,
            line=blamed.line,
        )


def lock_kind(lock: language.Primitive, host: Host) -> type[Lock]:
    """The kind of a lock on this host."""
    if isinstance(lock, language.SpinLock):
        return SpinLock
    return LOCK_KINDS[type(lock)][host.rwlock if isinstance(lock, language.RWLock) else host.mutex]


def make_device(parameters: Device, simulation: Simulation, complete: Completion) -> StorageDevice:
    """Build the device of the machine."""
    if isinstance(parameters, SimpleDevice):
        return SimpleStorage(parameters, simulation, complete)
    return FlashStorage(parameters, simulation, complete)


def _own_copy(threads: Sequence[Thread]) -> list[Thread]:
    """Copy the shared objects, so that the template stays as it is; what threads share they share in the copy."""
    copies: list[tuple[Any, ...]] = copy.deepcopy([thread.arguments for thread in threads])
    return [replace(thread, arguments=arguments) for thread, arguments in zip(threads, copies, strict=True)]


def _native(program: Protocol, system: System) -> Native:
    return program.native(constants=system.overrides, path_ns=system.host.path_ns, ghosts=system.ghosts)


def _make_thread(number: int, thread: Thread, native: Native, seed: int) -> SimThread:
    generator = native(*thread.arguments)
    assert isinstance(generator, GeneratorType)
    return SimThread(number, thread.daemon, generator, seed)
