"""Short scenes for the contract of the engines: a few threads, each a line of protocol text, around one lock.

Beside the lock the place has a counter, a queue of integers, a space of 4 units and a map of 8 blocks.

In the text of a thread these words stand for effects on `place.lock`, whatever its kind:

    TAKE, DROP        acquire and release, exclusive where the lock has modes
    SHARE, UNSHARE    acquire and release shared, rwlocks only
    ATTEMPT           try to take it; an expression, as in `got = ATTEMPT`
    ATTEMPT_SHARED    the same, shared
    SECOND            acquire `place.second`, a lock of the same kind

Unless a scene says otherwise, waking up takes 100 ns and the switch to the woken thread 10 ns, so that a sleeper goes
on 110 ns after it was woken; a spinner notices after 1 ns that it has the lock; there are 8 processors.
"""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from fssim.engine import run
from fssim.machine.device import Device
from fssim.machine.host import Host
from fssim.protocol.bytecode import LOG_NAMES, OPCODE_NAMES
from fssim.protocol.language import BlockMap, Space
from fssim.system import RunResult, System, Thread
from tests.protocol.source import module

WAKEUP_NS = 100
SWITCH_NS = 10
HANDOFF_NS = 1
AWAKE_NS = WAKEUP_NS + SWITCH_NS
SPACE_UNITS = 4
MAP_BLOCKS = 8
MOST_EFFECTS = 200_000  # no scene needs as many; a broken engine stops soon


@dataclass(frozen=True)
class Kind:
    """A kind of lock, and what `docs/semantics.md` section 4 promises of it."""

    name: str
    declared: str  # class of the field
    host: tuple[tuple[str, str], ...] = ()
    spins: bool = False  # waiters keep their CPU while the owner runs
    steals: bool = False  # a newcomer may take a free lock that others sleep for
    in_order: bool = True  # waiting writers get it in order of arrival while the owner runs

    @property
    def has_modes(self) -> bool:
        return self.declared == "RWLock"

    @property
    def may_sleep(self) -> bool:
        return self.declared != "SpinLock"


FIFO_RWLOCK = Kind("rwlock fifo", "RWLock", (("rwlock", "fifo"),))
SPINNING_RWLOCK = Kind("rwlock spinning", "RWLock", (("rwlock", "spinning"),), spins=True, steals=True)
BARGING_MUTEX = Kind("mutex barging", "Mutex", (("mutex", "barging"),), spins=True, steals=True, in_order=False)
FIFO_MUTEX = Kind("mutex fifo", "Mutex", (("mutex", "fifo"),))
SPINLOCK = Kind("spinlock", "SpinLock", spins=True)
KINDS = (FIFO_RWLOCK, SPINNING_RWLOCK, BARGING_MUTEX, FIFO_MUTEX, SPINLOCK)

_HEADER = """\
from fssim.protocol import *

class Place(Shared):
    lock: {declared}
    second: {declared}
    mutex: Mutex
    spin: SpinLock
    count: Counter
    queue: Queue[int]
    space: Space
    blocks: BlockMap
    writers: int
    readers: int
    entries: int

"""


def play(engine: str, *threads: str, kind: Kind = FIFO_RWLOCK, check: bool = True, **settings: Any) -> RunResult:
    """Run a scene, log on.

    `threads`: text of each thread.  `settings`: fields of `Host` and of `System`.  `check`: raise the error that ended
    the run.
    """
    host = {"cpus": 8, "wakeup_ns": WAKEUP_NS, "switch_ns": SWITCH_NS, "spin_handoff_ns": HANDOFF_NS, **dict(kind.host)}
    host |= {name: settings.pop(name) for name in Host.__struct_fields__ if name in settings}
    device: Device | None = settings.pop("device", None)
    made = scene_module(kind, threads)
    place = made.Place(space=Space(SPACE_UNITS), blocks=BlockMap(MAP_BLOCKS))
    return run(
        System(
            threads=[Thread(made.thread_protocols[text], (place,)) for text in threads],
            host=Host(**host),
            device=device,
            log=True,
            **{"max_effects": MOST_EFFECTS, **settings},
        ),
        engine=engine,
        check=check,
    )


@cache
def scene_module(kind: Kind, threads: tuple[str, ...]) -> ModuleType:
    """Return the module with the protocols of a scene: `thread_protocols` by text."""
    text = ""
    names = {}
    for number, body in enumerate(dict.fromkeys(threads)):
        names[body] = f"thread_{number}"
        body = _expand(textwrap.dedent(body).strip(), kind)
        text += f"@protocol\ndef thread_{number}(place: Place):\n{textwrap.indent(body, '    ')}\n\n"
    made: ModuleType = module(text, header=_HEADER.format(declared=kind.declared))
    made.thread_protocols = {body: getattr(made, name) for body, name in names.items()}  # type: ignore[attr-defined]
    return made


def _expand(text: str, kind: Kind) -> str:
    mode = "EXCLUSIVE" if kind.has_modes else ""
    meanings = {
        "ATTEMPT_SHARED": "yield place.lock.try_acquire(SHARED)",
        "ATTEMPT": f"yield place.lock.try_acquire({mode})",
        "UNSHARE": "yield place.lock.release(SHARED)",
        "SHARE": "yield place.lock.acquire(SHARED)",
        "SECOND": f"yield place.second.acquire({mode})",
        "TAKE": f"yield place.lock.acquire({mode})",
        "DROP": f"yield place.lock.release({mode})",
    }
    for word, meaning in meanings.items():
        # SHARED is part of the language: only whole words are meant.
        text = _replace_word(text, word, meaning)
    return text


def _replace_word(text: str, word: str, meaning: str) -> str:
    import re

    return re.sub(rf"\b{word}\b", meaning, text)


def line_of(kind: Kind, threads: Iterable[str], marker: str = "# HERE") -> int:
    """Return the number of the line of a scene that carries the marker."""
    filename = scene_module(kind, tuple(threads)).__file__
    assert filename is not None
    lines = [number for number, line in enumerate(linecache.getlines(filename), start=1) if marker in line]
    assert len(lines) == 1, f"{len(lines)} lines carry {marker}"
    return lines[0]


# --- what a run's log tells


def rows(result: RunResult, *kinds: str) -> list[tuple[int, int, str, int]]:
    """Return (time, thread, kind, value) of the log rows of these kinds (none given: of all)."""
    assert result.log is not None
    named = [
        (time_ns, thread, OPCODE_NAMES[kind] if kind < len(OPCODE_NAMES) else LOG_NAMES[kind], value)
        for time_ns, thread, _, kind, _, value in result.log.tolist()
    ]
    return [row for row in named if not kinds or row[2] in kinds]


def instants(result: RunResult, kind: str) -> list[tuple[int, int]]:
    """Return (time, thread) of the log rows of one kind, such as "GRANT"."""
    return [(time_ns, thread) for time_ns, thread, _, _ in rows(result, kind)]


def final(result: RunResult, name: str) -> int:
    """Return an integer field of the place at the end."""
    return dict(result.final)[f"place.{name}"]


def use_of_lock(result: RunResult, mode: str = "exclusive") -> Any:
    """Return the statistics of `place.lock` in a mode."""
    return next(use for use in result.locks if use.name == "Place.lock" and use.mode == mode)
