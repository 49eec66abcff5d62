"""The workload transfers what sysbench does: every block in sequence, or uniformly; the race on the position exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from fssim.engine import run
from fssim.errors import UserError
from fssim.filesystem import File, Filesystem, Geometry, filesystems, load_filesystem
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.profile import Machine, load_machine
from fssim.protocol import IO, device, protocol
from fssim.protocol.bytecode import OPCODES
from fssim.workload import sysbench
from fssim.workload.files import Preparation, make_files

PATHS = {"sysbench_request": 300, "sysbench_copy": 50}
MACHINE = Machine("mine", "", "", Host(cpus=8, path_ns=PATHS), SimpleDevice(latency_ns=20_000), None, "")
FILE_SIZE = sysbench.FILE_SIZE


class PlainInode(File):
    pass


@protocol
def read_plainly(io: IO, inode: PlainInode):
    yield device.read(inode.disk_offset + io.offset, io.length)


@protocol
def write_plainly(io: IO, inode: PlainInode):
    yield device.write(inode.disk_offset + io.offset, io.length)


PLAIN = Filesystem("plain", "no locks", "made up", PlainInode, read_plainly, write_plainly)


def file_set(files: int) -> Any:
    _, inodes = make_files(PLAIN, Geometry(), files, FILE_SIZE, Preparation.WRITTEN)
    return sysbench._file_set_of(PlainInode)(inodes=inodes)


def thread(pattern: str, files: Any, **constants: Any) -> Generator[Any, Any, Any]:
    """A thread's own generator, to be driven by hand: every effect is granted at once."""
    bound = {"TRANSFER": read_plainly, "READ": read_plainly, "WRITE": write_plainly, **constants}
    return sysbench.PATTERNS[pattern].native(bound, path_ns=PATHS)(files)


def run_until(generator: Generator[Any, Any, Any], *names: str, **answers: int) -> Any:
    """Grant every effect until one of these kinds comes, and return it; None if the program returns before.

    `answers`: results of effects by kind, 0 if not named.
    """
    result = None
    while True:
        try:
            effect = generator.send(result)
        except StopIteration:
            return None
        if effect[0] in names:
            return effect
        result = answers.get(effect[0], 0)


def transfers(generator: Generator[Any, Any, Any], count: int = 10_000) -> list[tuple[Any, ...]]:
    """(kind, offset, length) of the first reads and writes of a generator that is run alone."""
    found: list[tuple[Any, ...]] = []
    while len(found) < count and (effect := run_until(generator, "READ", "WRITE")) is not None:
        found.append((effect[0], *effect[2]))
    return found


@pytest.mark.parametrize("pattern", ["seqrd", "seqwr", "seqrewr"])
def test_one_sequential_thread_transfers_every_block_once_in_order(pattern: str) -> None:
    size = 2**22
    got = transfers(thread(pattern, file_set(2), BLOCK_SIZE=size, FILE_COUNT=2))
    assert got == [("READ", offset, size) for offset in range(0, 2 * FILE_SIZE, size)]


def test_a_block_that_does_not_fit_is_read_up_to_the_end_of_the_file() -> None:
    size = 3 * 2**22
    got = transfers(thread("seqrd", file_set(1), BLOCK_SIZE=size, FILE_COUNT=1))
    assert got == [("READ", 0, size), ("READ", size, FILE_SIZE - size)]


def test_two_threads_may_copy_the_same_position_and_then_leave_a_block_out() -> None:
    files = file_set(1)
    first, second = (thread("seqrd", files, BLOCK_SIZE=4096, FILE_COUNT=1) for _ in range(2))
    for generator in (first, second):  # both have copied the position, none has advanced it
        assert run_until(generator, "ACQUIRE") == ("ACQUIRE", files.mutex, 2)
    assert [run_until(generator, "READ")[2] for generator in (first, second)] == [(0, 4096), (0, 4096)]
    assert files.next_offset == 8192


