"""Fixed scenarios: protocol x kinds of locks x number of threads x machine, each with a pinned fingerprint.

Those with asynchronous I/O are a pipeline from submitters over an interrupt daemon to workers; those that write
themselves have a device that is polled, and the same one with interrupts.

`python -m tests.identity.scenarios` writes `fingerprints.toml` anew (after a deliberate change of the contract, of the
opcodes or of the protocols; review the difference); with `--check` it only compares, with the reference engine.
"""

from __future__ import annotations

import itertools
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fssim.engine import run
from fssim.machine.device import Device, FlashDevice, SimpleDevice
from fssim.machine.host import Host
from fssim.protocol.language import BlockMap, Queue, Space
from fssim.system import System, Thread
from tests.identity import fixed_pipelines, fixed_protocols

GOLDEN = Path(__file__).with_name("fingerprints.toml")
IOS = 150
WARMUP_IOS = 20

PROGRAMS = ("readers", "appenders", "mixture", "cached")
LOCK_KINDS = tuple(itertools.product(("fifo", "spinning"), ("barging", "fifo")))
THREADS = (1, 2, 16)

# Host without the kinds of locks, and device.
MACHINES: dict[str, tuple[dict[str, Any], Device]] = {
    "plain": ({"cpus": 4}, SimpleDevice(latency_ns=5_000)),
    "server": (
        {
            "cpus": 3,
            "wakeup_ns": 1_200,
            "interrupt_ns": 800,
            "wakeup_spread_ns": 300,
            "switch_ns": 600,
            "spin_handoff_ns": 80,
            "cache_line_ns": 40,
            "timeslice_ns": 3_000,
        },
        SimpleDevice(
            latency_ns=20_000, latency_distribution="exponential", iops_cap=200_000, bandwidth_mb_s=500, queue_depth=4
        ),
    ),
    "flash": (
        {
            "cpus": 8,
            "wakeup_ns": 1_500,
            "interrupt_ns": 900,
            "idle_exit_ns": 11_000,
            "idle_depth_ns": 9_000,
            "switch_ns": 500,
            "spin_handoff_ns": 60,
        },
        FlashDevice(
            channels=4,
            chips_per_channel=2,
            page_bytes=3_000,
            placement="scattered",
            command_ns=700,
            page_load_ns=25_000,
            channel_command_ns=1_500,
            channel_ps_per_byte=20_000,
            decode_ps_per_byte=2_000,
            bus_ps_per_byte=1_550,
            write_bus_ps_per_byte=1_550,
            write_cache_bytes=64 * 1024,
            drain_ps_per_byte=10_000,
            write_ns=2_000,
        ),
    ),
    # Several packets a read, and chunks that are decoded before their transfer is over.
    "packets": (
        {"cpus": 4, "wakeup_ns": 1_500, "interrupt_ns": 900, "switch_ns": 500},
        FlashDevice(
            channels=2,
            chips_per_channel=2,
            page_bytes=4_000,
            channel_rotation=1,
            page_load_ns=15_000,
            channel_command_ns=1_000,
            channel_ps_per_byte=10_000,
            fast_after_bytes=500,
            fast_ps_per_byte=1_000,
            decode_ps_per_byte=2_000,
            bus_ps_per_byte=3_000,
            bus_packet_bytes=1_024,
        ),
    ),
}

WRITING = FlashDevice(
    channels=4,
    page_bytes=4_096,
    command_ns=900,
    page_load_ns=20_000,
    channel_ps_per_byte=5_000,
    bus_ps_per_byte=1_000,
    write_command_ns=300,
    write_bus_ps_per_byte=1_100,
    write_cache_bytes=48 * 1024,
    drain_ps_per_byte=1_900,
    write_inline_bytes=512,
    write_segment_bytes=4_096,
    write_segment_ns=400,
    write_ns=1_700,
)
WRITING_HOST = {"cpus": 4, "wakeup_ns": 1_300, "interrupt_ns": 900, "switch_ns": 400, "idle_exit_ns": 5_000}
MACHINES |= {
    "polled": (WRITING_HOST, replace(WRITING, write_polled=True)),
    "interrupts": ({**WRITING_HOST, "timeslice_ns": 2_000, "idle_depth_ns": 3_000}, WRITING),
}
FIRST_MACHINES = ("plain", "server", "flash", "packets")


