"""Runs a system on both engines and says where they first differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fssim.engine import run
from fssim.errors import RunError
from fssim.protocol.bytecode import LOG_NAMES, OPCODE_NAMES
from fssim.system import RunResult, System

ERROR_FIELDS = ("detail", "thread", "lock", "time_ns", "seed", "line")
ROWS_BEFORE = 12


def assert_identical(system: System, source: str = "") -> RunResult:
    """Run a system on both engines with the log on; fail with a report if anything differs.

    `source`: text of the protocols, for the report.  Returns the result of the reference engine.
    """
    logged = replace(system, log=True)
    reference = run(logged, engine="reference", check=False)
    compiled = run(logged, engine="compiled", check=False)
    found = list(differences(reference, compiled, source))
    if found:
        report = "\n".join(["the engines differ (reference, compiled):", *found, "", _describe(system)])
        raise AssertionError(f"{report}\n\n{_numbered(source)}" if source else report)
    return reference


def differences(reference: RunResult, compiled: RunResult, source: str = "") -> Iterator[str]:
    """Say how two results differ: the log at its first differing row, then every other field."""
    assert reference.log is not None
    assert compiled.log is not None
    yield from _log_difference(reference, compiled, source.splitlines())
    yield from _error_difference(reference.error, compiled.error)
    for field in fields(RunResult):
        if field.name in ("log", "error"):
            continue
        left, right = getattr(reference, field.name), getattr(compiled, field.name)
        if not _equal(left, right):
            yield f"{field.name}: {_only_different(left, right)}"


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return bool(left == right)


def _only_different(left: Any, right: Any) -> str:
    """Leave out what is equal in two mappings or tuples of the same shape."""
    if isinstance(left, dict) and isinstance(right, dict):
        names = sorted(left.keys() | right.keys())
        return str({name: (left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)})
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        return "\n  ".join(f"{a}\n  {b}" for a, b in zip(left, right, strict=True) if a != b)
    return f"{left}, {right}"


def _error_difference(left: RunError | None, right: RunError | None) -> Iterator[str]:
    if type(left) is not type(right):
        yield f"error: {left!r}, {right!r}"
    elif left is not None and right is not None:
        for name in ERROR_FIELDS:
            if getattr(left, name) != getattr(right, name):
                yield f"error.{name} of {type(left).__name__}: {getattr(left, name)!r}, {getattr(right, name)!r}"


def _log_difference(reference: RunResult, compiled: RunResult, source: list[str]) -> Iterator[str]:
    left, right = reference.log, compiled.log
    assert left is not None
    assert right is not None
    common = min(len(left), len(right))
    unequal = np.flatnonzero((left[:common] != right[:common]).any(axis=1))
    at = int(unequal[0]) if len(unequal) else common
    if at == len(left) == len(right):
        return
    yield f"log: first difference in row {at} of {len(left)}, {len(right)}"
    for number in range(max(0, at - ROWS_BEFORE), at):
        yield f"    {_row(left[number], reference, source)}"
    for name, log in (("reference", left), ("compiled", right)):
        for number in range(at, min(at + 3, len(log))):
            yield f"  {name:>10} {_row(log[number], reference, source)}"
        if at >= len(log):
            yield f"  {name:>10} ends here"


def _row(row: np.ndarray, result: RunResult, source: list[str]) -> str:
    time_ns, thread, line, kind, number, value = (int(cell) for cell in row)
    what = OPCODE_NAMES[kind] if kind < len(OPCODE_NAMES) else LOG_NAMES.get(kind, str(kind))
    name = result.objects[number] if 0 <= number < len(result.objects) else ""
    text = source[line - 1].strip() if 0 < line <= len(source) else ""
    return f"{time_ns:>10} ns  thread {thread:<2} line {line:<4} {what:<12} {name:<24} {value:>8}   {text}"


def _describe(system: System) -> str:
    threads = "\n  ".join(
        f"{number}: {thread.protocol.name}{' (daemon)' if thread.daemon else ''}, integers "
        f"{[argument for argument in thread.arguments if isinstance(argument, int)]}"
        for number, thread in enumerate(system.threads)
    )
    others = {field.name: getattr(system, field.name) for field in fields(System) if field.name != "threads"}
    return "\n".join(["threads:", f"  {threads}", *(f"{name}: {value}" for name, value in others.items())])


def _numbered(source: str) -> str:
    return "\n".join(f"{number:>4}  {line}" for number, line in enumerate(source.splitlines(), start=1))
