"""ext4 by version: what can be in flight together on one file, and what each kind of write does.

Expected numbers of I/Os in flight: table A0 of the notes on kernel locking (read in the sources of Linux 3.0, 3.6, 5.10
and 6.12, and traced on 6.18), or the step lists A8 where they say more than the table.
"""

from __future__ import annotations

import pytest

from fssim import engine
from fssim.filesystem import Filesystem, Geometry
from fssim.protocol import HOLE, UNWRITTEN, WRITTEN
from fssim.protocol.bytecode import OPCODES
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
    reader,
    run,
    write_then_expect,
    writer,
)

VERSIONS = ("ext4-3.0", "ext4-3.6-nolock", "ext4-5.6", "ext4-6.4")
ENGINES = ("reference", "compiled")


@pytest.fixture(params=VERSIONS)
def filesystem(request: pytest.FixtureRequest) -> Filesystem:
    return load(request.param)


def in_flight(
    name: str, programs: list[tuple[object, tuple[int, ...]]], preparation: Preparation = Preparation.WRITTEN
) -> int:
    return most_in_flight(run(load(name), programs, preparation=preparation))  # type: ignore[arg-type]


def far_apart(program: object, length: int = BLOCK, count: int = 4) -> list[tuple[object, tuple[int, ...]]]:
    """So many threads, each with one I/O, 16 blocks from each other: no unwritten remainder is small."""
    return [(program, (16 * k * BLOCK + BLOCK, length)) for k in range(count)]


# --- table A0


@pytest.mark.parametrize("name", VERSIONS)
def test_reads_are_in_flight_together(name: str):
    assert in_flight(name, far_apart(reader)) == 4


@pytest.mark.parametrize(
    ("name", "expected"), [("ext4-3.0", 1), ("ext4-3.6-nolock", 2), ("ext4-5.6", 2), ("ext4-6.4", 2)]
)
def test_a_read_beside_an_aligned_overwrite(name: str, expected: int):
    assert in_flight(name, [(writer, (0, BLOCK)), (reader, (64 * BLOCK, BLOCK))]) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("ext4-3.0", 1), ("ext4-3.6-nolock", 4), ("ext4-5.6", 4), ("ext4-6.4", 4)]
)
def test_aligned_overwrites(name: str, expected: int):
    assert in_flight(name, far_apart(writer)) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("ext4-3.0", 1), ("ext4-3.6-nolock", 1), ("ext4-5.6", 1), ("ext4-6.4", 4)]
)
def test_aligned_writes_into_unwritten_blocks(name: str, expected: int):
    assert in_flight(name, far_apart(writer), Preparation.PREALLOCATED) == expected


@pytest.mark.parametrize("name", VERSIONS)
def test_writes_into_holes_are_serial(name: str):
    assert in_flight(name, far_apart(writer), Preparation.SPARSE) == 1


@pytest.mark.parametrize("name", VERSIONS)
def test_adjacent_appends_are_serial(name: str):
    appends = [(writer, (k * BLOCK, BLOCK)) for k in range(4)]
    result = run(load(name), appends, preparation=Preparation.EMPTY)
    assert most_in_flight(result) == 1
    assert final(result, "size") == final(result, "disk_size") == [4 * BLOCK]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ext4-3.0", 1),
        ("ext4-3.6-nolock", 4),  # step list A8.2: aligned *or synchronous*; the table's 1 is asynchronous I/O's
        ("ext4-5.6", 1),
        ("ext4-6.4", 4),
    ],
)
def test_writes_of_a_sector_into_written_blocks(name: str, expected: int):
    assert in_flight(name, far_apart(writer, 512)) == expected


@pytest.mark.parametrize("name", VERSIONS)
def test_writes_of_a_sector_into_unwritten_blocks_are_serial(name: str):
    assert in_flight(name, far_apart(writer, 512), Preparation.PREALLOCATED) == 1


# --- what writes do


def test_data_in_unwritten_blocks_are_written_afterwards(filesystem: Filesystem):
    programs = [(write_then_expect, (BLOCK * 32, BLOCK, 32, 1, WRITTEN))]
    run(filesystem, programs, preparation=Preparation.PREALLOCATED)


def test_a_filled_hole_is_written_and_nothing_else_is(filesystem: Filesystem):
    programs = [(write_then_expect, (BLOCK * 32, 2 * BLOCK, 32, 2, WRITTEN))]
    run(filesystem, programs, preparation=Preparation.SPARSE)