@dataclass(frozen=True)
class Scenario:
    """One line of the table."""

    program: str
    rwlock: str
    mutex: str
    threads: int
    machine: str

    @property
    def name(self) -> str:
        return f"{self.program}-{self.rwlock}-{self.mutex}-{self.threads}-{self.machine}"

    def system(self) -> System:
        """Two files; thread n uses file n % 2."""
        host, device = MACHINES[self.machine]
        mount = fixed_protocols.Mount(inodes=[fixed_protocols.Inode(), fixed_protocols.Inode()])
        program = getattr(fixed_protocols, self.program)
        return System(
            threads=[Thread(program, (mount, mount.inodes[number % 2])) for number in range(self.threads)],
            host=Host(rwlock=self.rwlock, mutex=self.mutex, **host),  # type: ignore[arg-type]
            device=device,
            seed=20_110_815,
            ios=IOS,
            warmup_ios=WARMUP_IOS,
            batch_ios=25,
            log=True,
        )


def _volume(inodes: int) -> Any:
    """A mount with files whose blocks are written, unwritten and holes in turn; room for one transaction and a bit."""
    files = [
        fixed_pipelines.Inode(
            disk_offset=number << 30,
            extents=BlockMap(contents=bytes(block // 3 % 3 for block in range(fixed_pipelines.BLOCKS))),
        )
        for number in range(inodes)
    ]
    return fixed_pipelines.Mount(log=Space(fixed_pipelines.RESERVATION + 1), latest=files[0]), files


@dataclass(frozen=True)
class Pipeline:
    """Asynchronous I/O: a submitter an inode, each with `depth` requests, an interrupt daemon and workers."""

    depth: int
    inodes: int
    workers: int
    machine: str

    @property
    def name(self) -> str:
        return f"pipeline-{self.depth}-{self.inodes}-{self.workers}-{self.machine}"

    def system(self) -> System:
        host, device = MACHINES[self.machine]
        mount, files = _volume(self.inodes)
        threads = []
        for inode in files:
            ring = fixed_pipelines.Ring()
            requests = [fixed_pipelines.Request(ring=ring, inode=inode, begun=-1) for _ in range(self.depth)]
            ring.done = Queue(requests)
            threads.append(Thread(fixed_pipelines.submitter, (mount, ring, inode)))
        threads.append(Thread(fixed_pipelines.interrupt, (mount,), daemon=True))
        threads += [Thread(fixed_pipelines.convert, (mount,), daemon=True)] * self.workers
        return System(
            threads=threads,
            host=Host(**host),
            device=device,
            seed=20_110_720,
            ios=max(IOS, 2 * self.depth),
            warmup_ios=max(WARMUP_IOS, self.depth),
            batch_ios=25,
            log=True,
        )


@dataclass(frozen=True)
class Writing:
    """Synchronous writes; thread n uses file n % 2."""

    program: str
    threads: int
    machine: str

    @property
    def name(self) -> str:
        return f"{self.program}-{self.threads}-{self.machine}"

    def system(self) -> System:
        host, device = MACHINES[self.machine]
        mount, files = _volume(2)
        program = getattr(fixed_pipelines, self.program)
        return System(
            threads=[Thread(program, (mount, files[number % 2])) for number in range(self.threads)],
            host=Host(**host),
            device=device,
            seed=20_110_719,
            ios=IOS,
            warmup_ios=WARMUP_IOS,
            batch_ios=25,
            log=True,
        )


SCENARIOS: tuple[Scenario | Pipeline | Writing, ...] = (
    *(
        Scenario(program, rwlock, mutex, threads, machine)
        for program, (rwlock, mutex), threads, machine in itertools.product(
            PROGRAMS, LOCK_KINDS, THREADS, FIRST_MACHINES
        )
    ),
    *(
        Pipeline(depth, inodes, workers, machine)
        for depth, inodes, workers, machine in itertools.product(
            (4, 64, 512), (1, 2), (1, 3), ("server", "flash", "polled", "interrupts")
        )
    ),
    *(
        Writing(program, threads, machine)
        for program, threads, machine in itertools.product(
            ("writes", "sub_block_writes"), THREADS, ("server", "polled", "interrupts")
        )
    ),
)


def golden() -> dict[str, str]:
    """The pinned fingerprints by name."""
    return tomllib.loads(GOLDEN.read_text())["fingerprints"]


def fingerprints() -> dict[str, str]:
    """The fingerprints as the reference engine computes them now."""
    return {scenario.name: run(scenario.system(), engine="reference").fingerprint for scenario in SCENARIOS}


def main(arguments: list[str]) -> int:
    now = fingerprints()
    if arguments == ["--check"]:
        pinned = golden()
        changed = sorted(name for name in now.keys() | pinned.keys() if now.get(name) != pinned.get(name))
        print(f"{len(changed)} of {len(now)} fingerprints differ", *changed[:10])
        return 1 if changed else 0
    lines = [
        "# Written by `python -m tests.identity.scenarios`: BLAKE2b of the event log of each fixed scenario.",
        "[fingerprints]",
    ]
    lines += [f'{name} = "{fingerprint}"' for name, fingerprint in now.items()]
    GOLDEN.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
