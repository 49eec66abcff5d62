"""The wording of run errors, shared by the engines so that the same failure reads the same in both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MODE_NAMES = {1: "shared", 2: "exclusive"}

BAD_MODE = "a lock mode that is neither SHARED nor EXCLUSIVE"
RECURSIVE_ACQUIRE = "a thread asked for a lock it already holds"
NOT_HELD = "a lock was released that the thread does not hold in this mode"
DOUBLE_RELEASE = "a lock was released twice"
DEMOTE_NOT_HELD = "a lock was demoted that the thread does not hold exclusively"
HELD_AT_EXIT = "a thread ended while it held a lock"
SLEEP_IN_ATOMIC = "a thread that holds a spinlock asked for something that may sleep"
COUNTER_BELOW_ZERO = "a counter was decremented below zero"
BAD_TIME = "a negative time"
BAD_SINCE = "an I/O that began later than now"
BAD_RANGE = "a device access with a negative offset or without length"
NO_DEVICE = "a device access on a machine without a device"
BAD_UNITS = "units that are not between 1 and the capacity of the space"
TOO_MUCH_GIVEN = "more units are given back to a space than were taken"
BAD_BLOCKS = "blocks that the block map does not have, or a state that is not 0 ... 3"
BAD_CHOICE = "choose(n) needs 1 <= n < 2**31"
BAD_MEAN = "exponential(mean) needs mean >= 0"
DIVISION_BY_ZERO = "division by zero"
BAD_INDEX = "an index outside its list"
BAD_SHIFT = "a shift by less than 0 or more than 62"
OVERFLOW = "a result that does not fit into 64 bits"
STEP_LIMIT = "the run issued more effects than its limit"
NO_PROGRESS = "events keep happening and the clock does not move"
ASSERTION_FAILED = "assertion failed"


@dataclass(frozen=True)
class Waiting:
    """A thread that can never go on.

    `lock`: name of what it waits for, "" if it waits for a CPU (all are taken by spinners).
    `mode`: 1 shared, 2 exclusive, 0 for a counter, queue or space.  `holders`: thread and mode of those who hold the
    lock.
    """

    thread: int
    lock: str
    mode: int
    line: int
    holders: Sequence[tuple[int, int]]


def deadlock(waiting: Iterable[Waiting]) -> str:
    """Say who waits for what and who holds it; threads by number, holders by number."""
    sentences = []
    for entry in waiting:
        mode = f" {MODE_NAMES[entry.mode]}" if entry.mode else ""
        sentence = f"thread {entry.thread} waits for {entry.lock or 'a CPU'}{mode} (line {entry.line})"
        if entry.holders:
            held = ", ".join(f"thread {thread} {MODE_NAMES[mode]}" for thread, mode in sorted(entry.holders))
            sentence += f" held by {held}"
        sentences.append(sentence)
    return "deadlock: " + "; ".join(sentences) + ";"
