"""The compiled engine: one event loop that executes bytecode and implements `docs/semantics.md` on integer arrays.

Everything that numba compiles is in this file, because numba's cache notices changes of this file only; for the same
reason the numbers of `bytecode.py` are repeated here and compared when the module is imported.  `advance` is the one
entry; `fssim.engine.compiled_run` builds its arrays and reads them afterwards.  It can return at any effect and be
called again.

A wait list is kept as two queues, of shared and of exclusive waiters, linked through the thread rows.  Tickets tell
which of the two heads came first, so that granting to all readers costs the same however many writers stand between
them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from fssim.engine import objects
from fssim.engine.random import TABLE
from fssim.protocol import bytecode, language


def _numbers(count: int) -> Any:
    """Return 0 ... count-1 as numpy integers: numba compiles a function anew for every Python integer passed to it."""
    return np.arange(count, dtype=np.int64)


# --- opcodes, in the order of bytecode.OPERANDS

(
    JMP, JZ, JNZ, JLT, JLE, JEQ, JNE, TICK, END,
    MOV, ADD, SUB, MUL, DIV, MOD, AND, OR, XOR, SHL, SHR, MIN, MAX, LT, LE, EQ, NE, NEG, NOT, INV, TID, NOW,
    LOAD, STORE, LOADX, LEN, PEEK,
    ACQUIRE, TRY, RELEASE, DEMOTE, INC, DEC, WAITZERO, CPU, SLEEP, READ, WRITE,
    SUBMITR, SUBMITW, PUT, GET, TAKE, GIVE, LOOKUP, FILL, CHOOSE, EXPONENTIAL,
    BEGIN, SUBMITTED, COMPLETE, ASSERT,
) = _numbers(61)  # fmt: skip
LOG_GRANT, LOG_RESUME, LOG_DEVICE_DONE, LOG_END = 100 + _numbers(4)
SHARED, EXCLUSIVE = 1 + _numbers(2)
NO_PROGRESS_LIMIT = 1_000_000
HANDOFF_AFTER_NS = 4_000_000
READER_BATCH = 256
LAST_STATE = 3  # of a block
IDLE_LIMIT = np.int64(1 << 20)  # ns: a CPU idle for longer sleeps no deeper
LAST_BIN = 4095  # of the table of the exponential distribution

LINE = 5  # word of an instruction: its source line, after the words of the bytecode
INSTRUCTION = LINE + 1

# --- columns of the arrays

(
    # position of the run
    TIME, CURRENT, SEQUENCE, HEAP_SIZE, VACANT, RING_FIRST, RING_COUNT, EVENTS, STANDING, FUEL, LAST_FUEL, LOG_ROWS,
    LOG_ROOM,
    # goals
    TIME_LIMIT, LIVE, WARMUP_GOAL, IO_GOAL, BATCH_IOS, BATCH_ROWS,
    # host
    REGISTERS, FREE_CPUS, READY_HEAD, READY_TAIL, WAKEUP_NS, INTERRUPT_NS, SPREAD_NS, SWITCH_NS, HANDOFF_NS,
    CACHE_LINE_NS, TIMESLICE_NS, IDLE_EXIT_NS, IDLE_DEPTH_NS, LAST_SUBMITTER,
    # statistics
    COMPLETED, WINDOW_START, LATENCY, SPUN,
    # why `advance` returned
    FAILED_THREAD, FAILED_OBJECT, FAILED_LINE, FAILED_TEXT, DEVICE_STATUS,
    # device
    DEVICE_KIND, LATENCY_NS, LATENCY_RANDOM, GATE_NS, BANDWIDTH, SEEK_NS, HEAD_AT, FREE_SLOTS, DEVICE_HEAD, DEVICE_TAIL,
    CHIPS_PER_CHANNEL, PAGE_BYTES, SCATTERED, ROTATION, COMMAND_NS, LOAD_NS, CHANNEL_COMMAND_NS, CHANNEL_PS,
    FAST_AFTER, FAST_PS, DECODE_PS, DECODE_LIMIT, BUS_PS, BUS_PACKET, WRITE_BUS_PS, CACHE_NS, DRAIN_PS, WRITE_NS,
    ADMITTED_AT, FREE_CHUNK, FREE_CHUNKS, CHUNKS_NEEDED, FREE_REQUEST, WRITE_POLLED, WRITE_INLINE,
    WRITE_COMMAND,
    WRITE_SEGMENT, SEGMENT_NS,
    # items of queues
    FREE_NODE, FREE_NODES,
    CONTROLS,
) = _numbers(83)  # fmt: skip

(
    PC, STEP, STATE, NEXT, TICKET, READY_NEXT, STACK, WAITS_FOR, MODE, REQUESTED, LISTED, WOKEN, HELD, ATOMIC, HOME,
    GOT_CPU, CATEGORY, SINCE, TIMER, DRAWS, BEGUN, DAEMON, SUBMITTING,
    THREAD_COLUMNS,
) = _numbers(24)  # fmt: skip
WANTED = REQUESTED  # units, while it waits for a space

IS_FREE, IDLE_SINCE, CPU_COLUMNS = _numbers(3)

(
    KIND, CLASS, WRITER, READERS, READER_HEAD, READER_TAIL, WRITER_HEAD, WRITER_TAIL, TICKETS, SPINNER_HEAD,
    SPINNER_TAIL, SPINNERS, HANDOFF, LAST_RELEASE, LAST_TAKER, TOUCHED_BY, LINE_FREE, COUNT,
    LOCK_COLUMNS,
) = _numbers(19)  # fmt: skip
# Primitives that are no locks have other uses for the same columns, so that the rows of locks stay short.  Threads that
# wait for a counter, a queue or a space are linked as readers are.  COUNT: value, length, free units, blocks present.
ITEM_HEAD, ITEM_TAIL = WRITER_HEAD, WRITER_TAIL
CAPACITY = TICKETS
BASE, BLOCKS, RUNS, PRESENT = WRITER_HEAD, WRITER_TAIL, TICKETS, COUNT
PROPERTY_COLUMNS = (COUNT, COUNT, COUNT, RUNS, PRESENT)  # of bytecode.PROPERTIES

(
    ACQUISITIONS, CONTENTIONS, BOUNCES, WAIT_TOTAL, WAIT_MIN, WAIT_MAX, HOLD_TOTAL, HOLD_MIN, HOLD_MAX, HOLDS,
    USE_COLUMNS,
) = _numbers(11)  # fmt: skip

# A resource is either counted (level) or booked ahead (free at); the other columns stay 0.
FREE_AT, BUSY, LEVEL, LEVEL_SINCE, RESOURCE_COLUMNS = _numbers(5)
IN_FLIGHT, SLOTS, GATE, BUS, CHANNELS, CHIPS, WRITE_BUS, DRAIN, RESOURCES = _numbers(9)

# A thread's synchronous request has the number of the thread; asynchronous requests have the rows behind those.
# TARGET: the queue or counter that is told of the completion, -1 if the thread itself waits.  BUS_GAP, DRAIN_GAP, and
# their ends: a polled write books ahead, so that there may be a gap between what was booked before and what it books.
(
    REQUEST_THREAD, REQUEST_LINE, REQUEST_OFFSET, REQUEST_LENGTH, REQUEST_WRITES, SERVICE, TRANSFERS, REQUEST_NEXT,
    CHUNKS_LEFT, BYTES_LEFT, TARGET, TAG, BUS_GAP, BUS_GAP_END, DRAIN_GAP, DRAIN_GAP_END, REQUEST_COLUMNS,
) = _numbers(17)  # fmt: skip
# An item in a queue, or a free place for one.  FREE_NODES is less than there are free places: each asynchronous request
# to a queue has one of them reserved, because the device cannot wait until the host has made room.
ITEM, ITEM_NEXT, NODE_COLUMNS = _numbers(3)
# USES: events still to come that need the chunk, transferred and decoded, in either order.
CHUNK_REQUEST, CHUNK_BYTES, CHUNK_PAGE, CHUNK_USES, CHUNK_NEXT, CHUNK_COLUMNS = _numbers(6)
# OTHER: the first chunk of the FIFO whose page is not in the cache register.  The chips of a channel follow each other;
# the row of that FIRST chip also holds whether the channel is busy and which chip it served last.
(
    CHIP_HEAD, CHIP_TAIL, CACHE_REGISTER, DATA_REGISTER, LOADED, OTHER, FIRST, CHANNEL_BUSY, SERVED_LAST,
    CHIP_COLUMNS,
) = _numbers(10)  # fmt: skip

# --- values in the columns

FIFO, SPINNING_RWLOCK, BARGING, SPINLOCK, COUNTER, QUEUE, SPACE, BLOCK_MAP = _numbers(8)  # kinds of primitives
RUNNING, SPINNING, READY, BLOCKED, ENDED = _numbers(5)  # states of threads
# What a thread does when it next has a CPU; its program counter stands at the effect it is in.
GO, AFTER_CPU, AFTER_PREEMPTION, AFTER_TOUCH, AFTER_POLL, RESUMED, GRANTED, RETRY, RETRY_NOW = _numbers(9)
EVENT_READY, EVENT_RUN, EVENT_DEVICE = _numbers(3)  # kinds of events
IN_CPU, IN_READY, IN_WAKEUP, IN_DEVICE, IN_SLEEP, IN_WAIT = _numbers(
    6
)  # categories of time; IN_WAIT + row of the lock class
NO_DEVICE, SIMPLE, FLASH = _numbers(3)  # kinds of devices
# What has come to its end at a device event.
COMMAND_END, LOAD_END, TRANSFER_END, DECODE_END, BUS_END, ADMISSION, WRITE_END = _numbers(7)

NOTHING, ZERO, ONE = _numbers(3) - 1

# An event is its subject and its kind; the subject of a device event is a number and the stage that has ended.
KIND_BITS = 2
STAGE_BITS = 3
SUBJECT_BITS = 26  # kind and stage included
NUMBER_LIMIT = 1 << (SUBJECT_BITS - STAGE_BITS - KIND_BITS)
SEQUENCE_LIMIT = 1 << (63 - SUBJECT_BITS)
SUBJECT_MASK = (1 << SUBJECT_BITS) - 1
NEVER = np.int64((1 << 63) - 1)
LOWEST = -NEVER - 1
HALF = np.int64(1 << 31)

# --- why `advance` returned

(
    GOING_ON, OUT_OF_FUEL, LOG_FULL, HELD_FULL, CHUNKS_FULL, REQUESTS_FULL, NODES_FULL,
    FINISHED, DEADLOCK, NO_PROGRESS, STEP_LIMIT, BAD_MODE, RECURSIVE_ACQUIRE, NOT_HELD, DOUBLE_RELEASE, DEMOTE_NOT_HELD,
    HELD_AT_EXIT, SLEEP_IN_ATOMIC, COUNTER_BELOW_ZERO, BAD_TIME, BAD_SINCE, BAD_RANGE, DEVICE_MISSING, BAD_UNITS,
    TOO_MUCH_GIVEN, BAD_BLOCKS, BAD_CHOICE, BAD_MEAN, DIVISION_BY_ZERO, BAD_INDEX, BAD_SHIFT, OVERFLOW,
    ASSERTION_FAILED,
) = _numbers(33)  # fmt: skip
FIRST_END = FINISHED

# How a thread's turn ends.
KEEP, BLOCK, SPIN, GONE, STOP = _numbers(5)


_SAME = (
    all(globals()[name] == number for name, number in bytecode.OPCODES.items())
    and len(bytecode.OPCODES) == 61
    and len(bytecode.PROPERTIES) == len(PROPERTY_COLUMNS)
    and bytecode.WIDTH == LINE
    and len(TABLE) == LAST_BIN + 1
    and {LOG_GRANT, LOG_RESUME, LOG_DEVICE_DONE, LOG_END} == set(bytecode.LOG_NAMES)
    and NO_PROGRESS_LIMIT == objects.NO_PROGRESS_LIMIT
    and HANDOFF_AFTER_NS == objects.HANDOFF_AFTER_NS
    and READER_BATCH == objects.READER_BATCH
    and IDLE_LIMIT == objects.IDLE_LIMIT_NS
    and LAST_STATE == language.LAST_STATE
)
if not _SAME:
    raise ImportError(
        "fssim/engine/compiled.py repeats numbers of bytecode.py, objects.py or language.py that have changed; adapt it"
    )


class Arrays(NamedTuple):
    """The state of a run.  All int64 but `streams` and `blocks`.

    control: the scalars named above.  code: instructions of all programs, `INSTRUCTION` words each.  memory: shared
    objects.  registers: `REGISTERS` words a thread.  threads, cpus, locks: one row each.  streams (uint64): start
    of each thread's random numbers.  table: of the exponential distribution.  held: pairs (lock * 4 + mode, since), a
    row a thread.  heap: (time, sequence and event).  ring: events due now.  totals: thread time by category, the last
    for ended threads.  sleeps: how often threads blocked in a submission, by category.  uses: lock statistics.
    requests, resources, chips, chunks: the device.  nodes: items of queues.  blocks (uint8): the states of all block
    maps.  batches, log: written to their end, then emptied by the host.
    """

    control: Any
    code: Any
    memory: Any
    registers: Any
    threads: Any
    cpus: Any
    locks: Any
    streams: Any
    table: Any
    held: Any
    heap: Any
    ring: Any
    totals: Any
    sleeps: Any
    uses: Any
    requests: Any
    resources: Any
    chips: Any
    chunks: Any
    nodes: Any
    blocks: Any
    batches: Any
    log: Any


# Nothing here allocates, so no array needs to be counted: without `_nrt=False` numba counts references at every use of
# `Arrays`, which makes the loop five times slower and its compilation too.
_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}
# Python calls `advance` only, and the cache keeps it with all that it calls.
_HELPER: Any = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
entry = numba.njit(cache=True, **_OPTIONS)
compiled = numba.njit(**_HELPER)
inlined = numba.njit(forceinline=True, **_HELPER)


# --- random numbers

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
FACTOR_2 = np.uint64(0x94D049BB133111EB)
S8, S20, S27, S29, S30, S31, S32, S52 = (np.uint64(n) for n in (8, 20, 27, 29, 30, 31, 32, 52))
MASK_20 = np.uint64(0xFFFFF)


@inlined
def mix(z):
    z = (z ^ (z >> S30)) * FACTOR_1
    z = (z ^ (z >> S27)) * FACTOR_2
    return z ^ (z >> S31)


@inlined
def next_draw(threads, streams, thread):
    number = threads[thread, DRAWS]
    threads[thread, DRAWS] = number + 1
    return mix(streams[thread] + np.uint64(number) * GOLDEN)


@compiled
def exponential(table, z, mean):
    value = 0
    i = np.int64(z >> S52)
    while i == LAST_BIN:
        value += table[LAST_BIN]
        z = mix(z)
        i = np.int64(z >> S52)
    fraction = np.int64((z >> S32) & MASK_20)
    value += table[i] + ((table[i + 1] - table[i]) * fraction >> 20)
    # (value * mean) >> 20 without overflow: split the mean.
    return value * (mean >> 20) + (value * (mean & 0xFFFFF) >> 20)


# --- the event queue


@compiled
def sift_down(heap, size, time, word):
    """Put an entry at the root, which is vacant, or below it."""
    i = 0
    child = 1
    while child < size:
        child_time = heap[child, 0]
        if child + 1 < size:
            other_time = heap[child + 1, 0]
            # Without branches: which child is first cannot be predicted.
            first = (other_time < child_time) | ((other_time == child_time) & (heap[child + 1, 1] < heap[child, 1]))
            child += np.int64(first)
            child_time = min(other_time, child_time)
        if time < child_time or (time == child_time and word < heap[child, 1]):
            break
        heap[i, 0] = child_time
        heap[i, 1] = heap[child, 1]
        i = child
        child = 2 * i + 1
    heap[i, 0] = time
    heap[i, 1] = word


@inlined
def push(control, heap, time, event):
    """Put an event into the heap; its sequence number makes it later than all others of the same time."""
    sequence = control[SEQUENCE]
    control[SEQUENCE] = sequence + 1
    word = (sequence << SUBJECT_BITS) | event
    if control[VACANT] != 0:
        control[VACANT] = 0
        sift_down(heap, control[HEAP_SIZE], time, word)
        return
    i = control[HEAP_SIZE]
    control[HEAP_SIZE] = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent, 0] <= time:
            break
        heap[i, 0] = heap[parent, 0]
        heap[i, 1] = heap[parent, 1]
        i = parent
    heap[i, 0] = time
    heap[i, 1] = word


@inlined
def pop(control, heap):
    """Take the first event out of the heap.  Its place stays vacant: most often a `push` comes soon and fills it."""
    control[VACANT] = 1
    return heap[0, 1] & SUBJECT_MASK


@inlined
def fill_vacancy(control, heap):
    if control[VACANT] != 0:
        control[VACANT] = 0
        size = control[HEAP_SIZE] - 1
        control[HEAP_SIZE] = size
        sift_down(heap, size, heap[size, 0], heap[size, 1])


@inlined
def next_time(control, heap):
    """Return the time of the first event in the heap."""
    size = control[HEAP_SIZE]
    first = control[VACANT]  # 0 or 1
    time = heap[first, 0] if first < size else NEVER
    if first == 1 and size > 2:
        time = min(time, heap[2, 0])
    return time


@inlined
def schedule(control, heap, ring, now, delay, kind, subject):
    event = (subject << KIND_BITS) | kind
    if delay > 0:
        push(control, heap, now + delay, event)
    else:
        count = control[RING_COUNT]
        ring[(control[RING_FIRST] + count) & (ring.size - 1)] = event
        control[RING_COUNT] = count + 1


# --- log and statistics


@compiled
def write_row(control, log, now, thread, line, kind, number, value):
    row = control[LOG_ROWS]
    control[LOG_ROWS] = row + 1
    log[row, 0] = now
    log[row, 1] = thread
    log[row, 2] = line
    log[row, 3] = kind
    log[row, 4] = number
    log[row, 5] = value


@inlined
def note(control, log, now, thread, line, kind, number, value):
    """Write a row of the event log, if one is wanted.  The caller of `advance` sees to it that there is room."""
    if control[LOG_ROOM] > 0:
        write_row(control, log, now, thread, line, kind, number, value)


@inlined
def account(threads, totals, now, thread, category):
    """Add the thread's time since the last change to its category, and put it into another."""
    before = threads[thread, CATEGORY]
    since = threads[thread, SINCE]
    if before == IN_SLEEP and now > threads[thread, TIMER]:  # the rest is its wake-up
        expired = max(since, threads[thread, TIMER])
        totals[IN_SLEEP] += expired - since
        totals[IN_WAKEUP] += now - expired
    else:
        totals[before] += now - since
    threads[thread, CATEGORY] = category
    threads[thread, SINCE] = now


