"""What each thread did when, read from an event log (`docs/semantics.md` section 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fssim.protocol.bytecode import LOG_DEVICE_DONE, LOG_END, LOG_GRANT, OPCODES

if TYPE_CHECKING:
    from fssim.system import RunResult

MODES = {1: "shared", 2: "exclusive"}
_AFTER = {  # state of a thread after a row of this kind; any other row: it runs
    OPCODES["READ"]: "device",
    OPCODES["WRITE"]: "device",
    OPCODES["SLEEP"]: "sleep",
    LOG_GRANT: "wakeup",
    LOG_DEVICE_DONE: "wakeup",
}


@dataclass(frozen=True)
class Span:
    """A thread is in one state from `start_ns` to `end_ns`: "cpu", "device", "wakeup", "sleep", "wait LOCK MODE"."""

    thread: int
    start_ns: int
    end_ns: int
    state: str


@dataclass(frozen=True)
class Hold:
    """A thread holds a lock in one mode."""

    thread: int
    start_ns: int
    end_ns: int
    lock: str
    mode: str


def spans_of(result: RunResult) -> list[Span]:
    """Return what every thread did, without gaps, in order of time; the log must have been kept."""
    assert result.log is not None
    # A lock with one mode is called by its name alone.
    with_modes = {lock.name.rsplit(".", 1)[-1] for lock in result.locks if lock.mode == "shared"}
    spans: list[Span] = []
    current: dict[int, tuple[str, int]] = {}

    def close(thread: int, now: int) -> None:
        state, since = current.get(thread, ("", now))
        if state and now > since:
            spans.append(Span(thread, since, now, state))

    for time_ns, thread, _, kind, obj, value in result.log.tolist():
        if kind == OPCODES["ACQUIRE"]:
            name = _lock_name(result, obj)
            state = f"wait {name} {MODES[value]}" if name in with_modes else f"wait {name}"
        elif kind == OPCODES["WAITZERO"] and value > 0:
            state = f"wait {_lock_name(result, obj)}"
        else:
            state = _AFTER.get(kind, "" if kind == LOG_END else "cpu")
        if current.get(thread, ("", 0))[0] != state:
            close(thread, time_ns)
            current[thread] = (state, time_ns)
    for thread in current:
        close(thread, result.time_ns)
    return sorted(spans, key=lambda span: (span.start_ns, span.thread))


def holds_of(result: RunResult) -> list[Hold]:
    """Return who held which lock when; the log must have been kept."""
    assert result.log is not None
    holds: list[Hold] = []
    wanted: dict[int, tuple[int, int, int]] = {}
    held: dict[tuple[int, int], tuple[int, int]] = {}
    for time_ns, thread, _, kind, obj, value in result.log.tolist():
        if thread in wanted:
            wanted_obj, mode, since = wanted.pop(thread)
            # Without a GRANT in between the lock was free, and taken when it was asked for.
            held[thread, wanted_obj] = (mode, time_ns if kind == LOG_GRANT else since)
        if kind == OPCODES["ACQUIRE"]:
            wanted[thread] = (obj, value, time_ns)
        elif kind in (OPCODES["RELEASE"], OPCODES["DEMOTE"]) and (thread, obj) in held:
            mode, since = held.pop((thread, obj))
            holds.append(Hold(thread, since, time_ns, _lock_name(result, obj), MODES[mode]))
            if kind == OPCODES["DEMOTE"]:
                held[thread, obj] = (1, time_ns)
    for (thread, obj), (mode, since) in held.items():
        holds.append(Hold(thread, since, result.time_ns, _lock_name(result, obj), MODES[mode]))
    return sorted(holds, key=lambda hold: (hold.start_ns, hold.thread))


def completions_of(result: RunResult) -> list[int]:
    """Return the instants at which I/Os were complete; the log must have been kept."""
    assert result.log is not None
    kinds = result.log[:, 3]
    times: list[int] = result.log[kinds == OPCODES["COMPLETE"], 0].tolist()
    return times


def _lock_name(result: RunResult, obj: int) -> str:
    """The member's name, such as "iolock": a timeline shows few objects, and their threads tell them apart."""
    return result.objects[obj].rsplit(".", 1)[-1]
