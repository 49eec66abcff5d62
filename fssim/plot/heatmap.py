"""Matrices as heat maps: predicted, measured and error side by side, with the numbers in the cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fssim.plot.style import is_dark, new_figure, short_number

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ERROR_SCALE_PERCENT = 20.0  # colours saturate here; the numbers say more
SMALLEST_RATIO_SCALE = 2.0  # so that a ratio of 1.05 does not look like a large one


@dataclass(frozen=True)
class MatrixComparison:
    """Predicted and measured IOPS of one filesystem and pattern.

    The arrays have a row a block size and a column a number of threads; cells not run or not measured are NaN.
    """

    name: str
    caption: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    predicted: np.ndarray
    measured: np.ndarray

    def draw(self) -> Figure:
        """Three panels: predicted, measured, error in per cent."""
        import numpy as np
        from matplotlib.colors import LogNorm, Normalize

        figure = new_figure(13.0, 1.3 + 0.38 * len(self.rows))
        top = 1 - 0.66 / figure.get_figheight()
        axes = figure.subplots(
            1,
            3,
            gridspec_kw={
                "left": 0.055,
                "right": 0.99,
                "top": top,
                "bottom": 0.56 / figure.get_figheight(),
                "wspace": 0.12,
            },
        )
        figure.suptitle(self.title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        both = np.concatenate([self.predicted[np.isfinite(self.predicted)], self.measured[np.isfinite(self.measured)]])
        norm = LogNorm(both.min(), both.max()) if both.max() > both.min() else Normalize(0, both.max())
        error = (self.predicted / self.measured - 1) * 100
        _panel(axes[0], self, self.predicted, "predicted IOPS", short_number, "viridis", norm)
        _panel(axes[1], self, self.measured, "measured IOPS", short_number, "viridis", norm)
        # Brown and purple stay apart for every kind of colour blindness.
        scale = Normalize(-ERROR_SCALE_PERCENT, ERROR_SCALE_PERCENT)
        _panel(axes[2], self, error, "error in %", lambda value: f"{value:+.1f}", "PuOr", scale)
        axes[0].set_ylabel("block size")
        for axis in axes[1:]:
            axis.set_yticklabels([])
        return figure


@dataclass(frozen=True)
class RatioMatrix:
    """IOPS after over before, predicted and, where there is a measurement, measured."""

    name: str
    caption: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    predicted: np.ndarray
    measured: np.ndarray

    def draw(self) -> Figure:
        """One or two panels."""
        import numpy as np
        from matplotlib.colors import LogNorm

        panels = [("predicted ratio", self.predicted)]
        if np.isfinite(self.measured).any():
            panels.append(("measured ratio", self.measured))
        width = 0.8 + 4.2 * len(panels)
        figure = new_figure(width, 1.3 + 0.38 * len(self.rows))
        top = 1 - 0.66 / figure.get_figheight()
        axes = np.atleast_1d(
            figure.subplots(
                1,
                len(panels),
                gridspec_kw={
                    "left": 0.72 / width,
                    "right": 0.985,
                    "top": top,
                    "bottom": 0.56 / figure.get_figheight(),
                    "wspace": 0.12,
                },
            )
        )
        figure.suptitle(self.title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        largest = max(np.nanmax(np.abs(np.log(values))) for _, values in panels if np.isfinite(values).any())
        largest = max(largest, np.log(SMALLEST_RATIO_SCALE))
        norm = LogNorm(np.exp(-largest), np.exp(largest))
        for axis, (title, values) in zip(axes, panels, strict=True):
            _panel(
                axis,
                self,
                values,
                title,
                lambda value: f"{value:.2f}" if value < 9.995 else f"{value:.1f}",
                "PuOr",
                norm,
            )
        axes[0].set_ylabel("block size")
        for axis in axes[1:]:
            axis.set_yticklabels([])
        return figure


def _panel(axis: Axes, matrix: MatrixComparison | RatioMatrix, values, title, text, colours, norm) -> None:  # type: ignore[no-untyped-def]
    """Draw one matrix with its numbers, dark on light and light on dark cells."""
    import matplotlib
    import numpy as np

    colour_map = matplotlib.colormaps[colours].with_extremes(bad="#EEEEEE")
    axis.imshow(np.ma.masked_invalid(values), cmap=colour_map, norm=norm, aspect="auto", interpolation="nearest")
    axis.set_title(title)
    axis.set_xticks(range(len(matrix.columns)), matrix.columns)
    axis.set_yticks(range(len(matrix.rows)), matrix.rows)
    axis.set_xlabel("threads")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "white" if is_dark(colour_map(norm(value))) else "black"
            axis.text(column, row, text(value), ha="center", va="center", fontsize=8, color=ink)
