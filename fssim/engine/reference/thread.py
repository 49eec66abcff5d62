"""A simulated thread: its generator, its state and what it holds and waits for."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from fssim.engine import random

if TYPE_CHECKING:
    from fssim.engine.reference.locks import Lock
    from fssim.engine.reference.scheduler import Cpu
    from fssim.engine.reference.statistics import Category
    from fssim.engine.reference.waited import Waited
    from fssim.protocol.language import Effect

    Program = GeneratorType[Effect, Any, Any]


class State(Enum):
    """What a thread does, as far as the processors are concerned."""

    RUNNING = "holds a CPU"
    SPINNING = "holds a CPU and waits for a mutex, rwlock or spinlock"
    READY = "waits for a CPU"
    BLOCKED = "waits for something else, or is on its way to the READY event"
    ENDED = "its program has returned"


class SimThread:
    """One thread of the run.

    `then` is what the thread does when it next gets to run: continue its program, retry a lock, finish an operation.
    `held` lists its locks in order of acquisition, each with the mode and the instant since when.
    `io_since`: when its clock was started that measures an I/O, or -1.  `submits_io`: it has begun an I/O whose
    submission is not over.
    """

    __slots__ = (
        "_draws",
        "_seed",
        "category",
        "category_since",
        "daemon",
        "generator",
        "held",
        "home",
        "io_since",
        "must_switch",
        "number",
        "on_cpu_since",
        "sleeps_until",
        "spinlocks",
        "state",
        "submits_io",
        "then",
        "wait_mode",
        "wait_since",
        "waits_for",
    )  # fmt: skip

    def __init__(self, number: int, daemon: bool, generator: Program, seed: int) -> None:
        self.number = number
        self.daemon = daemon
        self.generator = generator
        self.state = State.BLOCKED
        self.home: Cpu  # set when the thread starts
        self.then: Callable[[SimThread], None] = _nothing_to_do
        self.must_switch = False
        self.on_cpu_since = 0
        self.held: dict[Lock, tuple[int, int]] = {}
        self.spinlocks = 0
        self.waits_for: Lock | Waited | None = None
        self.wait_mode = 0
        self.wait_since = 0
        self.category: Category | None = None
        self.category_since = 0
        self.sleeps_until = 0
        self.io_since = -1
        self.submits_io = False
        self._seed = seed
        self._draws = 0

    @property
    def atomic(self) -> bool:
        """True while the thread holds a spinlock: it must not sleep and is not preempted."""
        return self.spinlocks > 0

    @property
    def line(self) -> int:
        """Source line of the thread's last effect, in the innermost sub-protocol; 0 before the first and at the end."""
        generator = self.generator
        if not generator.gi_suspended:
            return 0
        while isinstance(generator.gi_yieldfrom, GeneratorType):
            generator = generator.gi_yieldfrom
        frame = generator.gi_frame
        return frame.f_lineno if frame is not None else 0

    def draw(self) -> int:
        """The thread's next 64 random bits."""
        bits = random.draw(self._seed, self.number, self._draws)
        self._draws += 1
        return bits

    def exponential(self, mean: int) -> int:
        """An exponentially distributed number from the thread's stream."""
        return random.exponential(self.draw(), mean)


def _nothing_to_do(thread: SimThread) -> None:
    raise AssertionError(f"thread {thread.number} runs without anything to do")
