"""What a device is to the engine, and the "simple" device (section 6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fssim.engine.reference.simulation import Due, Simulation
from fssim.engine.reference.statistics import Occupancy, Reservations, Resource
from fssim.engine.reference.thread import SimThread
from fssim.machine.device import SimpleDevice


@dataclass(slots=True, eq=False)
class Request:
    """One read or write of a thread; offset and length in bytes.

    `line`: where the thread submitted it.  `target`: what is told when it is done, and with which `tag`; None: the
    thread, which waits for it.
    """

    thread: SimThread
    line: int
    write: bool
    offset: int
    length: int
    target: Target | None = None
    tag: Any = None


class Target(Protocol):
    """A queue or counter that is told when a request is done."""

    name: str
    number: int

    def tell(self, request: Request) -> None:
        """The device has completed the request."""


Completion = Callable[[Request], None]
"""Called by a device in the step in which a request is done."""


class StorageDevice(Protocol):
    """What the engine asks of a device.  `resources`: name of each part to its busy time and number of servers."""

    resources: dict[str, tuple[Resource, int]]

    def submit(self, request: Request) -> None:
        """Take a request and work it through the first stages of the device."""

    def poll_write(self, size_bytes: int) -> int | None:
        """Book a write that its thread completes itself; return how long that takes, None if it has to be submitted."""


class SimpleStorage:
    """Slots, each of which serves one request: through the IOPS gate, then the latency, then the shared bus."""

    def __init__(self, parameters: SimpleDevice, simulation: Simulation, complete: Completion) -> None:
        self._parameters = parameters
        self._simulation = simulation
        self._complete = complete
        self._waiting: deque[tuple[Request, int]] = deque()
        self._free_slots = parameters.queue_depth
        self._gate_ns = -(-(10**9) // parameters.iops_cap) if parameters.iops_cap else 0
        self._slots = Occupancy()
        self._gate = Reservations()
        self._bus = Reservations()
        self._head_at = 0
        self.resources: dict[str, tuple[Resource, int]] = {"slots": (self._slots, parameters.queue_depth)}
        if parameters.iops_cap:
            self.resources["gate"] = (self._gate, 1)
        if parameters.bandwidth_mb_s:
            self.resources["bus"] = (self._bus, 1)

    def poll_write(self, size_bytes: int) -> int | None:
        return None

    def submit(self, request: Request) -> None:
        service_ns = self._parameters.latency_ns
        if self._parameters.latency_distribution == "exponential":
            service_ns = request.thread.exponential(service_ns)
        if self._free_slots:
            self._free_slots -= 1
            self._slots.change(self._simulation.now, +1)
            self._start(request, service_ns)
        else:
            self._waiting.append((request, service_ns))

    def _start(self, request: Request, service_ns: int) -> None:
        now = self._simulation.now
        start = self._gate.book(now, self._gate_ns) if self._gate_ns else now
        self._simulation.schedule(start - now + service_ns, self._latency_is_over, request)

    def _latency_is_over(self, event: Due[Request]) -> None:
        request = event.value
        if not self._parameters.bandwidth_mb_s:
            self._finish(request)
            return
        now = self._simulation.now
        transfer_ns = -(-request.length * 1000 // self._parameters.bandwidth_mb_s)
        if request.offset != self._head_at:
            transfer_ns += self._parameters.seek_ns
        self._head_at = request.offset + request.length
        start = self._bus.book(now, transfer_ns)
        self._simulation.schedule(start + transfer_ns - now, self._transfer_is_over, request)

    def _transfer_is_over(self, event: Due[Request]) -> None:
        self._finish(event.value)

    def _finish(self, request: Request) -> None:
        if self._waiting:
            self._start(*self._waiting.popleft())
        else:
            self._free_slots += 1
            self._slots.change(self._simulation.now, -1)
        self._complete(request)
