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
    """A flash SSD: channels, chips with a page register, channel and bus transfers, a write cache."""

    channels: Count


Device = SimpleDevice | FlashDevice
