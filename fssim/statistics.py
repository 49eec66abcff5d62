"""Intervals for simulated rates, their ratios, and the check of Little's law.

A run deletes its warm-up and records when each batch of so many completions was complete.  The durations of the batches
are treated as independent samples (batch means).  Of two runs with the same random numbers the batches are paired: what
moves both alike cancels in the ratio, whose interval is then narrower than the two intervals suggest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fssim.errors import FssimError

if TYPE_CHECKING:
    import numpy as np

    from fssim.system import RunResult

CONFIDENCE = 0.95
BATCHES = 16  # enough degrees of freedom for a stable t quantile, long enough to be nearly independent


class LittlesLawViolated(FssimError):
    """A run's I/Os in flight, rate and latency contradict each other: the simulator is wrong, not the protocol."""


@dataclass(frozen=True)
class Interval:
    """A value and its confidence interval."""

    value: float
    low: float
    high: float

    @property
    def half_width_percent(self) -> float:
        """Half the width of the interval in per cent of the value."""
        return (self.high - self.low) / 2 / self.value * 100 if self.value else 0.0

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


def batch_durations_ns(result: RunResult) -> np.ndarray:
    """Return the durations of a run's batches, in order."""
    import numpy as np

    return np.diff(result.batch_end_ns, prepend=result.time_ns - result.window_ns)


def iops_interval(durations_ns: np.ndarray, batch_ios: int, confidence: float = CONFIDENCE) -> Interval:
    """Return completions per second with the interval that batch means give."""
    count = len(durations_ns)
    mean = float(durations_ns.mean())
    half = 0.0
    if count > 1:
        half = student_quantile(confidence, count - 1) * float(durations_ns.std(ddof=1)) / math.sqrt(count)
    per_second = batch_ios * 1e9
    return Interval(
        per_second / mean, per_second / (mean + half), per_second / (mean - half) if half < mean else math.inf
    )


def ratio_interval(before_ns: np.ndarray, after_ns: np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """Return the rate after over the rate before, from the paired batch durations of two runs with as many batches.

    The interval is that of the logarithm of the ratio by the delta method, with the covariance of the pairs.
    """
    count = min(len(before_ns), len(after_ns))
    ratio = float(before_ns.mean() / after_ns.mean())
    if count < 2:
        return Interval(ratio, ratio, ratio)
    deviation = before_ns[:count] / before_ns.mean() - after_ns[:count] / after_ns.mean()
    half = student_quantile(confidence, count - 1) * float(deviation.std(ddof=1)) / math.sqrt(count)
    return Interval(ratio, ratio * math.exp(-half), ratio * math.exp(half))


def check_littles_law(result: RunResult, threads: int, what: str) -> None:
    """Raise `LittlesLawViolated` unless I/Os in flight = rate x latency, up to what the ends of the window explain.

    An I/O that is in flight at an end of the window counts with its whole latency or not at all; there are at most as
    many as threads at either end, and three mean latencies cover an I/O that was overtaken for long.
    """
    if not result.ios:
        raise LittlesLawViolated(f"{what}: no I/O completed in the window (seed {result.seed})")
    allowance_ns = 3 * threads * result.latency_ns / result.ios
    if abs(result.in_flight_ns - result.latency_ns) > allowance_ns:
        in_flight = result.in_flight_ns / result.window_ns
        by_law = result.latency_ns / result.window_ns
        raise LittlesLawViolated(
            f"{what}: {in_flight:.3f} I/Os in flight, but rate x latency is {by_law:.3f} (seed {result.seed})"
        )


@cache
def student_quantile(confidence: float, degrees: int) -> float:
    """Return t such that a Student variable of so many degrees of freedom lies in [-t, t] with this probability."""
    low, high = 0.0, 1.0
    while _student_central(high, degrees) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_central(middle, degrees) < confidence else (low, middle)
    return (low + high) / 2


def _student_central(t: float, degrees: int) -> float:
    """Probability of [-t, t]: the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine_squared = math.cos(angle) ** 2
    odd = degrees % 2 == 1
    term, total = (math.cos(angle), math.cos(angle)) if odd else (1.0, 1.0)
    first = 3 if odd else 2
    for k in range(first, degrees - 1, 2):
        term *= cosine_squared * (k - 1) / k
        total += term
    if odd:
        return 2 / math.pi * (angle + (math.sin(angle) * total if degrees > 1 else 0.0))
    return math.sin(angle) * total
