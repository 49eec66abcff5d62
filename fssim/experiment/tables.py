"""Measured tables: CSV with the columns pattern, block_size (bytes), threads, iops."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fssim.errors import UserError

COLUMNS = ("pattern", "block_size", "threads", "iops")


class Key(NamedTuple):
    """A cell of a matrix."""

    pattern: str
    block_size_bytes: int
    threads: int


Table = Mapping[Key, float]
"""IOPS by cell."""


def read_table(path: Path) -> Table:
    """Read a measured table; a missing file, a missing column or a value that is no number is a `UserError`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if missing := [column for column in COLUMNS if column not in (rows.fieldnames or ())]:
                raise UserError(f"{path}: no column {', '.join(missing)}; a measured table has {', '.join(COLUMNS)}")
            table = {}
            for row in rows:
                try:
                    iops = float(row["iops"])
                    table[Key(row["pattern"], int(row["block_size"]), int(row["threads"]))] = iops
                except (TypeError, ValueError):
                    raise UserError(f"{path}:{rows.line_num}: block_size, threads and iops are numbers") from None
                if not iops > 0:
                    raise UserError(f"{path}:{rows.line_num}: iops = {row['iops']}: must be positive")
            return table
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
