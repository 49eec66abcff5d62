"""The report on the terminal: summary first, then the tables behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from fssim.console import terminal
from fssim.experiment.analysis import NOTICEABLE, Breakdown, UnknownResult
from fssim.experiment.claims import ClaimResult
from fssim.experiment.comparison import ChangeResult, Comparison, ErrorSummary
from fssim.experiment.definition import Grid
from fssim.experiment.report import Report, size_text, summary, worth_text
from fssim.experiment.tables import Key
from fssim.report.lock_stat import compact_lock_stat

Titled = tuple[str, list[RichTable]]
"""A title and a table, in as many blocks of columns as the width of the console asks for."""

WIDTH_WITHOUT_TERMINAL = 120  # a pipe or a log file has no width
BETWEEN_COLUMNS = 3  # a blank on both sides of a column, and one between two of them
SMALLEST_BREAKDOWN_COLUMN = 22  # what limits is said in words
MOST_CELLS_OF_AN_UNKNOWN = 24  # the largest differences; more is for the page
WIDEST_FIGURE = 26  # of a claim, in characters
NO_VERDICT = "-"
HOLDS = {True: "holds", False: "MISSED", None: "not run"}
STYLES = {True: "green", False: "red", None: "dim"}


def print_report(report: Report, folder: Path, console: Console | None = None) -> None:
    """Print everything, in the order in which a person wants to know it.  No number is ever cut to the width."""
    console = console or terminal(WIDTH_WITHOUT_TERMINAL)
    console.print(_summary(report))
    for section in (_matrices, _cases, _worth, _ratios, _comparisons, _calibration, _unknowns, _breakdown):
        for titled in section(report, console.width):
            _print_titled(console, titled)
    for breakdown in report.findings.breakdowns:
        if breakdown.label in report.before_and_after:
            _print_locks(console, report, breakdown)
    if report.findings.claims:
        print_claims([(report.experiment.name, report.findings.claims)], console)
    outcome = report.outcome
    console.print(
        f"\n{outcome.finished} of {outcome.planned} cells, {outcome.events:,} events in {outcome.seconds:.1f} s; "
        f"engine {report.engine}, seed {report.experiment.definition.run.seed}; results in",
        highlight=False,
    )
    console.print(str(folder), highlight=False, soft_wrap=True, markup=False)  # a path that can be copied


def _print_titled(console: Console, titled: Titled) -> None:
    """Print a title and its table; rich would break a title to the width of a narrow table."""
    title, tables = titled
    console.print(f"\n{title}", style="bold", highlight=False, overflow="fold", markup=False)
    for table in tables:
        console.print(table)


def _summary(report: Report) -> Panel:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold", overflow="fold")
    grid.add_column(overflow="fold")
    for sentence in summary(report):
        grid.add_row(sentence.about, Text(sentence.text))
    return Panel(grid, title=f"{report.experiment.name} on {report.experiment.machine.name}", box=box.ROUNDED)


def _matrix(
    grid: Grid, pattern: str, cell: Callable[[Key], Text | str], width: int, label: str = ""
) -> list[RichTable]:
    """A table with a row a block size and a column a number of threads, in blocks of columns that fit the width."""
    sizes = [size_text(size) for size in grid.block_sizes_bytes]
    columns = [[cell(Key(pattern, size, count)) for size in grid.block_sizes_bytes] for count in grid.threads]
    left = 1 + _taken(["threads", *sizes]) + (_taken([label]) if label else 0)
    widths = [_taken([str(count), *cells]) for count, cells in zip(grid.threads, columns, strict=True)]
    tables = []
    for block in _blocks(widths, width - left):
        table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1))
        table.add_column("threads", no_wrap=True)
        if label:
            table.add_column(no_wrap=True, style="dim")
        for number in block:
            table.add_column(str(grid.threads[number]), justify="right", no_wrap=True)
        for row, size in enumerate(sizes):
            table.add_row(size, *([label] if label else []), *(columns[number][row] for number in block))
        tables.append(table)
    return tables


def _taken(cells: Iterable[Text | str]) -> int:
    """How much of a line a column takes."""
    return max(len(line) for cell in cells for line in str(cell).split("\n")) + BETWEEN_COLUMNS


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Divide columns into blocks that fit; a column that does not fit is a block of its own."""
    blocks: list[list[int]] = [[]]
    for number, width in enumerate(widths):
        if blocks[-1] and sum(widths[n] for n in blocks[-1]) + width > room:
            blocks.append([])
        blocks[-1].append(number)
    return blocks


