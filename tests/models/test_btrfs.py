"""btrfs by version: what can be in flight together on one file, and which I/O is direct.

Expected numbers: table A0 of the notes on kernel locking, or its step lists A9 where they say more than the table.
"""

from __future__ import annotations

import pytest

from fssim import engine
from fssim.filesystem import Filesystem
from fssim.protocol import HOLE, WRITTEN
from fssim.workload import fio, sysbench
from fssim.workload.files import Preparation
from tests.models.scenes import (
    BLOCK,
    FILE_BYTES,
    LATENCY_NS,
    change_size,
    device_ios,
    ended_ns,
    final,
    load,
    machine,
    most_in_flight,
    preallocate,
    read_after,
    reader,
    run,
    write_then_expect,
    writer,
)

VERSIONS = ("btrfs-2009-cow", "btrfs-2009-nodatacow", "btrfs-3.0", "btrfs-6.x", "btrfs-6.x-nodatacow")
OF_THE_PAGE_CACHE = ("btrfs-2009-cow", "btrfs-2009-nodatacow", "btrfs-6.x")
"""Versions whose direct writes go through the page cache."""


@pytest.fixture(params=VERSIONS)
def filesystem(request: pytest.FixtureRequest) -> Filesystem:
    return load(request.param)


def in_flight(
    name: str, programs: list[tuple[object, tuple[int, ...]]], preparation: Preparation = Preparation.WRITTEN
) -> int:
    return most_in_flight(run(load(name), programs, preparation=preparation))  # type: ignore[arg-type]


def far_apart(program: object, length: int = BLOCK, count: int = 4) -> list[tuple[object, tuple[int, ...]]]:
    return [(program, (16 * k * BLOCK + BLOCK, length)) for k in range(count)]


# --- tables A0 and A9


@pytest.mark.parametrize("name", VERSIONS)
def test_reads_of_different_ranges_are_in_flight_together(name: str):
    assert in_flight(name, far_apart(reader)) == 4


@pytest.mark.parametrize("name", VERSIONS)
def test_reads_of_one_range_are_serial(name: str):
    """The range is locked until the data are there."""
    assert in_flight(name, [(reader, (0, 2 * BLOCK)), (reader, (BLOCK, BLOCK)), (reader, (0, BLOCK))]) <= 2
    assert in_flight(name, [(reader, (BLOCK, BLOCK)) for _ in range(4)]) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("btrfs-2009-cow", 4),  # i_mutex only while data are copied
        ("btrfs-2009-nodatacow", 4),
        ("btrfs-3.0", 1),  # i_mutex over everything
        ("btrfs-6.x", 4),  # the same as in 2009, with i_rwsem
        ("btrfs-6.x-nodatacow", 4),
    ],
)
@pytest.mark.parametrize("preparation", [Preparation.WRITTEN, Preparation.PREALLOCATED, Preparation.SPARSE])
def test_aligned_writes(name: str, expected: int, preparation: Preparation):
    assert in_flight(name, far_apart(writer), preparation) == expected


def test_appends_are_serial_where_writes_are_direct():
    for name in ("btrfs-3.0", "btrfs-6.x-nodatacow"):
        appends = [(writer, (k * BLOCK, BLOCK)) for k in range(4)]
        result = run(load(name), appends, preparation=Preparation.EMPTY)
        assert most_in_flight(result) == 1
        assert final(result, "size")[0] == final(result, "disk_size")[0] == 4 * BLOCK


def test_a_read_of_3_0_needs_no_mutex():
    """Step list A9.2: the table's 1 is of one range."""
    assert in_flight("btrfs-3.0", [(writer, (0, BLOCK)), (reader, (64 * BLOCK, BLOCK))]) == 2


# --- what goes through the page cache


def test_a_sector_is_read_modified_and_written_as_a_block(filesystem: Filesystem):
    assert device_ios(run(filesystem, [(writer, (1024, 512))])) == [("READ", BLOCK), ("SUBMITW", BLOCK)]


@pytest.mark.parametrize("name", OF_THE_PAGE_CACHE)
def test_a_block_is_written_back_from_the_page_cache(name: str):
    assert device_ios(run(load(name), [(writer, (0, BLOCK))])) == [("SUBMITW", BLOCK)]


def test_a_write_leaves_nothing_in_the_page_cache(filesystem: Filesystem):
    """What was written through the page cache is read from the device, whole."""
    programs = [(writer, (1024, 512)), (read_after, (10 * LATENCY_NS, 0, BLOCK))]
    assert device_ios(run(filesystem, programs))[-1] == ("READ", BLOCK)


def test_a_large_write_of_2009_is_copied_in_chunks():
    result = run(load("btrfs-2009-cow"), [(writer, (0, 2**20))], constants={"COPY_BLOCKS": 64})
    assert device_ios(result) == [("SUBMITW", 64 * BLOCK)] * 4
    assert final(result, "size")[0] == FILE_BYTES
    assert result.latency_ns < 3 * LATENCY_NS  # the chunks are in flight together


@pytest.mark.parametrize("name", ["btrfs-3.0", "btrfs-6.x"])
@pytest.mark.parametrize("threads", [1, 8])
def test_sequential_reads_of_less_than_a_block_are_read_ahead_once(name: str, threads: int):
    workload = sysbench.Sysbench(file_size_bytes=2**20)
    system = sysbench.build_system(
        load(name), machine(), "seqrd", 2048, threads, workload=workload, ios=512 * 4, log=True
    )
    result = engine.run(system)
    reads = device_ios(result)
    assert 0.9 * 2**22 <= sum(length for _, length in reads) <= 2**22 + 2**20
    assert len(reads) < 512 * 4 / 8
    assert max(length for _, length in reads) == 128 * BLOCK


