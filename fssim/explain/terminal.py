"""An explanation on the terminal: sentences first, then the tables behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fssim.console import terminal
from fssim.explain.budget import DAEMONS, GROUPS, WAITING, Budget, Item, total
from fssim.explain.explanation import Explanation, RunSummary
from fssim.explain.words import sentences

WIDTH = 100  # of a pipe or a log file
SHOWN_OF_GROUP = 0.02  # lines of the budget below this are summed up
SHOWN_SHARE = 0.005  # of all waiting
SHOWN_WAITING = 0.01  # of the threads' time: less is not worth two tables
MOST_LINES = 20

_TITLES = {
    "path": "path cost",
    "device": "device",
    "sleep": "sleeping",
    "waiting": "waiting",
    "latency": "latency",
    "daemons": "besides: daemons",
}


def print_explanation(found: Explanation, console: Console | None = None) -> None:
    """Print everything, in the order in which a person wants to know it."""
    console = console or terminal(WIDTH, highlight=False)
    console.print(_headline(found))
    for title, table in _tables(found):
        if table.row_count:
            console.print(f"\n{title}", style="bold", highlight=False, markup=False)
            console.print(table)


def _headline(found: Explanation) -> Panel:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for about, text in sentences(found):
        grid.add_row(about, Text(text))
    cell = found.cell
    threads = f"{cell.threads} threads" if cell.threads > 1 else "1 thread"
    title = f"{cell.filesystem.name} {cell.pattern}, {cell.block_size_bytes} bytes, {threads}, on {cell.machine.name}"
    return Panel(grid, title=title, box=box.ROUNDED)


def _tables(found: Explanation) -> Iterator[tuple[str, Table]]:
    yield "An I/O's budget (thread time per completed I/O, µs)", _budget(found)
    yield "Locks (I/Os that take and demote it; takes an I/O, those that wait; hand-over in µs)", _locks(found)
    if total(found.run.budget, WAITING) >= SHOWN_WAITING * total(found.run.budget):
        yield "Who waits for whom (share of all waiting; what the holder does meanwhile)", _blames(found)
        yield "At the end of the chain: where a holder waits itself, whoever it waits for", _roots(found)
    yield "Try-locks", _tries(found)
    yield "Lines that (nearly) never run with one thread (effects per I/O)", _lines(found)
    yield "The same without one mechanism", _what_ifs(found)


def _table(*columns: str, text: int = 1) -> Table:
    """A table whose first `text` columns are words and whose others are figures."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for number, column in enumerate(columns):
        if number < text:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


def _budget(found: Explanation) -> Table:
    runs: list[RunSummary] = [run for run in (found.run, found.same, found.alone) if run is not None]
    if len(runs) == 1:
        table = _table("", "what", "1 thread", text=2)
    else:
        table = _table(
            "", "what", f"{found.cell.threads} threads", "1, same blocks", "1 alone", "more than same", text=2
        )
    for group in GROUPS:
        _add_group(table, group, [run.budget for run in runs])
    table.add_row("all", "", *_figures([total(run.budget) for run in runs]), style="bold")
    _add_group(table, DAEMONS, [run.daemons for run in runs])
    return table


def _add_group(table: Table, group: str, budgets: Sequence[Budget]) -> None:
    """Add the sum of a group and its items, the small ones summed up."""
    items = {item for budget in budgets for item in budget if item.group == group}
    if not items:
        return
    sums = [total(budget, group) for budget in budgets]
    table.add_row(_TITLES[group], "", *_figures(sums), style="bold")
    ordered = sorted(items, key=lambda item: (-budgets[0].get(item, 0.0), item.kind, item.what))
    shown = [item for item in ordered if max(budget.get(item, 0.0) for budget in budgets) >= SHOWN_OF_GROUP * max(sums)]
    for item in shown:
        table.add_row("", _named(item), *_figures([budget.get(item, 0.0) for budget in budgets]))
    if rest := [item for item in ordered if item not in shown]:
        figures = [sum(budget.get(item, 0.0) for item in rest) for budget in budgets]
        table.add_row("", "the rest", *_figures(figures), style="dim")


def _named(item: Item) -> str:
    return {"polled write": f"{item.what}, polled write", "timer": f"timer in {item.what}"}.get(item.kind, item.what)