def _matrices(report: Report, width: int) -> Iterable[Titled]:
    grid = report.experiment.definition.grid
    if grid is None:
        return
    for variant in report.experiment.definition.variants:
        for pattern in grid.patterns:

            def cell(key: Key, filesystem: str = variant.filesystem) -> str:
                result = report.outcome.cells.get((filesystem, key))
                return f"{result.iops.value:,.0f}" if result else "-"

            title = f"Predicted IOPS: {variant.filesystem}, {pattern}"
            yield title, _matrix(grid, pattern, cell, width)


def _cases(report: Report, width: int) -> Iterable[Titled]:
    """A row a case."""
    if report.experiment.definition.grid is not None:
        return
    table = RichTable(box=box.SIMPLE_HEAD)
    table.add_column("case", overflow="fold")
    table.add_column("filesystem", overflow="fold")
    for title in ("IOPS", "± %", "MB/s"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("what limits", overflow="fold")
    for breakdown in report.findings.breakdowns:
        result = report.outcome.cells[breakdown.label, breakdown.key]
        iops = result.iops
        table.add_row(
            breakdown.label,
            result.filesystem,
            f"{iops.value:,.0f}",
            f"{iops.half_width_percent:.1f}",
            f"{iops.value * result.key.block_size_bytes / 1e6:,.0f}",
            breakdown.binding,
        )
    yield "Predicted, by case", [table]


def _worth(report: Report, width: int) -> Iterable[Titled]:
    """What every change is worth, if there are several."""
    grid = report.experiment.definition.grid
    if grid is None or len(report.findings.changes) < 2:
        return
    table = RichTable(box=box.SIMPLE_HEAD)
    table.add_column("change", overflow="fold")
    for pattern in grid.patterns:
        table.add_column(pattern, justify="right", no_wrap=True)
    for found in report.findings.changes:
        table.add_row(found.change.name, *(worth_text(found, pattern) for pattern in grid.patterns))
    yield "What every change is worth: ratio of IOPS, median (smallest to largest) over the cells", [table]


def _ratios(report: Report, width: int) -> Iterable[Titled]:
    grid = report.experiment.definition.grid
    for found in report.findings.changes:

        def cell(key: Key, found: ChangeResult = found) -> Text:
            ratio = found.ratios.get(key)
            if ratio is None:
                return Text("-")
            text = Text(f"{ratio.value:.2f}", style=_direction_style(ratio.low, ratio.high))
            measured = found.measured_ratios.get(key)
            text.append(f"\n±{(ratio.high - ratio.low) / 2:.2f}", style="dim")
            text.append(f"\n{measured:.2f}" if measured is not None else "\n-", style="dim")
            return text

        if grid is None:
            return
        for pattern in grid.patterns:
            if any(key.pattern == pattern for key in found.ratios):
                title = f"Ratio of IOPS: {found.change.after} / {found.change.before}, {pattern}"
                yield title, _matrix(grid, pattern, cell, width, "predicted\n95 % int.\nmeasured")


def _unknowns(report: Report, width: int) -> Iterable[Titled]:
    """What is predicted for every value of something unknown, where that makes a difference."""
    for found in report.findings.unknowns:
        yield _unknown_title(found), list(_alternatives(found.names, found.cells, width))
        if found.claims:
            rows = [
                [claim.text, claim.measured, *(_judged(claim, name, found.names[0]) for name in found.names)]
                for claim in found.claims
            ]
            table = RichTable(box=box.SIMPLE_HEAD)
            for title in ("claim", "measured", *found.names):
                table.add_column(title, overflow="fold")
            for row in rows:
                table.add_row(*row)
            yield f"Claims that depend on {found.unknown.name}", [table]


def _unknown_title(found: UnknownResult) -> str:
    return (
        f"Not known: {found.unknown.name}; {found.unknown.why}. {len(found.cells)} of {found.concerned} cells differ "
        f"by more than {NOTICEABLE:.0%}"
    )


def _alternatives(
    names: Sequence[str], cells: Mapping[tuple[str, Key], Sequence[float | None]], width: int
) -> Iterable[RichTable]:
    if not cells:
        return
    table = RichTable(box=box.SIMPLE_HEAD)
    table.add_column("IOPS", overflow="fold")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    for number, ((label, key), rates) in enumerate(cells.items()):
        if number == MOST_CELLS_OF_AN_UNKNOWN:
            table.add_row(f"and {len(cells) - number} more, in report.html")
            break
        table.add_row(name_text(label, key), *("-" if rate is None else f"{rate:,.0f}" for rate in rates))
    yield table


def _judged(claim: ClaimResult, name: str, as_is: str) -> str:
    found = claim if name == as_is else claim.alternatives.get(name, claim)
    return f"{found.found}: {HOLDS[found.holds]}"


def name_text(label: str, key: Key) -> str:
    """Call a cell by the name that its experiment gives it, as people say it."""
    pattern, size, threads = key
    return f"{label}: {pattern} {size_text(size)} x {threads}"


def _direction_style(low: float, high: float) -> str:
    return "green" if low > 1 else "red" if high < 1 else ""


def _comparisons(report: Report, width: int) -> Iterable[Titled]:
    grid = report.experiment.definition.grid
    for comparison in report.findings.comparisons:

        def cell(key: Key, comparison: Comparison = comparison) -> Text:
            if key not in comparison.measured:
                return Text("-")
            error = comparison.error_percent[key]
            text = Text(f"{comparison.predicted[key]:,.0f}\n{comparison.measured[key]:,.0f}\n")
            return text.append(
                f"{error:+.1f} %", style="red" if abs(error) > 15 else "yellow" if abs(error) > 5 else ""
            )

        assert grid is not None
        title = f"Predicted and measured IOPS ({comparison.role}): {comparison.filesystem}, {comparison.pattern}"
        title += f"; {comparison.reference.label}, {comparison.reference.reference.source}"
        yield title, _matrix(grid, comparison.pattern, cell, width, "predicted\nmeasured\nerror")


def _calibration(report: Report, width: int) -> Iterable[Titled]:
    """Errors of every table beside what no model has to beat, and what every model should."""
    rule = report.experiment.definition.trivial_rule
    names = ("cells", "fssim", f"rule '{rule.name}'" if rule else "rule", "repeat noise")
    rows = [
        (
            (comparison.reference.label, comparison.pattern, comparison.role),
            (
                str(comparison.summary.cells),
                errors_text(comparison.summary),
                errors_text(comparison.trivial),
                errors_text(report.findings.noise.get(comparison.pattern)),
            ),
        )
        for comparison in report.findings.comparisons
    ]
    if not rows:
        return
    about = ("measured table", "pattern", "role")
    whole = [_taken(column) for column in zip((*about, *names), *((*a, *b) for a, b in rows), strict=True)]
    table = RichTable(box=box.SIMPLE_HEAD)
    if 1 + sum(whole) <= width:
        for name in about:
            table.add_column(name, no_wrap=True)
        for name in names:
            table.add_column(name, no_wrap=True, justify="right")
        for words, numbers in rows:
            table.add_row(*words, *numbers)
    else:  # the words of a row and its three errors are below each other
        table.add_column("measured table", overflow="fold")
        table.add_column(width=len("median"))
        for name, column in zip(names, zip(*(numbers for _, numbers in rows), strict=True), strict=True):
            numbers_width = max(len(part) for text in column for part in text.split(" / "))
            word_width = max(map(len, name.split())) if len(name) < 30 else 0
            table.add_column(name, width=max(numbers_width, word_width), justify="right", overflow="fold")
        for words, numbers in rows:
            table.add_row("\n".join(words), "median\np90\nmax", *(text.replace(" / ", "\n") for text in numbers))
    yield "Absolute error in per cent: median / p90 / max", [table]


def errors_text(found: ErrorSummary | None) -> str:
    """Write three errors as one short text."""
    if found is None:
        return "-"
    return " / ".join(
        f"{error:.1f}" if error < 99.95 else f"{error:.0f}" for error in (found.median, found.p90, found.max)
    )


def _breakdown(report: Report, width: int) -> Iterable[Titled]:
    """Thread time of an I/O by what it is spent on, a column a filesystem, and what limits."""
    title = "Where the time of an I/O goes, in µs"
    if report.cell is not None:
        pattern, size, threads = report.cell
        title += f": {pattern}, {size_text(size)}, {threads} threads"
    breakdowns = report.findings.breakdowns
    if not breakdowns:
        return
    resources = [f"{name} busy" for b in breakdowns for name in b.utilisation]
    room = width - 1 - _taken([*_categories(breakdowns), *resources, "what limits"])
    most = max(1, min(len(breakdowns), room // (SMALLEST_BREAKDOWN_COLUMN + BETWEEN_COLUMNS)))
    blocks = [breakdowns[first : first + most] for first in range(0, len(breakdowns), most)]
    yield title, [_breakdown_block(block, room // most - BETWEEN_COLUMNS) for block in blocks]


def _breakdown_block(breakdowns: Sequence[Breakdown], most: int) -> RichTable:
    """A column a filesystem, none wider than `most` unless its numbers are."""
    table = RichTable(box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    categories = _categories(breakdowns)
    for breakdown in breakdowns:
        numbers = max((len(_share(breakdown, category)) for category in categories), default=0)
        words = max(len(breakdown.label), len(breakdown.binding))
        table.add_column(breakdown.label, justify="right", overflow="fold", width=max(numbers, min(words, most)))
    for category in categories:
        table.add_row(category, *(_share(breakdown, category) for breakdown in breakdowns))
    table.add_row("together", *(f"{sum(b.per_io_ns.values()) / 1000:,.1f}      " for b in breakdowns), end_section=True)
    for resource in dict.fromkeys(name for b in breakdowns for name in b.utilisation):
        table.add_row(f"{resource} busy", *(_percent(b.utilisation.get(resource)) for b in breakdowns))
    table.add_row("what limits", *(b.binding for b in breakdowns))
    return table


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
    locks = report.outcome.cells[breakdown.label, breakdown.key].locks
    console.print(
        f"\nLocks, times in µs: {breakdown.label}, {pattern}, {size_text(size)}, {threads} threads",
        style="bold",
        highlight=False,
    )
    console.print(compact_lock_stat(locks, console.width), highlight=False, soft_wrap=True, markup=False)


def print_claims(claims: Sequence[tuple[str, Sequence[ClaimResult]]], console: Console | None = None) -> None:
    """Print one table of the claims of experiments, with the reason why one is missed."""
    console = console or terminal(WIDTH_WITHOUT_TERMINAL)
    results = [claim for _, some in claims for claim in some]
    table = RichTable(box=box.SIMPLE_HEAD, expand=True)
    table.add_column("", no_wrap=True)
    table.add_column("claim", overflow="fold", ratio=1)
    for title, texts in (
        ("measured", [claim.measured for claim in results]),
        ("predicted", [claim.found for claim in results]),
    ):
        widest = max(map(len, [title, *texts]))
        table.add_column(title, overflow="fold", width=min(widest, WIDEST_FIGURE, console.width // 4))
    for name, some in claims:
        if len(claims) > 1 and some:
            table.add_row("", Text(name, style="bold"))
        for claim in some:
            text = Text(claim.text)
            text.append(f" ({claim.role})" if claim.role else "", style="dim")
            if claim.holds is False or (claim.holds is None and claim.reason):
                text.append(f"\nwhy: {claim.reason or 'not known'}", style="dim")
            word = Text(NO_VERDICT if claim.holds is None else HOLDS[claim.holds], style=STYLES[claim.holds])
            table.add_row(word, text, claim.measured, claim.found)
        table.add_section()
    _print_titled(console, ("Claims", [table]))
    holds = [claim.holds for claim in results]
    right, wrong, rest = (holds.count(verdict) for verdict in (True, False, None))
    console.print(f"{right} of {len(holds)} claims hold, {wrong} missed, {rest} without a verdict", highlight=False)
