"""A lock timeline: what a few threads do over a few I/Os, before a change above after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fssim.plot.spans import Hold, Span
from fssim.plot.style import BLACK, SKY, STATE_LABELS, is_dark, new_figure, state_colour, state_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOLDS = {"exclusive": BLACK, "shared": SKY}
BAR, STRIP = 0.46, 0.16  # heights, of a lane of 1
TOP = 0.34  # of a bar above the middle of its lane
SHORTEST_NOTE = 0.1  # of the length shown: less has no room for a note


@dataclass(frozen=True)
class Lanes:
    """One run's threads between two instants.  `lock`: the lock whose holds are shown below the bars."""

    title: str
    threads: int
    start_ns: int
    spans: tuple[Span, ...]
    holds: tuple[Hold, ...]
    lock: str


@dataclass(frozen=True)
class LockTimeline:
    """Panels over one another with the same length of time."""

    name: str
    caption: str
    title: str
    length_ns: int
    panels: tuple[Lanes, ...]

    def draw(self) -> Figure:
        """A lane a thread; above, its state; below, in a thin strip, whether it holds the lock."""
        rows = sum(lanes.threads for lanes in self.panels)
        figure = new_figure(11.0, 1.55 + 0.46 * rows + 0.55 * len(self.panels))
        height = figure.get_figheight()
        figure.suptitle(self.title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        axes = figure.subplots(
            len(self.panels),
            1,
            sharex=True,
            squeeze=False,
            gridspec_kw={
                "left": 0.075,
                "right": 0.985,
                "top": 1 - 0.68 / height,
                "bottom": 1.08 / height,
                "hspace": 0.3,
                "height_ratios": [lanes.threads for lanes in self.panels],
            },
        )
        for axis, lanes in zip(axes[:, 0], self.panels, strict=True):
            self._draw_lanes(axis, lanes)
        axes[-1, 0].set_xlabel("time in µs")
        self._legend(figure)
        return figure

    def _draw_lanes(self, axis: Axes, lanes: Lanes) -> None:
        axis.set_title(lanes.title, loc="left", fontsize=9.5)
        for span in lanes.spans:
            start, end = span.start_ns - lanes.start_ns, span.end_ns - lanes.start_ns
            _bar(axis, start, end, span.thread - TOP, BAR, state_colour(span.state))
        for hold in lanes.holds:
            if hold.lock == lanes.lock:
                start, end = hold.start_ns - lanes.start_ns, hold.end_ns - lanes.start_ns
                _bar(axis, start, end, hold.thread - TOP + BAR + 0.03, STRIP, HOLDS[hold.mode])
        _explain(axis, lanes, self.length_ns)
        axis.set_xlim(0, self.length_ns / 1000)
        axis.set_ylim(lanes.threads - 0.5, -0.5)
        axis.set_yticks(range(lanes.threads), [f"thread {n}" for n in range(lanes.threads)])
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)

    def _legend(self, figure: Figure) -> None:
        from matplotlib.patches import Patch

        states = {span.state for lanes in self.panels for span in lanes.spans}
        shown = [state for state in STATE_LABELS if state in states]
        shown += sorted(state for state in states if state.startswith("wait "))
        handles = [Patch(color=state_colour(state), label=state_label(state)) for state in shown]
        lock = self.panels[0].lock
        handles += [Patch(color=colour, label=f"holds {lock} {mode} (strip)") for mode, colour in HOLDS.items()]
        figure.legend(handles=handles, loc="lower center", ncols=4, frameon=False, fontsize=8.5)


def _bar(axis: Axes, start_ns: int, end_ns: int, top: float, height: float, colour: str) -> None:
    axis.broken_barh([(start_ns / 1000, (end_ns - start_ns) / 1000)], (top, height), facecolors=colour, linewidth=0)


def _explain(axis: Axes, lanes: Lanes, length_ns: int) -> None:
    """Write into every exclusive wait for whose read it waited, and join the two."""
    wanted = f"wait {lanes.lock} exclusive"
    for span in lanes.spans:
        if span.state != wanted:
            continue
        left, right = max(span.start_ns - lanes.start_ns, 0), min(span.end_ns - lanes.start_ns, length_ns)
        reader = next(
            (
                hold.thread
                for hold in lanes.holds
                if hold.end_ns == span.end_ns and _is_read_of_another(hold, span, lanes)
            ),
            None,
        )
        if reader is None or right - left < SHORTEST_NOTE * length_ns:
            continue
        ink = "white" if is_dark(state_colour(wanted)) else "black"
        middle, height = (left + right) / 2000, span.thread - TOP + BAR / 2
        axis.text(middle, height, f"for thread {reader}'s read", ha="center", va="center", fontsize=7.5, color=ink)
        ends = (reader - TOP, span.thread - TOP) if reader > span.thread else (reader + 0.31, span.thread - TOP + BAR)
        axis.plot([right / 1000] * 2, ends, color=BLACK, linewidth=0.9, linestyle=":")


def _is_read_of_another(hold: Hold, span: Span, lanes: Lanes) -> bool:
    return hold.lock == lanes.lock and hold.mode == "shared" and hold.thread != span.thread
