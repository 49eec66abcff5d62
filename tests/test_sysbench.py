"""The workload reads what sysbench reads: every block in sequence, or uniformly; the race on the position exists."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from fssim.engine import run
from fssim.errors import UserError
from fssim.filesystem import filesystems, load_filesystem
from fssim.profile import load_machine
from fssim.protocol import IO, Shared, device, protocol
from fssim.workload import sysbench

MACHINE = load_machine(str(Path(__file__).parent / "experiment" / "machine.toml"))


class PlainInode(Shared):
    disk_offset: int


@protocol
def read_plainly(io: IO, inode: PlainInode):
    yield device.read(inode.disk_offset + io.offset, io.length)


def file_set(files: int) -> Any:
    inodes = [PlainInode(disk_offset=number * sysbench.FILE_SIZE) for number in range(files)]
    return sysbench._file_set_of(PlainInode)(inodes=inodes)


def thread(pattern: str, files: Any, **constants: int) -> Generator[Any, Any, Any]:
    """A thread's own generator, to be driven by hand: every effect is granted at once."""
    return sysbench.PATTERNS[pattern].native({"READ": read_plainly, **constants})(files)


def reads(generator: Generator[Any, Any, Any], answer: Any = None) -> list[tuple[int, int]]:
    """Offset and length of every read of a generator that is run alone."""
    found = []
    result = None
    while True:
        try:
            effect = generator.send(result)
        except StopIteration:
            return found
        result = answer(effect) if answer else None
        if effect[0] == "READ":
            found.append(effect[2])


def test_one_sequential_thread_reads_every_block_once_in_order() -> None:
    size = 2**22
    got = reads(thread("seqrd", file_set(2), BLOCK_SIZE=size, FILE_COUNT=2))
    assert got == [(offset, size) for offset in range(0, 2 * sysbench.FILE_SIZE, size)]


def test_a_block_that_does_not_fit_is_read_up_to_the_end_of_the_file() -> None:
    size = 3 * 2**22
    got = reads(thread("seqrd", file_set(1), BLOCK_SIZE=size, FILE_COUNT=1))
    assert got == [(0, size), (size, sysbench.FILE_SIZE - size)]


def test_two_threads_may_copy_the_same_position_and_then_leave_a_block_out() -> None:
    files = file_set(1)
    first, second = (thread("seqrd", files, BLOCK_SIZE=4096, FILE_COUNT=1) for _ in range(2))
    assert next(first)[0] == next(second)[0] == "ACQUIRE"  # both have copied the position, none has advanced it
    offsets = []
    for generator in (first, second):
        effect = next(generator)
        while effect[0] != "READ":
            effect = next(generator)
        offsets.append(effect[2][0])
    assert offsets == [0, 0]
    assert files.next_offset == 8192


@pytest.mark.parametrize("block", [0, 1, 100_000, 524_287])
def test_a_random_thread_reads_the_block_it_drew(block: int) -> None:
    generator = thread("rndrd", file_set(128), BLOCK_SIZE=4096)
    effect = next(generator)
    assert effect == ("CHOOSE", None, 128 * sysbench.FILE_SIZE // 4096)
    effect = generator.send(block)
    while effect[0] != "READ":
        effect = next(generator)
    assert effect[2] == (block * 4096, 4096)  # files lie one behind the other


@pytest.mark.parametrize("filesystem", ["xfs-2.6.39", "xfs-2.6.39+shared-read-lock", "ext4-3.0"])
@pytest.mark.parametrize("pattern", sorted(sysbench.PATTERNS))
def test_every_filesystem_runs_every_pattern(filesystem: str, pattern: str) -> None:
    system = sysbench.build_system(load_filesystem(filesystem), MACHINE, pattern, 4096, 4, ios=100, warmup_ios=10)
    assert run(system).ios == 100


def test_the_size_of_the_files_moves_the_end_of_a_file_and_where_the_next_one_lies() -> None:
    """Two files of three blocks: the second begins on the device where the first one ends."""
    workload = sysbench.Sysbench(file_size_bytes=3 * 4096)
    system = sysbench.build_system(load_filesystem("ext4-3.0"), MACHINE, "seqrd", 4096, 1, workload=workload, ios=6)
    (files,) = system.threads[0].arguments
    assert [inode.disk_offset for inode in files.inodes[:3]] == [0, 3 * 4096, 6 * 4096]
    assert run(system).ios == 6
    assert system.constants["FILE_SIZE"] == 3 * 4096


@pytest.mark.parametrize(
    ("pattern", "block_size_bytes", "threads", "message"),
    [
        ("seqwr", 4096, 1, "unknown pattern 'seqwr'; did you mean seqrd"),
        ("seqrd", 1000, 1, "block size 1000: direct I/O needs a multiple of 512 bytes"),
        ("seqrd", 0, 1, "block size 0"),
        ("seqrd", 2**25, 1, "at most the file's 16777216"),
        ("seqrd", 4096, 0, "0 threads: at least one is needed"),
    ],
)
def test_a_cell_that_cannot_run_is_refused(pattern: str, block_size_bytes: int, threads: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        sysbench.build_system(load_filesystem("ext4-3.0"), MACHINE, pattern, block_size_bytes, threads, ios=1)


def test_filesystems_are_found_by_name_and_an_unknown_one_lists_the_nearest() -> None:
    assert {"xfs-2.6.39", "xfs-2.6.39+shared-read-lock", "ext4-3.0"} <= set(filesystems())
    assert all(filesystem.provenance for filesystem in filesystems().values())
    with pytest.raises(UserError, match=r"unknown filesystem 'xfs-2\.6\.38'; did you mean xfs-2\.6\.39"):
        load_filesystem("xfs-2.6.38")
