"""The workloads that a cell can run: a new one is added here, and nowhere else among the experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fssim.experiment.tables import Key
from fssim.filesystem import Filesystem
from fssim.workload import creates, fio, sysbench
from fssim.workload.creates import LargeCreates
from fssim.workload.fio import Fio
from fssim.workload.sysbench import Sysbench

if TYPE_CHECKING:
    from fssim.profile import Machine
    from fssim.system import System

Workload = Sysbench | Fio | LargeCreates


def key_of(workload: Workload) -> Key:
    """Return pattern, block size and I/Os in flight of a workload; those of sysbench are in the grid."""
    match workload:
        case Fio():
            return Key(workload.pattern, workload.block_size_bytes, workload.in_flight)
        case LargeCreates():
            return Key(creates.PATTERN, workload.block_size_bytes, workload.threads)
        case Sysbench():
            raise TypeError("sysbench is run in a grid")


def check(workload: Workload, filesystem: Filesystem) -> None:
    """Raise `UserError` for a workload that cannot run as it is stated, or not on this version of a filesystem."""
    match workload:
        case Fio():
            fio.check(workload, filesystem)
        case LargeCreates():
            creates.check(filesystem)


def system_of_workload(workload: Workload, key: Key, filesystem: Filesystem, machine: Machine, **how: Any) -> System:
    """Return the system of a cell; `how`: the volume's geometry, length of the run, seed and log."""
    match workload:
        case Fio():
            return fio.build_system(filesystem, machine, workload, **how)
        case LargeCreates():
            return creates.build_system(filesystem, machine, workload, **how)
        case Sysbench():
            return sysbench.build_system(filesystem, machine, *key, workload=workload, **how)
