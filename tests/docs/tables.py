"""The tables of `docs/filesystems.md` that come from the code: `python -m tests.docs.tables` prints them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from fssim import engine
from fssim.filesystem import BLOCK, Filesystem, filesystems
from fssim.protocol import EXCLUSIVE, SHARED
from fssim.workload import fio
from fssim.workload.files import Preparation
from tests.models.scenes import FILE_BYTES, load, machine, most_in_flight, reader, run, writer

Row = list[str]

FAMILIES = {
    "XFS of 2011": "xfs_2011",
    "XFS from 3.3 on": "xfs",
    "ext4": "ext4_2011 ext4",
    "btrfs": "btrfs_2011 btrfs",
}
"""Titles of the tables of constants, and the files whose versions are in them."""


def versions_of(files: str) -> list[Filesystem]:
    """The versions of these files, in the order of the files and of each file's own list."""
    order = {f"fssim_models.filesystems.{file}": number for number, file in enumerate(files.split())}
    found = [each for each in filesystems().values() if each.read.__module__ in order]
    return sorted(found, key=lambda each: order[each.read.__module__])


def constants(files: str) -> Iterator[Row]:
    """Constants in which the versions of these files differ, and their values; "-" where the text has no such one."""
    versions = versions_of(files)
    yield ["constant", *(each.name for each in versions)]
    texts = [text for each in versions for text in reversed(_texts(each))]
    order = list(dict.fromkeys(name for text in texts for name in text))
    for name in sorted({name for each in versions for name in each.constants}, key=order.index):
        values = [_shown(name, each) for each in versions]
        if len(set(values)) > 1:
            yield [f"`{name}`", *values]


def _texts(filesystem: Filesystem) -> list[dict[str, Any]]:
    """Names in a version's own file, and in what its kind of filesystem shares."""
    kind = filesystem.name.split("-")[0]
    return [vars(sys.modules[name]) for name in (filesystem.read.__module__, f"fssim_models.filesystems._{kind}")]


def _shown(name: str, filesystem: Filesystem) -> str:
    """A constant's value in a version."""
    defaults = [text[name] for text in _texts(filesystem) if name in text]
    if not defaults:
        return "-"
    value = filesystem.constants.get(name, defaults[0])
    if name.endswith("_MODE"):
        return {EXCLUSIVE: "X", SHARED: "S"}[value]
    return {2**40: "none"}.get(value, f"{value >> 20} MiB" if value >= 2**20 else str(value))


# --- what is in flight together

COUNT = 4
SECTOR = 512
JIFFY_NS = 1_000_000  # workers of 2011 that retry after one must not do so all the time
OF_THE_FILE = [SECTOR, BLOCK]
"""Lengths of I/Os of the scenes; others are zeroes around the data, read-ahead, logs and metadata."""


def _far_apart(program: Any, length: int = BLOCK) -> list[tuple[Any, tuple[int, ...]]]:
    """Four I/Os of a file, none of which is near another, each inside a block if it is shorter than one."""
    inside = 0 if length >= BLOCK else 1024
    return [(program, ((16 * number + 1) * BLOCK + inside, length)) for number in range(COUNT)]


def _sync(program: Any, length: int, preparation: Preparation) -> Callable[[str], int]:
    return lambda name: _most(name, _far_apart(program, length), preparation)


def _most(name: str, programs: list[Any], preparation: Preparation) -> int:
    return most_in_flight(run(load(name), programs, preparation=preparation), OF_THE_FILE)


def _mixed(name: str) -> int:
    """Reads and overwrites in turn, an overwrite first."""
    both = [(reader if number % 2 else writer, where) for number, (_, where) in enumerate(_far_apart(writer))]
    return _most(name, both, Preparation.WRITTEN)


def _appends(name: str) -> int:
    return _most(name, [(writer, (number * BLOCK, BLOCK)) for number in range(COUNT)], Preparation.EMPTY)


def _asynchronous(pattern: str, preparation: Preparation) -> Callable[[str], int]:
    def measure(name: str) -> int:
        workload = fio.Fio(
            pattern=pattern,  # type: ignore[arg-type]
            ioengine="libaio",
            iodepth=COUNT,
            file_size_bytes=FILE_BYTES,
            preparation=preparation.value,
        )
        made = machine()
        host = msgspec.structs.replace(made.host, path_ns={**made.host.path_ns, "jiffy": JIFFY_NS})
        system = fio.build_system(load(name), replace(made, host=host), workload, ios=0, log=True)
        result = engine.run(system)
        return most_in_flight(result, OF_THE_FILE)

    return measure


SCENES: dict[str, Callable[[str], int]] = {
    "reads": _sync(reader, BLOCK, Preparation.WRITTEN),
    "mixed": _mixed,
    "overwrites": _sync(writer, BLOCK, Preparation.WRITTEN),
    "unwritten": _sync(writer, BLOCK, Preparation.PREALLOCATED),
    "holes": _sync(writer, BLOCK, Preparation.SPARSE),
    "appends": _appends,
    "512 B written": _sync(writer, SECTOR, Preparation.WRITTEN),
    "512 B new": _sync(writer, SECTOR, Preparation.PREALLOCATED),
    "libaio: written": _asynchronous("randwrite", Preparation.WRITTEN),
    "new": _asynchronous("randwrite", Preparation.PREALLOCATED),
    "appended": _asynchronous("write", Preparation.EMPTY),
}


def concurrency() -> Iterator[Row]:
    """How many of four I/Os on one file the device has at the same time at most."""
    yield ["version", *SCENES]
    for files in FAMILIES.values():
        for filesystem in versions_of(files):
            yield [f"`{filesystem.name}`", *(str(measure(filesystem.name)) for measure in SCENES.values())]


def markdown(rows: Iterator[Row]) -> str:
    head, *others = rows
    lines = [head, ["---"] * len(head), *others]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables() -> Iterator[tuple[str, str]]:
    """Title and text of each table."""
    yield "in flight together", markdown(concurrency())
    for title, files in FAMILIES.items():
        yield title, markdown(constants(files))


if __name__ == "__main__":
    for title, text in tables():
        print(f"{title}\n\n{text}")
