"""The threads that every workload has besides its own: the filesystem's daemons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fssim.system import Thread

if TYPE_CHECKING:
    from fssim.filesystem import Filesystem, Volume
    from fssim.machine.host import Host


def daemons(filesystem: Filesystem, volume: Volume | None, host: Host, submitters: int = 0) -> Iterator[Thread]:
    """Yield the filesystem's daemons.

    Of those whose number is 0, as of the kernel's workers, there is one per CPU.  A completion is worked off on the CPU
    that submitted, by one worker at a time there: with fewer `submitters` than CPUs there are as few (0: not known).
    """
    for program, count in filesystem.daemons.items():
        for _ in range(count or min(host.cpus, submitters or host.cpus)):
            yield Thread(program, (volume,), daemon=True)
