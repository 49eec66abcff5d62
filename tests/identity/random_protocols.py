"""Random protocols on random machines: source text that goes through the real `@protocol`, made from a `random.Random`.

The text keeps an order of locks (by kind, then by file), so that most runs come to an end; a few carry one deliberate
fault.  Whoever gets from a queue has put something into it, has something in flight that will get there, or leaves the
rest to daemons that need nothing it holds.  All delays come from a small set with 0 in it, so that events at the same
instant are frequent.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from random import Random
from typing import Any

from fssim.machine.device import Device, FlashDevice, SimpleDevice
from fssim.machine.host import Host
from fssim.protocol.language import BlockMap, Queue, Space
from fssim.system import System, Thread
from tests.protocol.source import module

DELAYS_NS = (0, 0, 1, 5, 5, 10, 10, 20)
# With the second, waits last longer than the 4 ms after which the spinning rwlock is handed over.
SLOWNESS = (1, 1, 1, 400_000)
LENGTHS = (512, 1024, 4096, 6000, 16384)
OFFSETS = ("0", "x % 8 * 512", "near.size % 32 * 4096", "mount.total % 9 * 512", "thread_id() * 65536")
MOST_EFFECTS = 3_000
BLOCKS = 24

HEADER = """\
from fssim.protocol import *

WAY = 2
SLOW = 1

class Note(Shared):
    number: int
    begun: int
    file: File

class File(Shared):
    outer: RWLock
    inner: RWLock
    mutex: Mutex
    spin: SpinLock
    busy: Counter
    size: int
    pages: int
    hidden: Ghost
    extents: BlockMap
    flight: Counter
    landed: Queue[int]
    peer: File

class Mount(Shared):
    journal: Mutex
    latch: SpinLock
    flushing: Counter
    files: list[File]
    total: int
    tokens: Queue[int]
    letters: Queue[int]
    log: Space
    cache: BlockMap
    pool: Queue[Note]
    done: Queue[Note]
    work: Queue[Note]
    latest: Note
    favourite: File

"""

# Locks in the order in which they are taken: expression, has modes, spins.
LOCKS = (
    ("near.outer", True, False),
    ("far.outer", True, False),
    ("near.inner", True, False),
    ("far.inner", True, False),
    ("mount.journal", False, False),
    ("near.mutex", False, False),
    ("far.mutex", False, False),
    ("near.spin", False, True),
    ("far.spin", False, True),
)
COUNTERS = ("near.busy", "far.busy", "mount.flushing")
PROPERTIES = (
    "near.busy.value",
    "near.flight.value",
    "mount.pool.length",
    "mount.letters.length",
    "mount.log.free",
    "near.extents.runs",
    "far.extents.present",
    "mount.cache.runs",
    "mount.favourite.extents.present",
    "mount.latest.file.busy.value",
)
INTEGERS = ("near.size", "far.size", "near.pages", "mount.total")
FAULTS = (
    "yield near.outer.release(SHARED)",
    "yield near.mutex.release()",
    "yield near.inner.demote()",
    "yield far.outer.acquire(EXCLUSIVE)",
    "yield near.mutex.acquire()",
    "x = x // (near.size % 2)",
    "x = x % (x - x)",
    "x = mount.files[x].size",
    "x = (near.size + 1) * 4_611_686_018_427_387_904",
    "near.pages += 9_223_372_036_854_775_807\nnear.pages -= 9_223_372_036_854_775_807",
    "x = -((x - 9_223_372_036_854_775_807) - 1)",
    "yield cpu(0 - x - 1)",
    "yield sleep(0 - 1)",
    "x = yield near.busy.dec()",
    "x = yield choose(near.size - near.size)",
    "x = yield exponential(0 - 3)",
    "yield device.read(0, near.size - near.size)",
    "yield device.write(0 - 4096, 512)",
    "assert near.size < 3, 'three'",
    "yield near.inner.acquire(x + 3)",
    "yield sleep(5)",
    "x = yield near.outer.try_acquire(x + 3)",
    "yield near.spin.acquire()\nyield cpu(5)\nyield near.mutex.acquire()",
    "yield near.spin.acquire()",
    "yield mount.log.take(x - x)",
    "yield mount.log.take(10)",
    "yield mount.log.give(1)",
    "yield mount.log.give(0 - 1)",
    "yield near.extents.lookup(0 - 1, 3)",
    "x, y = yield near.extents.lookup(0, near.size - near.size)",
    "yield near.extents.fill(near.size + 20, 5, 1)",
    "yield near.extents.fill(0, 1, x + 4)",
    "yield device.submit_write(0, near.size - near.size, near.flight)",
    "yield device.submit_read(0 - 512, 512, mount.tokens, 3)",
    "yield device.submit_write(0, 512, mount.flushing)",
    "yield complete_io(now() + 1)",
    "x = yield near.landed.get()",
    "yield near.spin.acquire()\nx = yield mount.letters.get()",
    "yield near.spin.acquire()\nyield mount.log.take(1)",
    "yield near.flight.inc()\nyield near.flight.wait_zero()",
)

# Deadlocks, by chance: against the order of locks, and a drain by one who holds what others need.
INVERSIONS = (
    """\
