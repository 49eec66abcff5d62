"""Lock tables have the layout of /proc/lock_stat, so that its readers read them."""

from __future__ import annotations

from fssim.report.lock_stat import COLUMNS, compact_lock_stat, lock_stat
from fssim.system import LockUse

LOCKS = (
    LockUse("Inode.i_mutex", "exclusive", 10, 4, 8, 4_000, 500, 1_500, 9_000, 800, 1_000, 10),
    LockUse("Inode.iolock", "shared", 0, 0, 0, 0, 0, 0, 30_000, 3_000, 3_000, 10),
    LockUse("Inode.iolock", "exclusive", 10, 9, 9, 90_000, 10_000, 10_000, 10_000, 1_000, 1_000, 10),
    LockUse("Inode.ilock", "shared", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
)


def parse(text: str) -> dict[str, list[float]]:
    """Read a table as the kernel's document says: a name, then twelve figures."""
    found = {}
    for line in text.splitlines():
        name, *figures = line.rsplit(maxsplit=12) or [""]
        if len(figures) == 12 and name.endswith(":"):
            found[name.strip()] = [float(figure) for figure in figures]
    return found


def test_the_header_is_that_of_the_kernel() -> None:
    lines = lock_stat(LOCKS).splitlines()
    assert lines[0] == "lock_stat version 0.4"
    assert set(lines[1]) == {"-"}
    assert lines[2].split() == ["class", "name", *COLUMNS]
    assert lines[2].index("con-bounces") > 40  # names are right-aligned in forty columns


def test_times_are_microseconds_and_classes_come_in_order_of_contention() -> None:
    table = parse(lock_stat(LOCKS))
    assert list(table) == ["Inode.iolock-W:", "Inode.i_mutex:", "Inode.iolock-R:"]
    assert table["Inode.i_mutex:"] == [4, 4, 0.5, 1.5, 4.0, 1.0, 8, 10, 0.8, 1.0, 9.0, 0.9]
    assert table["Inode.iolock-W:"][:6] == [9, 9, 10.0, 10.0, 90.0, 10.0]


def test_a_hold_that_began_with_a_demotion_counts_in_the_average() -> None:
    assert parse(lock_stat(LOCKS))["Inode.iolock-R:"][-4:] == [3.0, 3.0, 30.0, 3.0]


def test_the_compact_table_has_the_same_figures() -> None:
    assert parse(compact_lock_stat(LOCKS)) == parse(lock_stat(LOCKS))
    assert max(map(len, compact_lock_stat(LOCKS).splitlines())) < max(map(len, lock_stat(LOCKS).splitlines()))


def test_a_run_without_locks_gives_a_table_without_rows() -> None:
    assert parse(lock_stat(())) == {}
    assert parse(compact_lock_stat(())) == {}
