"""The report on the terminal: summary first, then the tables behind it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from fssim.experiment.analysis import Breakdown, Comparison, ErrorSummary
from fssim.experiment.definition import Experiment
from fssim.experiment.report import Report, size_text, summary
from fssim.experiment.tables import Key
from fssim.report.lock_stat import compact_lock_stat

Titled = tuple[str, RichTable]

SMALLEST_WIDTH = 100  # the matrices need it; a narrower terminal breaks lines instead of losing figures
WIDTH_WITHOUT_TERMINAL = 120  # a pipe or a log file has no width


class _Terminal(Console):
    """A console that falls silent when its reader, such as `head`, has seen enough: the results are still written."""

    def on_broken_pipe(self) -> None:
        """Send what is still to come nowhere."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_report(report: Report, folder: Path) -> None:
    """Print everything, in the order in which a person wants to know it."""
    console = _Terminal()
    console.width = max(console.width, SMALLEST_WIDTH) if console.is_terminal else WIDTH_WITHOUT_TERMINAL
    console.print(_summary(report))
    for section in (_matrices, _ratios, _comparisons, _calibration, _breakdown):
        for titled in section(report):
            _print_titled(console, titled)
    for breakdown in report.findings.breakdowns:
        if breakdown.filesystem in (report.before, report.after):
            _print_locks(console, report, breakdown)
    for titled in _claims(report):
        _print_titled(console, titled)
    outcome = report.outcome
    console.print(
        f"\n{len(outcome.cells)} of {outcome.planned} cells, {outcome.events:,} events in {outcome.seconds:.1f} s; "
        f"engine {report.engine}, seed {report.experiment.definition.run.seed}; results in {folder}",
        highlight=False,
        soft_wrap=True,
    )


def _print_titled(console: Console, titled: Titled) -> None:
    """Print a title and its table; rich would break a title to the width of a narrow table."""
    title, table = titled
    console.print(f"\n{title}", style="bold", highlight=False, soft_wrap=True, markup=False)
    console.print(table)


def _summary(report: Report) -> Panel:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for sentence in summary(report):
        grid.add_row(sentence.about, Text(sentence.text))
    return Panel(grid, title=f"{report.experiment.name} on {report.experiment.machine.name}", box=box.ROUNDED)


def _matrix(experiment: Experiment, pattern: str, cell: Callable[[Key], Text | str], label: str = "") -> RichTable:
    """A table with a row a block size and a column a number of threads."""
    grid = experiment.definition.grid
    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("threads", no_wrap=True)
    if label:
        table.add_column(no_wrap=True, style="dim")
    for threads in grid.threads:
        table.add_column(str(threads), justify="right", no_wrap=True)
    for size in grid.block_sizes_bytes:
        cells = [cell(Key(pattern, size, threads)) for threads in grid.threads]
        table.add_row(size_text(size), *([label] if label else []), *cells)
    return table


def _matrices(report: Report) -> Iterable[Titled]:
    for variant in report.experiment.definition.variants:
        for pattern in report.experiment.definition.grid.patterns:

            def cell(key: Key, filesystem: str = variant.filesystem) -> str:
                result = report.outcome.cells.get((filesystem, key))
                return f"{result.iops.value:,.0f}" if result else "-"

            title = f"Predicted IOPS: {variant.filesystem}, {pattern}"
            yield title, _matrix(report.experiment, pattern, cell)


def _ratios(report: Report) -> Iterable[Titled]:
    if not report.findings.ratios:
        return

    def cell(key: Key) -> Text:
        ratio = report.findings.ratios.get(key)
        if ratio is None:
            return Text("-")
        text = Text(f"{ratio.value:.2f}", style=_direction_style(ratio.low, ratio.high))
        measured = report.findings.measured_ratios.get(key)
        text.append(f"\n±{(ratio.high - ratio.low) / 2:.2f}", style="dim")
        text.append(f"\n{measured:.2f}" if measured is not None else "\n-", style="dim")
        return text

    for pattern in report.experiment.definition.grid.patterns:
        title = f"Ratio of IOPS: {report.after} / {report.before}, {pattern}"
        yield title, _matrix(report.experiment, pattern, cell, "predicted\n95 % int.\nmeasured")


def _direction_style(low: float, high: float) -> str:
    return "green" if low > 1 else "red" if high < 1 else ""


