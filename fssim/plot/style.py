"""What all figures share: colours that colour-blind people can tell apart, fonts, and rendering to PNG and SVG."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito, "Color Universal Design", 2008.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY, LIGHT_GREY = "#8A8A8A", "#DDDDDD"
LINES = (VERMILLION, BLUE, GREEN, PURPLE, ORANGE, SKY)
STATES = {"device": BLUE, "cpu": GREEN, "wakeup": GREY, "ready": LIGHT_GREY, "sleep": SKY}
STATE_LABELS = {
    "device": "device",
    "cpu": "running on a CPU",
    "wakeup": "being woken up",
    "ready": "waiting for a CPU",
    "sleep": "sleeping",
}
RESOLUTION_DPI = 130

_SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "none",  # text stays text: smaller files, and it can be searched and read aloud
    "svg.hashsalt": "fssim",  # the same figure gives the same file
}


class Drawable(Protocol):
    """A figure as data."""

    @property
    def name(self) -> str:
        """File name without suffix."""

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence."""

    def draw(self) -> Figure:
        """Make the matplotlib figure."""


def state_colour(state: str) -> str:
    """Colour of a thread's state: "cpu", "device", ..., or "wait LOCK MODE"; the same in every figure."""
    if state in STATES:
        return STATES[state]
    if state.endswith(" exclusive"):
        return VERMILLION
    return PURPLE if state.endswith(" shared") else ORANGE


def state_label(state: str) -> str:
    """What a legend calls a thread's state."""
    return STATE_LABELS.get(state) or f"waiting for {state.removeprefix('wait ')}"


def is_dark(colour: tuple[float, float, float, float] | str) -> bool:
    """Say whether white text is easier to read on a colour than black text."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.5


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """Return an empty figure that belongs to no window."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update(_SETTINGS)
    from matplotlib.figure import Figure

    return Figure(figsize=(width_inches, height_inches))


def render(drawable: Drawable) -> tuple[str, bytes, bytes]:
    """Draw a figure once; return its name and its PNG and SVG files."""
    figure = drawable.draw()
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(
        png, format="png", dpi=RESOLUTION_DPI, metadata={"Software": "fssim"}, pil_kwargs={"compress_level": 4}
    )
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "fssim"})
    return drawable.name, png.getvalue(), svg.getvalue()


def short_number(value: float) -> str:
    """Write a number in at most four characters: 940, 8.9k, 151k, 1.2M."""
    for limit, divisor, suffix in ((1e3, 1.0, ""), (1e6, 1e3, "k"), (float("inf"), 1e6, "M")):
        if abs(value) < limit * 0.9995:
            scaled = value / divisor
            return f"{scaled:.0f}{suffix}" if abs(scaled) >= 99.5 or not suffix else f"{scaled:.1f}{suffix}"
    return f"{value:g}"
