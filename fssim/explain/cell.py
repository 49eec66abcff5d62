"""What is to be explained: a cell, and the systems that are run for it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fssim.errors import UserError
from fssim.experiment.cells import most_effects
from fssim.explain.order import recorded_order, recording, repeating
from fssim.filesystem import Filesystem, load_filesystem
from fssim.profile import Machine, load_machine
from fssim.statistics import BATCHES
from fssim.system import RunResult, System
from fssim.workload.sysbench import Sysbench, build_system, check_threads

MOST_IOS = 1_000_000
WARMUP = 4  # the window has so many times as many I/Os as the warm-up


@dataclass(frozen=True)
class Cell:
    """A cell of a matrix, and how long it is run."""

    filesystem: Filesystem
    machine: Machine
    pattern: str
    block_size_bytes: int
    threads: int
    file_size_bytes: int
    seed: int
    ios: int

    @property
    def warmup_ios(self) -> int:
        return max(self.ios // WARMUP, 2 * self.threads)

    def system(
        self, *, threads: int | None = None, machine: Machine | None = None, record: bool = False, log: bool = True
    ) -> System:
        """Return the system of the cell, or of the same with another number of threads or on another machine."""
        filesystem = recording(self.filesystem) if record else self.filesystem
        system = build_system(
            filesystem,
            machine or self.machine,
            self.pattern,
            self.block_size_bytes,
            self.threads if threads is None else threads,
            workload=Sysbench(file_size_bytes=self.file_size_bytes),
            ios=self.ios,
            warmup_ios=self.warmup_ios,
            batch_ios=self.ios // BATCHES,
            seed=self.seed,
            log=log,
        )
        return dataclasses.replace(system, max_effects=most_effects(self.ios + self.warmup_ios))

    def in_the_same_order(self, result: RunResult) -> System:
        """Return the system of one thread that transfers the blocks of a recorded run in the same order."""
        order = recorded_order(result)
        return repeating(self.system(threads=1), self.filesystem, self.pattern, order, self.warmup_ios)


def make_cell(
    filesystem: str,
    pattern: str,
    block_size_bytes: int,
    threads: int,
    *,
    machine: str,
    file_size_bytes: int,
    seed: int,
    ios: int,
) -> Cell:
    """Check what was asked for; a mistake is a `UserError`."""
    check_threads(threads)  # before a cell of so many takes the memory
    if not BATCHES <= ios <= MOST_IOS:
        raise UserError(f"--ios {ios}: must be between {BATCHES} and {MOST_IOS}")
    cell = Cell(
        load_filesystem(filesystem),
        load_machine(machine),
        pattern,
        block_size_bytes,
        threads,
        file_size_bytes,
        seed,
        -(-max(ios, threads) // BATCHES) * BATCHES,
    )
    cell.system(log=False)  # says what is wrong with pattern and block size
    return cell