@pytest.mark.parametrize("pattern", ["rndrd", "rndwr"])
@pytest.mark.parametrize("block", [0, 1, 100_000, 524_287])
def test_a_random_thread_transfers_the_block_it_drew(pattern: str, block: int) -> None:
    generator = thread(pattern, file_set(128), BLOCK_SIZE=4096)
    assert run_until(generator, "CHOOSE") == ("CHOOSE", None, 128 * FILE_SIZE // 4096)
    effect = generator.send(block)
    while effect[0] != "READ":
        effect = next(generator)
    assert effect[2] == (block * 4096, 4096)  # files lie one behind the other


def test_a_mixed_thread_comes_as_near_as_it_can_to_three_reads_in_two_writes() -> None:
    """The first is a read, because one read and one write are fewer reads than 1.5 a write."""
    got = [kind for kind, _, _ in transfers(thread("rndrw", file_set(128), BLOCK_SIZE=4096), count=100)]
    assert Counter(got) == {"READ": 60, "WRITE": 40}
    for count in range(1, 101):
        assert abs(got[:count].count("READ") - 1.5 * got[:count].count("WRITE")) <= 2.5


@pytest.mark.parametrize("pattern", sorted(sysbench.PATTERNS))
def test_between_two_requests_the_program_computes_for_an_exponential_time(pattern: str) -> None:
    generator = thread(pattern, file_set(128), BLOCK_SIZE=4096)
    for _ in range(3):
        assert run_until(generator, "EXPONENTIAL") == ("EXPONENTIAL", None, PATHS["sysbench_request"])
        assert generator.send(1234) == ("CPU", None, 1234)
        assert run_until(generator, "COMPLETE", "EXPONENTIAL")[0] == "COMPLETE"


@pytest.mark.parametrize("pattern", sorted(sysbench.PATTERNS))
def test_every_pattern_reads_or_writes_or_both(pattern: str) -> None:
    system = sysbench.build_system(PLAIN, MACHINE, pattern, 4096, 4, ios=100, warmup_ios=10, log=True)
    result = run(system)
    assert result.ios == 100
    assert result.log is not None
    kinds = set(result.log[:, 3].tolist()) & {OPCODES["READ"], OPCODES["WRITE"]}
    named = {"rd": {OPCODES["READ"]}, "wr": {OPCODES["WRITE"]}, "rw": {OPCODES["READ"], OPCODES["WRITE"]}}
    assert kinds == named[pattern[-2:]]


def test_a_sequential_run_ends_when_all_files_are_done() -> None:
    workload = sysbench.Sysbench(file_size_bytes=2 * 4096)
    result = run(sysbench.build_system(PLAIN, MACHINE, "seqwr", 4096, 1, workload=workload, ios=1_000))
    assert (result.error, result.ios) == (None, 2 * sysbench.FILE_COUNT)


@pytest.mark.parametrize("filesystem", ["xfs-2.6.39", "xfs-2.6.39+shared-read-lock", "ext4-3.0"])
@pytest.mark.parametrize("pattern", sorted(sysbench.PATTERNS))
def test_every_filesystem_runs_every_pattern_that_it_describes(filesystem: str, pattern: str) -> None:
    version, machine = load_filesystem(filesystem), load_machine("engel-2011")
    if pattern in sysbench.READS or version.write is not None:
        system = sysbench.build_system(version, machine, pattern, 4096, 4, ios=100, warmup_ios=10)
        assert run(system).ios == 100
    else:
        with pytest.raises(UserError, match=f"{pattern}: {filesystem} describes reads only"):
            sysbench.build_system(version, machine, pattern, 4096, 4, ios=100)


def test_a_version_that_describes_reads_only_cannot_write() -> None:
    only_reads = replace(PLAIN, name="mine", write=None)
    for pattern in ("seqwr", "rndwr", "seqrewr", "rndrw"):
        with pytest.raises(UserError, match=rf"^{pattern}: mine describes reads only; use seqrd or rndrd$"):
            sysbench.build_system(only_reads, MACHINE, pattern, 4096, 1, ios=1)


def test_only_new_files_begin_empty() -> None:
    for pattern in sysbench.PATTERNS:
        system = sysbench.build_system(PLAIN, MACHINE, pattern, 4096, 1, ios=1)
        (files,) = system.threads[0].arguments
        assert {inode.size for inode in files.inodes} == {0 if pattern == "seqwr" else FILE_SIZE}
        assert {inode.extents.initial for inode in files.inodes} == {0 if pattern == "seqwr" else 2}
        assert {inode.extents.blocks for inode in files.inodes} == {FILE_SIZE // 4096}


def test_the_size_of_the_files_moves_the_end_of_a_file_and_where_the_next_one_lies() -> None:
    """Two files of three blocks: the second begins on the device where the first one ends."""
    workload = sysbench.Sysbench(file_size_bytes=3 * 4096)
    system = sysbench.build_system(PLAIN, MACHINE, "seqrd", 4096, 1, workload=workload, ios=6)
    (files,) = system.threads[0].arguments
    assert [inode.disk_offset for inode in files.inodes[:3]] == [0, 3 * 4096, 6 * 4096]
    assert run(system).ios == 6
    assert system.constants["FILE_SIZE"] == 3 * 4096


@pytest.mark.parametrize(
    ("pattern", "block_size_bytes", "threads", "message"),
    [
        ("seqrw", 4096, 1, "unknown pattern 'seqrw'; did you mean seqrewr or seqwr or seqrd?"),
        ("seqrd", 1000, 1, "block size 1000: direct I/O needs a multiple of 512 bytes"),
        ("seqrd", 0, 1, "block size 0"),
        ("seqrd", 2**25, 1, "at most the file's 16777216"),
        ("seqrd", 4096, 0, "0 threads: must be between 1 and 65536"),
    ],
)
def test_a_cell_that_cannot_run_is_refused(pattern: str, block_size_bytes: int, threads: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        sysbench.build_system(PLAIN, MACHINE, pattern, block_size_bytes, threads, ios=1)


def test_files_that_do_not_fit_onto_the_volume_are_refused() -> None:
    with pytest.raises(UserError, match="128 files of 16777216 bytes need 2147483648 bytes; the volume has 1048576"):
        sysbench.build_system(PLAIN, MACHINE, "seqrd", 4096, 1, geometry=Geometry(size_bytes=2**20), ios=1)


def test_filesystems_are_found_by_name_and_an_unknown_one_lists_the_nearest() -> None:
    assert {"xfs-2.6.39", "xfs-2.6.39+shared-read-lock", "ext4-3.0"} <= set(filesystems())
    assert all(filesystem.provenance for filesystem in filesystems().values())
    with pytest.raises(UserError, match=r"unknown filesystem 'xfs-2\.6\.38'; did you mean xfs-2\.6\.39"):
        load_filesystem("xfs-2.6.38")
