"""Random numbers as a pure function of (seed, thread, how many the thread has drawn); integers only.

Source of `mix`: SplitMix64 (Steele, Lea, Flood 2014).  The exponential uses a table of its inverse distribution
function with linear interpolation; in the last bin it starts anew, exact because the distribution has no memory.
"""

from __future__ import annotations

import math

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
BINS = 4096
TABLE: tuple[int, ...] = tuple(round(-math.log(1 - i / BINS) * 2**20) for i in range(BINS))


def mix(z: int) -> int:
    """Scramble 64 bits."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def draw(seed: int, thread: int, n: int) -> int:
    """Return the 64-bit draw number n of a thread."""
    return mix((mix((seed * GOLDEN + thread + 1) & MASK) + n * GOLDEN) & MASK)


def below(z: int, n: int) -> int:
    """Turn a draw into a number in 0 ... n-1, for 1 <= n < 2**31."""
    return ((z >> 32) * n) >> 32


def exponential(z: int, mean: int) -> int:
    """Turn a draw into an exponentially distributed integer with this mean."""
    extra = 0
    i = z >> 52
    while i == BINS - 1:
        extra += TABLE[BINS - 1]
        z = mix(z)
        i = z >> 52
    fraction = (z >> 32) & 0xFFFFF
    value = TABLE[i] + ((TABLE[i + 1] - TABLE[i]) * fraction >> 20)
    return ((extra + value) * mean) >> 20
