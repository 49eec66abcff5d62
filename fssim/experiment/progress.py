"""The progress bar: cell i of n, events a second, time left.  Silent unless standard error is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fssim.experiment.runner import Outcome


@contextmanager
def show_progress(cells: int) -> Iterator[Callable[[Outcome], None]]:
    """Yield what to call after every cell."""
    if not sys.stderr.isatty():
        yield lambda outcome: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("cell {task.completed:.0f} of {task.total:.0f}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=cells, rate="")

    def advance(outcome: Outcome) -> None:
        bar.start()  # not earlier: the bar has a thread, and processes are better forked without
        rate = outcome.events / outcome.seconds / 1e6 if outcome.seconds else 0.0
        done = outcome.finished + len(outcome.failures)
        bar.update(task, completed=done, rate=f"{rate:.1f} M events/s")

    try:
        yield advance
    finally:
        bar.stop()
