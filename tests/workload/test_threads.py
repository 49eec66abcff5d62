"""Daemons stand behind the threads of every workload that writes, one per CPU where their number is 0."""

from __future__ import annotations

from fssim.workload import creates, sysbench
from fssim.workload.creates import LargeCreates
from tests.workload.plain import PLAIN, machine

DAEMONS = ["interrupt", *["worker"] * 3]


def test_sysbench_has_them_when_it_writes() -> None:
    def names(pattern: str) -> list[str]:
        system = sysbench.build_system(PLAIN, machine(cpus=3), pattern, 4096, 2, ios=1)
        return [thread.protocol.name for thread in system.threads]

    assert names("rndwr") == ["random", "random", *DAEMONS]
    assert names("rndrd") == ["random", "random"]


def test_large_creates_have_them() -> None:
    system = creates.build_system(PLAIN, machine(cpus=3), LargeCreates(threads=2), ios=1)
    assert [thread.protocol.name for thread in system.threads] == ["create", "create", *DAEMONS]
