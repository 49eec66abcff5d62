"""XFS: every version runs every pattern, and what is in flight together on one file is what the kernels allow.

The expected numbers are those of the concurrency matrix of the kernels' history (`docs/filesystems.md`), read from
kernel sources and observed by ftrace on 6.18; the drains are those of the commits named beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fssim.engine import run
from fssim.errors import UserError
from fssim.filesystem import BLOCK, Filesystem, Geometry, Ring, load_filesystem
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.profile import Machine
from fssim.protocol import IO, Operation, begin_io, complete_io, cpu, now, protocol, sleep
from fssim.protocol.bytecode import LOG_DEVICE_DONE, OPCODES
from fssim.protocol.language import HOLE, UNWRITTEN, WRITTEN, BlockMap
from fssim.system import RunResult, System, Thread
from fssim.workload import fio, sysbench
from fssim.workload.threads import daemons
from tests.identity.compare import assert_identical

PATHS = {
    "read_entry": 600,
    "read_complete": 400,
    "read_exit": 300,
    "xfs_read_entry": 100,
    "write_entry": 800,
    "write_exit": 300,
    "xfs_write_sector": 5,
    "xfs_write_checks": 100,
    "xfs_map_blocks": 300,
    "xfs_submit_sector": 10,
    "xfs_extent_level": 200,
    "xfs_reserve": 400,
    "xfs_allocate": 2500,
    "xfs_convert": 3000,
    "xfs_record": 1000,
    "xfs_commit": 800,
    "xfs_set_size": 200,
    "dio_interrupt": 800,
    "dio_worker": 1000,
    "page_cache_flush": 1500,
    "page_cache_zero": 1000,
    "jiffy": 1_000_000,
    "sysbench_request": 300,
    "sysbench_copy": 50,
    "fio_request": 500,
}
LATENCY_NS = 20_000
LONG_NS = 10_000_000  # long against everything else

OLD_LOCKS = {"rwlock": "fifo", "mutex": "barging"}
NEW_LOCKS = {"rwlock": "spinning", "mutex": "fifo"}
IN_2011 = ["xfs-2.6.39", "xfs-2.6.39+shared-read-lock", "xfs-2.6.39+both-patches", "xfs-3.2"]
VERSIONS = ["xfs-3.3", "xfs-3.15", "xfs-4.1", "xfs-4.19", "xfs-5.7", "xfs-5.12", "xfs-6.x"]
UNTIL_5_11 = VERSIONS[:5]
SINCE_5_12 = VERSIONS[5:]


def machine(version: str, latency_ns: int = LATENCY_NS, **host: Any) -> Machine:
    """Eight CPUs with the locks of the version's time, and a device of fixed latency that takes all that comes."""
    locks = NEW_LOCKS if version in SINCE_5_12 else OLD_LOCKS
    costs = {"wakeup_ns": 2000, "interrupt_ns": 1000, "switch_ns": 500, "spin_handoff_ns": 100, **locks, **host}
    device = SimpleDevice(latency_ns=latency_ns, queue_depth=4096)
    return Machine("mine", "", "", Host(**{"cpus": 8, "path_ns": PATHS, **costs}), device, None, "")


# --- sysbench


@pytest.mark.parametrize("pattern", sorted(sysbench.PATTERNS))
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_runs_every_pattern_of_sysbench(version: str, pattern: str) -> None:
    for block_size in (512, 4096, 16384):
        for threads in (1, 2, 3, 4):
            system = sysbench.build_system(
                load_filesystem(version), machine(version), pattern, block_size, threads, ios=300
            )
            result = run(system) if threads != 3 else assert_identical(system)
            assert (result.error, result.ios) == (None, 300)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("block_size", [512, 4096, 16384])