@inlined
def use_row(locks, number, mode):
    return 2 * locks[number, CLASS] + mode - SHARED


@inlined
def level(resources, now, resource, change):
    """More or fewer servers of a counted resource are busy from now on."""
    resources[resource, BUSY] += resources[resource, LEVEL] * (now - resources[resource, LEVEL_SINCE])
    resources[resource, LEVEL] += change
    resources[resource, LEVEL_SINCE] = now


@inlined
def book(resources, now, resource, duration):
    """Reserve the next free time of a resource, and return when it ends."""
    end = max(now, resources[resource, FREE_AT]) + duration
    resources[resource, FREE_AT] = end
    resources[resource, BUSY] += duration
    return end


@compiled
def booked_ahead(a, now, resource):
    """Return for how long a resource is reserved from now on."""
    ahead = max(a.resources[resource, FREE_AT] - now, 0)
    if a.control[WRITE_POLLED] != 0 and resource in (WRITE_BUS, DRAIN):
        gap = BUS_GAP if resource == WRITE_BUS else DRAIN_GAP
        for thread in range(a.threads.shape[0]):
            ahead -= max(a.requests[thread, gap + 1] - max(a.requests[thread, gap], now), 0)
    return ahead


@compiled
def open_window(a, now):
    """The warm-up is over: all statistics start from zero, whatever is under way counts from now."""
    a.control[WINDOW_START] = now
    a.control[SPUN] = 0
    a.control[LATENCY] = 0
    a.totals[:] = 0
    a.sleeps[:] = 0
    a.threads[:, SINCE] = now
    for row in range(a.uses.shape[0]):
        a.uses[row, :] = 0
        a.uses[row, WAIT_MIN] = NEVER
        a.uses[row, HOLD_MIN] = NEVER
    for resource in range(a.resources.shape[0]):
        a.resources[resource, BUSY] = booked_ahead(a, now, resource)
        a.resources[resource, LEVEL_SINCE] = now


@compiled
def close_window(a, now):
    """The run is over: whatever is under way counts until now."""
    for thread in range(a.threads.shape[0]):
        if a.threads[thread, STATE] == SPINNING:
            a.control[SPUN] += now - a.threads[thread, SINCE]
        account(a.threads, a.totals, now, thread, a.threads[thread, CATEGORY])
    for resource in range(a.resources.shape[0]):
        level(a.resources, now, resource, ZERO)
        a.resources[resource, BUSY] -= booked_ahead(a, now, resource)


# --- threads and CPUs


