"""Daemons stand behind the threads of every workload that writes; where their number is 0, one per CPU that submits."""

from __future__ import annotations

from fssim.workload import creates, sysbench
from fssim.workload.creates import LargeCreates
from tests.workload.plain import PLAIN, machine


def daemons(workers: int) -> list[str]:
    return ["interrupt", *["worker"] * workers]


def test_sysbench_has_them_when_it_writes() -> None:
    def names(pattern: str, threads: int = 2) -> list[str]:
        system = sysbench.build_system(PLAIN, machine(cpus=3), pattern, 4096, threads, ios=1)
        return [thread.protocol.name for thread in system.threads]

    assert names("rndwr") == ["random", "random", *daemons(2)]
    assert names("rndwr", 4) == [*["random"] * 4, *daemons(3)]
    assert names("rndrd") == ["random", "random"]


def test_large_creates_have_them() -> None:
    system = creates.build_system(PLAIN, machine(cpus=3), LargeCreates(threads=2), ios=1)
    assert [thread.protocol.name for thread in system.threads] == ["create", "create", *daemons(2)]