@pytest.mark.parametrize("version", VERSIONS)
def test_new_files_end_where_the_last_write_ended(version: str, block_size: int, threads: int) -> None:
    """A block at the end of a file may be left out by the race on the position, so the sizes are compared with it."""
    workload = sysbench.Sysbench(file_size_bytes=16384)
    system = sysbench.build_system(
        load_filesystem(version), machine(version), "seqwr", block_size, threads, workload=workload, ios=10**6
    )
    result = run(system)
    sizes, disk_sizes = finals(result, "size"), finals(result, "disk_size")
    assert (result.error, result.ios) == (None, 128 * 16384 // block_size)
    assert sizes == disk_sizes
    assert all(size % block_size == 0 and size <= 16384 for size in sizes)
    if threads == 1:
        assert set(sizes) == {16384}


def finals(result: RunResult, field: str) -> list[int]:
    """What a field of the inodes is at the end."""
    return [value for name, value in result.final if name.split(".")[-2:][-1] == field and ".mount." not in name]


# --- one file, a few I/Os: what is in flight together

XFS = load_filesystem("xfs-6.x")
Inode: Any = XFS.inode
Request: Any = XFS.request
Mount: Any = type(XFS.mount(Geometry()))  # type: ignore[misc]

READ = Operation(IO, Inode)
WRITE = Operation(IO, Inode)
SUBMIT_READ = Operation(Request)
SUBMIT_WRITE = Operation(Request)
TRUNCATE = Operation(int, Inode)
FALLOCATE = Operation(int, int, Inode)

DONE = 7
"""A CPU effect of so many nanoseconds marks in the log that the thread has returned from the call."""


@protocol
def read(after: int, offset: int, length: int, inode: Inode):
    yield sleep(after)
    io = IO(offset=offset, length=length)
    yield begin_io()
    yield from READ(io, inode)
    yield complete_io()
    yield cpu(DONE)


@protocol
def write(after: int, offset: int, length: int, inode: Inode):
    yield sleep(after)
    io = IO(offset=offset, length=length)
    yield begin_io()
    yield from WRITE(io, inode)
    yield complete_io()
    yield cpu(DONE)


@protocol
def submit(after: int, offset: int, length: int, inode: Inode, request: Request):
    """Submit a write, note when that has returned, and wait for it."""
    yield sleep(after)
    request.inode = inode
    request.offset = offset
    request.length = length
    request.writes = 1
    yield begin_io()
    request.begun = now()
    yield from SUBMIT_WRITE(request)
    yield cpu(DONE)
    ring = request.ring
    yield ring.done.get()
    yield complete_io(request.begun)


@protocol
def submit_reading(after: int, offset: int, length: int, inode: Inode, request: Request):
    yield sleep(after)
    request.inode = inode
    request.offset = offset
    request.length = length
    request.writes = 0
    yield begin_io()
    request.begun = now()
    yield from SUBMIT_READ(request)
    yield cpu(DONE)
    ring = request.ring
    yield ring.done.get()
    yield complete_io(request.begun)


@protocol
def truncate(after: int, size: int, length: int, inode: Inode):
    yield sleep(after)
    yield from TRUNCATE(size, inode)
    yield cpu(DONE)


@protocol
def fallocate(after: int, offset: int, length: int, inode: Inode):
    yield sleep(after)
    yield from FALLOCATE(offset, length, inode)
    yield cpu(DONE)


def make_inode(version: str, states: Iterable[int], size: int, log_bytes: int = 0) -> Any:
    """A file whose blocks have these states."""
    filesystem = load_filesystem(version)
    assert filesystem.mount is not None
    assert filesystem.place is not None
    volume = filesystem.mount(Geometry(log_bytes=log_bytes))
    contents = bytes(states)
    return filesystem.inode(
        disk_offset=2**30,
        extents=BlockMap(contents=contents),
        pages=BlockMap(len(contents)),
        **dict.fromkeys(filesystem.sizes, size),
        **filesystem.place(volume, 2**30),
    )


def play(
    version: str,
    inode: Any,
    *programs: tuple[Any, ...],
    latency_ns: int = LONG_NS,
    paths: Mapping[str, int] | None = None,
) -> RunResult:
    """Run programs, each with its numbers, on one file; both engines must agree.  `paths`: other costs."""
    filesystem = load_filesystem(version)
    threads = []
    for program, *numbers in programs:
        arguments = [*numbers, inode]
        if program in (submit, submit_reading):
            arguments.append(filesystem.request(ring=Ring(), inode=inode))  # type: ignore[misc]
        threads.append(Thread(program, tuple(arguments)))
    computer = machine(version, latency_ns, path_ns={**PATHS, **(paths or {})})
    result = assert_identical(
        System(
            threads=[*threads, *daemons(filesystem, inode.mount, computer.host)],
            host=computer.host,
            device=computer.device,
            version={**filesystem.constants, **operations(filesystem)},
        )
    )
    assert result.error is None
    return result


def operations(filesystem: Filesystem) -> dict[str, Any]:
    bound = {
        "READ": filesystem.read,
        "WRITE": filesystem.write,
        "SUBMIT_READ": filesystem.submit_read,
        "SUBMIT_WRITE": filesystem.submit_write,
        "TRUNCATE": filesystem.truncate,
        "FALLOCATE": filesystem.fallocate,
    }
    return {name: found for name, found in bound.items() if found is not None}


def most_in_flight(result: RunResult) -> int:
    """The largest number of threads that had an I/O at the device at one time."""
    assert result.log is not None
    starts = {OPCODES[name] for name in ("READ", "WRITE", "SUBMITR", "SUBMITW")}
    pieces: dict[int, int] = {}
    most = 0
    for _, thread, _, kind, _, _ in result.log.tolist():
        if kind in starts:
            pieces[thread] = pieces.get(thread, 0) + 1
        elif kind == LOG_DEVICE_DONE:
            pieces[thread] -= 1
        most = max(most, sum(count > 0 for count in pieces.values()))
    return most


def returned(result: RunResult, thread: int) -> int:
    """When a thread returned from its call."""
    assert result.log is not None
    (when,) = (
        row[0] for row in result.log.tolist() if row[1] == thread and row[3] == OPCODES["CPU"] and row[5] == DONE
    )
    return int(when)


def size_of(result: RunResult) -> int:
    """The size of the only file, which is also that on disk."""
    (size,) = set(finals(result, "size"))
    assert set(finals(result, "disk_size")) == {size}
    return int(size)


WRITTEN_FILE = [WRITTEN] * 8
SECTOR = 512


def four(program: Any, step: int = BLOCK, length: int = BLOCK, apart: int = 100) -> list[tuple[Any, ...]]:
    """Four I/Os, one behind the other in the file, and one a little later than the other."""
    return [(program, number * apart, number * step, length) for number in range(4)]


@pytest.mark.parametrize("version", [*IN_2011[1:], *VERSIONS])
def test_reads_are_in_flight_together(version: str) -> None:
    inode = make_inode(version, WRITTEN_FILE, 8 * BLOCK)
    assert most_in_flight(play(version, inode, *four(read))) == 4


@pytest.mark.parametrize("version", [*IN_2011[1:], *VERSIONS])
def test_reads_and_aligned_overwrites_are_in_flight_together(version: str) -> None:
    inode = make_inode(version, WRITTEN_FILE, 8 * BLOCK)
    mixed = [(read if number % 2 else write, *numbers) for number, (_, *numbers) in enumerate(four(read))]
    assert most_in_flight(play(version, inode, *mixed)) == 4


@pytest.mark.parametrize("state", [WRITTEN, UNWRITTEN, HOLE])
@pytest.mark.parametrize("version", [*IN_2011, *VERSIONS])
def test_aligned_writes_inside_the_file_are_in_flight_together(version: str, state: int) -> None:
    inode = make_inode(version, [state] * 8, 8 * BLOCK)
    assert most_in_flight(play(version, inode, *four(write))) == 4


def test_every_read_of_2011_waits_for_those_in_flight() -> None:
    inode = make_inode("xfs-2.6.39", WRITTEN_FILE, 8 * BLOCK)
    assert most_in_flight(play("xfs-2.6.39", inode, *four(read))) == 1


@pytest.mark.parametrize("version", [*IN_2011, *VERSIONS])
def test_of_adjacent_appends_only_those_of_3_2_are_in_flight_together(version: str) -> None:
    """3.3: "lost: parallel non-overlapping O_DIRECT appends" (2813d682e8e6), until today."""
    inode = make_inode(version, [HOLE] * 8, 0)
    result = play(version, inode, *four(write, apart=100_000))
    assert most_in_flight(result) == (4 if version in IN_2011[2:] else 1)
    assert set(finals(result, "size")) == {4 * BLOCK}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_append_at_the_end_of_the_file_and_overwrites_are_in_flight_together(version: str) -> None:
    inode = make_inode(version, [WRITTEN] * 3 + [HOLE] * 5, 3 * BLOCK)
    result = play(version, inode, *four(write))
    assert most_in_flight(result) == 4
    assert size_of(result) == 4 * BLOCK


@pytest.mark.parametrize("version", [*IN_2011, *VERSIONS])
def test_sub_block_writes_of_written_blocks_are_in_flight_together_since_5_12(version: str) -> None:
    inode = make_inode(version, WRITTEN_FILE, 8 * BLOCK)
    result = play(version, inode, *four(write, length=SECTOR))
    assert most_in_flight(result) == (4 if version in SINCE_5_12 else 1)


@pytest.mark.parametrize("state", [UNWRITTEN, HOLE])
@pytest.mark.parametrize("version", [*IN_2011, *VERSIONS])
def test_sub_block_writes_of_new_blocks_are_alone(version: str, state: int) -> None:
    inode = make_inode(version, [state] * 8, 8 * BLOCK)
    assert most_in_flight(play(version, inode, *four(write, length=SECTOR))) == 1


@pytest.mark.parametrize("other", [read, write])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_sub_block_write_is_alone_until_5_11(version: str, other: Any) -> None:
    inode = make_inode(version, WRITTEN_FILE, 8 * BLOCK)
    first, *others = four(other)
    result = play(version, inode, (write, 0, 512, 512), *others)
    # The three others are together when the sub-block write is done.
    assert most_in_flight(result) == (4 if version in SINCE_5_12 else 3)
    assert first[0] is other


@pytest.mark.parametrize("version", VERSIONS)
def test_sub_block_appends_are_alone(version: str) -> None:
    inode = make_inode(version, [HOLE] * 8, 0)
    result = play(version, inode, *four(write, step=SECTOR, length=SECTOR))
    assert most_in_flight(result) == 1
    assert size_of(result) == 4 * SECTOR


@pytest.mark.parametrize("version", SINCE_5_12)
def test_a_sub_block_write_that_finds_no_written_block_is_tried_again_exclusively(version: str) -> None:
    """Observed on 6.18: two mappings each, the first under the shared iolock."""
    inode = make_inode(version, [UNWRITTEN] * 8, 8 * BLOCK)
    result = play(version, inode, (write, 0, 512, 512))
    uses = {(use.name, use.mode): use.acquisitions for use in result.locks}
    assert (uses["Inode.iolock", "shared"], uses["Inode.iolock", "exclusive"]) == (1, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_write_leaves_of_a_new_block_is_zeroed_by_bios_of_its_own(version: str) -> None:
    inode = make_inode(version, [UNWRITTEN] * 8, 8 * BLOCK)
    result = play(version, inode, (write, 0, BLOCK + 512, 1024))
    assert result.log is not None
    pieces = [row[5] for row in result.log.tolist() if row[3] == OPCODES["SUBMITW"]]
    assert pieces == [512, 1024, BLOCK - 1536]
    assert result.time_ns < 2 * LONG_NS  # in flight together


# --- a gap


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_behind_a_gap_shares_the_file_once_the_gap_is_dealt_with(version: str) -> None:
    inode = make_inode(version, [WRITTEN] * 2 + [HOLE] * 6, 2 * BLOCK)
    result = play(version, inode, (write, 0, 4 * BLOCK, BLOCK), (write, 100_000, 0, BLOCK), (read, 200_000, 0, BLOCK))
    assert most_in_flight(result) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_behind_the_end_of_the_file_zeroes_the_rest_of_its_last_block(version: str) -> None:
    """Through the page cache, whose page is read first."""
    inode = make_inode(version, [WRITTEN] + [HOLE] * 7, 512)
    result = play(version, inode, (write, 0, 4 * BLOCK, BLOCK))
    assert result.log is not None
    assert [row[5] for row in result.log.tolist() if row[3] == OPCODES["READ"]] == [BLOCK]
    assert size_of(result) == 5 * BLOCK


@pytest.mark.parametrize("version", VERSIONS)
def test_a_gap_of_holes_needs_no_zeroing(version: str) -> None:
    inode = make_inode(version, [HOLE] * 8, 0)
    result = play(version, inode, (write, 0, 4 * BLOCK, BLOCK))
    assert result.log is not None
    assert OPCODES["READ"] not in result.log[:, 3].tolist()
    assert size_of(result) == 5 * BLOCK


# --- asynchronous I/O


@pytest.mark.parametrize("version", VERSIONS)
def test_extending_asynchronous_writes_are_waited_for_until_3_14(version: str) -> None:
    """9862f62faba8, 3.15."""
    inode = make_inode(version, [HOLE] * 8, 0)
    result = play(version, inode, (submit, 0, 0, BLOCK))
    assert (returned(result, 0) > LONG_NS) == (version == "xfs-3.3")
    assert size_of(result) == BLOCK


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sub_block_asynchronous_write_is_submitted_and_forgotten_until_5_0(version: str) -> None:
    """2032a8a27b5c, 5.1: it keeps the iolock, and nothing else is in flight, until it is complete."""
    inode = make_inode(version, [UNWRITTEN] * 8, 8 * BLOCK)
    result = play(version, inode, (submit, 0, 512, 512), (submit, 100_000, BLOCK, BLOCK))
    waits = version in ("xfs-5.7", *SINCE_5_12)
    assert (returned(result, 0) > LONG_NS) == waits
    assert most_in_flight(result) == (1 if waits else 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sub_block_write_of_a_new_block_waits_for_what_is_in_flight(version: str) -> None:
    """eda77982729b, 2.6.38."""
    inode = make_inode(version, [UNWRITTEN] * 8, 8 * BLOCK)
    result = play(version, inode, (submit, 0, 0, BLOCK), (write, 100_000, BLOCK + 512, 512))
    assert returned(result, 0) < 100_000
    assert most_in_flight(result) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_gap_is_zeroed_when_nothing_is_in_flight_since_4_1(version: str) -> None:
    """40c63fbc55a9.  In 3.3 the first write holds the iolock, being synchronous."""
    inode = make_inode(version, [WRITTEN] + [HOLE] * 7, BLOCK)
    result = play(version, inode, (submit, 0, BLOCK, BLOCK), (submit, 100_000, 4 * BLOCK, BLOCK))
    assert most_in_flight(result) == (2 if version == "xfs-3.15" else 1)
    assert size_of(result) == 5 * BLOCK


@pytest.mark.parametrize("version", VERSIONS)
def test_truncate_waits_for_what_is_in_flight(version: str) -> None:
    inode = make_inode(version, WRITTEN_FILE, 8 * BLOCK)
    result = play(version, inode, (submit, 0, 5 * BLOCK, BLOCK), (truncate, 100_000, 2 * BLOCK, 0))
    assert returned(result, 1) > LONG_NS
    assert size_of(result) == 2 * BLOCK


@pytest.mark.parametrize("version", VERSIONS)
def test_truncate_may_let_a_file_grow(version: str) -> None:
    inode = make_inode(version, [WRITTEN] * 2 + [HOLE] * 6, 2 * BLOCK)
    assert size_of(play(version, inode, (truncate, 0, 7 * BLOCK, 0))) == 7 * BLOCK


@pytest.mark.parametrize("version", VERSIONS)
def test_fallocate_waits_for_what_is_in_flight_since_5_5(version: str) -> None:
    """249bd9087a52: before, it set a size that it had looked at too early, and an append was cut off."""
    inode = make_inode(version, [HOLE] * 8, 0)
    result = play(version, inode, (submit, 0, 0, 2 * BLOCK), (fallocate, 100_000, 0, BLOCK))
    cut_off = version in ("xfs-3.15", "xfs-4.1", "xfs-4.19")
    assert size_of(result) == (BLOCK if cut_off else 2 * BLOCK)


@pytest.mark.parametrize("version", VERSIONS)
def test_fallocate_fills_holes_with_unwritten_blocks_and_lets_the_file_grow(version: str) -> None:
    inode = make_inode(version, [WRITTEN] + [HOLE] * 7, BLOCK)
    result = play(version, inode, (fallocate, 0, 0, 6 * BLOCK), (submit_reading, LONG_NS, 0, 6 * BLOCK))
    assert size_of(result) == 6 * BLOCK
    assert result.log is not None
    assert [row[5] for row in result.log.tolist() if row[3] == OPCODES["SUBMITR"]] == [BLOCK]  # the rest is zeroes


@pytest.mark.parametrize("pattern", ["write", "randwrite", "randread", "randrw"])
@pytest.mark.parametrize("version", VERSIONS)
def test_asynchronous_jobs_complete(version: str, pattern: str) -> None:
    for preparation in ("written", "preallocated", "sparse", "empty"):
        if preparation == "empty" and pattern != "write":
            continue
        for depth, block_size in ((4, 4096), (64, 4096), (16, 512), (16, 16384)):
            workload = fio.Fio(
                pattern=pattern,  # type: ignore[arg-type]
                ioengine="libaio",
                iodepth=depth,
                block_size_bytes=block_size,
                file_size_bytes=128 * block_size,
                preparation=preparation,  # type: ignore[arg-type]
            )
            result = assert_identical(fio.build_system(load_filesystem(version), machine(version), workload, ios=0))
            assert (result.error, result.ios) == (None, 128)
            assert size_of(result) == 128 * block_size


def throughput(version: str, preparation: str, depth: int) -> float:
    workload = fio.Fio(
        pattern="randwrite",
        ioengine="libaio",
        iodepth=depth,
        file_size_bytes=4000 * BLOCK,
        preparation=preparation,  # type: ignore[arg-type]
    )
    return run(fio.build_system(load_filesystem(version), machine(version), workload, ios=2000, warmup_ios=500)).iops


@pytest.mark.parametrize("version", VERSIONS)
def test_queue_depth_helps_an_overwrite_and_not_what_has_to_be_converted(version: str) -> None:
    """Conversions of one file are serial under its ilock."""
    assert throughput(version, "written", 64) > 2 * throughput(version, "written", 4)
    serial = 1e9 / (PATHS["xfs_convert"] + PATHS["xfs_commit"] + PATHS["xfs_map_blocks"])
    for depth in (16, 64):
        assert throughput(version, "preallocated", depth) < serial
    assert throughput(version, "preallocated", 64) < 1.2 * throughput(version, "preallocated", 16)


# --- the log


def write_randomly(version: str, log_bytes: int, ios: int = 12_000) -> tuple[RunResult, int]:
    """Convert a file of many extents, few of which are in a leaf; return how much metadata was written back, too."""
    filesystem = load_filesystem(version)
    workload = fio.Fio(
        pattern="randwrite",
        ioengine="libaio",
        iodepth=16,
        file_size_bytes=30_000 * BLOCK,
        preparation="preallocated",
    )
    system = fio.build_system(
        filesystem, machine(version), workload, geometry=Geometry(log_bytes=log_bytes), ios=ios, log=True
    )
    system = replace(system, constants={**system.constants, "EXTENTS_PER_LEAF": 4})
    result = run(system)
    assert result.log is not None
    (writer,) = [number for number, thread in enumerate(system.threads) if thread.protocol.name == "move_tail"]
    rows = result.log
    return result, int(((rows[:, 1] == writer) & (rows[:, 3] == OPCODES["SUBMITW"])).sum())


@pytest.mark.parametrize("version", ["xfs-3.3", "xfs-4.19", "xfs-6.x"])
def test_a_larger_log_writes_less_metadata_back(version: str) -> None:
    """More of it is logged again before the tail of the log comes to it."""
    written = [write_randomly(version, log_bytes)[1] for log_bytes in (8 * 2**20, 16 * 2**20, 512 * 2**20)]
    assert written[0] > written[1] > written[2] == 0


def test_what_is_logged_again_is_logged_and_written_back_once() -> None:
    """Each write changes a leaf of the extent tree; there are about 3,600 of them in the end, for 12,000 writes."""
    log_bytes, leaf_bytes, ios = 16 * 2**20, 3072, 12_000
    result, written_back = write_randomly("xfs-6.x", log_bytes, ios)
    mount = {name.split(".")[-1]: value for name, value in result.final if ".mount." in name}
    written = (mount["checkpoint"] - 1) * log_bytes // 8 // leaf_bytes
    left_the_log = (mount["checkpoint"] - 1 - mount["written"]) * log_bytes // 8 // leaf_bytes
    assert written < 0.8 * ios  # in the same checkpoint
    assert 0 < written_back < 0.7 * left_the_log  # in a later one


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_gets_back_all_that_was_taken(version: str) -> None:
    """When nothing is in flight, what is not free is what has been collected for the next checkpoint."""
    for state in (HOLE, UNWRITTEN):
        for size in (0, 64 * BLOCK):
            inode = make_inode(version, [state] * 64, size, log_bytes=8 * 2**20)
            writes = [(write, number * 100, number * 2 * BLOCK, BLOCK) for number in range(8)]
            submitted = [(submit, LONG_NS * 20, (16 + number) * 2 * BLOCK, BLOCK) for number in range(8)]
            play(version, inode, *writes, *submitted, (measure_log, LONG_NS * 100, 0, 0))


@protocol
def measure_log(after: int, offset: int, length: int, inode: Inode):
    yield sleep(after)
    mount = inode.mount
    assert mount.log.free + mount.logged == mount.log_bytes, "log space is lost"


@pytest.mark.parametrize("log_bytes", [2**20, 2**32])
def test_a_log_that_xfs_does_not_make_is_refused(log_bytes: int) -> None:
    with pytest.raises(UserError, match=f"a log of {log_bytes} bytes: XFS takes 8388608 to 2147483648"):
        XFS.mount(Geometry(log_bytes=log_bytes))  # type: ignore[misc]


# --- the extent tree

RECORD_NS = 77  # of no other CPU effect


@pytest.mark.parametrize(
    ("states", "at", "records"),
    [
        ([UNWRITTEN] * 5, 2, 2),  # split in three
        ([UNWRITTEN] * 5, 0, 1),  # split in two
        ([WRITTEN] * 2 + [UNWRITTEN] * 3, 2, 0),  # the border moves
        ([WRITTEN] * 2 + [UNWRITTEN] + [WRITTEN] * 2, 2, 2),  # three become one
        ([WRITTEN] * 2 + [UNWRITTEN], 2, 1),  # two become one
        ([UNWRITTEN], 0, 0),
        ([WRITTEN, HOLE, HOLE, HOLE, WRITTEN], 2, 1),  # an unwritten one, then written in place
        ([WRITTEN, HOLE, HOLE, HOLE, WRITTEN], 1, 2),  # an unwritten one, then part of that before it
    ],
)
def test_a_write_costs_the_more_the_more_records_of_the_extent_tree_it_inserts_or_removes(
    states: list[int], at: int, records: int
) -> None:
    inode = make_inode("xfs-6.x", states, len(states) * BLOCK)
    result = play("xfs-6.x", inode, (write, 0, at * BLOCK, BLOCK), paths={"xfs_record": RECORD_NS})
    assert result.log is not None
    costs = [value for _, _, _, kind, _, value in result.log.tolist() if kind == OPCODES["CPU"]]
    assert sum(cost for cost in costs if cost in (RECORD_NS, 2 * RECORD_NS)) == records * RECORD_NS
