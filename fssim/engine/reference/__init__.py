"""The reference engine: `docs/semantics.md` as readable objects on SimPy; it runs the protocol's own generator.

`simulation.py` keeps the clock, the event queue and the log; `scheduler.py` the processors; `locks.py` and
`spinning.py` the locks; `counters.py`, `queues.py` and `spaces.py` what threads wait for without a mode, with
`waited.py` for what these share; `block_maps.py` the states of blocks; `devices.py` and `flash.py` the storage;
`effects.py` interprets what protocols yield; `statistics.py` counts; `engine.py` builds all this from a `System`, runs
it and collects the result.
"""

from fssim.engine.reference.engine import run_reference

__all__ = ["run_reference"]
