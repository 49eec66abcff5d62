"""Every filesystem version runs fio as it describes itself, and both engines do the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fssim.engine import run
from fssim.filesystem import BLOCK, Filesystem, filesystems
from fssim.profile import Machine, load_machine
from fssim.statistics import check_littles_law
from fssim.workload.creates import LargeCreates
from fssim.workload.creates import build_system as build_creates
from fssim.workload.files import Preparation
from fssim.workload.fio import Fio, build_system
from tests.identity.compare import assert_identical

ASYNCHRONOUS = [
    each for each in filesystems().values() if each.submit_read is not None and each.submit_write is not None
]
WRITING = [each for each in filesystems().values() if each.write is not None]


def small(name: str, cpus: int = 2) -> Machine:
    machine = load_machine(name)
    return replace(machine, host=msgspec.structs.replace(machine.host, cpus=cpus))


FIFO, SPINNING = small("mason-2012"), small("mason-2016")


def job(pattern: str, **options: Any) -> Fio:
    return Fio(**{"pattern": pattern, "file_size_bytes": 24 * BLOCK, **options})


@pytest.mark.parametrize("preparation", Preparation)
@pytest.mark.parametrize("filesystem", ASYNCHRONOUS, ids=lambda each: each.name)
def test_both_engines_do_the_same_with_many_in_flight(filesystem: Filesystem, preparation: Preparation) -> None:
    for machine, pattern in ((FIFO, "randrw"), (SPINNING, "randwrite")):
        workload = job(pattern, ioengine="libaio", iodepth=6, jobs=2, shared_files=True, preparation=str(preparation))
        result = assert_identical(build_system(filesystem, machine, workload, ios=0, seed=7))
        assert result.error is None
        assert result.ios == 2 * 24


@pytest.mark.parametrize("pattern", ["write", "randread", "randrw"])
@pytest.mark.parametrize("filesystem", WRITING, ids=lambda each: each.name)
def test_reads_writes_and_both_run_to_their_end(filesystem: Filesystem, pattern: str) -> None:
    engines: list[dict[str, Any]] = [{}]
    if filesystem in ASYNCHRONOUS:
        engines.append({"ioengine": "libaio", "iodepth": 4})
    for engine in engines:
        for size, preparation in ((BLOCK, "preallocated"), (2 * BLOCK, "empty"), (512, "written")):
            workload = job(pattern, block_size_bytes=size, jobs=2, preparation=preparation, **engine)
            result = run(build_system(filesystem, FIFO, workload, ios=0), engine="compiled")
            assert result.ios == 2 * 24 * BLOCK // size


@pytest.mark.parametrize("filesystem", ASYNCHRONOUS, ids=lambda each: each.name)
def test_littles_law_holds_at_depth_512(filesystem: Filesystem) -> None:
    workload = job("randwrite", ioengine="libaio", iodepth=512, file_size_bytes=2**28, preparation="preallocated")
    # With the costs of 2016, xfs-2.6.39 falls into step with the clock: who fails at the ilock sleeps until it ticks.
    machine = FIFO if filesystem.name.startswith("xfs-2.6") else SPINNING
    result = run(build_system(filesystem, machine, workload, ios=5_000, warmup_ios=1_000), engine="compiled")
    check_littles_law(result, 512, filesystem.name)


@pytest.mark.parametrize("filesystem", WRITING, ids=lambda each: each.name)
def test_large_creates_run_to_their_end(filesystem: Filesystem) -> None:
    workload = LargeCreates(threads=4, file_size_bytes=4 * 2**20)
    assert_identical(build_creates(filesystem, FIFO, workload, ios=0))
