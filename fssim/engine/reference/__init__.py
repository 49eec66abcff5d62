"""The reference engine: `docs/semantics.md` as readable objects on SimPy; it runs the protocol's own generator.

`simulation.py` keeps the clock, the event queue and the log; `scheduler.py` the processors; `locks.py`, `spinning.py`
and `counters.py` what threads wait for; `devices.py` and `flash.py` the storage; `effects.py` interprets what protocols
yield; `statistics.py` counts; `engine.py` builds all this from a `System`, runs it and collects the result.
"""

from fssim.engine.reference.engine import run_reference

__all__ = ["run_reference"]