@pytest.mark.parametrize("preparation", [Preparation.PREALLOCATED, Preparation.SPARSE])
def test_a_sector_in_a_new_block_is_surrounded_by_zeroes(filesystem: Filesystem, preparation: Preparation):
    result = run(filesystem, [(writer, (32 * BLOCK + 1024, 512))], preparation=preparation)
    assert [length for _, length in device_ios(result)] == [1024, 512, 2560]


def test_a_sector_in_a_written_block_is_written_alone(filesystem: Filesystem):
    assert [length for _, length in device_ios(run(filesystem, [(writer, (1024, 512))]))] == [512]


def test_only_the_new_one_of_two_blocks_is_zeroed(filesystem: Filesystem):
    """The first block is written, the second a hole: the head of the first must stay."""
    programs = [(writer, (32 * BLOCK, BLOCK))]
    result = run(filesystem, programs, preparation=Preparation.SPARSE)
    assert [length for _, length in device_ios(result)] == [BLOCK]
    half = BLOCK // 2
    both = [(writer, (0, BLOCK)), (writer, (half, BLOCK))]
    result = run(filesystem, both, preparation=Preparation.EMPTY)
    # Whoever comes second extends the file from inside a written block into a new one.
    assert [length for _, length in device_ios(result)] == [BLOCK, BLOCK, half]
    assert final(result, "size") == [BLOCK + half]


def test_a_write_behind_the_end_leaves_a_hole(filesystem: Filesystem):
    programs = [(write_then_expect, (32 * BLOCK, BLOCK, 0, 32, HOLE))]
    result = run(filesystem, programs, preparation=Preparation.EMPTY)
    assert final(result, "size") == final(result, "disk_size") == [33 * BLOCK]
    assert final(result, "orphan") == [0]


@pytest.mark.parametrize("preparation", [Preparation.PREALLOCATED, Preparation.SPARSE, Preparation.EMPTY])
def test_what_is_not_written_is_read_without_the_device(filesystem: Filesystem, preparation: Preparation):
    assert device_ios(run(filesystem, [(reader, (0, BLOCK))], preparation=preparation)) == []


def test_a_read_across_the_end_of_the_file_is_cut_there(filesystem: Filesystem):
    result = run(filesystem, [(reader, (FILE_BYTES - BLOCK, 4 * BLOCK))])
    assert device_ios(result) == [("READ", BLOCK)]


@pytest.mark.parametrize(("name", "limit"), [("ext4-3.0", 7), ("ext4-6.4", 8)])
def test_a_small_unwritten_extent_is_zeroed_and_not_split(name: str, limit: int):
    """7 blocks in 2011, 32 KiB since 3.10 (E2 of the notes)."""
    small = [(write_then_expect, (0, BLOCK, 0, limit, WRITTEN))]
    result = run(load(name), small, preparation=Preparation.PREALLOCATED, file_bytes=limit * BLOCK)
    assert device_ios(result) == [("WRITE", limit * BLOCK), ("WRITE", BLOCK)]
    larger = [(write_then_expect, (0, BLOCK, 1, limit, UNWRITTEN))]
    result = run(load(name), larger, preparation=Preparation.PREALLOCATED, file_bytes=(limit + 1) * BLOCK)
    assert device_ios(result) == [("WRITE", BLOCK)]


# --- truncate, fallocate, the journal


def test_truncate_frees_blocks(filesystem: Filesystem):
    result = run(filesystem, [(change_size, (0, 10 * BLOCK, 10))])
    assert final(result, "size") == final(result, "disk_size") == [10 * BLOCK]


@pytest.mark.parametrize("program", [reader, writer])
def test_truncate_waits_for_direct_io_in_flight(filesystem: Filesystem, program: object):
    result = run(filesystem, [(program, (200 * BLOCK, BLOCK)), (change_size, (20_000, 0, 0))])  # type: ignore[list-item]
    assert ended_ns(result, 1) > LATENCY_NS


def test_fallocate_fills_holes(filesystem: Filesystem):
    result = run(filesystem, [(preallocate, (0, FILE_BYTES, 256))], preparation=Preparation.EMPTY)
    assert final(result, "size") == [FILE_BYTES]


