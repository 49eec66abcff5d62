"""The flash device: chips that load pages, channels that transfer them, and a write cache (`docs/flash.md`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from fssim.engine.random import GOLDEN, MASK
from fssim.engine.reference.devices import Completion, Request
from fssim.engine.reference.simulation import Due, Simulation
from fssim.engine.reference.statistics import Occupancy, Reservations, Resource
from fssim.machine.device import FlashDevice


def transfer_ns(size_bytes: int, ps_per_byte: int) -> int:
    """Time to move so many bytes, rounded up to nanoseconds."""
    return -(-size_bytes * ps_per_byte // 1000)


@dataclass(slots=True, eq=False)
class Read:
    """A read on its way: how many of its chunks are not decoded yet, how many bytes the bus has yet to carry."""

    request: Request
    bytes_left: int
    chunks_left: int = 0


@dataclass(slots=True, eq=False)
class Chunk:
    """The part of a read that lies in one page."""

    read: Read
    page: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class Chip:
    """A chip with two page registers: the data register loads while the cache register is read out.

    A register holds the number of a page, or None.
    """

    channel: Channel
    queue: deque[Chunk] = field(default_factory=deque)
    cache_register: int | None = None
    data_register: int | None = None
    is_loading: bool = False

    @property
    def can_transfer(self) -> bool:
        """True if the page that the first chunk needs can be read out."""
        return bool(self.queue) and self.queue[0].page == self.cache_register

    def page_to_load(self) -> int | None:
        """The first page that is asked for and not in the cache register."""
        return next((chunk.page for chunk in self.queue if chunk.page != self.cache_register), None)


@dataclass(slots=True, eq=False)
class Channel:
    """A channel serves its chips in turn, one transfer at a time."""

    chips: list[Chip] = field(default_factory=list)
    is_busy: bool = False
    last_served: int = 0

    def next_chip(self) -> Chip | None:
        """The next chip in turn that can transfer; it counts as served."""
        count = len(self.chips)
        for step in range(1, count + 1):
            at = (self.last_served + step) % count
            if self.chips[at].can_transfer:
                self.last_served = at
                return self.chips[at]
        return None


class PacketBus:
    """Carries reads to the host, one packet at a time; a read that is not complete then goes to the tail."""

    def __init__(self, parameters: FlashDevice, simulation: Simulation, complete: Completion) -> None:
        self.occupancy = Occupancy()
        self._parameters = parameters
        self._simulation = simulation
        self._complete = complete
        self._waiting: deque[Read] = deque()
        self._is_busy = False

    def join(self, read: Read) -> None:
        """A read has been decoded."""
        self._waiting.append(read)
        self._step()

    def _step(self) -> None:
        if self._is_busy or not self._waiting:
            return
        read = self._waiting.popleft()
        size_bytes = min(read.bytes_left, self._parameters.bus_packet_bytes or read.bytes_left)
        read.bytes_left -= size_bytes
        self._is_busy = True
        self.occupancy.change(self._simulation.now, +1)
        duration_ns = transfer_ns(size_bytes, self._parameters.bus_ps_per_byte)
        self._simulation.schedule(duration_ns, self._packet_is_over, read)

    def _packet_is_over(self, event: Due[Read]) -> None:
        read = event.value
        self._is_busy = False
        self.occupancy.change(self._simulation.now, -1)
        if read.bytes_left:
            self._waiting.append(read)
        else:
            self._complete(read.request)
        self._step()


class WriteCache:
    """Admits writes in order of arrival as soon as it has room for all of them, and is emptied at a constant rate."""

    def __init__(self, parameters: FlashDevice) -> None:
        self.draining = Reservations()
        self._parameters = parameters
        self._capacity_ns = parameters.write_cache_bytes * parameters.drain_ps_per_byte // 1000
        self._last_admission = 0

    def admit(self, now: int, arrives_at: int, size_bytes: int) -> int:
        """Return when a write that arrives now or later is admitted, and fill the cache with it."""
        drain_ns = self._drain_ns(size_bytes)
        # What the cache holds is measured in time to drain; a write larger than the cache waits until it is empty.
        has_room_at = self.draining.free_at - max(self._capacity_ns - drain_ns, 0)
        self._last_admission = max(arrives_at, self._last_admission, has_room_at)
        self.draining.book(now, drain_ns, not_before=arrives_at)
        return self._last_admission

    def _drain_ns(self, size_bytes: int) -> int:
        """How long a write takes to drain: its bytes but for those that came with the command, and its segments."""
        parameters = self._parameters
        drain_ns = transfer_ns(max(size_bytes - parameters.write_inline_bytes, 0), parameters.drain_ps_per_byte)
        if parameters.write_segment_bytes:
            drain_ns += (size_bytes - 1) // parameters.write_segment_bytes * parameters.write_segment_ns
        return drain_ns


class FlashStorage:
    """Reads go through chips, channels, error correction and the bus; writes through the cache and their own bus."""

    def __init__(self, parameters: FlashDevice, simulation: Simulation, complete: Completion) -> None:
        self._parameters = parameters
        self._simulation = simulation
        self._complete = complete
        self._channels = [Channel() for _ in range(parameters.channels)]
        for channel in self._channels:
            channel.chips = [Chip(channel) for _ in range(parameters.chips_per_channel)]
        self._cache = WriteCache(parameters)
        self._busy_channels = Occupancy()
        self._loading_chips = Occupancy()
        self._bus = PacketBus(parameters, simulation, complete)
        self._write_bus = Reservations()
        self.resources: dict[str, tuple[Resource, int]] = {
            "channels": (self._busy_channels, parameters.channels),
            "chips": (self._loading_chips, parameters.channels * parameters.chips_per_channel),
            "bus": (self._bus.occupancy, 1),
            "write bus": (self._write_bus, 1),
            "drain": (self._cache.draining, 1),
        }

    def submit(self, request: Request) -> None:
        if self._parameters.command_ns:
            self._simulation.schedule(self._parameters.command_ns, self._command_is_over, request)
        else:
            self._enter(request)

    def _command_is_over(self, event: Due[Request]) -> None:
        self._enter(event.value)

    def _enter(self, request: Request) -> None:
        if request.write:
            self._enter_write(request)
            return
        read = Read(request, bytes_left=request.length)
        chunks = list(self._cut(read))
        read.chunks_left = len(chunks)
        for chunk in chunks:
            chip = self._chip_of(chunk.page)
            chip.queue.append(chunk)
            self._step_chip(chip)

    def _cut(self, read: Read) -> Iterator[Chunk]:
        """Cut a read at the boundaries of pages."""
        page_bytes = self._parameters.page_bytes
        at, end = read.request.offset, read.request.offset + read.request.length
        while at < end:
            page = at // page_bytes
            page_end = min((page + 1) * page_bytes, end)
            yield Chunk(read, page, page_end - at)
            at = page_end

    def _chip_of(self, page: int) -> Chip:
        """Pages go to the channels in turn; `placement` says where each stripe of them begins."""
        parameters = self._parameters
        stripe = page // parameters.channels
        if parameters.placement == "rotated":
            shift = stripe * parameters.channel_rotation
        else:
            scrambled = (stripe * GOLDEN) & MASK
            shift = (scrambled ^ (scrambled >> 29)) >> 8
        channel = self._channels[((page + shift) & MASK) % parameters.channels]
        return channel.chips[stripe % parameters.chips_per_channel]

    def _step_chip(self, chip: Chip) -> None:
        """Offer the chip's first chunk to the channel, and load the next page that is needed."""
        if not chip.queue:
            return
        if not chip.can_transfer and not chip.is_loading and chip.queue[0].page == chip.data_register:
            chip.cache_register, chip.data_register = chip.data_register, None
        if chip.can_transfer:
            self._step_channel(chip.channel)
        if chip.data_register is None:
            chip.data_register = chip.page_to_load()
            if chip.data_register is not None:
                chip.is_loading = True
                self._loading_chips.change(self._simulation.now, +1)
                self._simulation.schedule(self._parameters.page_load_ns, self._page_is_loaded, chip)

    def _page_is_loaded(self, event: Due[Chip]) -> None:
        chip = event.value
        chip.is_loading = False
        self._loading_chips.change(self._simulation.now, -1)
        self._step_chip(chip)

    def _step_channel(self, channel: Channel) -> None:
        """Start the next transfer if the channel is free."""
        if channel.is_busy:
            return
        chip = channel.next_chip()
        if chip is None:
            return
        channel.is_busy = True
        self._busy_channels.change(self._simulation.now, +1)
        self._serve(chip)

    def _serve(self, chip: Chip) -> None:
        """Transfer the first chunk of a chip.  Its last bytes may be here long before the channel is free again."""
        parameters = self._parameters
        chunk = chip.queue[0]
        occupied_ns = parameters.channel_command_ns + transfer_ns(chunk.size_bytes, parameters.channel_ps_per_byte)
        delivered_ns = occupied_ns
        if parameters.fast_ps_per_byte:
            fast_bytes = max(chunk.size_bytes - parameters.fast_after_bytes, 0)
            delivered_ns -= transfer_ns(fast_bytes, parameters.channel_ps_per_byte)
            delivered_ns += transfer_ns(fast_bytes, parameters.fast_ps_per_byte)
        decoded_bytes = min(chunk.size_bytes, parameters.decode_limit_bytes)
        decode_ns = transfer_ns(decoded_bytes, parameters.decode_ps_per_byte)
        self._simulation.schedule(occupied_ns, self._is_transferred, chip)
        self._simulation.schedule(delivered_ns + decode_ns, self._is_decoded, chunk)

    def _is_transferred(self, event: Due[Chip]) -> None:
        chip = event.value
        chip.queue.popleft()
        chip.channel.is_busy = False
        self._busy_channels.change(self._simulation.now, -1)
        self._step_chip(chip)
        self._step_channel(chip.channel)

    def _is_decoded(self, event: Due[Chunk]) -> None:
        read = event.value.read
        read.chunks_left -= 1
        if read.chunks_left == 0:
            self._bus.join(read)

    def poll_write(self, size_bytes: int) -> int | None:
        parameters, now = self._parameters, self._simulation.now
        if not parameters.write_polled:
            return None
        admitted = self._cache.admit(now, now + parameters.command_ns, size_bytes)
        duration_ns = self._write_transfer_ns(size_bytes)
        start = self._write_bus.book(now, duration_ns, not_before=admitted)
        return start + duration_ns + parameters.write_ns - now

    def _write_transfer_ns(self, size_bytes: int) -> int:
        parameters = self._parameters
        return parameters.write_command_ns + transfer_ns(size_bytes, parameters.write_bus_ps_per_byte)

    def _enter_write(self, request: Request) -> None:
        now = self._simulation.now
        admitted = self._cache.admit(now, now, request.length)
        if admitted > now:
            self._simulation.schedule(admitted - now, self._is_admitted, request)
        else:
            self._transfer_write(request)

    def _is_admitted(self, event: Due[Request]) -> None:
        self._transfer_write(event.value)

    def _transfer_write(self, request: Request) -> None:
        now = self._simulation.now
        duration_ns = self._write_transfer_ns(request.length)
        end = self._write_bus.book(now, duration_ns) + duration_ns
        self._simulation.schedule(end + self._parameters.write_ns - now, self._write_is_over, request)

    def _write_is_over(self, event: Due[Request]) -> None:
        self._complete(event.value)
