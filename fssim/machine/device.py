"""Block devices.  The rules are in `docs/semantics.md` section 6 and `docs/flash.md`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fssim.machine.host import Count, Nanoseconds

NotNegative = Annotated[int, Meta(ge=0)]


class SimpleDevice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="simple"):
    """A device with a cap on IOPS, a latency, a bandwidth and a queue depth: what null_blk or a throttled device does.

    0 means no cap; `bandwidth_mb_s` counts megabytes of 10**6 bytes.
    """

    latency_ns: Nanoseconds
    latency_distribution: Literal["fixed", "exponential"] = "fixed"
    iops_cap: NotNegative = 0
    bandwidth_mb_s: NotNegative = 0
    queue_depth: Count = 32


class FlashDevice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="flash"):
    """A flash SSD: channels, chips with two page registers, channel and bus transfers, a write cache.

    `docs/flash.md` says what the parameters mean.  A rate in picoseconds per byte is 1,000,000 / (MB/s).
    """

    channels: Count
    chips_per_channel: Count = 1
    page_bytes: Count
    placement: Literal["rotated", "scattered"] = "rotated"
    channel_rotation: NotNegative = 0
    command_ns: Nanoseconds = 0
    page_load_ns: Nanoseconds
    channel_command_ns: Nanoseconds = 0
    channel_ps_per_byte: NotNegative
    fast_after_bytes: NotNegative = 0
    fast_ps_per_byte: NotNegative = 0
    decode_ps_per_byte: NotNegative = 0
    decode_limit_bytes: NotNegative = 2048
    bus_ps_per_byte: NotNegative
    bus_packet_bytes: NotNegative = 0
    write_bus_ps_per_byte: NotNegative = 0
    write_cache_bytes: NotNegative = 0
    drain_ps_per_byte: NotNegative = 0
    write_ns: Nanoseconds = 0

    def __post_init__(self) -> None:
        if self.fast_ps_per_byte > self.channel_ps_per_byte:
            # Read from a file, a ValueError is reported like any other value that is not allowed.
            raise ValueError(
                f"fast_ps_per_byte is {self.fast_ps_per_byte}; "
                f"it must not exceed channel_ps_per_byte ({self.channel_ps_per_byte})"
            )


Device = SimpleDevice | FlashDevice