def _figures(nanoseconds: Sequence[float]) -> list[str]:
    figures = [f"{value / 1000:,.2f}" if value else "" for value in nanoseconds]
    if len(nanoseconds) > 1:
        difference = nanoseconds[0] - nanoseconds[1]
        figures.append(f"{difference / 1000:+,.2f}" if abs(difference) >= 5 else "")
    return figures


def _locks(found: Explanation) -> Table:
    table = _table("lock", "I/Os", "demote", "an I/O", "wait", "wait µs", "hold µs", "hand-over", "of hold")
    table.columns[0].no_wrap = True
    table.collapse_padding, table.pad_edge = True, False  # it just fits into 100 columns
    for lock in found.locks:
        if not lock.share_of_ios and not lock.contended:
            continue
        table.add_row(
            f"{lock.lock} {lock.mode.replace('exclusive', 'excl.')}",
            f"{lock.share_of_ios:.0%}",
            f"{lock.demoted_share:.0%}" if lock.demoted_share else "",
            f"{lock.per_io:.2f}",
            f"{lock.contended:.1%}" if lock.contended else "",
            f"{lock.wait_ns / 1000:,.1f}" if lock.contended else "",
            f"{lock.hold_ns / 1000:,.1f}",
            f"{lock.handover_ns / 1000:,.1f}" if lock.contended else "",
            f"{lock.handover_share_of_hold:.0%}" if lock.handover_share_of_hold else "",
        )
    return table


def _blames(found: Explanation) -> Table:
    table = _table("waits for", "held", "the holder", "share", "begun", text=3)
    whole = found.blames.total_ns or 1
    begun = sum(blame.begun for blame in found.blames.direct) or 1
    rest = [0, 0]
    for blame in found.blames.direct:
        if blame.waited_ns < SHOWN_SHARE * whole and blame.begun < 0.05 * begun:
            rest[0] += blame.waited_ns
            rest[1] += blame.begun
            continue
        wanted = f"{blame.lock} {blame.wanted}".strip()
        table.add_row(
            wanted, blame.held or "-", blame.phase.text, f"{blame.waited_ns / whole:.1%}", f"{blame.begun / begun:.1%}"
        )
    if any(rest):
        table.add_row("the rest", "", "", f"{rest[0] / whole:.1%}", f"{rest[1] / begun:.1%}", style="dim")
    return table


def _roots(found: Explanation) -> Table:
    table = _table("who is at the end", "share", "µs an I/O")
    whole = found.blames.total_ns or 1
    rest = 0
    for root, time in found.blames.roots.items():
        if time < SHOWN_SHARE * whole:
            rest += time
            continue
        table.add_row(root.text, f"{time / whole:.1%}", f"{time / found.run.ios / 1000:,.2f}")
    if rest:
        table.add_row("the rest", f"{rest / whole:.1%}", f"{rest / found.run.ios / 1000:,.2f}", style="dim")
    return table


def _tries(found: Explanation) -> Table:
    table = _table("line", "lock", "an I/O", "failed", "of the tries", text=2)
    for tries in found.tries:
        share = tries.failed_per_io / tries.per_io if tries.per_io else 0.0
        where = f"{tries.place.function}, {Path(tries.place.file).name}:{tries.place.line}"
        table.add_row(where, tries.lock, f"{tries.per_io:.3f}", f"{tries.failed_per_io:.4f}", f"{share:.1%}")
    return table


def _lines(found: Explanation) -> Table:
    table = _table("where", "line", f"{found.cell.threads} threads", "1, same blocks", "1 alone", text=2)
    for line in found.lines[:MOST_LINES]:
        where = f"{line.place.function}:{line.place.line}"
        table.add_row(where, Text(line.place.text), *(f"{count:.4f}" for count in (line.cell, line.same, line.alone)))
    if len(found.lines) > MOST_LINES:
        table.add_row(f"and {len(found.lines) - MOST_LINES} more", "", "", "", "", style="dim")
    return table


def _what_ifs(found: Explanation) -> Table:
    table = _table("what if", "IOPS", "times")
    for what_if in found.what_ifs:
        if what_if.iops is None:
            table.add_row(Text(f"{what_if.change}: {what_if.remark}"), "-", "-")
        else:
            table.add_row(Text(what_if.change), f"{what_if.iops:,.0f}", f"{what_if.iops / found.run.iops:.2f}")
    return table
