"""Single measured figures on one scale: predicted over measured, with what is allowed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING

from fssim.plot.style import BLUE, LIGHT_GREY, VERMILLION, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHARACTERS_OF_A_LABEL = 58
INCHES_OF_A_LINE = 0.2


@dataclass(frozen=True)
class MeasuredFigure:
    """One figure: `ratio` is predicted over measured, right from `low` to `high`; `text`: both numbers."""

    label: str
    ratio: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class MeasuredFigures:
    """A row a figure."""

    name: str
    caption: str
    title: str
    figures: tuple[MeasuredFigure, ...]

    def draw(self) -> Figure:
        """Dots on a logarithmic axis; what is allowed is a grey bar, what misses it is red."""
        labels = [fill(figure.label, CHARACTERS_OF_A_LABEL) for figure in self.figures]
        lines = [label.count("\n") + 1 for label in labels]
        rows = [sum(lines[:n]) + 0.5 * n + lines[n] / 2 for n in range(len(lines))]
        total = sum(lines) + 0.5 * len(lines)
        canvas = new_figure(12.0, 1.1 + INCHES_OF_A_LINE * total)
        height = canvas.get_figheight()
        axis = canvas.add_axes((0.4, 0.55 / height, 0.44, 1 - 1.05 / height))
        canvas.suptitle(self.title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        reach = max(abs(math.log2(figure.ratio)) for figure in self.figures) + 0.4
        reach = max(reach, 1.2)
        for row, figure in zip(rows, self.figures, strict=True):
            low, high = max(figure.low, 2**-reach), min(figure.high, 2**reach)
            axis.fill_between([low, high], row - 0.4, row + 0.4, color=LIGHT_GREY, linewidth=0)
            right = figure.low <= figure.ratio <= figure.high
            axis.plot([figure.ratio], [row], "o" if right else "X", color=BLUE if right else VERMILLION, markersize=6)
            axis.text(1.015, row, figure.text, transform=axis.get_yaxis_transform(), va="center", fontsize=8.5)
        axis.axvline(1, color="#444444", linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.set_xlim(2**-reach, 2**reach)
        ticks = [value for value in (0.125, 0.25, 0.5, 0.8, 1.25, 2, 4, 8) if abs(math.log2(value)) < reach]
        axis.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axis.xaxis.set_minor_locator(_no_ticks())
        axis.set_yticks(rows, labels)
        axis.set_ylim(total, 0)
        axis.tick_params(axis="y", length=0, labelsize=8.5)
        axis.set_xlabel("predicted / measured")
        return canvas


def _no_ticks():  # type: ignore[no-untyped-def]
    from matplotlib.ticker import NullLocator

    return NullLocator()
