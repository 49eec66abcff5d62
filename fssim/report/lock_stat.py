"""Lock tables in the layout of /proc/lock_stat, version 0.4: twelve figures a class, times in microseconds.

One row a mode: `-W` exclusive, `-R` shared; a lock with one mode has a plain name.  `con-bounces` equals `contentions`:
a simulated thread that had to wait takes the lock over from another one.
Source of the layout: Documentation/locking/lockstat.rst of the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from fssim.system import LockUse

COLUMNS = (
    "con-bounces",
    "contentions",
    "waittime-min",
    "waittime-max",
    "waittime-total",
    "waittime-avg",
    "acq-bounces",
    "acquisitions",
    "holdtime-min",
    "holdtime-max",
    "holdtime-total",
    "holdtime-avg",
)
NAME_WIDTH = 40
WIDTH = 14


def lock_stat(locks: Sequence[LockUse]) -> str:
    """Return the table exactly as the kernel lays it out, classes in order of contention."""
    return _layout(rows(locks), NAME_WIDTH, [WIDTH] * len(COLUMNS), "lock_stat version 0.4")


def compact_lock_stat(locks: Sequence[LockUse], width: int = 0) -> str:
    """Return the same table with columns no wider than needed, for a terminal.

    With a `width` the columns are split into tables below each other, none of them wider.
    """
    table = rows(locks)
    names = max([len("class name"), *(len(name) + 1 for name, _ in table)])
    widths = [max([len(title), *(len(values[n]) for _, values in table)]) for n, title in enumerate(COLUMNS)]
    blocks: list[list[int]] = [[]]
    for n in range(len(COLUMNS)):
        if width and blocks[-1] and names + sum(widths[m] + 1 for m in [*blocks[-1], n]) + 1 > width:
            blocks.append([])
        blocks[-1].append(n)
    return "\n".join(_layout(table, names, widths, "", block) for block in blocks)


def rows(locks: Sequence[LockUse]) -> list[tuple[str, list[str]]]:
    """Return name and the twelve figures of every lock class and mode that was used."""
    used = sorted((lock for lock in locks if lock.holds or lock.acquisitions), key=lambda lock: -lock.contentions)
    with_modes = {lock.name for lock in locks if lock.mode == "shared"}
    return [(_name(lock, lock.name in with_modes), _figures(lock)) for lock in used]


def _name(lock: LockUse, has_modes: bool) -> str:
    suffix = {"exclusive": "-W", "shared": "-R"}[lock.mode] if has_modes else ""
    return f"{lock.name}{suffix}:"


def _figures(lock: LockUse) -> list[str]:
    """The twelve figures.  Holds count when they end: a demotion ends an exclusive one and begins a shared one."""
    waits = _times(lock.wait_min_ns, lock.wait_max_ns, lock.wait_total_ns, lock.contentions)
    holds = _times(lock.hold_min_ns, lock.hold_max_ns, lock.hold_total_ns, lock.holds)
    return [str(lock.contentions), str(lock.contentions), *waits, str(lock.bounces), str(lock.acquisitions), *holds]


def _times(least_ns: int, most_ns: int, total_ns: int, count: int) -> list[str]:
    average_ns = total_ns / count if count else 0.0
    return [f"{nanoseconds / 1000:.2f}" for nanoseconds in (least_ns, most_ns, total_ns, average_ns)]


def _layout(
    table: list[tuple[str, list[str]]],
    names: int,
    widths: list[int],
    title: str,
    chosen: Sequence[int] = range(len(COLUMNS)),
) -> str:
    rule = "-" * (names + sum(widths[n] for n in chosen) + len(chosen) + 1)
    lines = [title] if title else []
    lines += [rule, " ".join([f"{'class name':>{names}}", *(f"{COLUMNS[n]:>{widths[n]}}" for n in chosen)]), rule, ""]
    for name, values in table:
        lines.append(" ".join([f"{name:>{names}}", *(f"{values[n]:>{widths[n]}}" for n in chosen)]))
    return "\n".join(lines) + "\n"
