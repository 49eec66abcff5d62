"""A stand-in for the engines: results of a closed form, for tests of what is done with results."""

from __future__ import annotations

import numpy as np

from fssim.engine.reference.engine import run_reference
from fssim.filesystem import load_filesystem
from fssim.system import LockUse, RunResult, System


def run(system: System, *, engine: str = "compiled", check: bool = True) -> RunResult:
    """Return what a device of 30 us plus a jiffy plus 10 ns per byte would give.

    It is serial for sequential reads of the protocol that locks exclusively.

    An event log cannot be faked: the reference engine makes it.
    """
    if system.log:
        return run_reference(system)
    threads = sum(not thread.daemon for thread in system.threads) * system.constants.get("IODEPTH", 1)
    block = system.constants["BLOCK_SIZE"]
    exclusive = system.constants.get("TRANSFER") is load_filesystem("xfs-2.6.39").read
    exclusive = exclusive and bool(system.version.get("SERIAL_READS", 1))
    serial = exclusive and "sequential" in system.threads[0].protocol.name
    service_ns = 30_000 + 10 * block + system.host.path_ns.get("jiffy", 0)
    active = 1 if serial else min(threads, 32)
    between_ns = service_ns // active
    random = np.random.default_rng([system.seed, threads, block])
    batches = system.ios // max(system.batch_ios, 1)
    durations = (between_ns * system.batch_ios * random.normal(1, 0.01, batches)).astype(np.int64)
    start = 1_000_000
    window = int(durations.sum())
    wait = window * (threads - active)
    device = window * threads - wait
    return RunResult(
        error=None,
        seed=system.seed,
        time_ns=start + window,
        window_ns=window,
        ios=system.ios,
        latency_ns=window * threads,
        in_flight_ns=window * threads,
        batch_end_ns=start + np.cumsum(durations),
        time_by_category_ns={
            "cpu": device // 10,
            "ready": 0,
            "wakeup": device // 20,
            "device": device - device // 10 - device // 20,
            "sleep": 0,
            "wait Inode.i_mutex exclusive": wait // 2,
            "wait Inode.iolock exclusive": wait - wait // 2,
            "wait Inode.iolock shared": 0,
        },
        sleeps_in_submission={},
        locks=(
            LockUse("Inode.i_mutex", "exclusive", 2000, 1900, 1990, 10**8, 100, 10**6, 10**8, 100, 10**6, 2000),
            LockUse("Inode.iolock", "shared", 2000, 0, 0, 0, 0, 0, 10**8, 100, 10**6, 2000),
            LockUse("Inode.iolock", "exclusive", 2000, 1900, 1990, 10**8, 100, 10**6, 10**8, 100, 10**6, 2000),
        ),
        busy_ns={"cpu": (device // 10, 8), "bus": (window // 3, 1), "chips": (window * 4, 32)},
        final=(),
        objects=("files.inodes[0].i_mutex", "files.inodes[0].iolock"),
        events=system.ios * 9,
    )
