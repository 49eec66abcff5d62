"""The host: processors, scheduling latencies, the locks of its kernel, and CPU costs by code path."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

# The upper bounds keep a slip of the pen from overflowing the engines' 64-bit times or their memory.  They are checked
# when a file is read.
Count = Annotated[int, Meta(ge=1, le=65_536)]
Nanoseconds = Annotated[int, Meta(ge=0, le=10**12)]


class Host(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `docs/semantics.md` sections 2 to 4 call by the same names; all times in nanoseconds."""

    cpus: Count
    wakeup_ns: Nanoseconds = 0
    interrupt_ns: Nanoseconds = 0
    wakeup_spread_ns: Nanoseconds = 0
    idle_exit_ns: Nanoseconds = 0
    idle_depth_ns: Nanoseconds = 0
    switch_ns: Nanoseconds = 0
    spin_handoff_ns: Nanoseconds = 0
    cache_line_ns: Nanoseconds = 0
    timeslice_ns: Nanoseconds = 0
    rwlock: Literal["fifo", "spinning"] = "fifo"
    mutex: Literal["barging", "fifo"] = "barging"
    path_ns: dict[str, Nanoseconds] = {}
