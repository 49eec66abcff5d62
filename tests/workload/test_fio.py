"""fio: what is transferred, in which order, how many I/Os are in flight, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise, product
from typing import Any

import pytest

from fssim.engine import run
from fssim.errors import AssertionFailed, UserError
from fssim.filesystem import BLOCK, Filesystem, Geometry
from fssim.machine.device import SimpleDevice
from fssim.protocol import IO, UNWRITTEN, WRITTEN, device, protocol
from fssim.statistics import check_littles_law
from fssim.system import RunResult
from fssim.workload import fio
from fssim.workload.files import Preparation, make_files
from fssim.workload.fio import PATTERNS, Fio, build_system
from tests.identity.compare import assert_identical
from tests.workload.plain import LATENCY_NS, PATHS, PLAIN, Inode, PlainRequest, machine

SMALL = 64 * BLOCK


def job(pattern: str = "randwrite", **options: Any) -> Fio:
    return Fio(**{"pattern": pattern, "file_size_bytes": SMALL, **options})


def play(workload: Fio, filesystem: Filesystem = PLAIN, engine: str = "compiled", **options: Any) -> RunResult:
    options.setdefault("ios", 0)
    host = options.pop("host", machine())
    return run(build_system(filesystem, host, workload, **options), engine=engine)


# A filesystem that refuses to write a block twice


@protocol
def claim(offset: int, length: int, inode: Inode):
    """The blocks are as they were prepared, and are now written."""
    state, run = yield inode.extents.lookup(offset // BLOCK, length // BLOCK)
    assert state == UNWRITTEN, "a block is transferred twice"
    assert run == length // BLOCK, "a block behind it is transferred twice"
    yield inode.extents.fill(offset // BLOCK, length // BLOCK, WRITTEN)


@protocol
def write_once(io: IO, inode: Inode):
    yield from claim(io.offset, io.length, inode)
    yield device.write(inode.disk_offset + io.offset, io.length)


@protocol
def submit_once(request: PlainRequest):
    inode = request.inode
    yield from claim(request.offset, request.length, inode)
    yield request.bios.inc()
    yield device.submit_write(inode.disk_offset + request.offset, request.length, inode.mount.interrupts, request)


# Reads claim their blocks too, so that a mixture is seen whole.
ONCE = replace(PLAIN, read=write_once, write=write_once, submit_read=submit_once, submit_write=submit_once, name="once")
ENGINES = [{}, {"ioengine": "libaio", "iodepth": 8}]


@pytest.mark.parametrize("engine", ENGINES, ids=["psync", "libaio"])
@pytest.mark.parametrize("blocks", [1, 2, 63, 64, 65, 1000])
@pytest.mark.parametrize("pattern", ["write", "randwrite", "randrw"])
def test_every_block_is_transferred_once_and_then_the_job_ends(
    pattern: str, blocks: int, engine: dict[str, Any]
) -> None:
    workload = job(pattern, file_size_bytes=blocks * BLOCK, files=3, jobs=2, preparation="preallocated", **engine)
    result = play(workload, ONCE)
    assert result.ios == 2 * 3 * blocks


@pytest.mark.parametrize("engine", ENGINES, ids=["psync", "libaio"])
@pytest.mark.parametrize("size", [BLOCK, 2 * BLOCK])
def test_a_job_goes_on_behind_what_is_written_already(size: int, engine: dict[str, Any]) -> None:
    options = {"block_size_bytes": size, "file_size_bytes": 1000 * size, "files": 2, "jobs": 2, **engine}
    workload = job(preparation="preallocated", written_percent=30, **options)
    system = build_system(ONCE, machine(), workload, ios=0)
    contents = [file.inode.extents.contents for thread in system.threads[:2] for file in thread.arguments[0].files]
    assert len(set(contents)) == 4  # every file has an order of its own
    assert [blocks.count(WRITTEN) * BLOCK // size for blocks in contents] == 4 * [300]
    assert assert_identical(system).ios == 4 * 700


@pytest.mark.parametrize("engine", ENGINES, ids=["psync", "libaio"])
def test_norandommap_draws_with_replacement(engine: dict[str, Any]) -> None:
    with pytest.raises(AssertionFailed, match="twice"):
        play(job(norandommap=True, preparation="preallocated", **engine), ONCE)


def test_larger_blocks_lie_side_by_side() -> None:
    assert play(job(block_size_bytes=4 * BLOCK, preparation="preallocated"), ONCE).ios == 16


# The order of offsets, from the job's own generator


def offsets(workload: Fio, count: int, draws: Any = None) -> list[int]:
    """Offsets of the first transfers of a psync job on one file, `draws(n)` answering `choose(n)`."""
    _, inodes = make_files(PLAIN, Geometry(), workload.files, workload.file_size_bytes, Preparation.WRITTEN)
    constants = fio._constants(PLAIN, workload)
    generator = fio.psync.native(constants, path_ns=PATHS)(fio._job(PLAIN, workload, inodes))
    return list(islice(_offsets(generator, draws or (lambda n: 0)), count))


def _offsets(generator: Any, draws: Any) -> Any:
    result = None
    while True:
        try:
            name, _, operand = generator.send(result)
        except StopIteration:
            return
        result = draws(operand) if name == "CHOOSE" else 0
        if name == "LOOKUP":
            result = (WRITTEN, 1)
        if name in ("READ", "WRITE"):
            yield operand[0]


def test_sequential_jobs_go_from_the_beginning_to_the_end_and_begin_again_only_if_time_based() -> None:
    once = list(range(0, SMALL, BLOCK))
    assert offsets(job("read"), 1000) == once
    assert offsets(job("read", time_based=True), 2 * len(once)) == 2 * once


def test_files_take_turns() -> None:
    # Three files of four blocks, one behind the other on the device.
    size = 4 * BLOCK
    got = offsets(job("read", files=3, file_size_bytes=size), 1000)
    assert [offset // size for offset in got] == 4 * [0, 1, 2]
    assert [offset % size // BLOCK for offset in got] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_each_pass_through_the_random_map_has_an_order_of_its_own() -> None:
    keys = iter([5, 1000])
    got = offsets(job("randread", file_size_bytes=1000 * BLOCK, time_based=True), 2000, lambda n: next(keys))
    first, second = got[:1000], got[1000:]
    assert sorted(first) == sorted(second) == list(range(0, 1000 * BLOCK, BLOCK))
    assert first != second


def test_the_random_map_has_no_visible_order() -> None:
    # Of a random order, neighbours follow each other about twice, the mean distance is a third of the file, and every
    # tenth of the order covers each tenth of the file about evenly.
    count = 10_000
    got = [offset // BLOCK for offset in offsets(job("randread", file_size_bytes=count * BLOCK), count)]
    steps = [abs(a - b) for a, b in pairwise(got)]
    assert sum(step == 1 for step in steps) < 10
    assert sum(steps) / len(steps) == pytest.approx(count / 3, rel=0.05)
    for start in range(0, count, 1000):
        shares = Counter(block * 10 // count for block in got[start : start + 1000])
        assert all(60 <= shares[tenth] <= 140 for tenth in range(10))  # 100, standard deviation below 10


def test_a_job_has_its_own_files_unless_they_are_shared() -> None:
    private = build_system(PLAIN, machine(), job(jobs=3, files=2), ios=1)
    shared = build_system(PLAIN, machine(), job(jobs=3, files=2, shared_files=True), ios=1)

    def inodes(system: Any) -> list[list[int]]:
        jobs = [thread.arguments[0] for thread in system.threads if not thread.daemon]
        return [[file.inode.disk_offset // SMALL for file in each.files] for each in jobs]

    assert inodes(private) == [[0, 1], [2, 3], [4, 5]]
    assert inodes(shared) == [[0, 1], [0, 1], [0, 1]]


def test_a_mixture_has_its_share_of_reads() -> None:
    def share(**options: Any) -> float:
        system = build_system(PLAIN, machine(), job("randrw", time_based=True, **options), ios=2000, log=True)
        result = run(system, engine="compiled")
        return sum("read" in text for text in _transfers(result)) / 2000

    assert share(read_percent=70) == pytest.approx(0.7, abs=0.04)  # four standard deviations
    assert share(read_percent=70, ioengine="libaio", iodepth=4) == pytest.approx(0.7, abs=0.04)
    assert share(read_percent=0) == 0
    assert share(read_percent=100) == 1


def _transfers(result: RunResult) -> list[str]:
    from fssim.protocol.bytecode import OPCODES

    kinds = {OPCODES[name]: name for name in ("READ", "WRITE", "SUBMITR", "SUBMITW")}
    assert result.log is not None
    named = {"READ": "read", "SUBMITR": "read", "WRITE": "write", "SUBMITW": "write"}
    return [named[kinds[kind]] for kind in result.log[:, 3].tolist() if kind in kinds]


# How many are in flight, and how long they take


@pytest.mark.parametrize("depth", [1, 4, 512, 1024])
def test_as_many_are_in_flight_as_the_queue_is_deep(depth: int) -> None:
    # A slow device, so that the program always fills the queue again; reads, which nothing else limits.
    slow = machine(SimpleDevice(latency_ns=20_000_000, queue_depth=4096))
    workload = job("randread", ioengine="libaio", iodepth=depth, norandommap=True, time_based=True)
    result = play(workload, host=slow, ios=10 * depth, warmup_ios=2 * depth)
    assert result.in_flight_ns / result.window_ns == pytest.approx(depth, rel=0.05)


def test_jobs_that_wait_have_one_in_flight_each() -> None:
    slow = machine(SimpleDevice(latency_ns=20_000_000, queue_depth=64))
    result = play(job("read", jobs=7, time_based=True), host=slow, ios=700, warmup_ios=14)
    assert result.in_flight_ns / result.window_ns == pytest.approx(7, rel=0.01)


def test_iops_is_depth_over_latency_if_the_host_costs_nothing() -> None:
    free = replace(machine(), host=replace_host(cpus=1024, path_ns=dict.fromkeys(PATHS, 0)))
    workload = job("randread", ioengine="libaio", iodepth=16, norandommap=True, time_based=True)
    result = play(workload, host=free, ios=1600, warmup_ios=160)
    assert result.iops == pytest.approx(16e9 / LATENCY_NS, rel=1e-3)
    assert result.latency_ns / result.ios == LATENCY_NS


def replace_host(**fields: Any) -> Any:
    from fssim.machine.host import Host

    return Host(**fields)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("depth", [1, 32])
def test_littles_law_holds(pattern: str, depth: int) -> None:
    workload = job(pattern, ioengine="libaio", iodepth=depth, jobs=2, time_based=True, preparation="preallocated")
    result = play(workload, ios=4000, warmup_ios=1000)
    check_littles_law(result, 2 * depth, pattern)
    by_law = result.latency_ns / result.ios * result.iops / 1e9
    assert by_law == pytest.approx(result.in_flight_ns / result.window_ns, rel=0.02)


def test_conversions_under_one_lock_take_as_long_with_any_depth() -> None:
    # The mechanism of Mason 2016: what is serial per file does not scale with the queue.
    def iops(depth: int, *, shared: bool) -> float:
        options = {"jobs": 2, "shared_files": shared, "file_size_bytes": 2**26, "preparation": "preallocated"}
        return play(job(ioengine="libaio", iodepth=depth, **options), ios=4000, warmup_ios=1000).iops

    assert iops(256, shared=True) == pytest.approx(iops(32, shared=True), rel=0.05)
    assert iops(32, shared=False) > 1.4 * iops(32, shared=True)


# Both engines


@pytest.mark.parametrize("engine", [{}, {"ioengine": "libaio", "iodepth": 5}], ids=["psync", "libaio"])
@pytest.mark.parametrize(("pattern", "preparation"), list(product(PATTERNS, Preparation)))
def test_both_engines_do_the_same(pattern: str, preparation: str, engine: dict[str, Any]) -> None:
    workload = job(pattern, jobs=2, files=2, file_size_bytes=16 * BLOCK, preparation=str(preparation), **engine)
    result = assert_identical(build_system(PLAIN, machine(cpus=2), workload, ios=0, seed=3))
    assert result.error is None
    assert result.ios == 2 * 2 * 16


def test_both_engines_do_the_same_with_shared_files_and_replacement() -> None:
    options = {"jobs": 3, "shared_files": True, "norandommap": True, "time_based": True, "preparation": "preallocated"}
    workload = job("randrw", ioengine="libaio", iodepth=16, **options)
    assert_identical(build_system(PLAIN, machine(cpus=3), workload, ios=600, warmup_ios=50, batch_ios=100))


# Daemons


@pytest.mark.parametrize(("jobs", "workers"), [(2, 2), (3, 3), (5, 3)])
def test_daemons_come_last_and_a_count_of_0_means_one_per_cpu_that_submits(jobs: int, workers: int) -> None:
    system = build_system(PLAIN, machine(cpus=3), job(jobs=jobs), ios=1)
    assert [(thread.protocol.name, thread.daemon) for thread in system.threads] == [
        *[("psync", False)] * jobs,
        ("interrupt", True),
        *[("worker", True)] * workers,
    ]


def test_reads_that_wait_need_no_daemons_and_others_do() -> None:
    assert not any(thread.daemon for thread in build_system(PLAIN, machine(), job("read"), ios=1).threads)
    assert any(
        thread.daemon for thread in build_system(PLAIN, machine(), job("read", ioengine="libaio"), ios=1).threads
    )


# Errors


READ_ONLY = replace(PLAIN, name="readers", write=None, submit_write=None)
SYNCHRONOUS = replace(PLAIN, name="waiters", submit_read=None, submit_write=None, request=None)


@pytest.mark.parametrize(
    ("workload", "filesystem", "message"),
    [
        (job(iodepth=4), PLAIN, "iodepth 4: fio runs synchronous engines at depth 1; use ioengine libaio"),
        (job("write"), READ_ONLY, "write: readers describes reads only; use read or randread"),
        (job("randrw"), READ_ONLY, "randrw: readers describes reads only"),
        (
            job(ioengine="libaio"),
            SYNCHRONOUS,
            "libaio: waiters does not describe asynchronous writes; use ioengine psync",
        ),
        (job("randread", ioengine="libaio"), SYNCHRONOUS, "does not describe asynchronous reads"),
        (job("randrw", ioengine="libaio"), SYNCHRONOUS, "does not describe asynchronous reads and writes"),
        (
            job(block_size_bytes=3 * BLOCK),
            PLAIN,
            r"file_size_bytes 262144: must be a multiple of block_size_bytes \(12288\)",
        ),
        (job(file_size_bytes=2**42, block_size_bytes=512), PLAIN, "8589934592 blocks in a file: at most 1073741824"),
        (job(file_size_bytes=2**30, jobs=8, files=20), PLAIN, "160 files of 1073741824 bytes need 171798691840 bytes"),
        (job("write", file_size_bytes=2**38, preparation="empty"), PLAIN, "the volume has 160000000000"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(workload: Fio, filesystem: Filesystem, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        build_system(filesystem, machine(), workload, ios=1)
    assert "\n" not in str(caught.value)


def test_jobs_that_share_their_files_need_their_room_once() -> None:
    build_system(PLAIN, machine(), job(file_size_bytes=2**30, jobs=8, files=20, shared_files=True), ios=1)


def test_a_version_that_describes_reads_only_can_be_read() -> None:
    assert play(job("randread"), READ_ONLY).ios == 64


@pytest.mark.parametrize("name", ["randomread", "rw", ""])
def test_an_unknown_pattern_is_refused_when_it_is_read(name: str) -> None:
    from fssim.profile import convert

    with pytest.raises(UserError, match=r"pattern = .*must be 'randread' or 'randrw'"):
        convert({"kind": "fio", "pattern": name}, Fio, "a.toml")


# Size


def test_a_file_of_25_gigabytes_costs_megabytes_and_no_time() -> None:
    workload = job(ioengine="libaio", iodepth=32, file_size_bytes=25 * 2**30, preparation="sparse")
    result = play(workload, ios=2000)
    assert result.ios == 2000
