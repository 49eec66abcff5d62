"""Measured tables: CSV with the columns pattern, block_size (bytes), threads, iops."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fssim.errors import UserError, nearest

COLUMNS = ("pattern", "block_size", "threads", "iops")
PATTERNS = ("seqrd", "rndrd", "seqwr", "rndwr", "rndrw", "seqrewr")
"""What sysbench calls the tests of its `fileio`."""


class Key(NamedTuple):
    """A cell of a matrix."""

    pattern: str
    block_size_bytes: int
    threads: int


Table = Mapping[Key, float]
"""IOPS by cell."""


def read_table(path: Path) -> Table:
    """Read a measured table; a file or a row that is not one is a `UserError` of one line, with the row's line."""
    table: dict[Key, float] = {}
    lines: dict[Key, int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if missing := [column for column in COLUMNS if column not in (rows.fieldnames or ())]:
                raise UserError(f"{path}: no column {', '.join(missing)}; a measured table has {', '.join(COLUMNS)}")
            for row in rows:
                key, iops = _cell(row, f"{path}:{rows.line_num}")
                if key in table:
                    cell = f"{key.pattern}, {key.block_size_bytes} bytes, {key.threads} threads"
                    raise UserError(f"{path}:{rows.line_num}: {cell}: already given in line {lines[key]}")
                table[key], lines[key] = iops, rows.line_num
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file in UTF-8") from None
    except csv.Error as error:
        raise UserError(f"{path}: not a CSV file: {error}") from None
    if not table:
        raise UserError(f"{path}: no rows; a measured table has one for every cell")
    return table


def _cell(row: Mapping[str, str | None], where: str) -> tuple[Key, float]:
    """Return the cell and the IOPS of a row; `where` is the file and the line for the messages."""
    try:
        # A row that is too short has no values for the last columns, which no number can be made of.
        pattern, block_size_bytes, threads, iops = (
            row["pattern"] or "",
            int(row["block_size"] or ""),
            int(row["threads"] or ""),
            float(row["iops"] or ""),
        )
    except ValueError:
        raise UserError(f"{where}: block_size, threads and iops are numbers") from None
    if pattern not in PATTERNS:
        raise UserError(f"{where}: unknown pattern {pattern!r}{nearest(pattern, PATTERNS)}")
    if block_size_bytes < 512 or block_size_bytes % 512:
        raise UserError(f"{where}: block_size = {block_size_bytes}: must be a multiple of 512, at least 512")
    if threads < 1:
        raise UserError(f"{where}: threads = {threads}: must be at least 1")
    if not 0 < iops < math.inf:
        raise UserError(f"{where}: iops = {row['iops']}: must be positive and finite")
    return Key(pattern, block_size_bytes, threads), iops
