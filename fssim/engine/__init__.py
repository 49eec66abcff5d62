"""The engines that run a `System`.  Both give the same result; `docs/semantics.md` is their contract."""

from __future__ import annotations

from typing import Literal

from fssim.errors import UserError, nearest
from fssim.system import RunResult, System

EngineName = Literal["compiled", "reference"]
ENGINES: tuple[EngineName, ...] = ("compiled", "reference")


def run(system: System, *, engine: str = "compiled", check: bool = True) -> RunResult:
    """Run a system to its end.

    `engine`: "compiled" (fast) or "reference" (SimPy, the protocol's own generator, readable and steppable).  `check`:
    raise the error that ended the run, if one did; else it is only in the result.
    """
    if engine == "compiled":
        from fssim.engine.compiled_run import run_compiled

        result = run_compiled(system)
    elif engine == "reference":
        from fssim.engine.reference.engine import run_reference

        result = run_reference(system)
    else:
        raise UserError(f"engine {engine!r} does not exist{nearest(engine, ENGINES)}")
    if check and result.error is not None:
        raise result.error
    return result
