"""The files of a workload: so many on one volume, prepared as a benchmark prepares them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from fssim.errors import UserError
from fssim.filesystem import BLOCK, Filesystem, Geometry, Volume
from fssim.protocol.language import HOLE, UNWRITTEN, WRITTEN, BlockMap, Shared

MOST_BLOCKS = 2**28  # each has a state in two maps


class Preparation(StrEnum):
    """What is in a file when the measurement begins.

    WRITTEN: all blocks, by a run before.  PREALLOCATED: all blocks, unwritten, by fallocate.  SPARSE: the size is set
    by truncate, there are no blocks.  EMPTY: a new file.  In no case is anything of it in the page cache.
    """

    WRITTEN = "written"
    PREALLOCATED = "preallocated"
    SPARSE = "sparse"
    EMPTY = "empty"


_STATES = {Preparation.WRITTEN: WRITTEN, Preparation.PREALLOCATED: UNWRITTEN}


def make_files(
    filesystem: Filesystem, geometry: Geometry, count: int, size_bytes: int, preparation: Preparation
) -> tuple[Volume | None, list[Any]]:
    """Return the volume and `count` inodes, one behind the other on the device, of files that may grow to `size_bytes`.

    Raises `UserError` if they do not fit onto the volume, or have more blocks than a run can keep in memory.
    """
    if count * size_bytes > geometry.size_bytes:
        raise UserError(
            f"{count} files of {size_bytes} bytes need {count * size_bytes} bytes; the volume has {geometry.size_bytes}"
        )
    blocks = -(-size_bytes // BLOCK)
    if count * blocks > MOST_BLOCKS:
        raise UserError(
            f"{count} files of {size_bytes} bytes: at most {MOST_BLOCKS * BLOCK} bytes in all are simulated"
        )
    volume = filesystem.mount(geometry) if filesystem.mount is not None else None
    size = 0 if preparation is Preparation.EMPTY else size_bytes
    inodes: list[Shared] = []
    for number in range(count):
        disk_offset = number * blocks * BLOCK
        inodes.append(
            filesystem.inode(
                disk_offset=disk_offset,
                extents=BlockMap(blocks, _STATES.get(preparation, HOLE)),
                pages=BlockMap(blocks),
                **dict.fromkeys(filesystem.sizes, size),
                **(filesystem.place(volume, disk_offset) if filesystem.place is not None else {}),
            )
        )
    return volume, inodes