if thread_id() % 2:
    yield near.outer.acquire(SHARED)
    yield sleep(5)
    yield near.mutex.acquire()
    yield near.mutex.release()
    yield near.outer.release(SHARED)
else:
    yield near.mutex.acquire()
    yield sleep(5)
    yield near.outer.acquire(EXCLUSIVE)
    yield near.outer.release(EXCLUSIVE)
    yield near.mutex.release()""",
    """\
if thread_id() % 2:
    yield near.inner.acquire(EXCLUSIVE)
    yield near.busy.wait_zero()
    yield near.inner.release(EXCLUSIVE)
else:
    yield near.busy.inc()
    yield sleep(1)
    yield near.inner.acquire(SHARED)
    yield near.inner.release(SHARED)
    yield near.busy.dec()""",
    """\
if thread_id() % 2:
    yield near.spin.acquire()
    yield cpu(10)
    yield mount.latch.acquire()
    yield mount.latch.release()
    yield near.spin.release()
else:
    yield mount.latch.acquire()
    yield cpu(10)
    yield near.spin.acquire()
    yield near.spin.release()
    yield mount.latch.release()""",
    """\
yield mount.log.take(2)
yield sleep(5)
yield mount.log.take(2)
yield mount.log.give(4)""",
)

# Writers that come back at once, and steal from those who wait; readers among them.
DUELS = (
    """\
for duel in range(5):
    if thread_id() % 3 or duel % 2:
        yield near.outer.acquire(EXCLUSIVE)
        if duel % 2:
            yield sleep(5 * SLOW)
        else:
            yield cpu(10 * SLOW)
        yield near.outer.release(EXCLUSIVE)
    else:
        yield near.outer.acquire(SHARED)
        yield cpu(10 * SLOW)
        yield near.outer.release(SHARED)""",
    """\
