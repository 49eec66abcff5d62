"""Where the time of an I/O goes: one stacked bar a filesystem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fssim.plot.style import GREY, STATE_LABELS, YELLOW, is_dark, new_figure, state_colour, state_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FURTHER_LOCKS = (YELLOW, "#882255", "#44AA99", "#DDCC77", "#332288")  # Tol, "Colour schemes", 2021, after Okabe and Ito
SMALLEST_LABELLED = 0.06  # of the longest bar: less has no room for a number


@dataclass(frozen=True)
class TimePerIo:
    """Thread time of an I/O by category in nanoseconds, a bar each; `labels` are the bars' names."""

    name: str
    caption: str
    title: str
    labels: tuple[str, ...]
    per_io_ns: tuple[dict[str, float], ...]

    def draw(self) -> Figure:
        """Horizontal bars on one scale."""
        figure = new_figure(10.0, 1.55 + 0.55 * len(self.labels))
        height = figure.get_figheight()
        axis = figure.add_axes((0.22, 1.05 / height, 0.75, 1 - 1.5 / height))
        figure.suptitle(self.title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        longest = max(sum(parts.values()) for parts in self.per_io_ns) / 1000
        waits = sorted({name for parts in self.per_io_ns for name in parts if name.startswith("wait ")})
        ends = [0.0] * len(self.labels)
        used: set[str] = set()
        for category in [*STATE_LABELS, *waits]:
            values = [parts.get(category, 0.0) / 1000 for parts in self.per_io_ns]
            if max(values) < longest * 0.002:
                continue
            # A second lock in the same mode needs another colour.
            colours = (state_colour(category), *(FURTHER_LOCKS if category in waits else ()))
            colour = next((each for each in colours if each not in used), GREY)
            used.add(colour)
            label = state_label(category)
            axis.barh(self.labels, values, left=ends, color=colour, label=label, edgecolor="white", linewidth=0.6)
            for row, value in enumerate(values):
                if value > SMALLEST_LABELLED * longest:
                    ink = "white" if is_dark(colour) else "black"
                    middle = ends[row] + value / 2
                    axis.text(middle, row, f"{value:.1f}", ha="center", va="center", fontsize=8, color=ink)
                ends[row] += value
        for row, end in enumerate(ends):
            axis.text(end + longest * 0.008, row, f"{end:.1f}", va="center", fontsize=8.5, fontweight="bold")
        axis.set_xlim(0, longest * 1.07)
        axis.invert_yaxis()
        axis.set_xlabel("time of one I/O in µs")
        axis.tick_params(axis="y", length=0)
        figure.legend(*axis.get_legend_handles_labels(), loc="lower center", ncols=4, frameon=False, fontsize=8.5)
        return figure
