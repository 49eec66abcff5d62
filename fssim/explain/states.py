"""What a thread did when: the vocabulary of an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fssim.explain.places import NOWHERE, Place

CPU = "cpu"  # computes
POLLED = "polled"  # on its CPU until the device has taken a write
SWITCH = "switch"  # has its CPU again and switches contexts
SPIN = "spin"  # waits for a lock without giving up its CPU
DEVICE = "device"
SLEEP = "sleep"
WAIT = "wait"
WAKING = "waking"  # has what it waited for and is on its way to a CPU
READY = "ready"  # there is no CPU for it

ON_CPU = (CPU, POLLED, SWITCH, SPIN)

MODES = {0: "", 1: "shared", 2: "exclusive"}


class Segment(NamedTuple):
    """A thread is in one state from `start` to `end`.

    `obj`: what it waits or spins for, or has been woken after (-1: the device, -2: a timer).  `wait`: its number.
    """

    start: int
    end: int
    state: str
    place: Place = NOWHERE
    obj: int = -1
    wait: int = -1


class Hold(NamedTuple):
    """A thread holds a lock; or it ends a wait for a counter, queue or space, and until then has not done so."""

    start: int
    end: int
    thread: int
    mode: int


@dataclass(slots=True)
class Wait:
    """A thread waits for an object from `start` until `grant`, and runs again at `resume`.

    `mode`: 1 shared, 2 exclusive, 0 if the object has no modes.  `spun_until`: it spun from `start` until then.
    """

    thread: int
    obj: int
    mode: int
    start: int
    grant: int
    resume: int
    place: Place
    spun_until: int = -1
    granted: bool = True  # in the run


DEVICE_WAKE = -1
TIMER_WAKE = -2