for duel in range(3):
    yield near.mutex.acquire()
    yield cpu(5)
    if (thread_id() + duel) % 4 == 0:
        yield sleep(10)
    yield near.mutex.release()""",
)


class _Writer:
    """Writes the text of one protocol, statement by statement, within a budget."""

    def __init__(self, random: Random, files: int, subs: list[_Sub], budget: int, pipeline: bool = False) -> None:
        self.random = random
        self.pipeline = pipeline  # daemons complete what is submitted with a note
        self.files = files
        self.subs = subs
        self.budget = budget
        self.fault_at: int | None = None
        self.loops = 0
        self.in_loop = False

    def body(self, rank: int = 0, held: frozenset[str] = frozenset(), atomic: bool = False, most: int = 5) -> str:
        """Some statements.  `rank`: only locks from this one on may be waited for; `held`: what must not be touched."""
        lines = [self.statement(rank, held, atomic) for _ in range(self.random.randrange(1, most + 1))]
        return "\n".join(lines)

    def statement(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        self.budget -= 1
        if self.budget == self.fault_at:
            return self.random.choice(FAULTS)
        if self.budget <= 0:
            return self.simple(atomic)
        nested = [self.critical] * 5
        nested += [
            self.tried,
            self.counted,
            self.drained,
            self.branch,
            self.chance,
            self.loop,
            self.call,
            self.holding_token,
            self.holding_space,
            self.submitted,
            self.awaited,
            self.mapped,
            self.mapped,
            self.referred,
            self.posted,
        ]
        if not held and not atomic:
            nested += [self.holding_token, self.holding_space] * 2
        if self.pipeline:
            nested += [self.piped] * 4
        kind = self.random.randrange(5 + len(nested))
        if kind < 4:
            return self.simple(atomic)
        if kind == 4:
            return self.compute()
        return nested[kind - 5](rank, held, atomic)

    def simple(self, atomic: bool) -> str:
        delay = self.random.choice(DELAYS_NS)
        length = self.random.choice(LENGTHS)
        offset = self.random.choice(OFFSETS)
        calm = [
            f"yield cpu({delay})",
            f"yield cpu({delay} * SLOW)",
            f"yield cpu((near.pages % 4 * 5 + {delay}) * SLOW)",
            "yield cpu(path.step)",
        ]
        waiting = [
            f"yield sleep({delay} * SLOW)",
            f"yield device.read({offset}, {length})",
            f"yield device.read({offset}, {length})",
            f"yield device.write({offset}, {length})",
            f"x = yield exponential({delay * 4})\nyield sleep(x % 64)\nx = x % 8",
        ]
        return self.random.choice(calm if atomic else calm + waiting)

    def compute(self) -> str:
        target = self.random.choice(INTEGERS)
        source = self.random.choice(INTEGERS)
        return self.random.choice(
            (
                f"{target} += 1",
                f"{target} = ({source} * 3 + x + WAY) % 101",
                f"{target} = max({source}, x) - min(x, {source})",
                f"{target} = now() % 97",
                f"x = ({target} + thread_id()) % 8",
                f"x = mount.files[{source} % len(mount.files)].size % 8",
                f"mount.files[x % {self.files}].pages = x ^ 5",
                f"near.hidden = {source}",
                f"x = ({source} << 2 | x >> 1) & 7",
                f"{target} = {source} + (yield choose(3)) * 2",
                f"{target} += yield choose(3)",
                f"if (yield choose(2)) and {source} > 1 or x == 3:\n    x = (x + 1) % 8",
                # The lines of effects within one statement.
                f"x = (\n    {source}\n    + (yield choose(3))\n    + (yield choose(2))\n) % 8",
                f"yield cpu(\n    max(\n        {source} % 3,\n        (yield choose(2)),\n    )\n)",
                f"x = {self.random.choice(PROPERTIES)} % 8",
                f"{target} = {self.random.choice(PROPERTIES)} + (yield choose(2)) + {self.random.choice(PROPERTIES)}",
                f"if {self.random.choice(PROPERTIES)} > {self.random.choice(PROPERTIES)}:\n    x = (x + 1) % 8",
            )
        )

    def pick(self, rank: int) -> int | None:
        choices = [at for at in range(rank, len(LOCKS)) if self.files > 1 or not LOCKS[at][0].startswith("far")]
        return self.random.choice(choices) if choices else None

    def critical(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        at = self.pick(max(rank, 7) if atomic else rank)
        if at is None:
            return self.simple(atomic)
        name, has_modes, spins = LOCKS[at]
        if not has_modes:
            body = self.body(at + 1, held | {name}, atomic or spins, 3)
            return f"yield {name}.acquire()\n{body}\nyield {name}.release()"
        mode = self.random.choice(("SHARED", "SHARED", "EXCLUSIVE"))
        text = f"yield {name}.acquire({mode})\n{self.body(at + 1, held | {name}, atomic, 3)}\n"
        if mode == "EXCLUSIVE" and self.random.randrange(2):
            mode = "SHARED"
            text += f"yield {name}.demote()\n{self.body(at + 1, held | {name}, atomic, 2)}\n"
        return f"{text}yield {name}.release({mode})"

    def tried(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        at = self.pick(0)
        assert at is not None
        name, has_modes, spins = LOCKS[at]
        mode = self.random.choice(("SHARED", "EXCLUSIVE")) if has_modes else ""
        # Inside, only what is behind both this lock and those already held.
        inside = self.body(max(rank, at + 1), held | {name}, atomic or spins, 2)
        return (
            f"got = yield {name}.try_acquire({mode})\n"
            f"if got:\n{_indent(inside)}\n    yield {name}.release({mode})"
            + (f"\nelse:\n{_indent(self.simple(atomic))}" if self.random.randrange(2) else "")
        )

    def counted(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        name = self.random.choice(COUNTERS if self.files > 1 else COUNTERS[::2])
        body = self.body(rank, held | {name}, atomic, 2)
        return f"yield {name}.inc()\n{body}\n{self.random.choice(('yield', 'x = yield'))} {name}.dec()"

    def drained(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        if atomic or held:
            # Whoever has to bring the count to zero may need what this thread holds.
            return self.simple(atomic)
        name = self.random.choice(COUNTERS if self.files > 1 else COUNTERS[::2])
        return f"yield {name}.wait_zero()"

    # What may wait for a queue or a space; `held` says what stands against it.

    def holding_token(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        """Tokens are fewer than threads; before anything else is held."""
        if atomic or held:
            return self.simple(atomic)
        body = self.body(rank, frozenset({"token"}), atomic, 3)
        return f"token = yield mount.tokens.get()\n{body}\nyield mount.tokens.put(token)"

    def holding_space(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        """Space is taken before locks, once."""
        if atomic or held - {"token"}:
            return self.simple(atomic)
        units = self.random.choice(("1", "2", "3", "1 + near.size % 3"))
        body = self.body(rank, held | {"space"}, atomic, 3)
        return f"units = {units}\nyield mount.log.take(units)\n{body}\nyield mount.log.give(units)"

    def submission(self, target: str, tag: str = "") -> str:
        """An asynchronous read or write, its arguments by position or by name."""
        direction = self.random.choice(("read", "write"))
        offset, length = self.random.choice(OFFSETS), self.random.choice(LENGTHS)
        forms = [
            f"{offset}, {length}, {target}{tag and ', ' + tag}",
            f"{offset}, {length}, to={target}{tag and ', tag=' + tag}",
        ]
        if tag:
            forms.append(f"{offset}, tag={tag}, to={target}, length={length}")
            forms.append(f"tag=(yield choose(3)) + {tag}, length={length}, offset={offset}, to={target}")
        else:
            forms.append(f"to={target}, length={length} + (yield choose(2)), offset={offset}")
        if tag == "note":
            del forms[-1]
        return f"yield device.submit_{direction}({self.random.choice(forms)})"

    def submitted(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        """The device counts down; what only the device does may be waited for with locks held."""
        name = self.random.choice(("near.flight", "near.flight", "near.busy", "mount.flushing"))
        text = f"yield {name}.inc()\n{self.submission(name)}"
        if not atomic and name == "near.flight" and self.random.randrange(2):
            text += f"\n{self.simple(atomic)}\nyield near.flight.wait_zero()"
        return text

    def awaited(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        """As many tags are taken as have been sent, by whom does not matter."""
        depth = self.random.choice((1, 1, 2, 5))
        self.loops += 1
        index = f"k{self.loops}"
        text = self.submission("near.landed", index)
        text = f"for {index} in range({depth}):\n{_indent(text)}"
        if atomic:
            return text
        gets = f"for {index} in range({depth}):\n    x = yield near.landed.get()\n    x = x % 8"
        return f"{text}\n{self.simple(atomic)}\n{gets}"

    def posted(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        put = "yield mount.letters.put(x + near.size)"
        if atomic:
            return put
        return f"{put}\n{self.simple(atomic)}\nx = (yield mount.letters.get()) % 8"

    def mapped(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        name = self.random.choice(("near.extents", "near.extents", "far.extents", "mount.cache"))
        block = self.random.choice(("x % 16", "near.size % 16", "(yield choose(16))", "thread_id()"))
        count = self.random.choice(("1", "4", "1 + x % 4", "near.pages % 3 + 1"))
        state = self.random.choice(("0", "1", "2", "3", "thread_id() % 4", "(yield choose(4))"))
        look = f"state, run = yield {name}.lookup({block}, {self.random.choice(('3', '30', '1 << 60', count))})"
        fill = f"yield {name}.fill({block}, {count}, {state})"
        then = self.random.choice(
            (
                fill,
                f"{look}\nx = (state + run) % 8",
                f"{look}\nif state != 2:\n    yield {name}.fill(0, min(run, 20), state + 1 if state < 3 else 0)",
                f"{fill}\n{look}\nnear.pages = (run + {name}.runs * 3 + {name}.present) % 50",
                f"block = 0\nwhile block < 16:\n    state, run = yield {name}.lookup(block, 16 - block)\n"
                f"    if state == {self.random.randrange(4)}:\n"
                f"        yield {name}.fill(block, run, 2)\n    block += run",
            )
        )
        return then

    def referred(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        """References are assigned, and used at once or much later by somebody else."""
        assignment = self.random.choice(
            (
                "near.peer = far",
                "mount.favourite = near",
                "mount.favourite = mount.files[x % len(mount.files)]",
                "mount.favourite = near.peer.peer",
                "mount.latest.file = near",
                "near.peer = mount.latest.file",
                "mount.files[near.size % len(mount.files)].peer = mount.favourite",
            )
        )
        use = self.random.choice(
            (
                "mount.favourite.pages = (mount.favourite.pages + 1) % 50",
                "x = near.peer.size % 8",
                "mount.latest.file.peer.pages = x",
                "other = mount.favourite\ngot = yield other.mutex.try_acquire()\n"
                "if got:\n    mount.favourite = far\n    yield cpu(1)\n    yield other.mutex.release()",
                "yield near.peer.extents.fill(x % 8, 1, 1)",
            )
        )
        return f"{assignment}\n{use}"

    def piped(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        """Submit with a note of the pool, which daemons put back when they have done the rest."""
        if atomic or held:
            return self.simple(atomic)
        begin = self.random.choice(("", "yield begin_io()\n"))
        end = self.random.choice(("", "\nyield end_submission()"))
        refer = self.random.choice(("", "\nmount.latest = note", "\nnote.file = near.peer"))
        text = (
            f"note = yield mount.pool.get()\n{begin}note.begun = now()\nnote.number = x\nnote.file = near{refer}\n"
            f"{self.submission('mount.done', 'note')}{end}"
        )
        depth = self.random.choice((1, 1, 2, 4))
        self.loops += 1
        return text if depth == 1 else f"for k{self.loops} in range({depth}):\n{_indent(text)}"

    def branch(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        left = self.random.choice((*INTEGERS, "x"))
        test = self.random.choice(
            (f"{left} % 2 == 0", f"{left} > 3 and x < 6", f"x or {left} > 1", f"not {left} % 3", "thread_id() % 2")
        )
        text = f"if {test}:\n{_indent(self.body(rank, held, atomic, 3))}"
        if self.random.randrange(2):
            text += f"\nelse:\n{_indent(self.body(rank, held, atomic, 3))}"
        return text

    def chance(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        return (
            f"x = yield choose({self.random.choice((1, 2, 2, 3, 7))})\n"
            f"if x == 0:\n{_indent(self.body(rank, held, atomic, 2))}"
        )

    def loop(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        self.loops += 1
        index = f"k{self.loops}"
        turns = self.random.randrange(1, 4)
        way_out = ""
        if self.random.randrange(3) == 0:
            way_out = f"\nif {self.random.choice(INTEGERS)} % 3 == 1:\n    {self.random.choice(('break', 'continue'))}"
        body = self.body(rank, held, atomic, 2)
        if self.random.randrange(2):
            return f"for {index} in range({turns}):\n{_indent(body + way_out)}"
        return f"{index} = 0\nwhile {index} < {turns}:\n    {index} += 1\n{_indent(body + way_out)}"

    def call(self, rank: int, held: frozenset[str], atomic: bool) -> str:
        fitting = [sub for sub in self.subs if sub.rank >= rank and not (sub.waits and atomic)]
        if not fitting:
            return self.simple(atomic)
        sub = self.random.choice(fitting)
        return f"{sub.targets}yield from {sub.name}(mount, near, far, x)"


@dataclass(frozen=True)
class _Sub:
    """A sub-protocol: how it is called, from which rank on it takes locks, and whether it may sleep."""

    name: str
    targets: str
    rank: int
    waits: bool


def _indent(text: str) -> str:
    return textwrap.indent(text, "    ")


def _sub(random: Random, number: int, files: int, subs: list[_Sub]) -> tuple[_Sub, str]:
    rank = random.choice((0, 2, 5, 7, len(LOCKS)))
    atomic = random.randrange(3) == 0
    results, targets = random.choice(
        (
            ("", ""),
            ("return x", "x = "),
            ("return x + 1, near.size", "x, y = "),
            ("return near.pages, x, 3", "y, x, x = "),
        )
    )
    writer = _Writer(random, files, subs, budget=random.randrange(2, 8))
    # Locks held by the caller are not known here: no draining, hence the mark.
    body = writer.body(max(rank, 7) if atomic else rank, frozenset({"caller's"}), atomic)
    name = f"sub_{number}"
    text = f"@protocol\ndef {name}(mount: Mount, near: File, far: File, x: int):\n{_indent(body)}\n"
    if results:
        if random.randrange(2):
            text += f"    if near.size % 3 == 1:\n        {results.replace('x', 'x * 2', 1)}\n    yield cpu(1)\n"
        text += f"    {results}\n"
    return _Sub(name, targets, rank, not atomic), text + "\n"


def _program(random: Random, number: int, files: int, subs: list[_Sub], kind: str, pipeline: bool) -> str:
    if kind in ("interrupt", "worker"):
        return _head(number) + _pipeline_daemon(random, files, subs, kind)
    writer = _Writer(random, files, subs, budget=random.randrange(6, 32), pipeline=pipeline and kind != "daemon")
    if random.randrange(6) == 0:
        # Early, since most of the budget is seldom used up.
        writer.fault_at = writer.budget - 1 - random.randrange(min(writer.budget, 8))
    body = writer.body()
    if random.randrange(8) == 0:
        body += "\n" + random.choice(INVERSIONS)
    if random.randrange(4) == 0:
        body += "\n" + random.choice(DUELS)
    if random.randrange(2):
        end = random.choice(("", "yield end_submission()\n"))
        body = f"{random.choice(('', 'begun = now()'))}\nyield begin_io()\n{body}\n{end}yield complete_io()".strip()
        if body.startswith("begun"):
            body = body.removesuffix("()") + "(begun)"
    if kind == "daemon":
        body = f"while True:\n{_indent(body)}\n    yield sleep({random.choice((10, 40))})"
    else:
        body = f"for turn in range(turns):\n{_indent(body)}"
    return _head(number) + f"{_indent(body)}\n    near.pages = near.pages + x + y\n\n"


def _head(number: int) -> str:
    return (
        f"@protocol\ndef program_{number}(mount: Mount, near: File, far: File, turns: int):\n"
        f"    x = turns % (WAY + 1)\n    y = SLOW // 500_000\n"
    )


def _pipeline_daemon(random: Random, files: int, subs: list[_Sub], kind: str) -> str:
    """The rest of a loop: an interrupt handler that hands notes on, or a worker of the queue that it fills."""
    writer = _Writer(random, files, subs, budget=random.randrange(1, 8))
    complete = random.choice(("", "\nyield complete_io(note.begun)", "\nyield complete_io()"))
    if kind == "interrupt":
        body = random.choice(("", f"\n{writer.simple(True)}", "\nif note.number % 3 == 0:\n    yield cpu(5)"))
        short = "\nif note.number % 2:\n    yield mount.pool.put(note)\n    continue" if random.randrange(2) else ""
        text = f"note = yield mount.done.get(){body}{complete}{short}\nyield mount.work.put(note)"
    else:
        lock, mode = random.choice((("inner", "EXCLUSIVE"), ("outer", "EXCLUSIVE"), ("inner", "SHARED"), ("mutex", "")))
        convert = (
            f"file = note.file\nyield file.{lock}.acquire({mode})\n"
            "state, run = yield file.extents.lookup(note.number % 16, 4)\n"
            f"yield file.extents.fill(note.number % 16, min(run, 4), 2)\n{writer.simple(False)}\n"
            f"yield file.{lock}.release({mode})"
        )
        if random.randrange(2):
            convert = f"yield mount.log.take(1)\n{convert}\nyield mount.log.give(1)"
        text = f"note = yield mount.work.get()\n{convert}\n{writer.body(most=2)}{complete}\nyield mount.pool.put(note)"
    return f"    while True:\n{_indent(_indent(text))}\n\n"


def random_host(random: Random) -> Host:
    choose = random.choice
    return Host(
        cpus=choose((1, 1, 2, 2, 3, 8)),
        wakeup_ns=choose((0, 0, 1, 5, 10)),
        interrupt_ns=choose((0, 1, 5, 10)),
        wakeup_spread_ns=choose((0, 0, 0, 5)),
        idle_exit_ns=choose((0, 0, 7, 20)),
        idle_depth_ns=choose((0, 5, 30)),
        switch_ns=choose((0, 0, 1, 5)),
        spin_handoff_ns=choose((0, 1, 5)),
        cache_line_ns=choose((0, 0, 1, 5)),
        timeslice_ns=choose((0, 0, 1, 10, 30)),
        rwlock=choose(("fifo", "spinning")),
        mutex=choose(("barging", "fifo")),
        path_ns={"step": choose((0, 5, 7))},
    )


def random_device(random: Random) -> Device:
    choose = random.choice
    if random.randrange(2):
        return random_flash(random)
    bandwidth_mb_s = choose((0, 0, 10**5, 10**6, 3 * 10**6))
    return SimpleDevice(
        latency_ns=choose((0, 1, 5, 10, 40)),
        latency_distribution=choose(("fixed", "fixed", "exponential")),
        iops_cap=choose((0, 0, 10**9, 2 * 10**8, 3 * 10**7)),
        bandwidth_mb_s=bandwidth_mb_s,
        seek_ns=choose((0, 3, 20)) if bandwidth_mb_s else 0,
        queue_depth=choose((1, 1, 2, 3, 32)),
    )


def random_flash(random: Random) -> FlashDevice:
    """Small pages, so that requests are cut into several chunks, and a cache that holds a few writes or none."""
    choose = random.choice
    return FlashDevice(
        channels=choose((1, 2, 3, 4)),
        chips_per_channel=choose((1, 1, 2, 3)),
        page_bytes=choose((512, 1000, 4096, 16384)),
        placement=choose(("rotated", "scattered")),
        channel_rotation=choose((0, 0, 1, 2)),
        command_ns=choose((0, 0, 5, 10)),
        page_load_ns=choose((0, 5, 20, 50)),
        channel_command_ns=choose((0, 0, 5)),
        channel_ps_per_byte=(channel_ps_per_byte := choose((0, 1, 5, 10))),
        fast_after_bytes=choose((0, 300, 1000)),
        fast_ps_per_byte=min(choose((0, 0, 1, 3)), channel_ps_per_byte),
        decode_ps_per_byte=choose((0, 0, 5)),
        decode_limit_bytes=choose((0, 512, 2048)),
        bus_ps_per_byte=choose((0, 1, 5)),
        bus_packet_bytes=choose((0, 0, 500, 4096)),
        write_bus_ps_per_byte=choose((0, 1, 5)),
        write_cache_bytes=choose((0, 1024, 8192, 100_000)),
        drain_ps_per_byte=choose((0, 2, 10, 20)),
        write_command_ns=choose((0, 0, 5)),
        write_inline_bytes=choose((0, 0, 512, 1000)),
        write_segment_bytes=choose((0, 0, 512, 4096)),
        write_segment_ns=choose((0, 5, 20)),
        write_ns=choose((0, 5, 10)),
        write_polled=choose((False, True)),
    )


def random_source(random: Random, files: int, programs: list[str]) -> str:
    """The text of a module with a program for each entry of `programs`.

    "": a thread that returns; "daemon": one that does not; "interrupt", "worker": of the pipeline, both or none.
    """
    subs: list[_Sub] = []
    text = HEADER
    for number in range(random.randrange(4)):
        sub, sub_text = _sub(random, number, files, subs)
        subs.append(sub)
        text += sub_text
    for number, kind in enumerate(programs):
        text += _program(random, number, files, subs, kind, "worker" in programs)
    return text


@dataclass(frozen=True)
class RandomSystem:
    """A system to run, and the text of its protocols for the report of a difference."""

    system: System
    source: str


def random_mount(random: Random, made: Any, files: int) -> Any:
    """The objects of a run: what queues, spaces and block maps begin with is by chance."""
    inodes = []
    for _ in range(files):
        contents = bytes(random.randrange(4) for _ in range(BLOCKS))
        extents = random.choice((BlockMap(BLOCKS), BlockMap(BLOCKS, 1), BlockMap(contents=contents)))
        inodes.append(made.File(size=random.randrange(4), pages=random.randrange(3), extents=extents, peer=None))
    for inode in inodes:
        inode.peer = random.choice(inodes)
    notes = [made.Note(file=random.choice(inodes)) for _ in range(random.choice((1, 2, 5)))]
    return made.Mount(
        files=inodes,
        tokens=Queue(range(random.choice((1, 1, 2, 3)))),
        log=Space(random.choice((3, 3, 4))),
        cache=BlockMap(BLOCKS),
        pool=Queue(notes),
        latest=notes[-1],
        favourite=random.choice(inodes),
    )


def random_system(random: Random) -> RandomSystem:
    """Everything by chance: protocols, machine, threads, goals and limits."""
    files = random.choice((1, 1, 2, 3))
    count = random.choice((1, 2, 2, 3, 3, 4, 4, 6, 8))
    # Some threads share a program.
    own_programs = max(1, min(count, random.choice((1, 2, 3))))
    programs = [""] * own_programs
    order = [number % own_programs for number in range(count)]
    if random.randrange(4) == 0:
        order.append(len(programs))
        programs.append("daemon")
    if random.randrange(2):
        workers = random.choice((1, 1, 2))
        order += [len(programs), *[len(programs) + 1] * workers]
        programs += ["interrupt", "worker"]
    source = random_source(random, files, programs)
    made = module(source, header="")
    mount = random_mount(random, made, files)
    threads = []
    for number in order:
        near, far = sorted(random.sample(range(files), 2)) if files > 1 else (0, 0)
        turns = random.choice((1, 3, 5, 8))
        arguments = (mount, mount.files[near], mount.files[far], turns)
        threads.append(Thread(getattr(made, f"program_{number}"), arguments, daemon=programs[number] != ""))
    constants = {"WAY": random.choice((2, 3)), "SLOW": random.choice(SLOWNESS)}
    system = System(
        threads=threads,
        constants=constants,
        host=random_host(random),
        device=random_device(random),
        seed=random.randrange(2**31),
        ios=random.choice((0, 0, 5, 20)),
        warmup_ios=random.choice((0, 0, 1, 2)),
        batch_ios=random.choice((0, 1, 2)),
        time_limit_ns=random.choice((0, 0, 0, 0, 200, 2000)) * constants["SLOW"],
        max_effects=random.choice((*[MOST_EFFECTS] * 7, 100)),
        log=True,
        ghosts=random.randrange(4) == 0,
    )
    return RandomSystem(system, source)