def test_a_transaction_that_has_grown_is_committed(filesystem: Filesystem):
    """The journal of 4 MiB is committed at 1 MiB and written back at 2 MiB, and never runs full."""
    writers = [(writer, (k * BLOCK, BLOCK)) for k in range(64)]
    result = run(
        filesystem,
        writers,
        preparation=Preparation.EMPTY,
        geometry=Geometry(log_bytes=4 * 2**20),
        constants={"HANDLE_USED": 65_536},
    )
    lengths = [length for _, length in device_ios(result)]
    assert lengths.count(BLOCK) == 64
    assert 65_536 in lengths
    assert final(result, "size") == [64 * BLOCK]
    assert max(final(result, "committed")) <= 2 * 2**20


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


@pytest.mark.parametrize("threads", [1, 4])
def test_sequential_writes_end_where_the_files_end(filesystem: Filesystem, threads: int):
    workload = sysbench.Sysbench(file_size_bytes=8 * BLOCK)
    system = sysbench.build_system(filesystem, machine(), "seqwr", 4096, threads, workload=workload, ios=0)
    result = engine.run(system)
    sizes = [value for name, value in result.final if name.endswith("].size")]
    assert sizes == [value for name, value in result.final if name.endswith("].disk_size")]
    # The race on sysbench's position may leave the last block of a file out, but not with one thread.
    assert all(7 * BLOCK <= size <= 8 * BLOCK for size in sizes)
    assert threads > 1 or set(sizes) == {8 * BLOCK}


@pytest.mark.parametrize("pattern", ["seqrd", "seqwr", "rndrw"])
def test_both_engines_agree(filesystem: Filesystem, pattern: str):
    system = sysbench.build_system(filesystem, machine(), pattern, 2048, 3, ios=60, log=True)
    assert engine.run(system, engine="reference").fingerprint == engine.run(system).fingerprint


@pytest.mark.parametrize("preparation", ["written", "preallocated", "sparse", "empty"])
@pytest.mark.parametrize("block_size_bytes", [512, 4096, 6144])
def test_asynchronous_writes_complete(filesystem: Filesystem, preparation: str, block_size_bytes: int):
    workload = fio.Fio(
        pattern="randwrite",
        block_size_bytes=block_size_bytes,
        ioengine="libaio",
        iodepth=8,
        jobs=2,
        shared_files=True,
        file_size_bytes=30 * 6144,
        preparation=preparation,  # type: ignore[arg-type]
    )
    result = engine.run(fio.build_system(filesystem, machine(), workload, ios=0, log=True))
    assert result.ios == 2 * 30 * 6144 // block_size_bytes
    assert [value for name, value in result.final if name.endswith("inode.size")][:1] == [30 * 6144]


@pytest.mark.parametrize("pattern", ["randread", "randrw"])
def test_asynchronous_reads_are_in_flight_together(filesystem: Filesystem, pattern: str):
    workload = fio.Fio(
        pattern=pattern,  # type: ignore[arg-type]
        ioengine="libaio",
        iodepth=8,
        file_size_bytes=FILE_BYTES,
    )
    result = engine.run(fio.build_system(filesystem, machine(), workload, ios=0, log=True))
    assert result.ios == FILE_BYTES // 4096
    assert most_in_flight(result) == 8


@pytest.mark.parametrize(
    ("name", "preparation", "expected"),
    [
        ("ext4-3.0", "preallocated", 8),  # i_mutex for the submission only
        ("ext4-5.6", "sparse", 8),  # exclusive for the submission, in flight without the lock
        ("ext4-6.4", "preallocated", 8),
        ("ext4-3.0", "empty", 1),  # an extending write is synchronous
        ("ext4-6.4", "empty", 1),
    ],
)
def test_asynchronous_writes_in_flight(name: str, preparation: str, expected: int):
    workload = fio.Fio(
        pattern="write",
        ioengine="libaio",
        iodepth=8,
        file_size_bytes=64 * 65536,
        block_size_bytes=65536,
        preparation=preparation,  # type: ignore[arg-type]
    )
    result = engine.run(fio.build_system(load(name), machine(), workload, ios=0, log=True))
    assert most_in_flight(result, [65536]) == expected


def test_unwritten_blocks_are_converted_by_workers(filesystem: Filesystem):
    workload = fio.Fio(
        pattern="write", ioengine="libaio", iodepth=8, file_size_bytes=FILE_BYTES, preparation="preallocated"
    )
    result = engine.run(fio.build_system(filesystem, machine(), workload, ios=0, log=True))
    assert result.log is not None
    fills = result.log[result.log[:, 3] == OPCODES["FILL"]]
    assert set((fills[:, 5] % 4).tolist()) == {WRITTEN}
    assert int((fills[:, 5] // 4).sum()) == FILE_BYTES // BLOCK
