"""Large creates: new files, each written once from its beginning to its end by its own thread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fssim.engine import run
from fssim.errors import UserError
from fssim.filesystem import BLOCK, Geometry
from fssim.machine.device import SimpleDevice
from fssim.protocol import IO, device, protocol
from fssim.workload.creates import LargeCreates, build_system
from tests.identity.compare import assert_identical
from tests.workload.plain import PLAIN, Inode, machine

MIB = 2**20


@protocol
def append(io: IO, inode: Inode):
    assert io.offset == inode.size, "not at the end of the file"
    yield device.write(inode.disk_offset + io.offset, io.length)
    inode.size = io.offset + io.length


APPENDS = replace(PLAIN, name="appends", write=append)


def creates(**options: Any) -> LargeCreates:
    return LargeCreates(**{"threads": 2, "file_size_bytes": 4 * MIB, **options})


def test_every_thread_writes_its_files_from_the_beginning_to_the_end() -> None:
    result = run(build_system(APPENDS, machine(), creates(threads=3, files_per_thread=2), ios=0), engine="compiled")
    assert result.ios == 3 * 2 * 4
    sizes = [value for name, value in result.final if name.endswith(".size")]
    assert sizes == 6 * [4 * MIB]


def test_the_last_write_of_a_file_may_be_shorter() -> None:
    workload = creates(threads=1, file_size_bytes=2 * MIB + BLOCK)
    result = run(build_system(APPENDS, machine(), workload, ios=0), engine="compiled")
    assert result.ios == 3
    assert [value for name, value in result.final if name.endswith(".size")] == [2 * MIB + BLOCK]


def test_streams_share_the_bandwidth_of_the_device() -> None:
    slow = machine(SimpleDevice(latency_ns=10_000, bandwidth_mb_s=400, queue_depth=64))
    workload = creates(threads=16, file_size_bytes=64 * MIB)
    result = run(build_system(APPENDS, slow, workload, ios=600, warmup_ios=32), engine="compiled")
    assert result.iops * MIB / 1e6 == pytest.approx(400, rel=1e-3)


def test_both_engines_do_the_same() -> None:
    assert_identical(build_system(PLAIN, machine(cpus=2), creates(threads=3), ios=0, seed=5))


def test_a_volume_that_is_too_small_is_refused() -> None:
    with pytest.raises(UserError, match="2 files of 4194304 bytes need 8388608 bytes; the volume has 1048576"):
        build_system(PLAIN, machine(), creates(), geometry=Geometry(size_bytes=2**20), ios=1)


def test_files_that_do_not_fit_into_memory_are_refused() -> None:
    many = creates(file_size_bytes=2**40)
    with pytest.raises(UserError, match="2 files of 1099511627776 bytes: at most 1099511627776 bytes in all are sim"):
        build_system(PLAIN, machine(), many, geometry=Geometry(size_bytes=2**50), ios=1)


def test_a_version_that_describes_reads_only_is_refused() -> None:
    with pytest.raises(UserError, match="create: readers describes reads only"):
        build_system(replace(PLAIN, name="readers", write=None), machine(), creates(), ios=1)
