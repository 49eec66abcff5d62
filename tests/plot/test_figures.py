"""Figures show everything: no text is cut off, numbers are in the cells, the same data give the same file."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from fssim.plot.bars import TimePerIo
from fssim.plot.dots import MeasuredFigure, MeasuredFigures
from fssim.plot.heatmap import MatrixComparison, RatioMatrix
from fssim.plot.scaling import Curve, ScalingCurves
from fssim.plot.spans import Hold, Span
from fssim.plot.style import Drawable, is_dark, render, short_number
from fssim.plot.timeline import Lanes, LockTimeline

ROWS, COLUMNS = ("512 B", "16 KiB"), ("1", "2", "128")
PREDICTED = np.array([[37_000.0, 34_000.0, 616_231.0], [4_698.0, np.nan, 39_000.0]])
LONG = "xfs-2.6.39+shared-read-lock"


def curve(label: str, **options: bool) -> Curve:
    iops = {1: 1_000.0, 2: 2_000.0, 128: 90_000.0}
    return Curve(label, iops, iops, {n: 1.1 * v for n, v in iops.items()}, {1: 1_050.0}, **options)


FIGURES: tuple[Drawable, ...] = (
    MatrixComparison("m", "c", f"{LONG}, seqrd (a prediction)", ROWS, COLUMNS, PREDICTED, PREDICTED * 1.2),
    RatioMatrix("r", "c", "IOPS after / before, seqrd", ROWS, COLUMNS, PREDICTED / 1e4, PREDICTED / 2e4),
    RatioMatrix("r", "c", "IOPS after / before", ROWS, COLUMNS, PREDICTED / 1e4, np.full((2, 3), np.nan)),
    ScalingCurves(
        "s",
        "c",
        "IOPS over threads, seqrd",
        tuple((size, (curve("xfs-2.6.39"), curve(LONG), curve("ext4-3.0", secondary=True))) for size in ROWS * 3),
        "± 4%, the 90th percentile of the calibration error",
    ),
    ScalingCurves(  # a legend of many lines
        "s",
        "c",
        "IOPS over threads, seqwr",
        tuple((size, tuple(curve(f"{LONG} {n}") for n in range(6))) for size in ROWS * 3),
        "± 4%, the 90th percentile of the calibration error",
    ),
    MeasuredFigures(
        "f",
        "c",
        "Predicted over measured",
        (
            MeasuredFigure("short", 1.1, 0.8, 1.2, "110 / 100"),
            MeasuredFigure(
                "a claim that is long enough to need two lines, or even three of them, " * 2, 9, 0, 2, "9 / 1"
            ),
            MeasuredFigure("no upper bound", 0.3, 0.9, float("inf"), "30 / 100"),
        ),
    ),
    TimePerIo(
        "t",
        "c",
        "Where the time of an I/O goes: seqrd, 4 KiB, 16 threads",
        ("xfs-2.6.39", LONG),
        (
            {"cpu": 6e3, "device": 9e4, "wakeup": 4e3, "wait Inode.i_mutex": 7e5, "wait Inode.iolock exclusive": 5e4},
            {"cpu": 6e3, "device": 9e4, "wakeup": 4e3, "ready": 1e4, "wait Inode.iolock shared": 1e4},
        ),
    ),
    LockTimeline(
        "l",
        "c",
        "What two threads do: seqrd, 4 KiB",
        100_000,
        tuple(
            Lanes(
                f"{LONG}: 3 reads complete in 100 µs",
                2,
                0,
                (
                    Span(0, 0, 60_000, "device"),
                    Span(0, 60_000, 100_000, "cpu"),
                    Span(1, 0, 10_000, "wait i_mutex"),
                    Span(1, 10_000, 60_000, "wait iolock exclusive"),
                    Span(1, 60_000, 100_000, "wakeup"),
                ),
                (Hold(0, 0, 60_000, "iolock", "shared"), Hold(1, 60_000, 100_000, "iolock", "exclusive")),
                "iolock",
            )
            for _ in range(2)
        ),
    ),
)


def texts(figure_as_data: Drawable) -> list[Text]:
    """All texts of a figure that are drawn, laid out."""
    figure = figure_as_data.draw()
    FigureCanvasAgg(figure).draw()
    found = list(figure.texts) + [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        if not axes.get_visible():
            continue
        found += [*axes.texts, axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            labels = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)
            found += [label for place, label in labels if low <= place <= high]
    return [text for text in found if text.get_visible() and text.get_text()]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: type(figure).__name__)
def test_no_text_is_cut_off(figure: Drawable) -> None:
    drawn = texts(figure)
    assert drawn
    for text in drawn:
        box, canvas = text.get_window_extent(), text.get_figure().bbox
        assert box.x0 >= canvas.x0, text
        assert box.x1 <= canvas.x1, text
        assert box.y0 >= canvas.y0, text
        assert box.y1 <= canvas.y1, text


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: type(figure).__name__)
def test_the_same_figure_gives_the_same_files(figure: Drawable) -> None:
    name, png, svg = render(figure)
    assert name == figure.name
    assert (name, png, svg) == render(figure)
    ElementTree.fromstring(svg)


def test_the_numbers_of_a_matrix_are_in_its_cells() -> None:
    shown = [text.get_text() for text in texts(FIGURES[0])]
    assert {"616k", "4.7k", "739k", "-16.7", "block size", "threads", "error in %"} <= set(shown)
    assert shown.count("-16.7") == 5  # the sixth cell was not run


def test_the_timeline_says_whose_read_an_exclusive_lock_waits_for() -> None:
    assert "for thread 0's read" in [text.get_text() for text in texts(FIGURES[-1])]


def test_bars_are_labelled_with_their_sum() -> None:
    assert "850.0" in [text.get_text() for text in texts(FIGURES[-2])]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (999.4, "999"),
        (999.6, "1.0k"),
        (8912, "8.9k"),
        (99_960, "100k"),
        (999_600, "1.0M"),
        (1_234_567, "1.2M"),
    ],
)
def test_short_numbers_have_at_most_four_characters(value: float, text: str) -> None:
    assert short_number(value) == text


def test_ink_is_white_on_dark_colours_only() -> None:
    assert is_dark("#000000")
    assert is_dark((0.2, 0.0, 0.3, 1.0))
    assert not is_dark("#F0E442")
