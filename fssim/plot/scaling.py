"""Scaling curves: IOPS over threads, a panel a block size, with measured points and bands for the prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fssim.plot.style import LINES, new_figure, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^v<"
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1.2)))  # of every further round of colours
LEGEND_COLUMNS = 3


@dataclass(frozen=True)
class Curve:
    """One filesystem and block size.  `predicted`, `low`, `high` and `measured` map threads to IOPS.

    A `secondary` curve is drawn thin and without its band.
    """

    label: str
    predicted: dict[int, float]
    low: dict[int, float]
    high: dict[int, float]
    measured: dict[int, float]
    secondary: bool = False


@dataclass(frozen=True)
class ScalingCurves:
    """Curves by panel; panels are named by their block size."""

    name: str
    caption: str
    title: str
    panels: tuple[tuple[str, tuple[Curve, ...]], ...]
    band: str

    def draw(self) -> Figure:
        """Small multiples with common axes."""
        columns = min(3, len(self.panels))
        rows = -(-len(self.panels) // columns)
        entries = sum(1 + bool(curve.measured) for curve in self.panels[0][1])
        legend = 0.2 * -(-entries // LEGEND_COLUMNS)  # inches
        figure = new_figure(0.9 + 3.6 * columns, 1.3 + 2.4 * rows + legend - 0.4)
        height = figure.get_figheight()
        figure.subplots_adjust(
            left=0.75 / figure.get_figwidth(),
            right=0.985,
            top=1 - 0.62 / height,
            bottom=(0.6 + legend) / height,
            hspace=0.28,
            wspace=0.08,
        )
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        figure.suptitle(self.title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        for axis, (panel, curves) in zip(axes.flat, self.panels, strict=False):
            axis.set_title(panel, loc="left", fontsize=9)
            for number, curve in enumerate(curves):
                colour, marker = LINES[number % len(LINES)], MARKERS[number % len(MARKERS)]
                _draw_curve(axis, curve, colour, marker, DASHES[number // len(LINES) % len(DASHES)])
            _scales(
                axis, sorted({threads for _, all_curves in self.panels for c in all_curves for threads in c.predicted})
            )
        for axis in axes.flat[len(self.panels) :]:
            axis.set_visible(False)
        for axis in axes[:, 0]:
            axis.set_ylabel("IOPS")
        for axis in axes[-1, :]:
            axis.set_xlabel("threads")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.text(0.985, 1 - 0.22 / height, f"band: {self.band}", ha="right", fontsize=8.5, color="#444444")
        figure.legend(handles, labels, loc="lower center", ncols=LEGEND_COLUMNS, frameon=False, fontsize=8.5)
        return figure


def _draw_curve(axis: Axes, curve: Curve, colour: str, marker: str, dashes: Any) -> None:
    threads = sorted(curve.predicted)
    predicted = [curve.predicted[n] for n in threads]
    line = {"linewidth": 1.0, "linestyle": "--"} if curve.secondary else {"linewidth": 1.7, "linestyle": dashes}
    if not curve.secondary:
        low, high = [curve.low[n] for n in threads], [curve.high[n] for n in threads]
        axis.fill_between(threads, low, high, color=colour, alpha=0.2, linewidth=0)
    axis.plot(threads, predicted, color=colour, label=f"{curve.label}, predicted", **line)
    if curve.measured:
        points = sorted(curve.measured)
        axis.plot(
            points,
            [curve.measured[n] for n in points],
            linestyle="none",
            marker=marker,
            markersize=3.5 if curve.secondary else 5,
            markerfacecolor="white",
            markeredgecolor=colour,
            markeredgewidth=1.2,
            label=f"{curve.label}, measured",
        )


def _scales(axis: Axes, threads: list[int]) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(threads, [str(n) for n in threads])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value).replace(".0", "")))
    axis.yaxis.set_minor_locator(NullLocator())  # minor ticks would be half of the time of drawing
    axis.grid(True, which="major", color="#E4E4E4", linewidth=0.7)
    axis.set_axisbelow(True)