@inlined
def idle_exit(control, threads, cpus, now, thread):
    """Return how long the home CPU of a thread that is woken takes to leave idle."""
    home = threads[thread, HOME]
    limit = control[IDLE_EXIT_NS]
    if limit == 0 or cpus[home, IS_FREE] == 0 or home == 0 or home == control[LAST_SUBMITTER]:
        return 0
    depth = min(control[IDLE_DEPTH_NS], IDLE_LIMIT)
    if depth == 0:
        return limit
    idle = min(now - cpus[home, IDLE_SINCE], IDLE_LIMIT)
    return limit * ((idle * idle << 16) // (idle * idle + depth * depth)) >> 16


@inlined
def wake(a, now, thread, latency, step):
    """A blocked thread will be ready after the latency and what it takes on top; `step` says what it does then."""
    latency += idle_exit(a.control, a.threads, a.cpus, now, thread)
    spread = a.control[SPREAD_NS]
    if spread > 0:
        latency += exponential(a.table, next_draw(a.threads, a.streams, thread), spread)
    a.threads[thread, STEP] = step
    account(a.threads, a.totals, now, thread, IN_WAKEUP)
    schedule(a.control, a.heap, a.ring, now, latency, EVENT_READY, thread)


@inlined
def take_free_cpu(control, threads, cpus, totals, now, thread):
    """The thread takes its home CPU if that is free, else the free one with the lowest number; one is free."""
    home = threads[thread, HOME]
    if cpus[home, IS_FREE] == 0:
        home = 0
        while cpus[home, IS_FREE] == 0:
            home += 1
        threads[thread, HOME] = home
    cpus[home, IS_FREE] = 0
    control[FREE_CPUS] -= 1
    threads[thread, STATE] = RUNNING
    threads[thread, GOT_CPU] = now
    account(threads, totals, now, thread, IN_CPU)


@inlined
def give_cpu(control, threads, cpus, totals, heap, ring, now, thread):
    """The thread's CPU is given to the head of the ready queue, or becomes free."""
    cpu = threads[thread, HOME]
    # Of interest only if it becomes free, but a store that is always done is faster: by a tenth of the whole run.
    cpus[cpu, IDLE_SINCE] = now
    head = control[READY_HEAD]
    if head < 0:
        cpus[cpu, IS_FREE] = 1
        control[FREE_CPUS] += 1
        return
    control[READY_HEAD] = threads[head, READY_NEXT]
    threads[head, HOME] = cpu
    threads[head, STATE] = RUNNING
    threads[head, GOT_CPU] = now
    account(threads, totals, now, head, IN_CPU)
    schedule(control, heap, ring, now, ZERO, EVENT_RUN, head)


@inlined
def join_ready_queue(control, threads, totals, now, thread):
    threads[thread, STATE] = READY
    threads[thread, READY_NEXT] = -1
    account(threads, totals, now, thread, IN_READY)
    if control[READY_HEAD] < 0:
        control[READY_HEAD] = thread
    else:
        threads[control[READY_TAIL], READY_NEXT] = thread
    control[READY_TAIL] = thread


# --- queues of a lock


@inlined
def enqueue(threads, locks, number, head_column, tail_column, thread):
    lock = locks[number]
    threads[thread, NEXT] = -1
    if lock[head_column] < 0:
        lock[head_column] = thread
    else:
        threads[lock[tail_column], NEXT] = thread
    lock[tail_column] = thread


@inlined
def join_wait_list(threads, locks, now, number, mode, thread):
    lock = locks[number]
    threads[thread, TICKET] = lock[TICKETS]
    threads[thread, LISTED] = now
    threads[thread, WOKEN] = 0
    lock[TICKETS] += 1
    if mode == SHARED:
        enqueue(threads, locks, number, READER_HEAD, READER_TAIL, thread)
    else:
        enqueue(threads, locks, number, WRITER_HEAD, WRITER_TAIL, thread)


@inlined
def reader_is_first(threads, locks, number):
    """Is the head of the wait list a reader?"""
    reader = locks[number, READER_HEAD]
    writer = locks[number, WRITER_HEAD]
    return reader >= 0 and (writer < 0 or threads[reader, TICKET] < threads[writer, TICKET])


# --- ownership


@inlined
def find_held(threads, held, thread, number):
    """Return where the lock stands in the thread's list of held locks, or -1."""
    for i in range(threads[thread, HELD]):
        if held[thread, 2 * i] >> 2 == number:
            return i
    return -1


@inlined
def take(a, now, thread, number, mode):
    """The lock passes to the thread."""
    lock = a.locks[number]
    threads = a.threads
    if mode == EXCLUSIVE:
        lock[WRITER] = thread
    else:
        lock[READERS] += 1
    i = threads[thread, HELD]
    threads[thread, HELD] = i + 1
    a.held[thread, 2 * i] = number * 4 + mode
    a.held[thread, 2 * i + 1] = now
    if lock[KIND] == SPINLOCK:
        threads[thread, ATOMIC] += 1
    row = use_row(a.locks, number, mode)
    a.uses[row, ACQUISITIONS] += 1
    if lock[LAST_TAKER] != thread:
        if lock[LAST_TAKER] >= 0:
            a.uses[row, BOUNCES] += 1
        lock[LAST_TAKER] = thread


@inlined
def grant(a, now, thread, number, mode):
    """The lock passes to a thread that has waited."""
    take(a, now, thread, number, mode)
    waited = now - a.threads[thread, REQUESTED]
    use = a.uses[use_row(a.locks, number, mode)]
    use[CONTENTIONS] += 1
    use[WAIT_TOTAL] += waited
    use[WAIT_MIN] = min(use[WAIT_MIN], waited)
    use[WAIT_MAX] = max(use[WAIT_MAX], waited)
    a.threads[thread, WAITS_FOR] = -1
    note(a.control, a.log, now, thread, a.code[a.threads[thread, PC] + LINE], LOG_GRANT, number, mode)


@inlined
def count_hold(locks, uses, number, mode, duration):
    use = uses[use_row(locks, number, mode)]
    use[HOLD_TOTAL] += duration
    use[HOLD_MIN] = min(use[HOLD_MIN], duration)
    use[HOLD_MAX] = max(use[HOLD_MAX], duration)
    use[HOLDS] += 1


@inlined
def drop(a, now, thread, i):
    """Entry i of the thread's held locks is released; nobody else gets the lock yet."""
    held = a.held
    number = held[thread, 2 * i] >> 2
    mode = held[thread, 2 * i] & 3
    count_hold(a.locks, a.uses, number, mode, now - held[thread, 2 * i + 1])
    last = a.threads[thread, HELD] - 1
    a.threads[thread, HELD] = last
    for j in range(2 * i, 2 * last):
        held[thread, j] = held[thread, j + 2]
    lock = a.locks[number]
    if mode == EXCLUSIVE:
        lock[WRITER] = -1
    else:
        lock[READERS] -= 1
    lock[LAST_RELEASE] = thread
    if lock[KIND] == SPINLOCK:
        a.threads[thread, ATOMIC] -= 1


@inlined
def can_take(locks, number, mode):
    """Would an acquire be granted at once?"""
    lock = locks[number]
    if lock[WRITER] >= 0:
        return False
    kind = lock[KIND]
    if kind == FIFO:
        return lock[READER_HEAD] < 0 and lock[WRITER_HEAD] < 0 and (mode == SHARED or lock[READERS] == 0)
    if kind == SPINNING_RWLOCK:
        if lock[HANDOFF] != 0:
            return False
        return lock[READERS] == 0 or (mode == SHARED and lock[READER_HEAD] < 0 and lock[WRITER_HEAD] < 0)
    return True


# --- hand-over


@inlined
def grant_to_reader(a, now, number):
    """The first reader of the wait list gets the lock."""
    reader = a.locks[number, READER_HEAD]
    a.locks[number, READER_HEAD] = a.threads[reader, NEXT]
    grant(a, now, reader, number, SHARED)
    wake(a, now, reader, a.control[WAKEUP_NS], GRANTED)


@inlined
def grant_to_spinner(a, now, number, previous):
    """The spinner behind `previous` (-1: the first) gets the lock."""
    lock = a.locks[number]
    threads = a.threads
    if previous < 0:
        spinner = lock[SPINNER_HEAD]
        lock[SPINNER_HEAD] = threads[spinner, NEXT]
    else:
        spinner = threads[previous, NEXT]
        threads[previous, NEXT] = threads[spinner, NEXT]
    if lock[SPINNER_TAIL] == spinner:
        lock[SPINNER_TAIL] = previous
    lock[SPINNERS] -= 1
    a.control[SPUN] += now - threads[spinner, SINCE]
    grant(a, now, spinner, number, EXCLUSIVE)
    threads[spinner, STATE] = RUNNING
    threads[spinner, STEP] = RESUMED
    account(a.threads, a.totals, now, spinner, IN_CPU)
    schedule(a.control, a.heap, a.ring, now, a.control[HANDOFF_NS], EVENT_RUN, spinner)


@inlined
def wake_writer_once(a, now, number):
    """The first exclusive waiter is to try again, unless it is already about to."""
    writer = a.locks[number, WRITER_HEAD]
    if a.threads[writer, WOKEN] == 0:
        a.threads[writer, WOKEN] = 1
        wake(a, now, writer, a.control[WAKEUP_NS], RETRY)


@inlined
def lock_with_spinners(threads, held, locks, thread):
    """Return the first mutex or rwlock held by the thread for which others spin, or -1."""
    for i in range(threads[thread, HELD]):
        number = held[thread, 2 * i] >> 2
        if locks[number, SPINNER_HEAD] >= 0 and locks[number, KIND] != SPINLOCK:
            return number
    return -1


@compiled
def send_spinners_to_sleep(a, now, number):
    """All spinners of a lock join its wait list and block, and so do those who spin for locks that they hold."""
    threads = a.threads
    top = NOTHING  # of the stack of threads whose own spinners are being dealt with
    while True:
        source = number if top < 0 else lock_with_spinners(a.threads, a.held, a.locks, top)
        if source >= 0 and a.locks[source, SPINNER_HEAD] >= 0:
            lock = a.locks[source]
            spinner = lock[SPINNER_HEAD]
            lock[SPINNER_HEAD] = threads[spinner, NEXT]
            lock[SPINNERS] -= 1
            a.control[SPUN] += now - threads[spinner, SINCE]
            account(a.threads, a.totals, now, spinner, threads[spinner, CATEGORY])
            a.sleeps[threads[spinner, CATEGORY]] += threads[spinner, SUBMITTING]
            threads[spinner, STATE] = BLOCKED
            join_wait_list(a.threads, a.locks, now, source, EXCLUSIVE, spinner)
            threads[spinner, STACK] = top
            top = spinner
        elif top < 0:
            return
        else:
            give_cpu(a.control, a.threads, a.cpus, a.totals, a.heap, a.ring, now, top)
            top = threads[top, STACK]


@inlined
def owner_stops_running(a, now, thread):
    number = lock_with_spinners(a.threads, a.held, a.locks, thread)
    while number >= 0:
        send_spinners_to_sleep(a, now, number)
        number = lock_with_spinners(a.threads, a.held, a.locks, thread)


@inlined
def hand_over_fifo(a, now, number):
    """The wake rule of kind "fifo", for a lock that has no writer."""
    if reader_is_first(a.threads, a.locks, number):
        while reader_is_first(a.threads, a.locks, number):
            grant_to_reader(a, now, number)
    elif a.locks[number, WRITER_HEAD] >= 0 and a.locks[number, READERS] == 0:
        writer = a.locks[number, WRITER_HEAD]
        a.locks[number, WRITER_HEAD] = a.threads[writer, NEXT]
        grant(a, now, writer, number, EXCLUSIVE)
        wake(a, now, writer, a.control[WAKEUP_NS], GRANTED)


@inlined
def grant_to_reader_batch(a, now, number):
    granted = 0
    while granted < READER_BATCH and a.locks[number, READER_HEAD] >= 0:
        grant_to_reader(a, now, number)
        granted += 1
    a.locks[number, HANDOFF] = 0
    send_spinners_to_sleep(a, now, number)


@compiled
def hand_over_spinning(a, now, number):
    """A lock of kind "spinning" has become free."""
    lock = a.locks[number]
    reader_first = reader_is_first(a.threads, a.locks, number)
    if lock[HANDOFF] == 0 and lock[SPINNER_HEAD] >= 0:
        if reader_first and now - a.threads[lock[READER_HEAD], LISTED] > HANDOFF_AFTER_NS:
            lock[HANDOFF] = 1
        else:
            grant_to_spinner(a, now, number, NOTHING)
            return
    if reader_first:
        grant_to_reader_batch(a, now, number)
    elif lock[WRITER_HEAD] >= 0:
        wake_writer_once(a, now, number)


@compiled
def demote_spinning(a, now, number):
    """The writer of a lock of kind "spinning" has become a reader."""
    if reader_is_first(a.threads, a.locks, number):
        grant_to_reader_batch(a, now, number)
    else:
        send_spinners_to_sleep(a, now, number)


@compiled
def hand_over_barging(a, now, number, releaser):
    """A mutex of kind "barging" has become free."""
    lock = a.locks[number]
    if lock[WRITER_HEAD] >= 0:
        wake_writer_once(a, now, number)
    spinners = lock[SPINNERS]
    if spinners > 0:
        chosen = 0
        if spinners > 1:
            chosen = (np.int64(next_draw(a.threads, a.streams, releaser) >> S32) * spinners) >> 32
        previous = NOTHING
        for _ in range(chosen):
            previous = lock[SPINNER_HEAD] if previous < 0 else a.threads[previous, NEXT]
        grant_to_spinner(a, now, number, previous)


@inlined
def hand_over(a, now, number, releaser):
    """The lock has just been released: pass it on or wake those who are to try."""
    lock = a.locks[number]
    if lock[WRITER] >= 0 or lock[READERS] > 0:
        return
    if lock[READER_HEAD] < 0 and lock[WRITER_HEAD] < 0 and lock[SPINNER_HEAD] < 0:
        return
    kind = lock[KIND]
    if kind == FIFO:
        hand_over_fifo(a, now, number)
    elif kind == SPINNING_RWLOCK:
        hand_over_spinning(a, now, number)
    elif kind == BARGING:
        hand_over_barging(a, now, number, releaser)
    else:
        grant_to_spinner(a, now, number, NOTHING)


@inlined
def touch(control, locks, now, thread, number):
    """Return how long the thread waits for the lock's cache line; 0 if it needs no transfer."""
    duration = control[CACHE_LINE_NS]
    if duration == 0:
        return 0
    lock = locks[number]
    before = lock[TOUCHED_BY]
    lock[TOUCHED_BY] = thread
    if before < 0 or before == thread:
        return 0
    lock[LINE_FREE] = max(now, lock[LINE_FREE]) + duration
    return lock[LINE_FREE] - now


# --- queues, spaces and block maps


@inlined
def hand_on(a, now, number, latency, step):
    """The first of the threads that wait for a queue or a space has what it wants, and is woken."""
    threads = a.threads
    waiter = a.locks[number, READER_HEAD]
    a.locks[number, READER_HEAD] = threads[waiter, NEXT]
    threads[waiter, WAITS_FOR] = -1
    value = threads[waiter, WANTED] if a.locks[number, KIND] == SPACE else ZERO
    note(a.control, a.log, now, waiter, a.code[threads[waiter, PC] + LINE], LOG_GRANT, number, value)
    wake(a, now, waiter, latency, step)


@inlined
def give_item(a, number, item):
    """The first thread that waits for a queue, still in its GET, gets the item as its result."""
    waiter = a.locks[number, READER_HEAD]
    a.registers[waiter * a.control[REGISTERS] + a.code[a.threads[waiter, PC] + 1]] = item


@inlined
def append_item(control, locks, nodes, number, item):
    """The item joins the tail of a queue.  It takes the place of a node that the caller has counted as used."""
    queue = locks[number]
    node = control[FREE_NODE]
    control[FREE_NODE] = nodes[node, ITEM_NEXT]
    nodes[node, ITEM] = item
    nodes[node, ITEM_NEXT] = -1
    if queue[COUNT] == 0:
        queue[ITEM_HEAD] = node
    else:
        nodes[queue[ITEM_TAIL], ITEM_NEXT] = node
    queue[ITEM_TAIL] = node
    queue[COUNT] += 1


@inlined
def take_item(control, locks, nodes, number):
    """Return the head of a queue that is not empty; it leaves the queue."""
    queue = locks[number]
    node = queue[ITEM_HEAD]
    queue[ITEM_HEAD] = nodes[node, ITEM_NEXT]
    queue[COUNT] -= 1
    nodes[node, ITEM_NEXT] = control[FREE_NODE]
    control[FREE_NODE] = node
    control[FREE_NODES] += 1
    return nodes[node, ITEM]


@compiled
def run_length(locks, blocks, number, block, count):
    """Return how many blocks from `block` on have its state, at most `count`."""
    inside = locks[number, BLOCKS] - block  # beyond, all blocks have the state 0
    if inside <= 0:
        return count
    first = locks[number, BASE] + block
    state = blocks[first]
    run = 1
    stop = min(inside, count)
    while run < stop and blocks[first + run] == state:
        run += 1
    return count if run == inside and state == 0 else run


@compiled
def fill(locks, blocks, number, block, count, state):
    """Give blocks a state, and keep the numbers of runs and of present blocks up to date."""
    block_map = locks[number]
    first = block_map[BASE] + block
    # A run begins where a state other than 0 differs from the one before.
    previous = np.int64(blocks[first - 1]) if block > 0 else 0
    runs = 0
    present = 0
    if state != 0:
        present = count
        runs += np.int64(previous != state)
    for i in range(first, first + count):
        old = np.int64(blocks[i])
        present -= np.int64(old != 0)
        runs -= np.int64((old != 0) & (old != previous))
        previous = old
        blocks[i] = state
    if block + count < block_map[BLOCKS]:
        behind = np.int64(blocks[first + count])
        runs += np.int64((behind != 0) & (behind != state)) - np.int64((behind != 0) & (behind != previous))
    block_map[RUNS] += runs
    block_map[PRESENT] += present


# --- devices


@inlined
def schedule_stage(control, heap, ring, now, delay, stage, number):
    schedule(control, heap, ring, now, delay, EVENT_DEVICE, (number << STAGE_BITS) | stage)


@inlined
def picoseconds(size, rate):
    """Return the nanoseconds, rounded up, that so many bytes take at so many picoseconds each."""
    return (size * rate + 999) // 1000


@compiled
def tell_target(a, now, request):
    """An asynchronous request is done: its queue gets the tag, or its counter is decremented."""
    control = a.control
    requests = a.requests
    threads = a.threads
    number = requests[request, TARGET]
    requests[request, REQUEST_NEXT] = control[FREE_REQUEST]
    control[FREE_REQUEST] = request
    waiter = a.locks[number, READER_HEAD]
    if a.locks[number, KIND] == QUEUE:
        if waiter < 0:
            append_item(a.control, a.locks, a.nodes, number, requests[request, TAG])
            return
        control[FREE_NODES] += 1
        give_item(a, number, requests[request, TAG])
        hand_on(a, now, number, control[INTERRUPT_NS], RESUMED)
        return
    count = a.locks[number, COUNT] - 1
    if count < 0:
        control[FAILED_THREAD] = requests[request, REQUEST_THREAD]
        control[FAILED_OBJECT] = number
        control[FAILED_LINE] = requests[request, REQUEST_LINE]
        control[DEVICE_STATUS] = COUNTER_BELOW_ZERO
        return
    a.locks[number, COUNT] = count
    if count == 0:
        a.locks[number, READER_HEAD] = -1
        while waiter >= 0:
            wake(a, now, waiter, control[INTERRUPT_NS], RETRY_NOW)
            waiter = threads[waiter, NEXT]


@inlined
def complete_request(a, now, request):
    """The device has done a request: log it, and wake the thread that waits or tell the target."""
    requests = a.requests
    thread = requests[request, REQUEST_THREAD]
    length = requests[request, REQUEST_LENGTH]
    note(a.control, a.log, now, thread, requests[request, REQUEST_LINE], LOG_DEVICE_DONE, NOTHING, length)
    if requests[request, TARGET] >= 0:
        tell_target(a, now, request)
        return
    wake(a, now, thread, a.control[INTERRUPT_NS], RESUMED)


# The simple device


@inlined
def simple_start(a, now, request):
    """A request that has a slot passes the gate; its latency begins."""
    gate_ns = a.control[GATE_NS]
    start = now
    if gate_ns > 0:
        start = book(a.resources, now, GATE, gate_ns) - gate_ns
    a.requests[request, TRANSFERS] = 0
    schedule_stage(a.control, a.heap, a.ring, now, start - now + a.requests[request, SERVICE], COMMAND_END, request)


@inlined
def simple_submit(a, now, request):
    control = a.control
    requests = a.requests
    requests[request, SERVICE] = control[LATENCY_NS]
    if control[LATENCY_RANDOM] != 0:
        drawn = next_draw(a.threads, a.streams, requests[request, REQUEST_THREAD])
        requests[request, SERVICE] = exponential(a.table, drawn, control[LATENCY_NS])
    if control[FREE_SLOTS] > 0:
        control[FREE_SLOTS] -= 1
        level(a.resources, now, SLOTS, ONE)
        simple_start(a, now, request)
        return
    join_device_queue(a.control, a.requests, request)


@inlined
def simple_event(a, now, request):
    """The latency or the transfer of a request is over."""
    control = a.control
    requests = a.requests
    if control[BANDWIDTH] > 0 and requests[request, TRANSFERS] == 0:
        requests[request, TRANSFERS] = 1
        duration = -((-requests[request, REQUEST_LENGTH] * 1000) // control[BANDWIDTH])
        if requests[request, REQUEST_OFFSET] != control[HEAD_AT]:
            duration += control[SEEK_NS]
        control[HEAD_AT] = requests[request, REQUEST_OFFSET] + requests[request, REQUEST_LENGTH]
        schedule_stage(a.control, a.heap, a.ring, now, book(a.resources, now, BUS, duration) - now, BUS_END, request)
        return
    head = control[DEVICE_HEAD]
    if head >= 0:
        control[DEVICE_HEAD] = requests[head, REQUEST_NEXT]
        simple_start(a, now, head)
    else:
        control[FREE_SLOTS] += 1
        level(a.resources, now, SLOTS, NOTHING)
    complete_request(a, now, request)


# The flash device (docs/flash.md)


@inlined
def channel_step(a, now, first):
    """Start a transfer on an idle channel; `first` is its first chip."""
    chips = a.chips
    if chips[first, CHANNEL_BUSY] != 0:
        return
    control = a.control
    count = control[CHIPS_PER_CHANNEL]
    turn = chips[first, SERVED_LAST]
    for _ in range(count):
        turn += 1
        if turn == count:
            turn = 0
        chip = first + turn
        chunk = chips[chip, CHIP_HEAD]
        if chunk >= 0 and a.chunks[chunk, CHUNK_PAGE] == chips[chip, CACHE_REGISTER]:
            chips[first, CHANNEL_BUSY] = 1
            chips[first, SERVED_LAST] = turn
            level(a.resources, now, CHANNELS, ONE)
            size = a.chunks[chunk, CHUNK_BYTES]
            duration = control[CHANNEL_COMMAND_NS] + picoseconds(size, control[CHANNEL_PS])
            schedule_stage(a.control, a.heap, a.ring, now, duration, TRANSFER_END, chip)
            if control[FAST_PS] > 0 and size > control[FAST_AFTER]:
                extra = size - control[FAST_AFTER]
                duration += picoseconds(extra, control[FAST_PS]) - picoseconds(extra, control[CHANNEL_PS])
            duration += picoseconds(min(size, control[DECODE_LIMIT]), control[DECODE_PS])
            schedule_stage(a.control, a.heap, a.ring, now, duration, DECODE_END, chunk)
            return


@inlined
def chip_step(a, now, chip):
    """Move a loaded page on if the head of the FIFO needs it, offer the head to the channel, load the next page."""
    chips = a.chips
    chunks = a.chunks
    head = chips[chip, CHIP_HEAD]
    if head < 0:
        return
    page = chunks[head, CHUNK_PAGE]
    if chips[chip, LOADED] != 0 and chips[chip, DATA_REGISTER] == page and chips[chip, CACHE_REGISTER] != page:
        chips[chip, CACHE_REGISTER] = page
        chips[chip, DATA_REGISTER] = -1
        chips[chip, LOADED] = 0
        other = chunks[head, CHUNK_NEXT]
        while other >= 0 and chunks[other, CHUNK_PAGE] == page:
            other = chunks[other, CHUNK_NEXT]
        chips[chip, OTHER] = other
    if chips[chip, CACHE_REGISTER] == page:
        channel_step(a, now, chips[chip, FIRST])
    other = chips[chip, OTHER]
    if chips[chip, DATA_REGISTER] < 0 and other >= 0:
        chips[chip, DATA_REGISTER] = chunks[other, CHUNK_PAGE]
        level(a.resources, now, CHIPS, ONE)
        schedule_stage(a.control, a.heap, a.ring, now, a.control[LOAD_NS], LOAD_END, chip)


@inlined
def scatter(stripe):
    z = stripe * GOLDEN
    return (z ^ (z >> S29)) >> S8


@inlined
def flash_read(a, now, request):
    """A read enters: its chunks join the queues of their chips."""
    control = a.control
    chips = a.chips
    chunks = a.chunks
    page_bytes = control[PAGE_BYTES]
    count = control[CHIPS_PER_CHANNEL]
    channels = a.chips.shape[0] // count
    start = a.requests[request, REQUEST_OFFSET]
    end = start + a.requests[request, REQUEST_LENGTH]
    page = start // page_bytes
    while start < end:
        stop = min(end, (page + 1) * page_bytes)
        stripe = page // channels
        if control[SCATTERED] != 0:
            shifted = np.uint64(page) + scatter(np.uint64(stripe))
            channel = np.int64(shifted % np.uint64(channels))
        else:
            channel = (page + stripe * control[ROTATION]) % channels
        chip = channel * count + stripe % count
        chunk = control[FREE_CHUNK]
        control[FREE_CHUNK] = chunks[chunk, CHUNK_NEXT]
        chunks[chunk, CHUNK_REQUEST] = request
        chunks[chunk, CHUNK_BYTES] = stop - start
        chunks[chunk, CHUNK_PAGE] = page
        chunks[chunk, CHUNK_USES] = 2
        chunks[chunk, CHUNK_NEXT] = -1
        if chips[chip, CHIP_HEAD] < 0:
            chips[chip, CHIP_HEAD] = chunk
        else:
            chunks[chips[chip, CHIP_TAIL], CHUNK_NEXT] = chunk
        chips[chip, CHIP_TAIL] = chunk
        if chips[chip, OTHER] < 0 and page != chips[chip, CACHE_REGISTER]:
            chips[chip, OTHER] = chunk
        chip_step(a, now, chip)
        start = stop
        page += 1


@inlined
def write_end(control, resources, admitted, size):
    """Book the transfer of an admitted write; return when the write is complete."""
    duration = control[WRITE_COMMAND] + picoseconds(size, control[WRITE_BUS_PS])
    return book(resources, admitted, WRITE_BUS, duration) + control[WRITE_NS]


@inlined
def flash_write_transfer(a, now, request):
    end = write_end(a.control, a.resources, now, a.requests[request, REQUEST_LENGTH])
    schedule_stage(a.control, a.heap, a.ring, now, end - now, WRITE_END, request)


@inlined
def admit(control, resources, arrived, size):
    """Return when the write cache has room for a write, and fill it."""
    drain_ns = picoseconds(max(size - control[WRITE_INLINE], 0), control[DRAIN_PS])
    if control[WRITE_SEGMENT] > 0:
        drain_ns += (size - 1) // control[WRITE_SEGMENT] * control[SEGMENT_NS]
    room_at = resources[DRAIN, FREE_AT] - max(control[CACHE_NS] - drain_ns, 0)
    admitted = max(arrived, control[ADMITTED_AT], room_at)
    control[ADMITTED_AT] = admitted
    book(resources, admitted, DRAIN, drain_ns)
    return admitted


@compiled
def poll_write(a, now, thread, size):
    """A thread hands a write over itself; return for how long that keeps it on its CPU."""
    a.control[LAST_SUBMITTER] = a.threads[thread, HOME]
    arrives_at = now + a.control[COMMAND_NS]
    request = a.requests[thread]
    request[DRAIN_GAP] = max(now, a.resources[DRAIN, FREE_AT])
    request[DRAIN_GAP_END] = arrives_at
    admitted = admit(a.control, a.resources, arrives_at, size)
    request[BUS_GAP] = max(now, a.resources[WRITE_BUS, FREE_AT])
    request[BUS_GAP_END] = admitted
    return write_end(a.control, a.resources, admitted, size) - now


@inlined
def flash_write(a, now, request):
    """A write enters: it waits until the write cache has room for it."""
    admitted = admit(a.control, a.resources, now, a.requests[request, REQUEST_LENGTH])
    if admitted == now:
        flash_write_transfer(a, now, request)
    else:
        schedule_stage(a.control, a.heap, a.ring, now, admitted - now, ADMISSION, request)


@inlined
def flash_enter(a, now, request):
    if a.requests[request, REQUEST_WRITES] != 0:
        flash_write(a, now, request)
    else:
        flash_read(a, now, request)


@inlined
def release_chunk(control, chunks, chunk):
    """One of the two events that need the chunk is over; after the second its place is free."""
    chunks[chunk, CHUNK_USES] -= 1
    if chunks[chunk, CHUNK_USES] == 0:
        chunks[chunk, CHUNK_NEXT] = control[FREE_CHUNK]
        control[FREE_CHUNK] = chunk
        control[FREE_CHUNKS] += 1


@inlined
def join_device_queue(control, requests, request):
    """A request joins the tail of the simple device's queue for slots, or of the flash device's for the bus."""
    requests[request, REQUEST_NEXT] = -1
    if control[DEVICE_HEAD] < 0:
        control[DEVICE_HEAD] = request
    else:
        requests[control[DEVICE_TAIL], REQUEST_NEXT] = request
    control[DEVICE_TAIL] = request


@inlined
def bus_step(a, now):
    """Start the transfer of the next packet to the host if the bus is idle."""
    control = a.control
    requests = a.requests
    request = control[DEVICE_HEAD]
    if request < 0 or a.resources[BUS, LEVEL] != 0:
        return
    control[DEVICE_HEAD] = requests[request, REQUEST_NEXT]
    size = requests[request, BYTES_LEFT]
    if control[BUS_PACKET] > 0:
        size = min(size, control[BUS_PACKET])
    requests[request, BYTES_LEFT] -= size
    level(a.resources, now, BUS, ONE)
    schedule_stage(a.control, a.heap, a.ring, now, picoseconds(size, control[BUS_PS]), BUS_END, request)


@inlined
def flash_event(a, now, subject):
    """A stage of the flash device has come to its end."""
    chips = a.chips
    chunks = a.chunks
    requests = a.requests
    number = subject >> STAGE_BITS
    stage = subject & ((1 << STAGE_BITS) - 1)
    if stage in (LOAD_END, TRANSFER_END):
        if stage == LOAD_END:
            chips[number, LOADED] = 1
            level(a.resources, now, CHIPS, NOTHING)
        else:
            chunk = chips[number, CHIP_HEAD]
            chips[number, CHIP_HEAD] = chunks[chunk, CHUNK_NEXT]
            chips[chips[number, FIRST], CHANNEL_BUSY] = 0
            level(a.resources, now, CHANNELS, NOTHING)
            release_chunk(a.control, a.chunks, chunk)
        chip_step(a, now, number)
        if stage == TRANSFER_END:
            channel_step(a, now, chips[number, FIRST])
    elif stage in (DECODE_END, BUS_END):
        joins = False
        if stage == DECODE_END:
            request = chunks[number, CHUNK_REQUEST]
            release_chunk(a.control, a.chunks, number)
            requests[request, CHUNKS_LEFT] -= 1
            joins = requests[request, CHUNKS_LEFT] == 0
        else:
            request = number
            level(a.resources, now, BUS, NOTHING)
            joins = requests[request, BYTES_LEFT] > 0
            if not joins:
                complete_request(a, now, request)
        if joins:
            join_device_queue(a.control, a.requests, request)
        if joins or stage == BUS_END:
            bus_step(a, now)
    elif stage == COMMAND_END:
        flash_enter(a, now, number)
    elif stage == ADMISSION:
        flash_write_transfer(a, now, number)
    else:
        complete_request(a, now, number)


# Any device


@inlined
def submit(a, now, request, thread, line, writes, offset, length):
    """A thread's request enters the device."""
    control = a.control
    requests = a.requests
    control[LAST_SUBMITTER] = a.threads[thread, HOME]
    requests[request, REQUEST_THREAD] = thread
    requests[request, REQUEST_LINE] = line
    requests[request, REQUEST_OFFSET] = offset
    requests[request, REQUEST_LENGTH] = length
    requests[request, REQUEST_WRITES] = writes
    if control[DEVICE_KIND] == SIMPLE:
        simple_submit(a, now, request)
        return
    if writes == 0:
        count = chunk_count(a.control, offset, length)
        control[FREE_CHUNKS] -= count
        requests[request, CHUNKS_LEFT] = count
        requests[request, BYTES_LEFT] = length
    if control[COMMAND_NS] > 0:
        schedule_stage(a.control, a.heap, a.ring, now, control[COMMAND_NS], COMMAND_END, request)
    else:
        flash_enter(a, now, request)


@inlined
def chunk_count(control, offset, length):
    page_bytes = control[PAGE_BYTES]
    return (offset + length - 1) // page_bytes - offset // page_bytes + 1


# --- effects that are not in the loop itself
#
# Calls with all arrays as arguments are slow, so what is frequent is inlined; the rest would only make the loop larger.


@inlined
def submit_and_go_on(a, now, thread, pc, line, op, number):
    """SUBMITR, SUBMITW: return GOING_ON, or what stands against it."""
    control = a.control
    requests = a.requests
    base = thread * control[REGISTERS]
    offset = a.registers[base + a.code[pc + 1]]
    length = a.registers[base + a.code[pc + 1] + 1]
    to_queue = a.locks[number, KIND] == QUEUE
    if control[DEVICE_KIND] == NO_DEVICE:
        return DEVICE_MISSING
    if offset < 0 or length <= 0:
        return BAD_RANGE
    if control[DEVICE_KIND] == FLASH and op == SUBMITR:
        control[CHUNKS_NEEDED] = chunk_count(a.control, offset, length)
        if control[CHUNKS_NEEDED] > control[FREE_CHUNKS]:
            return CHUNKS_FULL
    request = control[FREE_REQUEST]
    if request < 0:
        return REQUESTS_FULL
    if to_queue:
        if control[FREE_NODES] == 0:
            return NODES_FULL
        control[FREE_NODES] -= 1
    control[FREE_REQUEST] = requests[request, REQUEST_NEXT]
    requests[request, TARGET] = number
    requests[request, TAG] = a.registers[base + a.code[pc + 4]]
    note(a.control, a.log, now, thread, line, op, number, length)
    submit(a, now, request, thread, line, op - SUBMITR, offset, length)
    return GOING_ON


@inlined
def put(a, now, thread, line, number, item):
    """PUT: return GOING_ON, or what stands against it."""
    control = a.control
    waits = a.locks[number, READER_HEAD] >= 0
    if not waits and control[FREE_NODES] == 0:
        return NODES_FULL
    note(a.control, a.log, now, thread, line, PUT, number, a.locks[number, COUNT])
    if waits:
        give_item(a, number, item)
        hand_on(a, now, number, control[WAKEUP_NS], GRANTED)
    else:
        control[FREE_NODES] -= 1
        append_item(a.control, a.locks, a.nodes, number, item)
    return GOING_ON


@compiled
def give(a, now, thread, line, number, units):
    """GIVE: return GOING_ON, or what stands against it."""
    space = a.locks[number]
    if units < 1:
        return BAD_UNITS
    if units > space[CAPACITY] - space[COUNT]:
        return TOO_MUCH_GIVEN
    note(a.control, a.log, now, thread, line, GIVE, number, units)
    space[COUNT] += units
    while space[READER_HEAD] >= 0 and a.threads[space[READER_HEAD], WANTED] <= space[COUNT]:
        space[COUNT] -= a.threads[space[READER_HEAD], WANTED]
        hand_on(a, now, number, a.control[WAKEUP_NS], GRANTED)
    return GOING_ON


@compiled
def look_up_or_fill(control, code, registers, locks, blocks, log, now, thread, pc, line, op, number):
    """LOOKUP, FILL: return GOING_ON, or what stands against it."""
    base = thread * control[REGISTERS]
    pair = base + code[pc + (4 if op == LOOKUP else 3)]
    block = registers[pair]
    count = registers[pair + 1]
    if block < 0 or count < 1:
        return BAD_BLOCKS
    if op == LOOKUP:
        state = np.int64(blocks[locks[number, BASE] + block]) if block < locks[number, BLOCKS] else 0
        run = run_length(locks, blocks, number, block, count)
        note(control, log, now, thread, line, LOOKUP, number, run << 2 | state)
        registers[base + code[pc + 1]] = state
        registers[base + code[pc + 1] + 1] = run
    else:
        state = registers[base + code[pc + 4]]
        if count > locks[number, BLOCKS] - block or state < 0 or state > LAST_STATE:
            return BAD_BLOCKS
        note(control, log, now, thread, line, FILL, number, count * 4 + state)
        fill(locks, blocks, number, block, count, state)
    return GOING_ON


# --- arithmetic


@inlined
def overflows(left, right, product):
    """Did a product of 64 bits lose its upper bits?"""
    if -HALF <= left < HALF and -HALF <= right < HALF:
        return False
    if left == -1:  # the quotient of the smallest integer would trap
        return right == LOWEST
    return left != 0 and product // left != right


# --- the loop


@entry
def advance(a):
    """Run until the end of the run, or until the host has to act; return why."""
    control = a.control
    code = a.code
    memory = a.memory
    registers = a.registers
    threads = a.threads
    locks = a.locks

    now = control[TIME]
    thread = control[CURRENT]
    events = control[EVENTS]
    standing = control[STANDING]
    fuel = control[FUEL]
    time_limit = control[TIME_LIMIT]
    switch_ns = control[SWITCH_NS]
    failed_object = -1
    failed_line = 0
    width = control[REGISTERS]
    status = GOING_ON

    while status == GOING_ON:
        # The next event, unless a thread was interrupted in its turn.
        if thread < 0:
            if control[LOG_ROWS] > control[LOG_ROOM]:
                status = LOG_FULL
                break
            fill_vacancy(a.control, a.heap)
            if control[RING_COUNT] > 0 and (control[HEAP_SIZE] == 0 or a.heap[0, 0] > now):
                first = control[RING_FIRST]
                event = a.ring[first]
                control[RING_FIRST] = (first + 1) & (a.ring.size - 1)
                control[RING_COUNT] -= 1
            elif control[HEAP_SIZE] > 0:
                time = a.heap[0, 0]
                if time >= time_limit:
                    now = time_limit
                    status = FINISHED
                    break
                if time > now:
                    now = time
                    standing = 0
                event = pop(a.control, a.heap)
            else:
                status = DEADLOCK if control[LIVE] > 0 else FINISHED
                break
            subject = event >> KIND_BITS
            kind = event & ((1 << KIND_BITS) - 1)
            events += 1
            standing += 1
            if standing > NO_PROGRESS_LIMIT:
                if kind != EVENT_DEVICE:
                    thread = subject
                status = NO_PROGRESS
                break
            if kind == EVENT_DEVICE:
                if control[DEVICE_KIND] == SIMPLE:
                    simple_event(a, now, subject >> STAGE_BITS)
                else:
                    flash_event(a, now, subject)
                if control[DEVICE_STATUS] != GOING_ON:
                    status = control[DEVICE_STATUS]
                    thread = control[FAILED_THREAD]
                    failed_object = control[FAILED_OBJECT]
                    failed_line = control[FAILED_LINE]
                    break
                continue
            if kind == EVENT_READY:
                if control[FREE_CPUS] == 0:
                    join_ready_queue(a.control, a.threads, a.totals, now, subject)
                    continue
                take_free_cpu(a.control, a.threads, a.cpus, a.totals, now, subject)
            thread = subject

        # The thread has a CPU: first what is left of the effect it waited in.
        pc = threads[thread, PC]
        step = threads[thread, STEP]
        base = thread * width
        touched = False
        turn = STOP
        keep_ns = 0
        category = IN_CPU
        if step in (GRANTED, RETRY):
            step = RESUMED if step == GRANTED else RETRY_NOW
            if switch_ns > 0:
                threads[thread, STEP] = step
                keep_ns = switch_ns
                turn = KEEP
        if turn == KEEP:
            pass
        elif step == AFTER_PREEMPTION:
            pc += INSTRUCTION
        elif step == AFTER_CPU:
            timeslice_ns = control[TIMESLICE_NS]
            if (
                timeslice_ns > 0
                and control[READY_HEAD] >= 0
                and threads[thread, ATOMIC] == 0
                and now - threads[thread, GOT_CPU] >= timeslice_ns
            ):
                threads[thread, STEP] = AFTER_PREEMPTION
                a.sleeps[IN_READY] += threads[thread, SUBMITTING]
                owner_stops_running(a, now, thread)
                join_ready_queue(a.control, a.threads, a.totals, now, thread)
                give_cpu(a.control, a.threads, a.cpus, a.totals, a.heap, a.ring, now, thread)
                thread = -1
                continue
            pc += INSTRUCTION
        elif step == RESUMED:
            note(a.control, a.log, now, thread, code[pc + LINE], LOG_RESUME, NOTHING, ZERO)
            pc += INSTRUCTION
        elif step == AFTER_TOUCH:
            touched = True
        elif step == AFTER_POLL:
            length = registers[base + code[pc + 2]]
            note(a.control, a.log, now, thread, code[pc + LINE], LOG_DEVICE_DONE, NOTHING, length)
            pc += INSTRUCTION
        elif step == RETRY_NOW:
            number = threads[thread, WAITS_FOR]
            kind = locks[number, KIND]
            if kind == COUNTER:
                count = locks[number, COUNT]
                note(a.control, a.log, now, thread, code[pc + LINE], WAITZERO, number, count)
                if count != 0:
                    enqueue(a.threads, a.locks, number, READER_HEAD, READER_TAIL, thread)
                    category = IN_WAIT + use_row(a.locks, number, SHARED)
                    turn = BLOCK
            elif locks[number, WRITER] < 0 and locks[number, READERS] == 0:
                locks[number, WRITER_HEAD] = threads[thread, NEXT]
                locks[number, HANDOFF] = 0
                grant(a, now, thread, number, EXCLUSIVE)
            else:
                threads[thread, WOKEN] = 0
                if kind == SPINNING_RWLOCK and now - threads[thread, LISTED] > HANDOFF_AFTER_NS:
                    locks[number, HANDOFF] = 1
                category = IN_WAIT + use_row(a.locks, number, EXCLUSIVE)
                turn = BLOCK
            if turn != BLOCK:
                threads[thread, WAITS_FOR] = -1
                note(a.control, a.log, now, thread, code[pc + LINE], LOG_RESUME, NOTHING, ZERO)
                pc += INSTRUCTION

        # Its instructions, until its turn ends.
        while turn == STOP:
            op = code[pc]
            if op < ACQUIRE:
                if op == JMP:
                    pc = code[pc + 1]
                    continue
                elif op == JZ:
                    pc = code[pc + 2] if registers[base + code[pc + 1]] == 0 else pc + INSTRUCTION
                    continue
                elif op == JNZ:
                    pc = code[pc + 2] if registers[base + code[pc + 1]] != 0 else pc + INSTRUCTION
                    continue
                elif op == JLT:
                    left = registers[base + code[pc + 1]]
                    pc = code[pc + 3] if left < registers[base + code[pc + 2]] else pc + INSTRUCTION
                    continue
                elif op == JLE:
                    left = registers[base + code[pc + 1]]
                    pc = code[pc + 3] if left <= registers[base + code[pc + 2]] else pc + INSTRUCTION
                    continue
                elif op == JEQ:
                    left = registers[base + code[pc + 1]]
                    pc = code[pc + 3] if left == registers[base + code[pc + 2]] else pc + INSTRUCTION
                    continue
                elif op == JNE:
                    left = registers[base + code[pc + 1]]
                    pc = code[pc + 3] if left != registers[base + code[pc + 2]] else pc + INSTRUCTION
                    continue
                elif op == TICK:
                    standing += 1
                    if standing > NO_PROGRESS_LIMIT:
                        failed_line = code[pc + LINE]
                        status = NO_PROGRESS
                        break
                elif op == END:
                    if threads[thread, HELD] > 0:
                        failed_object = a.held[thread, 0] >> 2
                        status = HELD_AT_EXIT
                        break
                    note(a.control, a.log, now, thread, ZERO, LOG_END, NOTHING, ZERO)
                    turn = GONE
                    break
                elif op == MOV:
                    registers[base + code[pc + 1]] = registers[base + code[pc + 2]]
                elif op == NEG:
                    right = registers[base + code[pc + 2]]
                    if right == LOWEST:
                        failed_line = code[pc + LINE]
                        status = OVERFLOW
                        break
                    registers[base + code[pc + 1]] = -right
                elif op == NOT:
                    registers[base + code[pc + 1]] = 1 if registers[base + code[pc + 2]] == 0 else 0
                elif op == INV:
                    registers[base + code[pc + 1]] = ~registers[base + code[pc + 2]]
                elif op == TID:
                    registers[base + code[pc + 1]] = thread
                elif op == NOW:
                    registers[base + code[pc + 1]] = now
                elif op == LOAD:
                    registers[base + code[pc + 1]] = memory[registers[base + code[pc + 2]] + code[pc + 3]]
                elif op == STORE:
                    memory[registers[base + code[pc + 1]] + code[pc + 2]] = registers[base + code[pc + 3]]
                elif op == PEEK:
                    number = memory[registers[base + code[pc + 2]] + code[pc + 3]]
                    registers[base + code[pc + 1]] = locks[number, code[pc + 4]]
                elif op == LEN:
                    registers[base + code[pc + 1]] = memory[memory[registers[base + code[pc + 2]] + code[pc + 3]]]
                elif op == LOADX:
                    address = memory[registers[base + code[pc + 2]] + code[pc + 3]]
                    index = registers[base + code[pc + 4]]
                    if index < 0 or index >= memory[address]:
                        failed_line = code[pc + LINE]
                        status = BAD_INDEX
                        break
                    registers[base + code[pc + 1]] = memory[address + 1 + index]
                else:
                    left = registers[base + code[pc + 2]]
                    right = registers[base + code[pc + 3]]
                    # Signed integers must not wrap around: numba has LLVM rely on it.
                    if op == ADD:
                        result = np.int64(np.uint64(left) + np.uint64(right))
                        if (left ^ result) & (right ^ result) < 0:
                            status = OVERFLOW
                    elif op == SUB:
                        result = np.int64(np.uint64(left) - np.uint64(right))
                        if (left ^ right) & (left ^ result) < 0:
                            status = OVERFLOW
                    elif op == MUL:
                        result = np.int64(np.uint64(left) * np.uint64(right))
                        if overflows(left, right, result):
                            status = OVERFLOW
                    elif op in (DIV, MOD):
                        if right == 0:
                            status = DIVISION_BY_ZERO
                            result = 0
                        elif right == -1:  # the quotient of the smallest integer would trap
                            result = -left if op == DIV else 0
                            if op == DIV and left == LOWEST:
                                status = OVERFLOW
                        elif op == DIV:
                            result = left // right
                        else:
                            result = left % right
                    elif op in (SHL, SHR):
                        if right < 0 or right > 62:
                            status = BAD_SHIFT
                            result = 0
                        elif op == SHL:
                            result = left << right
                            if result >> right != left:
                                status = OVERFLOW
                        else:
                            result = left >> right
                    elif op == AND:
                        result = left & right
                    elif op == OR:
                        result = left | right
                    elif op == XOR:
                        result = left ^ right
                    elif op == MIN:
                        result = min(left, right)
                    elif op == MAX:
                        result = max(left, right)
                    elif op == LT:
                        result = 1 if left < right else 0
                    elif op == LE:
                        result = 1 if left <= right else 0
                    elif op == EQ:
                        result = 1 if left == right else 0
                    else:
                        result = 1 if left != right else 0
                    if status != GOING_ON:
                        failed_line = code[pc + LINE]
                        break
                    registers[base + code[pc + 1]] = result
                pc += INSTRUCTION
                continue

            if op == ASSERT:
                if registers[base + code[pc + 1]] == 0:
                    failed_line = code[pc + LINE]
                    control[FAILED_TEXT] = code[pc + 2]
                    status = ASSERTION_FAILED
                    break
                pc += INSTRUCTION
                continue

            # An effect is issued, unless it is only continued after its cache line has come.
            line = code[pc + LINE]
            if not touched:
                if fuel == 0 or control[LOG_ROWS] > control[LOG_ROOM]:
                    failed_line = line
                    if fuel > 0:
                        status = LOG_FULL
                    else:
                        status = OUT_OF_FUEL if control[LAST_FUEL] == 0 else STEP_LIMIT
                    break
                fuel -= 1

            if op == ACQUIRE:
                number = memory[registers[base + code[pc + 1]] + code[pc + 2]]
                mode = registers[base + code[pc + 3]]
                kind = locks[number, KIND]
                if not touched:
                    if mode != SHARED and mode != EXCLUSIVE:
                        status = BAD_MODE
                    elif find_held(a.threads, a.held, thread, number) >= 0:
                        status = RECURSIVE_ACQUIRE
                    elif threads[thread, ATOMIC] > 0 and kind != SPINLOCK:
                        status = SLEEP_IN_ATOMIC
                    elif 2 * threads[thread, HELD] == a.held.shape[1]:
                        fuel += 1
                        status = HELD_FULL
                    if status != GOING_ON:
                        failed_object = number
                        failed_line = line
                        break
                    note(a.control, a.log, now, thread, line, ACQUIRE, number, mode)
                    keep_ns = touch(a.control, a.locks, now, thread, number)
                    if keep_ns > 0:
                        threads[thread, STEP] = AFTER_TOUCH
                        turn = KEEP
                        break
                touched = False
                if can_take(a.locks, number, mode):
                    take(a, now, thread, number, mode)
                    pc += INSTRUCTION
                    continue
                threads[thread, WAITS_FOR] = number
                threads[thread, MODE] = mode
                threads[thread, REQUESTED] = now
                category = IN_WAIT + use_row(a.locks, number, mode)
                owner = locks[number, WRITER]
                if kind == SPINLOCK or (
                    kind != FIFO
                    and mode == EXCLUSIVE
                    and owner >= 0
                    and threads[owner, STATE] == RUNNING
                    and locks[number, HANDOFF] == 0
                ):
                    enqueue(a.threads, a.locks, number, SPINNER_HEAD, SPINNER_TAIL, thread)
                    locks[number, SPINNERS] += 1
                    turn = SPIN
                else:
                    join_wait_list(a.threads, a.locks, now, number, mode, thread)
                    turn = BLOCK
                break

            elif op == RELEASE:
                number = memory[registers[base + code[pc + 1]] + code[pc + 2]]
                mode = registers[base + code[pc + 3]]
                i = find_held(a.threads, a.held, thread, number)
                if not touched:
                    if i < 0:
                        status = DOUBLE_RELEASE if locks[number, LAST_RELEASE] == thread else NOT_HELD
                    elif a.held[thread, 2 * i] & 3 != mode:
                        status = NOT_HELD
                    if status != GOING_ON:
                        failed_object = number
                        failed_line = line
                        break
                    note(a.control, a.log, now, thread, line, RELEASE, number, mode)
                    keep_ns = touch(a.control, a.locks, now, thread, number)
                    if keep_ns > 0:
                        threads[thread, STEP] = AFTER_TOUCH
                        turn = KEEP
                        break
                touched = False
                drop(a, now, thread, i)
                hand_over(a, now, number, thread)
                pc += INSTRUCTION

            elif op == CPU:
                duration = registers[base + code[pc + 1]]
                if duration < 0:
                    failed_line = line
                    status = BAD_TIME
                    break
                note(a.control, a.log, now, thread, line, CPU, NOTHING, duration)
                if duration > 0:
                    threads[thread, STEP] = AFTER_CPU
                    keep_ns = duration
                    turn = KEEP
                    break
                pc += INSTRUCTION

            elif op in (READ, WRITE):
                offset = registers[base + code[pc + 1]]
                length = registers[base + code[pc + 2]]
                if control[DEVICE_KIND] == NO_DEVICE:
                    status = DEVICE_MISSING
                elif offset < 0 or length <= 0:
                    status = BAD_RANGE
                elif threads[thread, ATOMIC] > 0:
                    status = SLEEP_IN_ATOMIC
                elif control[DEVICE_KIND] == FLASH and op == READ:
                    control[CHUNKS_NEEDED] = chunk_count(a.control, offset, length)
                    if control[CHUNKS_NEEDED] > control[FREE_CHUNKS]:
                        fuel += 1
                        status = CHUNKS_FULL
                if status != GOING_ON:
                    failed_line = line
                    break
                note(a.control, a.log, now, thread, line, op, NOTHING, length)
                if op == WRITE and control[WRITE_POLLED] != 0:
                    keep_ns = poll_write(a, now, thread, length)
                    if keep_ns > 0:
                        threads[thread, STEP] = AFTER_POLL
                        turn = KEEP
                        break
                    note(a.control, a.log, now, thread, line, LOG_DEVICE_DONE, NOTHING, length)
                    pc += INSTRUCTION
                    continue
                submit(a, now, thread, thread, line, op - READ, offset, length)
                category = IN_DEVICE
                turn = BLOCK
                break

            elif op == BEGIN:
                note(a.control, a.log, now, thread, line, BEGIN, NOTHING, ZERO)
                level(a.resources, now, IN_FLIGHT, ONE)
                threads[thread, BEGUN] = now
                threads[thread, SUBMITTING] = 1
                pc += INSTRUCTION

            elif op == COMPLETE:
                begun = registers[base + code[pc + 1]]
                if begun > now:
                    failed_line = line
                    status = BAD_SINCE
                    break
                note(a.control, a.log, now, thread, line, COMPLETE, NOTHING, ZERO)
                completed = control[COMPLETED] + 1
                control[COMPLETED] = completed
                if a.resources[IN_FLIGHT, LEVEL] > 0:
                    level(a.resources, now, IN_FLIGHT, NOTHING)
                if begun < 0:
                    begun = threads[thread, BEGUN]
                    threads[thread, BEGUN] = -1
                if begun >= 0:
                    control[LATENCY] += now - begun
                threads[thread, SUBMITTING] = 0
                pc += INSTRUCTION
                if completed == control[WARMUP_GOAL]:
                    open_window(a, now)
                elif (
                    control[BATCH_IOS] > 0
                    and completed > control[WARMUP_GOAL]
                    and (completed - control[WARMUP_GOAL]) % control[BATCH_IOS] == 0
                ):
                    a.batches[control[BATCH_ROWS]] = now
                    control[BATCH_ROWS] += 1
                if completed == control[IO_GOAL]:
                    status = FINISHED
                    break

            elif op == TRY:
                number = memory[registers[base + code[pc + 2]] + code[pc + 3]]
                mode = registers[base + code[pc + 4]]
                got = 0
                if not touched:
                    if mode != SHARED and mode != EXCLUSIVE:
                        status = BAD_MODE
                    elif 2 * threads[thread, HELD] == a.held.shape[1]:
                        fuel += 1
                        status = HELD_FULL
                    if status != GOING_ON:
                        failed_object = number
                        failed_line = line
                        break
                if find_held(a.threads, a.held, thread, number) < 0:
                    if not touched:
                        keep_ns = touch(a.control, a.locks, now, thread, number)
                        if keep_ns > 0:
                            threads[thread, STEP] = AFTER_TOUCH
                            turn = KEEP
                            break
                    if can_take(a.locks, number, mode):
                        take(a, now, thread, number, mode)
                        got = 1
                touched = False
                note(a.control, a.log, now, thread, line, TRY, number, got)
                registers[base + code[pc + 1]] = got
                pc += INSTRUCTION

            elif op == DEMOTE:
                number = memory[registers[base + code[pc + 1]] + code[pc + 2]]
                i = find_held(a.threads, a.held, thread, number)
                if not touched:
                    if i < 0 or a.held[thread, 2 * i] & 3 != EXCLUSIVE:
                        failed_object = number
                        failed_line = line
                        status = DEMOTE_NOT_HELD
                        break
                    note(a.control, a.log, now, thread, line, DEMOTE, number, ZERO)
                    keep_ns = touch(a.control, a.locks, now, thread, number)
                    if keep_ns > 0:
                        threads[thread, STEP] = AFTER_TOUCH
                        turn = KEEP
                        break
                touched = False
                count_hold(a.locks, a.uses, number, EXCLUSIVE, now - a.held[thread, 2 * i + 1])
                a.held[thread, 2 * i] = number * 4 + SHARED
                a.held[thread, 2 * i + 1] = now
                locks[number, WRITER] = -1
                locks[number, READERS] = 1
                if locks[number, KIND] == FIFO:
                    hand_over_fifo(a, now, number)
                else:
                    demote_spinning(a, now, number)
                pc += INSTRUCTION

            elif op in (INC, DEC):
                if op == INC:
                    number = memory[registers[base + code[pc + 1]] + code[pc + 2]]
                else:
                    number = memory[registers[base + code[pc + 2]] + code[pc + 3]]
                if not touched:
                    keep_ns = touch(a.control, a.locks, now, thread, number)
                    if keep_ns > 0:
                        threads[thread, STEP] = AFTER_TOUCH
                        turn = KEEP
                        break
                touched = False
                if op == INC:
                    note(a.control, a.log, now, thread, line, INC, number, ZERO)
                    locks[number, COUNT] += 1
                else:
                    count = locks[number, COUNT] - 1
                    if count < 0:
                        failed_object = number
                        failed_line = line
                        status = COUNTER_BELOW_ZERO
                        break
                    note(a.control, a.log, now, thread, line, DEC, number, count)
                    locks[number, COUNT] = count
                    registers[base + code[pc + 1]] = count
                    if count == 0:
                        waiter = locks[number, READER_HEAD]
                        locks[number, READER_HEAD] = -1
                        while waiter >= 0:
                            wake(a, now, waiter, control[WAKEUP_NS], RETRY)
                            waiter = threads[waiter, NEXT]
                pc += INSTRUCTION

            elif op == WAITZERO:
                number = memory[registers[base + code[pc + 1]] + code[pc + 2]]
                if threads[thread, ATOMIC] > 0:
                    failed_object = number
                    failed_line = line
                    status = SLEEP_IN_ATOMIC
                    break
                count = locks[number, COUNT]
                note(a.control, a.log, now, thread, line, WAITZERO, number, count)
                if count != 0:
                    threads[thread, WAITS_FOR] = number
                    threads[thread, MODE] = 0
                    enqueue(a.threads, a.locks, number, READER_HEAD, READER_TAIL, thread)
                    category = IN_WAIT + use_row(a.locks, number, SHARED)
                    turn = BLOCK
                    break
                pc += INSTRUCTION

            elif op == SLEEP:
                duration = registers[base + code[pc + 1]]
                if duration < 0:
                    status = BAD_TIME
                elif threads[thread, ATOMIC] > 0:
                    status = SLEEP_IN_ATOMIC
                if status != GOING_ON:
                    failed_line = line
                    break
                note(a.control, a.log, now, thread, line, SLEEP, NOTHING, duration)
                if duration > 0:
                    threads[thread, TIMER] = now + duration
                    threads[thread, STEP] = RESUMED
                    category = IN_SLEEP
                    turn = BLOCK
                    break
                pc += INSTRUCTION

            elif op in (SUBMITR, SUBMITW):
                number = memory[registers[base + code[pc + 2]] + code[pc + 3]]
                status = submit_and_go_on(a, now, thread, pc, line, op, number)
                if status != GOING_ON:
                    failed_object = number
                    failed_line = line
                    fuel += np.int64(status < FIRST_END)
                    break
                pc += INSTRUCTION

            elif op == PUT:
                number = memory[registers[base + code[pc + 1]] + code[pc + 2]]
                status = put(a, now, thread, line, number, registers[base + code[pc + 3]])
                if status != GOING_ON:
                    fuel += 1
                    break
                pc += INSTRUCTION

            elif op == GET:
                number = memory[registers[base + code[pc + 2]] + code[pc + 3]]
                if threads[thread, ATOMIC] > 0:
                    failed_object = number
                    failed_line = line
                    status = SLEEP_IN_ATOMIC
                    break
                count = locks[number, COUNT]
                note(a.control, a.log, now, thread, line, GET, number, count)
                if count == 0:
                    threads[thread, WAITS_FOR] = number
                    threads[thread, MODE] = 0
                    enqueue(a.threads, a.locks, number, READER_HEAD, READER_TAIL, thread)
                    category = IN_WAIT + use_row(a.locks, number, SHARED)
                    turn = BLOCK
                    break
                registers[base + code[pc + 1]] = take_item(a.control, a.locks, a.nodes, number)
                pc += INSTRUCTION

            elif op == TAKE:
                number = memory[registers[base + code[pc + 1]] + code[pc + 2]]
                units = registers[base + code[pc + 3]]
                if units < 1 or units > locks[number, CAPACITY]:
                    status = BAD_UNITS
                elif threads[thread, ATOMIC] > 0:
                    status = SLEEP_IN_ATOMIC
                if status != GOING_ON:
                    failed_object = number
                    failed_line = line
                    break
                note(a.control, a.log, now, thread, line, TAKE, number, units)
                if locks[number, READER_HEAD] >= 0 or units > locks[number, COUNT]:
                    threads[thread, WAITS_FOR] = number
                    threads[thread, MODE] = 0
                    threads[thread, WANTED] = units
                    enqueue(a.threads, a.locks, number, READER_HEAD, READER_TAIL, thread)
                    category = IN_WAIT + use_row(a.locks, number, SHARED)
                    turn = BLOCK
                    break
                locks[number, COUNT] -= units
                pc += INSTRUCTION

            elif op == GIVE:
                number = memory[registers[base + code[pc + 1]] + code[pc + 2]]
                status = give(a, now, thread, line, number, registers[base + code[pc + 3]])
                if status != GOING_ON:
                    failed_object = number
                    failed_line = line
                    break
                pc += INSTRUCTION

            elif op in (LOOKUP, FILL):
                at = pc + 2 if op == LOOKUP else pc + 1
                number = memory[registers[base + code[at]] + code[at + 1]]
                status = look_up_or_fill(
                    a.control, a.code, a.registers, a.locks, a.blocks, a.log, now, thread, pc, line, op, number
                )
                if status != GOING_ON:
                    failed_object = number
                    failed_line = line
                    break
                pc += INSTRUCTION

            elif op == SUBMITTED:
                note(a.control, a.log, now, thread, line, SUBMITTED, NOTHING, ZERO)
                threads[thread, SUBMITTING] = 0
                pc += INSTRUCTION

            elif op == CHOOSE:
                choices = registers[base + code[pc + 2]]
                if choices < 1 or choices >= 1 << 31:
                    failed_line = line
                    status = BAD_CHOICE
                    break
                chosen = (np.int64(next_draw(a.threads, a.streams, thread) >> S32) * choices) >> 32
                note(a.control, a.log, now, thread, line, CHOOSE, NOTHING, chosen)
                registers[base + code[pc + 1]] = chosen
                pc += INSTRUCTION

            else:  # EXPONENTIAL
                mean = registers[base + code[pc + 2]]
                if mean < 0:
                    failed_line = line
                    status = BAD_MEAN
                    break
                drawn = exponential(a.table, next_draw(a.threads, a.streams, thread), mean)
                note(a.control, a.log, now, thread, line, EXPONENTIAL, NOTHING, drawn)
                registers[base + code[pc + 1]] = drawn
                pc += INSTRUCTION

        # The end of its turn.
        threads[thread, PC] = pc
        if turn == KEEP:
            until = now + keep_ns
            if control[RING_COUNT] == 0 and next_time(a.control, a.heap) > until and until < time_limit:
                # Nothing else happens before: its event would be the next one.
                now = until
                events += 1
                standing = 1
            else:
                push(a.control, a.heap, until, (thread << KIND_BITS) | EVENT_RUN)
                thread = -1
        elif turn == SPIN:
            threads[thread, STATE] = SPINNING
            account(a.threads, a.totals, now, thread, category)
            thread = -1
        elif turn == BLOCK:
            threads[thread, STATE] = BLOCKED
            a.sleeps[category] += threads[thread, SUBMITTING]
            account(a.threads, a.totals, now, thread, category)
            owner_stops_running(a, now, thread)
            give_cpu(a.control, a.threads, a.cpus, a.totals, a.heap, a.ring, now, thread)
            if category == IN_SLEEP:
                latency = control[WAKEUP_NS]
                if control[SPREAD_NS] > 0:
                    latency += exponential(a.table, next_draw(a.threads, a.streams, thread), control[SPREAD_NS])
                push(a.control, a.heap, threads[thread, TIMER] + latency, (thread << KIND_BITS) | EVENT_READY)
            thread = -1
        elif turn == GONE:
            threads[thread, STATE] = ENDED
            account(a.threads, a.totals, now, thread, a.totals.size - 1)
            if threads[thread, DAEMON] == 0:
                control[LIVE] -= 1
                if control[LIVE] == 0:
                    status = FINISHED
            give_cpu(a.control, a.threads, a.cpus, a.totals, a.heap, a.ring, now, thread)
            if status == GOING_ON:
                thread = -1
        else:
            threads[thread, STEP] = GO  # the host has to act; the effect at pc is yet to be issued

    control[TIME] = now
    control[CURRENT] = thread
    control[EVENTS] = events
    control[STANDING] = standing
    control[FUEL] = fuel
    control[FAILED_THREAD] = thread
    control[FAILED_OBJECT] = failed_object
    control[FAILED_LINE] = failed_line
    if status >= FIRST_END:
        close_window(a, now)
    return status
