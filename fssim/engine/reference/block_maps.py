"""Block maps: the state of each block of a file (section 5)."""

from __future__ import annotations

import re

from fssim.engine.objects import NamedPrimitive
from fssim.protocol import language

# A byte a block, and regular expressions that look at it: a file may have millions of blocks.
RUN = re.compile(rb"\x00+|\x01+|\x02+|\x03+")
PRESENT_RUN = re.compile(rb"\x01+|\x02+|\x03+")


class BlockStates:
    """The states of a file's blocks.  `runs`: of blocks in one state other than 0; `present`: such blocks."""

    def __init__(self, named: NamedPrimitive, template: language.BlockMap) -> None:
        self.name = named.name
        self.number = named.number
        if template.contents is None:
            self._states = bytearray([template.initial]) * template.blocks
        else:
            self._states = bytearray(template.contents)
        self.runs = self._runs_in(0, self.blocks)
        self.present = self._present_in(0, self.blocks)

    @property
    def blocks(self) -> int:
        return len(self._states)

    def lookup(self, block: int, count: int) -> tuple[int, int]:
        """Return the state of a block, and how many of `count` blocks from it on are in that state."""
        if block >= self.blocks:
            return 0, count
        state = self._states[block]
        run = RUN.match(self._states, block, min(block + count, self.blocks))
        assert run is not None
        # The state 0 goes on beyond the last block.
        if state == 0 and run.end() == self.blocks:
            return 0, count
        return state, run.end() - block

    def fill(self, block: int, count: int, state: int) -> None:
        """Give blocks that the map has a state."""
        end = block + count
        # Runs merge and break only where these blocks and their two neighbours meet.
        first, last = max(block - 1, 0), min(end + 1, self.blocks)
        self.runs -= self._runs_in(first, last)
        self.present -= self._present_in(block, end)
        self._states[block:end] = bytes([state]) * count
        self.present += self._present_in(block, end)
        self.runs += self._runs_in(first, last)

    def _runs_in(self, first: int, end: int) -> int:
        return sum(1 for _ in PRESENT_RUN.finditer(self._states, first, end))

    def _present_in(self, first: int, end: int) -> int:
        return end - first - self._states.count(0, first, end)