def _comparisons(report: Report) -> Iterable[Titled]:
    for comparison in report.findings.comparisons:

        def cell(key: Key, comparison: Comparison = comparison) -> Text:
            if key not in comparison.measured:
                return Text("-")
            error = comparison.error_percent[key]
            text = Text(f"{comparison.predicted[key]:,.0f}\n{comparison.measured[key]:,.0f}\n")
            return text.append(
                f"{error:+.1f} %", style="red" if abs(error) > 15 else "yellow" if abs(error) > 5 else ""
            )

        role = "prediction" if comparison.is_prediction else "calibration"
        title = f"Predicted and measured IOPS ({role}): {comparison.filesystem}, {comparison.pattern}"
        title += f"; {comparison.reference.label}, {comparison.reference.reference.source}"
        yield title, _matrix(report.experiment, comparison.pattern, cell, "predicted\nmeasured\nerror")


def _calibration(report: Report) -> Iterable[Titled]:
    """Errors of every table beside what no model has to beat, and what every model should."""
    rule = report.experiment.definition.trivial_rule
    table = RichTable(box=box.SIMPLE_HEAD)
    for name in ("measured table", "pattern", "role"):
        table.add_column(name, no_wrap=True)
    for name in ("cells", "fssim", f"rule '{rule.name}'" if rule else "rule", "repeat noise"):
        table.add_column(name, no_wrap=True, justify="right")
    for comparison in report.findings.comparisons:
        table.add_row(
            comparison.reference.label,
            comparison.pattern,
            comparison.reference.reference.role,
            str(comparison.summary.cells),
            errors_text(comparison.summary),
            errors_text(comparison.trivial),
            errors_text(report.findings.noise.get(comparison.pattern)),
        )
    yield "Absolute error in per cent: median / p90 / max", table


def errors_text(found: ErrorSummary | None) -> str:
    """Write three errors as one short text."""
    if found is None:
        return "-"
    return " / ".join(
        f"{error:.1f}" if error < 99.95 else f"{error:.0f}" for error in (found.median, found.p90, found.max)
    )


def _breakdown(report: Report) -> Iterable[Titled]:
    """Thread time of an I/O by what it is spent on, a column a filesystem, and what limits."""
    pattern, size, threads = report.cell
    table = RichTable(box=box.SIMPLE_HEAD)
    table.add_column("")
    breakdowns = report.findings.breakdowns
    for breakdown in breakdowns:
        table.add_column(breakdown.filesystem, justify="right")
    for category in _categories(breakdowns):
        table.add_row(category, *(_share(breakdown, category) for breakdown in breakdowns))
    table.add_row("together", *(f"{sum(b.per_io_ns.values()) / 1000:,.1f}      " for b in breakdowns), end_section=True)
    for resource in dict.fromkeys(name for b in breakdowns for name in b.utilisation):
        table.add_row(f"{resource} busy", *(_percent(b.utilisation.get(resource)) for b in breakdowns))
    table.add_row("what limits", *(b.binding for b in breakdowns))
    yield f"Where the time of an I/O goes, in µs: {pattern}, {size_text(size)}, {threads} threads", table


def _categories(breakdowns: Sequence[Breakdown]) -> list[str]:
    return list(dict.fromkeys(name for breakdown in breakdowns for name in breakdown.per_io_ns))


def _share(breakdown: Breakdown, category: str) -> str:
    nanoseconds = breakdown.per_io_ns.get(category, 0.0)
    return (
        f"{nanoseconds / 1000:,.1f} {nanoseconds / sum(breakdown.per_io_ns.values()):4.0%}" if nanoseconds else "-     "
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _print_locks(console: Console, report: Report, breakdown: Breakdown) -> None:
    pattern, size, threads = breakdown.key
    locks = report.outcome.cells[breakdown.filesystem, breakdown.key].locks
    console.print(
        f"\nLocks, times in µs: {breakdown.filesystem}, {pattern}, {size_text(size)}, {threads} threads", style="bold"
    )
    console.print(compact_lock_stat(locks), highlight=False, soft_wrap=True, markup=False)


def _claims(report: Report) -> Iterable[Titled]:
    table = RichTable(box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    table.add_column("claim")
    table.add_column("found")
    for claim in report.findings.claims:
        word, style = {True: ("holds", "green"), False: ("MISSED", "red"), None: ("not run", "dim")}[claim.holds]
        table.add_row(Text(word, style=style), claim.text, claim.found)
    if report.findings.claims:
        yield "Claims", table
