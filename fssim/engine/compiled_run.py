"""Runs a `System` on the compiled engine: lays out its objects, loads its programs, and names what came out.

Shared objects lie in one flat memory.  A handle is the address of an object; word i of it is its field i in declaration
order: an integer, the handle of an object, the number of a primitive, or the address of a list (its length, then its
elements).  Address 0 is nobody's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fssim.engine import compiled as c
from fssim.engine import messages
from fssim.engine.objects import CATEGORIES, USE_FIELDS, Objects, fields, lock_uses, time_by_category, walk
from fssim.engine.programs import ProgramKey, compile_programs, program_key
from fssim.engine.random import GOLDEN, MASK, TABLE, mix
from fssim.errors import (
    AssertionFailed,
    BadValue,
    Deadlock,
    DemoteNotHeld,
    DoubleRelease,
    HeldAtExit,
    NoProgress,
    NotHeld,
    RecursiveAcquire,
    RunError,
    SleepInAtomic,
    StepLimit,
    UserError,
)
from fssim.machine.device import Device, FlashDevice, SimpleDevice
from fssim.machine.host import Host
from fssim.protocol.bytecode import OPCODE_NAMES, OPERANDS, Program
from fssim.protocol.language import BlockMap, Counter, Primitive, Queue, RWLock, Shared, Space, SpinLock
from fssim.system import RunResult, System

FUEL = 2_000_000  # effects between two looks at the host, such as at Ctrl-C: less than a second
HELD_ROOM = 8  # locks a thread can hold before its list has to grow
LOG_CHUNK = 1 << 16  # rows
FIRST_ROOM = 64  # asynchronous requests, and items of queues, before their arrays have to grow
NO_LIMIT = (1 << 63) - 1

FAILURES: dict[int, tuple[type[RunError], str]] = {
    c.STEP_LIMIT: (StepLimit, messages.STEP_LIMIT),
    c.NO_PROGRESS: (NoProgress, messages.NO_PROGRESS),
    c.BAD_MODE: (BadValue, messages.BAD_MODE),
    c.RECURSIVE_ACQUIRE: (RecursiveAcquire, messages.RECURSIVE_ACQUIRE),
    c.NOT_HELD: (NotHeld, messages.NOT_HELD),
    c.DOUBLE_RELEASE: (DoubleRelease, messages.DOUBLE_RELEASE),
    c.DEMOTE_NOT_HELD: (DemoteNotHeld, messages.DEMOTE_NOT_HELD),
    c.HELD_AT_EXIT: (HeldAtExit, messages.HELD_AT_EXIT),
    c.SLEEP_IN_ATOMIC: (SleepInAtomic, messages.SLEEP_IN_ATOMIC),
    c.COUNTER_BELOW_ZERO: (BadValue, messages.COUNTER_BELOW_ZERO),
    c.BAD_TIME: (BadValue, messages.BAD_TIME),
    c.BAD_SINCE: (BadValue, messages.BAD_SINCE),
    c.BAD_RANGE: (BadValue, messages.BAD_RANGE),
    c.DEVICE_MISSING: (BadValue, messages.NO_DEVICE),
    c.BAD_UNITS: (BadValue, messages.BAD_UNITS),
    c.TOO_MUCH_GIVEN: (BadValue, messages.TOO_MUCH_GIVEN),
    c.BAD_BLOCKS: (BadValue, messages.BAD_BLOCKS),
    c.BAD_CHOICE: (BadValue, messages.BAD_CHOICE),
    c.BAD_MEAN: (BadValue, messages.BAD_MEAN),
    c.DIVISION_BY_ZERO: (BadValue, messages.DIVISION_BY_ZERO),
    c.BAD_INDEX: (BadValue, messages.BAD_INDEX),
    c.BAD_SHIFT: (BadValue, messages.BAD_SHIFT),
    c.OVERFLOW: (BadValue, messages.OVERFLOW),
    c.ASSERTION_FAILED: (AssertionFailed, messages.ASSERTION_FAILED),
}


def run_compiled(system: System) -> RunResult:
    """Run a system to its end.  A `RunError` of the protocol is part of the result, not raised."""
    return _Run(system).result()


@dataclass(frozen=True)
class _Loaded:
    """A program in the code array, and its entry."""

    entry: int
    program: Program


class _Run:
    """The arrays of one run, and what they mean."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.objects = walk(system.threads)
        self.texts: list[str] = []
        self.log: list[np.ndarray] = []
        self.batches: list[np.ndarray] = []
        memory, self.handles, self.integer_addresses = _lay_out(self.objects)
        code, loaded = self._load()
        registers = self._registers(loaded)
        count = len(system.threads)
        events = _power_of_two(2 * count + 1)  # `_grow` makes room for those of a flash device and asynchronous I/O
        categories = len(CATEGORIES) + 2 * len(self.objects.classes) + 1
        locks = _locks(self.objects, system.host)
        self.arrays = c.Arrays(
            control=self._control(registers.shape[1]),
            code=np.array(code, dtype=np.int64),
            memory=np.array(memory, dtype=np.int64),
            registers=registers.reshape(-1),
            threads=self._threads(loaded),
            cpus=np.array([(1, 0)] * system.host.cpus, dtype=np.int64),
            locks=locks,
            streams=np.array([mix((system.seed * GOLDEN + t + 1) & MASK) for t in range(count)], dtype=np.uint64),
            table=np.array(TABLE, dtype=np.int64),
            held=np.zeros((count, 2 * HELD_ROOM), dtype=np.int64),
            heap=np.zeros((events, 2), dtype=np.int64),
            ring=np.zeros(events, dtype=np.int64),
            totals=np.zeros(categories, dtype=np.int64),
            sleeps=np.zeros(categories, dtype=np.int64),
            uses=np.zeros((2 * len(self.objects.classes), c.USE_COLUMNS), dtype=np.int64),
            requests=np.full((count, c.REQUEST_COLUMNS), -1, dtype=np.int64),
            resources=np.zeros((c.RESOURCES, c.RESOURCE_COLUMNS), dtype=np.int64),
            chips=_chips(system.device),
            chunks=np.zeros((0, c.CHUNK_COLUMNS), dtype=np.int64),
            nodes=_fill_queues(self.objects, self.handles, locks),
            blocks=_fill_block_maps(self.objects, locks),
            batches=np.zeros(FUEL // system.batch_ios + 1 if system.batch_ios else 0, dtype=np.int64),
            log=np.zeros((LOG_CHUNK + self._log_margin if system.log else 0, 6), dtype=np.int64),
        )
        self.arrays.uses[:, [c.WAIT_MIN, c.HOLD_MIN]] = c.NEVER
        self._start()

    @property
    def _log_margin(self) -> int:
        """One step may write a row or two for every thread, and is not interrupted."""
        return 4 * len(self.system.threads) + 16

    # --- building

    def _load(self) -> tuple[list[int], list[_Loaded]]:
        """Link the threads' programs, each only once, into one code array."""
        code: list[int] = []
        by_key: dict[ProgramKey, _Loaded] = {}
        for key, program in compile_programs(self.system).items():
            by_key[key] = _Loaded(len(code), program)
            code += _link(program, len(code), len(self.texts))
            self.texts += program.texts
        loaded = [by_key[program_key(thread)] for thread in self.system.threads]
        return code, loaded

    def _registers(self, loaded: list[_Loaded]) -> np.ndarray:
        width = max((each.program.registers for each in loaded), default=0) + 1
        registers = np.zeros((len(loaded), width), dtype=np.int64)
        rows: dict[int, np.ndarray] = {}
        for number, (each, thread) in enumerate(zip(loaded, self.system.threads, strict=True)):
            if each.entry not in rows:
                rows[each.entry] = np.zeros(width, dtype=np.int64)
                for register, value in each.program.constants:
                    rows[each.entry][register] = value
            registers[number] = rows[each.entry]
            for register, value in enumerate(thread.arguments):
                registers[number, register] = self.handles[id(value)] if isinstance(value, Shared) else value
        return registers

    def _threads(self, loaded: list[_Loaded]) -> np.ndarray:
        threads = np.zeros((len(loaded), c.THREAD_COLUMNS), dtype=np.int64)
        threads[:, c.PC] = [each.entry for each in loaded]
        threads[:, c.DAEMON] = [thread.daemon for thread in self.system.threads]
        threads[:, [c.NEXT, c.READY_NEXT, c.STACK, c.WAITS_FOR, c.BEGUN]] = -1
        threads[:, c.STEP] = c.GO
        threads[:, c.HOME] = np.arange(len(loaded)) % self.system.host.cpus
        threads[:, c.STATE] = c.READY
        threads[:, c.CATEGORY] = c.IN_READY
        return threads

    def _control(self, registers: int) -> np.ndarray:
        system, host, device = self.system, self.system.host, self.system.device
        control = np.zeros(c.CONTROLS, dtype=np.int64)
        values = {
            c.CURRENT: -1,
            c.REGISTERS: registers,
            c.LOG_ROOM: LOG_CHUNK if system.log else 0,
            c.TIME_LIMIT: system.time_limit_ns or NO_LIMIT,
            c.LIVE: sum(not thread.daemon for thread in system.threads),
            c.WARMUP_GOAL: system.warmup_ios,
            c.IO_GOAL: system.warmup_ios + system.ios if system.ios else -1,
            c.BATCH_IOS: system.batch_ios,
            c.WINDOW_START: -1 if system.warmup_ios else 0,
            c.FREE_CPUS: host.cpus,
            c.READY_HEAD: -1,
            c.WAKEUP_NS: host.wakeup_ns,
            c.INTERRUPT_NS: host.interrupt_ns,
            c.SPREAD_NS: host.wakeup_spread_ns,
            c.SWITCH_NS: host.switch_ns,
            c.HANDOFF_NS: host.spin_handoff_ns,
            c.CACHE_LINE_NS: host.cache_line_ns,
            c.TIMESLICE_NS: host.timeslice_ns,
            c.IDLE_EXIT_NS: host.idle_exit_ns,
            c.IDLE_DEPTH_NS: host.idle_depth_ns,
            c.DEVICE_KIND: c.NO_DEVICE,
            c.DEVICE_HEAD: -1,
            c.FREE_CHUNK: -1,
            c.FREE_REQUEST: -1,
            c.FREE_NODE: -1,
        }
        if isinstance(device, SimpleDevice):
            values |= {
                c.DEVICE_KIND: c.SIMPLE,
                c.LATENCY_NS: device.latency_ns,
                c.LATENCY_RANDOM: device.latency_distribution == "exponential",
                c.GATE_NS: -(-(10**9) // device.iops_cap) if device.iops_cap else 0,
                c.BANDWIDTH: device.bandwidth_mb_s,
                c.SEEK_NS: device.seek_ns,
                c.FREE_SLOTS: device.queue_depth,
            }
        elif isinstance(device, FlashDevice):
            values |= {
                c.DEVICE_KIND: c.FLASH,
                c.CHIPS_PER_CHANNEL: device.chips_per_channel,
                c.PAGE_BYTES: device.page_bytes,
                c.SCATTERED: device.placement == "scattered",
                c.ROTATION: device.channel_rotation,
                c.COMMAND_NS: device.command_ns,
                c.LOAD_NS: device.page_load_ns,
                c.CHANNEL_COMMAND_NS: device.channel_command_ns,
                c.CHANNEL_PS: device.channel_ps_per_byte,
                c.FAST_AFTER: device.fast_after_bytes,
                c.FAST_PS: device.fast_ps_per_byte,
                c.DECODE_PS: device.decode_ps_per_byte,
                c.DECODE_LIMIT: device.decode_limit_bytes,
                c.BUS_PS: device.bus_ps_per_byte,
                c.BUS_PACKET: device.bus_packet_bytes,
                c.WRITE_BUS_PS: device.write_bus_ps_per_byte,
                c.CACHE_NS: device.write_cache_bytes * device.drain_ps_per_byte // 1000,
                c.DRAIN_PS: device.drain_ps_per_byte,
                c.WRITE_NS: device.write_ns,
                c.WRITE_POLLED: device.write_polled,
                c.WRITE_COMMAND: device.write_command_ns,
                c.WRITE_INLINE: device.write_inline_bytes,
                c.WRITE_SEGMENT: device.write_segment_bytes,
                c.SEGMENT_NS: device.write_segment_ns,
            }
        for index, value in values.items():
            control[index] = value
        return control

    def _start(self) -> None:
        """Schedule the first event of every thread."""
        count = len(self.system.threads)
        self.arrays.ring[:count] = (np.arange(count) << c.KIND_BITS) | c.EVENT_READY
        self.arrays.control[c.RING_COUNT] = count

    # --- running

    def result(self) -> RunResult:
        error = self._run()
        system, arrays, control = self.system, self.arrays, self.arrays.control
        opened = control[c.WINDOW_START] >= 0
        window_ns = int(control[c.TIME] - control[c.WINDOW_START]) if opened else 0
        if not opened:
            for statistics in (arrays.totals, arrays.sleeps, arrays.uses, arrays.resources):
                statistics[:] = 0
            control[[c.LATENCY, c.SPUN]] = 0
        arrays.uses[arrays.uses == c.NEVER] = 0
        return RunResult(
            error=error,
            seed=system.seed,
            time_ns=int(control[c.TIME]),
            window_ns=window_ns,
            ios=int(max(control[c.COMPLETED] - system.warmup_ios, 0)) if opened else 0,
            latency_ns=int(control[c.LATENCY]),
            in_flight_ns=int(arrays.resources[c.IN_FLIGHT, c.BUSY]),
            batch_end_ns=np.concatenate([*self.batches, np.zeros(0, dtype=np.int64)]),
            time_by_category_ns=time_by_category(self.objects.classes, arrays.totals.tolist()),
            sleeps_in_submission=time_by_category(self.objects.classes, arrays.sleeps.tolist()),
            locks=lock_uses(self.objects.classes, arrays.uses[:, : len(USE_FIELDS)].tolist()),
            busy_ns=self._busy(),
            final=tuple(
                (integer.name, int(arrays.memory[address]))
                for integer, address in zip(self.objects.integers, self.integer_addresses, strict=True)
            ),
            objects=self.objects.names,
            events=int(control[c.EVENTS]),
            log=np.concatenate([*self.log, np.zeros((0, 6), dtype=np.int64)]) if system.log else None,
        )

    def _run(self) -> RunError | None:
        """Call the compiled loop until the run has ended; return the error that ended it."""
        control = self.arrays.control
        left = self.system.max_effects
        while True:
            control[c.FUEL] = given = min(FUEL, left)
            control[c.LAST_FUEL] = given == left
            status = self._advance()
            left -= int(given - control[c.FUEL])
            if control[c.SEQUENCE] > c.SEQUENCE_LIMIT // 2:
                raise UserError("a run of the compiled engine can have 68 billion events; give it a smaller goal")
            self._empty_log()
            if status == c.HELD_FULL:
                held = self.arrays.held
                self.arrays = self.arrays._replace(held=np.concatenate([held, np.zeros_like(held)], axis=1))
            elif status == c.CHUNKS_FULL:
                self._add_chunks()
            elif status == c.REQUESTS_FULL:
                self._add_requests()
            elif status == c.NODES_FULL:
                self._add_nodes()
            elif status == c.FINISHED:
                return None
            elif status == c.DEADLOCK:
                return self._deadlock()
            elif status not in (c.LOG_FULL, c.OUT_OF_FUEL):
                return self._failure(status)

    def _advance(self) -> int:
        # Under NUMBA_DISABLE_JIT=1 numpy would warn of the wrap-around of random numbers.
        with np.errstate(over="ignore"):
            return int(c.advance(self.arrays))

    def _empty_log(self) -> None:
        control = self.arrays.control
        if control[c.LOG_ROWS]:
            self.log.append(self.arrays.log[: control[c.LOG_ROWS]].copy())
            control[c.LOG_ROWS] = 0
        if control[c.BATCH_ROWS]:
            self.batches.append(self.arrays.batches[: control[c.BATCH_ROWS]].copy())
            control[c.BATCH_ROWS] = 0

    def _add_chunks(self) -> None:
        """Make room for more chunks of flash reads."""
        arrays, control = self.arrays, self.arrays.control
        before = len(arrays.chunks)
        after = max(2 * before, before + int(control[c.CHUNKS_NEEDED]), 4 * len(self.system.threads))
        if after >= c.NUMBER_LIMIT:
            raise UserError(f"more than {c.NUMBER_LIMIT:,} pages of the flash device are being read at a time")
        chunks = _longer(arrays.chunks, after, c.CHUNK_NEXT, control, c.FREE_CHUNK)
        control[c.FREE_CHUNKS] += after - before
        self._grow(chunks, arrays.requests)

    def _add_requests(self) -> None:
        """Make room for more asynchronous requests; those of the threads themselves come first."""
        arrays, control = self.arrays, self.arrays.control
        before, threads = len(arrays.requests), len(self.system.threads)
        after = threads + max(2 * (before - threads), FIRST_ROOM)
        if after >= c.NUMBER_LIMIT:
            raise UserError(f"more than {c.NUMBER_LIMIT:,} I/Os are in flight at a time")
        self._grow(arrays.chunks, _longer(arrays.requests, after, c.REQUEST_NEXT, control, c.FREE_REQUEST))

    def _grow(self, chunks: np.ndarray, requests: np.ndarray) -> None:
        """Use longer arrays of chunks and requests, and make room for their events.

        At most one event is outstanding for each thread, request and chunk, and two for each chip.
        """
        arrays, control = self.arrays, self.arrays.control
        events = _power_of_two(len(self.system.threads) + len(requests) + 2 * len(arrays.chips) + len(chunks) + 1)
        heap = np.zeros((events, 2), dtype=np.int64)
        heap[: len(arrays.heap)] = arrays.heap
        ring = np.zeros(events, dtype=np.int64)
        due = np.arange(control[c.RING_FIRST], control[c.RING_FIRST] + control[c.RING_COUNT]) % len(arrays.ring)
        ring[: len(due)] = arrays.ring[due]
        control[c.RING_FIRST] = 0
        self.arrays = arrays._replace(chunks=chunks, requests=requests, heap=heap, ring=ring)

    def _add_nodes(self) -> None:
        """Make room for more items in queues."""
        nodes, control = self.arrays.nodes, self.arrays.control
        added = max(len(nodes), FIRST_ROOM)
        control[c.FREE_NODES] += added
        longer = _longer(nodes, len(nodes) + added, c.ITEM_NEXT, control, c.FREE_NODE)
        self.arrays = self.arrays._replace(nodes=longer)

    # --- naming what came out

    def _lock_name(self, number: int) -> str:
        return self.objects.primitives[number].name if number >= 0 else ""

    def _failure(self, status: int) -> RunError:
        error, detail = FAILURES[status]
        control = self.arrays.control
        if status == c.ASSERTION_FAILED:
            detail = self.texts[control[c.FAILED_TEXT]] or detail
        return error(
            detail,
            thread=int(control[c.FAILED_THREAD]),
            lock=self._lock_name(int(control[c.FAILED_OBJECT])),
            time_ns=int(control[c.TIME]),
            seed=self.system.seed,
            line=int(control[c.FAILED_LINE]),
        )

    def _deadlock(self) -> RunError:
        holders: dict[int, list[tuple[int, int]]] = {}
        threads = self.arrays.threads
        for thread, row in enumerate(self.arrays.held):
            for entry in row[: 2 * threads[thread, c.HELD] : 2]:
                holders.setdefault(int(entry) >> 2, []).append((thread, int(entry) & 3))
        waiting = []
        for thread, row in enumerate(threads):
            if row[c.STATE] == c.ENDED:
                continue
            waits_for = int(row[c.WAITS_FOR])
            line = 0 if row[c.STEP] == c.GO and waits_for < 0 else int(self.arrays.code[row[c.PC] + c.LINE])
            # Woken by its counter, it will look again, but needs a CPU first.
            if row[c.STATE] == c.READY and waits_for >= 0 and self.arrays.locks[waits_for, c.KIND] == c.COUNTER:
                waits_for = -1
            holding = holders.get(waits_for, ())
            waiting.append(messages.Waiting(thread, self._lock_name(waits_for), int(row[c.MODE]), line, holding))
        blamed = next(entry for entry in waiting if not threads[entry.thread, c.DAEMON])
        return Deadlock(
            messages.deadlock(waiting),
            thread=blamed.thread,
            lock=blamed.lock,
            time_ns=int(self.arrays.control[c.TIME]),
            seed=self.system.seed,
            line=blamed.line,
        )

    def _busy(self) -> dict[str, tuple[int, int]]:
        arrays, device = self.arrays, self.system.device
        busy = {"cpu": (int(arrays.totals[c.IN_CPU] + arrays.control[c.SPUN]), self.system.host.cpus)}
        if isinstance(device, SimpleDevice):
            busy["slots"] = (int(arrays.resources[c.SLOTS, c.BUSY]), device.queue_depth)
            if device.iops_cap:
                busy["gate"] = (int(arrays.resources[c.GATE, c.BUSY]), 1)
            if device.bandwidth_mb_s:
                busy["bus"] = (int(arrays.resources[c.BUS, c.BUSY]), 1)
        elif isinstance(device, FlashDevice):
            chips = device.channels * device.chips_per_channel
            for name, resource, servers in (
                ("channels", c.CHANNELS, device.channels),
                ("chips", c.CHIPS, chips),
                ("bus", c.BUS, 1),
                ("write bus", c.WRITE_BUS, 1),
                ("drain", c.DRAIN, 1),
            ):
                busy[name] = (int(arrays.resources[resource, c.BUSY]), servers)
        return busy


def _power_of_two(at_least: int) -> int:
    return 1 << (at_least - 1).bit_length()


def _longer(rows: np.ndarray, count: int, link: int, control: np.ndarray, head: int) -> np.ndarray:
    """Return the rows with others behind them, so that there are `count`; the new ones head the list of the free."""
    before = len(rows)
    longer = np.zeros((count, rows.shape[1]), dtype=rows.dtype)
    longer[:before] = rows
    longer[before:, link] = [*range(before + 1, count), control[head]]
    control[head] = before
    return longer


def _lay_out(objects: Objects) -> tuple[list[int], dict[int, int], list[int]]:
    """Return the memory, the handle of every object by `id`, and the addresses of the integers in canonical order."""
    handles: dict[int, int] = {}
    size = 1
    for named in objects.shared:
        handles[id(named.value)] = size
        size += len(fields(type(named.value)))
    numbers = {id(named.value): named.number for named in objects.primitives}
    # By category of the field: integer, primitive, object.
    words: tuple[Callable[[Any], int], ...] = (int, lambda lock: numbers[id(lock)], lambda other: handles[id(other)])
    memory = [0]
    lists: list[int] = []  # they follow the objects
    bases: list[int] = []
    for named in objects.shared:
        bases.append(len(memory))
        for declared in fields(type(named.value)):
            value = getattr(named.value, declared.name)
            if declared.is_list:
                memory.append(size + len(lists))
                lists += [len(value), *map(words[declared.category], value)]
            else:
                memory.append(words[declared.category](value))
    memory += lists
    addresses = []
    for integer in objects.integers:
        address = bases[integer.owner.number] + integer.offset
        addresses.append(address if integer.index < 0 else memory[address] + 1 + integer.index)
    return memory, handles, addresses


def _link(program: Program, entry: int, first_text: int) -> list[int]:
    """Return the program's instructions with addresses: targets and texts in this run's arrays, members as offsets.

    A property of a primitive is the column in which it is kept.
    """
    offsets = [[declared.name for declared in fields(cls)].index(name) for cls, name in program.members]
    code: list[int] = []
    for row, line in zip(program.code, program.lines, strict=True):
        words = list(row)
        for position, operand in enumerate(OPERANDS[OPCODE_NAMES[row[0]]], start=1):
            if operand == "member":
                words[position] = offsets[row[position]]
            elif operand == "target":
                words[position] = entry + row[position] * c.INSTRUCTION
            elif operand == "text":
                words[position] = first_text + row[position]
            elif operand == "property":
                words[position] = int(c.PROPERTY_COLUMNS[row[position]])
        code += [*words, line]
    return code


def _chips(device: Device | None) -> np.ndarray:
    count = device.channels * device.chips_per_channel if isinstance(device, FlashDevice) else 0
    chips = np.full((count, c.CHIP_COLUMNS), -1, dtype=np.int64)
    chips[:, [c.LOADED, c.CHANNEL_BUSY, c.SERVED_LAST]] = 0
    if isinstance(device, FlashDevice):
        chips[:, c.FIRST] = np.arange(count) // device.chips_per_channel * device.chips_per_channel
    return chips


_KINDS = {SpinLock: c.SPINLOCK, Counter: c.COUNTER, Queue: c.QUEUE, Space: c.SPACE, BlockMap: c.BLOCK_MAP}


def _lock_kind(kind: type[Primitive], host: Host) -> int:
    if kind in _KINDS:
        return int(_KINDS[kind])
    if kind is RWLock:
        return {"fifo": c.FIFO, "spinning": c.SPINNING_RWLOCK}[host.rwlock]
    return {"fifo": c.FIFO, "barging": c.BARGING}[host.mutex]


def _locks(objects: Objects, host: Host) -> np.ndarray:
    locks = np.full((len(objects.primitives), c.LOCK_COLUMNS), -1, dtype=np.int64)
    locks[:, [c.READERS, c.TICKETS, c.SPINNERS, c.HANDOFF, c.LINE_FREE, c.COUNT]] = 0
    for named in objects.primitives:
        locks[named.number, c.KIND] = _lock_kind(objects.classes[named.class_index].kind, host)
        locks[named.number, c.CLASS] = named.class_index
        if isinstance(named.value, Space):
            locks[named.number, [c.CAPACITY, c.COUNT]] = named.value.capacity
    return locks


def _fill_queues(objects: Objects, handles: dict[int, int], locks: np.ndarray) -> np.ndarray:
    """Return the nodes of what the queues hold at the beginning, and let the rows of the queues refer to them."""
    nodes: list[tuple[int, int]] = []
    for named in objects.primitives:
        if isinstance(named.value, Queue) and named.value.items:
            first, count = len(nodes), len(named.value.items)
            items = [handles[id(item)] if isinstance(item, Shared) else item for item in named.value.items]
            nodes += zip(items, [*range(first + 1, first + count), -1], strict=True)
            locks[named.number, [c.ITEM_HEAD, c.ITEM_TAIL, c.COUNT]] = first, len(nodes) - 1, count
    return np.array(nodes, dtype=np.int64).reshape(-1, c.NODE_COLUMNS)


def _fill_block_maps(objects: Objects, locks: np.ndarray) -> np.ndarray:
    """Return the blocks of all block maps, one map after the other, and let the rows of the maps refer to them."""
    maps: list[np.ndarray] = []
    base = 0
    for named in objects.primitives:
        if not isinstance(named.value, BlockMap):
            continue
        value = named.value
        if value.contents is None:
            states = np.full(value.blocks, value.initial, dtype=np.uint8)
        else:
            states = np.frombuffer(value.contents, dtype=np.uint8)
        begins = (states != 0) & (states != np.concatenate([np.zeros(1, dtype=np.uint8), states[:-1]])[: len(states)])
        row = locks[named.number]
        row[[c.BASE, c.BLOCKS, c.RUNS]] = base, len(states), np.count_nonzero(begins)
        row[c.PRESENT] = np.count_nonzero(states)
        maps.append(states)
        base += len(states)
    return np.concatenate([*maps, np.zeros(0, dtype=np.uint8)])
