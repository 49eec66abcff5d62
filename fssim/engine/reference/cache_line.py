"""The cache line of a lock or counter, which travels to whichever thread touches it (section 3)."""

from __future__ import annotations

from fssim.engine.reference.thread import SimThread


class CacheLine:
    """A cache line that costs `transfer_ns` to fetch from the thread that touched it last, one fetch at a time."""

    __slots__ = ("_free_at", "_last_touched_by", "_transfer_ns")

    def __init__(self, transfer_ns: int) -> None:
        self._transfer_ns = transfer_ns
        self._last_touched_by: SimThread | None = None
        self._free_at = 0

    def touch(self, thread: SimThread, now: int) -> int:
        """Move the line to the thread; return after how long it is there."""
        last, self._last_touched_by = self._last_touched_by, thread
        if last is thread or last is None:
            return 0
        self._free_at = max(now, self._free_at) + self._transfer_ns
        return self._free_at - now
