"""Block devices.  The rules are in `docs/semantics.md` section 6 and `docs/flash.md`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fssim.machine.host import Count, Nanoseconds

MOST = 65_536

Bytes = Annotated[int, Meta(ge=0, le=2**40)]
PageBytes = Annotated[int, Meta(ge=1, le=2**40)]
PicosecondsPerByte = Annotated[int, Meta(ge=0, le=10**9)]
Rate = Annotated[int, Meta(ge=0, le=10**9)]
Rotation = Annotated[int, Meta(ge=0, le=MOST)]


class SimpleDevice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="simple"):
    """A device with a cap on IOPS, a latency, a bandwidth and a queue depth: what null_blk or a throttled device does.

    0 means no cap; `bandwidth_mb_s` counts megabytes of 10**6 bytes.  `seek_ns`: what a transfer that does not go on
    where the last one ended takes longer.
    """

    latency_ns: Nanoseconds
    latency_distribution: Literal["fixed", "exponential"] = "fixed"
    iops_cap: Rate = 0
    bandwidth_mb_s: Rate = 0
    seek_ns: Nanoseconds = 0
    queue_depth: Count = 32

    def __post_init__(self) -> None:
        # Read from a file, a ValueError is reported like any other value that is not allowed.
        if self.seek_ns and not self.bandwidth_mb_s:
            raise ValueError(
                f"seek_ns is {self.seek_ns}; it needs bandwidth_mb_s, as transfers wait for each other's seeks"
            )


class FlashDevice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="flash"):
    """A flash SSD: channels, chips with two page registers, channel and bus transfers, a write cache.

    `docs/flash.md` says what the parameters mean.  A rate in picoseconds per byte is 1,000,000 / (MB/s).
    """

    channels: Count
    chips_per_channel: Count = 1
    page_bytes: PageBytes
    placement: Literal["rotated", "scattered"] = "rotated"
    channel_rotation: Rotation = 0
    command_ns: Nanoseconds = 0
    page_load_ns: Nanoseconds
    channel_command_ns: Nanoseconds = 0
    channel_ps_per_byte: PicosecondsPerByte
    fast_after_bytes: Bytes = 0
    fast_ps_per_byte: PicosecondsPerByte = 0
    decode_ps_per_byte: PicosecondsPerByte = 0
    decode_limit_bytes: Bytes = 2048
    bus_ps_per_byte: PicosecondsPerByte
    bus_packet_bytes: Bytes = 0
    write_command_ns: Nanoseconds = 0
    write_bus_ps_per_byte: PicosecondsPerByte = 0
    write_cache_bytes: Bytes = 0
    drain_ps_per_byte: PicosecondsPerByte = 0
    write_inline_bytes: Bytes = 0
    write_segment_bytes: Bytes = 0
    write_segment_ns: Nanoseconds = 0
    write_ns: Nanoseconds = 0
    write_polled: bool = False

    def __post_init__(self) -> None:
        if self.channels * self.chips_per_channel > MOST:
            raise ValueError(
                f"channels * chips_per_channel is {self.channels * self.chips_per_channel}; it must not exceed {MOST}"
            )
        if self.fast_ps_per_byte > self.channel_ps_per_byte:
            raise ValueError(
                f"fast_ps_per_byte is {self.fast_ps_per_byte}; "
                f"it must not exceed channel_ps_per_byte ({self.channel_ps_per_byte})"
            )


Device = SimpleDevice | FlashDevice
