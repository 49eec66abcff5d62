"""The threads that every workload has besides its own: the filesystem's daemons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fssim.system import Thread

if TYPE_CHECKING:
    from fssim.filesystem import Filesystem, Volume
    from fssim.machine.host import Host


def daemons(filesystem: Filesystem, volume: Volume | None, host: Host) -> Iterator[Thread]:
    """Yield the filesystem's daemons; of those whose number is 0 there is one per CPU, as of the kernel's workers."""
    for program, count in filesystem.daemons.items():
        for _ in range(count or host.cpus):
            yield Thread(program, (volume,), daemon=True)
