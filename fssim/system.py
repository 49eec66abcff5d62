"""What a run consists of, and what comes out of it.  Both engines take a `System` and return a `RunResult`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fssim.errors import RunError

if TYPE_CHECKING:
    import numpy as np

    from fssim.machine.device import Device
    from fssim.machine.host import Host
    from fssim.protocol import Protocol


@dataclass(frozen=True)
class Thread:
    """One thread: a protocol and its arguments (integers and `Shared` objects).

    The run ends when all threads that are not `daemon` have returned, if no other goal ends it first.
    """

    protocol: Protocol
    arguments: tuple[Any, ...] = ()
    daemon: bool = False


@dataclass(frozen=True)
class System:
    """Everything that determines a run.

    The shared objects in the threads' arguments are a template: a run works on its own copy. `constants` overrides
    upper-case names of the protocols (integers or, for an `Operation`, a protocol); so does `version`, whose names
    need not occur in the protocols of this run. Statistics are kept from the completion number `warmup_ios` on, and
    the run ends at completion `warmup_ios + ios` (`ios` 0: no such goal) or at `time_limit_ns` (0: none).
    `batch_ios`: completions in a batch; 0: no batches.
    """

    threads: Sequence[Thread]
    host: Host
    device: Device | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    version: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    ios: int = 0
    warmup_ios: int = 0
    batch_ios: int = 0
    time_limit_ns: int = 0
    max_effects: int = 1_000_000_000
    log: bool = False
    ghosts: bool = False

    @property
    def overrides(self) -> Mapping[str, Any]:
        """Return all names of the protocols that this run overrides."""
        return {**self.version, **self.constants}


@dataclass(frozen=True)
class LockUse:
    """Use of one lock class in one mode, as /proc/lock_stat counts it.  Times in nanoseconds.

    `holds`: number of holds that ended; a demotion ends an exclusive hold and begins a shared one.
    """

    name: str
    mode: str  # "shared" or "exclusive"
    acquisitions: int
    contentions: int
    bounces: int
    wait_total_ns: int
    wait_min_ns: int
    wait_max_ns: int
    hold_total_ns: int
    hold_min_ns: int
    hold_max_ns: int
    holds: int


@dataclass(frozen=True)
class RunResult:
    """What a run did.  Times are integer nanoseconds; statistics cover the window after the warm-up.

    `error`: None if the run finished. `time_ns`: end of the run. `window_ns`: length of the window. `ios`:
    completions in it. `latency_ns`: sum of their latencies. `in_flight_ns`: integral over the window of the number
    of I/Os in flight. `batch_end_ns`: int64 array of the instants at which each batch was complete.
    `time_by_category_ns`: thread time by category: "cpu", "ready", "wakeup", "device", "sleep", and "wait
    Class.member shared|exclusive" (without mode for counters, queues and spaces). `sleeps_in_submission`: how often
    threads blocked between the beginning of an I/O and the end of its submission, by the same categories ("ready":
    preempted). `busy_ns`: resource name to (busy time summed over its servers, servers). `final`: name and value of
    every integer field at the end, in canonical order. `log`: int64 array (rows, 6), see `docs/semantics.md`
    section 9, or None. `objects`: names of locks and counters by number.
    """

    error: RunError | None
    seed: int
    time_ns: int
    window_ns: int
    ios: int
    latency_ns: int
    in_flight_ns: int
    batch_end_ns: np.ndarray
    time_by_category_ns: Mapping[str, int]
    sleeps_in_submission: Mapping[str, int]
    locks: tuple[LockUse, ...]
    busy_ns: Mapping[str, tuple[int, int]]
    final: tuple[tuple[str, int], ...]
    objects: tuple[str, ...]
    events: int
    log: np.ndarray | None = None

    @property
    def iops(self) -> float:
        """Completions per second of simulated time in the window."""
        return self.ios * 1e9 / self.window_ns if self.window_ns else 0.0

    @property
    def fingerprint(self) -> str:
        """Hash of the event log, the same in both engines: BLAKE2b of its rows as little-endian int64."""
        import hashlib

        if self.log is None:
            raise ValueError("run with System(log=True) to get a fingerprint")
        return hashlib.blake2b(self.log.astype("<i8").tobytes(), digest_size=16).hexdigest()