def test_a_random_read_of_a_sector_brings_four_pages():
    """16 KiB: the initial read-ahead; only the first page is waited for (measured: 36 k/s at 590 MB/s)."""
    result = run(load("btrfs-3.0"), [(reader, (100 * BLOCK + 512, 512))])
    assert device_ios(result) == [("READ", BLOCK), ("SUBMITR", 3 * BLOCK)]


def test_direct_reads_of_2009_are_direct_at_any_size():
    assert device_ios(run(load("btrfs-2009-cow"), [(reader, (512, 512))])) == [("READ", 512)]


# --- extents, truncate, fallocate, metadata


@pytest.mark.parametrize("preparation", [Preparation.WRITTEN, Preparation.PREALLOCATED, Preparation.SPARSE])
def test_written_blocks_are_there(filesystem: Filesystem, preparation: Preparation):
    others = preparation is Preparation.WRITTEN
    expected = (0, 256, WRITTEN) if others else (32, 1, WRITTEN)
    run(filesystem, [(write_then_expect, (32 * BLOCK, BLOCK, *expected))], preparation=preparation)


def test_a_write_behind_the_end_leaves_a_hole(filesystem: Filesystem):
    programs = [(write_then_expect, (32 * BLOCK, BLOCK, 0, 32, HOLE))]
    result = run(filesystem, programs, preparation=Preparation.EMPTY)
    assert final(result, "size")[0] == final(result, "disk_size")[0] == 33 * BLOCK


def test_truncate_frees_blocks_and_waits_for_ordered_extents(filesystem: Filesystem):
    result = run(filesystem, [(writer, (200 * BLOCK, BLOCK)), (change_size, (20_000, 10 * BLOCK, 10))])
    assert ended_ns(result, 1) > LATENCY_NS
    assert final(result, "size")[0] == final(result, "disk_size")[0] == 10 * BLOCK


def test_fallocate_fills_holes(filesystem: Filesystem):
    result = run(filesystem, [(preallocate, (0, FILE_BYTES, 256))], preparation=Preparation.EMPTY)
    assert final(result, "size")[0] == FILE_BYTES


@pytest.mark.parametrize(("name", "expected"), [("btrfs-3.0", 1), ("btrfs-6.x", 1), ("btrfs-6.x-nodatacow", 0)])
def test_replacing_extents_writes_tree_blocks(name: str, expected: int):
    """16 extents of 4 KiB fill one chunk of 64 KiB; blocks that are overwritten in place change no tree."""
    result = run(load(name), [(writer, (k * BLOCK, BLOCK)) for k in range(20)])
    assert device_ios(result).count(("WRITE", 65_536)) == expected


# --- workloads


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("pattern", sysbench.PATTERNS)
def test_every_pattern_of_sysbench_runs(name: str, pattern: str):
    for block_size_bytes in (512, 2048, 4096, 16384):
        for threads in (1, 8):
            system = sysbench.build_system(
                load(name), machine(), pattern, block_size_bytes, threads, ios=200, warmup_ios=20
            )
            assert engine.run(system).ios == 200


def test_sequential_writes_end_where_the_files_end(filesystem: Filesystem):
    workload = sysbench.Sysbench(file_size_bytes=8 * BLOCK)
    system = sysbench.build_system(filesystem, machine(), "seqwr", 4096, 1, workload=workload, ios=0)
    result = engine.run(system)
    assert {value for name, value in result.final if name.endswith("].size")} == {8 * BLOCK}
    assert {value for name, value in result.final if name.startswith("files.inodes") and "].disk_size" in name} == {
        8 * BLOCK
    }


@pytest.mark.parametrize("pattern", ["seqrd", "seqwr", "rndrw"])
def test_both_engines_agree(filesystem: Filesystem, pattern: str):
    system = sysbench.build_system(filesystem, machine(), pattern, 2048, 3, ios=60, log=True)
    assert engine.run(system, engine="reference").fingerprint == engine.run(system).fingerprint


@pytest.mark.parametrize("pattern", ["randwrite", "randrw", "randread"])
@pytest.mark.parametrize("preparation", ["written", "sparse", "empty"])
def test_asynchronous_io_completes(filesystem: Filesystem, pattern: str, preparation: str):
    for block_size_bytes in (512, 4096):
        workload = fio.Fio(
            pattern=pattern,  # type: ignore[arg-type]
            block_size_bytes=block_size_bytes,
            ioengine="libaio",
            iodepth=8,
            jobs=2,
            shared_files=True,
            file_size_bytes=64 * 1024,
            preparation=preparation,  # type: ignore[arg-type]
        )
        result = engine.run(fio.build_system(filesystem, machine(), workload, ios=0))
        assert result.ios == 2 * 64 * 1024 // block_size_bytes


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [("btrfs-3.0", "randwrite", 8), ("btrfs-6.x-nodatacow", "randwrite", 8), ("btrfs-6.x", "randwrite", 1)]
    + [(name, "randread", 8) for name in VERSIONS],
)
def test_asynchronous_io_in_flight(name: str, pattern: str, expected: int):
    workload = fio.Fio(
        pattern=pattern,  # type: ignore[arg-type]
        ioengine="libaio",
        iodepth=8,
        file_size_bytes=FILE_BYTES,
    )
    result = engine.run(fio.build_system(load(name), machine(), workload, ios=0, log=True))
    assert most_in_flight(result, [BLOCK]) == expected
