"""An independent oracle: the rules of each lock kind in plain Python, without costs and latencies.

Threads follow a tape of operations, each at an instant of its own; until then a thread computes or sleeps.  A thread
that had to wait does what it missed at once.  All that a lock decides is then a matter of order, which is modelled.
Written from `docs/semantics.md` section 4; it shares no code with the engines but the random numbers of section 7.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import takewhile

from fssim.engine.random import below, draw

TAKE_SHARED, TAKE, TRY_SHARED, TRY, RELEASE, DEMOTE = range(6)
SHARED, EXCLUSIVE = 1, 2
HANDOFF_AFTER_NS = 4_000_000

Row = tuple[int, int, str, int]
"""Instant, thread, kind of the log row, value."""


@dataclass(eq=False)
class Actor:
    """A thread: its tape of (instant, operation, computes until then), and what became of it."""

    number: int
    tape: deque[tuple[int, int, bool]]
    state: str = "blocked"  # or "running", "spinning"
    holds: int = 0
    wants: int = 0
    listed: int = 0  # when it joined the wait list
    retries: bool = False  # it was woken without being granted the lock
    draws: int = 0


@dataclass
class Model:
    """Runs actors against one lock of a kind; `rows` are those the engines must log."""

    kind: str
    seed: int
    actors: list[Actor]
    now: int = 0
    rows: list[Row] = field(default_factory=list)
    writer: Actor | None = None
    readers: int = 0
    waiting: list[Actor] = field(default_factory=list)
    spinners: list[Actor] = field(default_factory=list)
    handoff: bool = False
    due: deque[Actor] = field(default_factory=deque)  # run at this instant, in this order

    def run(self) -> list[Row]:
        self.due.extend(self.actors)
        timers: dict[int, Actor] = {}
        while self.due or timers:
            if self.due:
                actor = self.due.popleft()
            else:
                self.now = min(timers)
                actor = timers.pop(self.now)
            if self.goes_on(actor):
                timers[actor.tape[0][0]] = actor
        return self.rows

    def goes_on(self, actor: Actor) -> bool:
        """Let it do what is due; return True if it then waits for its next instant."""
        was_blocked, actor.state = actor.state == "blocked", "running"
        if actor.retries and not self.retry(actor):
            return False
        if actor.wants or (was_blocked and self.now):
            actor.wants = 0
            self.note(actor, "RESUME", 0)
        while actor.tape:
            instant, operation, computes = actor.tape[0]
            if instant > self.now:
                if not computes:
                    self.stops(actor)
                return True
            actor.tape.popleft()
            if not self.perform(actor, operation):
                return False
        return False

    def perform(self, actor: Actor, operation: int) -> bool:
        """Return False if the actor has to wait."""
        if operation in (TAKE_SHARED, TAKE) and not actor.holds:
            mode = SHARED if operation == TAKE_SHARED else EXCLUSIVE
            self.note(actor, "ACQUIRE", mode)
            if not self.is_free_for(mode):
                actor.wants = mode
                self.wait(actor)
                return False
            self.own(actor, mode)
        elif operation in (TRY_SHARED, TRY):
            mode = SHARED if operation == TRY_SHARED else EXCLUSIVE
            got = not actor.holds and self.is_free_for(mode)
            self.note(actor, "TRY", int(got))
            if got:
                self.own(actor, mode)
        elif operation == RELEASE and actor.holds:
            self.note(actor, "RELEASE", actor.holds)
            if actor.holds == EXCLUSIVE:
                self.writer = None
            else:
                self.readers -= 1
            actor.holds = 0
            if self.readers == 0:
                self.pass_on(actor)
        elif operation == DEMOTE and actor.holds == EXCLUSIVE:
            self.note(actor, "DEMOTE", 0)
            self.writer, self.readers, actor.holds = None, 1, SHARED
            if self.first_is(SHARED):
                self.admit_readers()
            if self.kind == "rwlock spinning":
                self.spinners_sleep()
        return True

    # --- the rules

    def is_free_for(self, mode: int) -> bool:
        if self.writer or self.handoff:
            return False
        if self.kind in ("rwlock fifo", "mutex fifo"):
            return not self.waiting and (mode == SHARED or not self.readers)
        if self.kind == "rwlock spinning":
            return not self.readers or (mode == SHARED and not self.waiting)
        return True

    def wait(self, actor: Actor) -> None:
        owner_runs = self.writer is not None and self.writer.state == "running"
        may_spin = self.kind in ("rwlock spinning", "mutex barging") and owner_runs and actor.wants == EXCLUSIVE
        if self.kind == "spinlock" or (may_spin and not self.handoff):
            actor.state = "spinning"
            self.spinners.append(actor)
        else:
            self.sleeps(actor)

    def pass_on(self, releaser: Actor) -> None:
        if self.kind == "spinlock":
            if self.spinners:
                self.grant_to_spinner(0)
        elif self.kind == "mutex barging":
            self.wake_first()
            if self.spinners:
                count = len(self.spinners)
                self.grant_to_spinner(self.choose(releaser, count) if count > 1 else 0)
        elif self.kind == "rwlock spinning":
            if self.spinners and not self.handoff:
                if not (self.first_is(SHARED) and self.now - self.waiting[0].listed > HANDOFF_AFTER_NS):
                    self.grant_to_spinner(0)
                    return
                self.handoff = True
            if self.first_is(SHARED):
                self.admit_readers()
                self.spinners_sleep()
            else:
                self.wake_first()
        elif self.first_is(SHARED):
            self.admit_readers()
        elif self.waiting:
            self.grant(self.waiting.pop(0))

    def retry(self, actor: Actor) -> bool:
        actor.retries = False
        if self.writer is None and not self.readers:
            self.waiting.remove(actor)
            self.handoff = False
            self.own(actor, EXCLUSIVE)
            self.note(actor, "GRANT", EXCLUSIVE)
            return True
        if self.kind == "rwlock spinning" and self.now - actor.listed > HANDOFF_AFTER_NS:
            self.handoff = True
        actor.state = "blocked"
        return False

    def admit_readers(self) -> None:
        """Kind "fifo": those before the first writer; kind "spinning": all."""
        if self.kind == "rwlock spinning":
            readers = [actor for actor in self.waiting if actor.wants == SHARED]
        else:
            readers = list(takewhile(lambda actor: actor.wants == SHARED, self.waiting))
        for reader in readers:
            self.waiting.remove(reader)
            self.grant(reader)
        self.handoff = False

    def stops(self, actor: Actor) -> None:
        """It goes to sleep: nobody spins for it any more."""
        if self.writer is actor and self.kind != "spinlock":
            self.spinners_sleep()
        actor.state = "blocked"

    def spinners_sleep(self) -> None:
        spinners, self.spinners = self.spinners, []
        for spinner in spinners:
            self.sleeps(spinner)

    # --- small steps

    def note(self, actor: Actor, kind: str, value: int) -> None:
        self.rows.append((self.now, actor.number, kind, value))

    def own(self, actor: Actor, mode: int) -> None:
        actor.holds = mode
        if mode == EXCLUSIVE:
            self.writer = actor
        else:
            self.readers += 1

    def grant(self, actor: Actor) -> None:
        self.own(actor, actor.wants)
        self.note(actor, "GRANT", actor.wants)
        self.due.append(actor)

    def grant_to_spinner(self, number: int) -> None:
        spinner = self.spinners.pop(number)
        spinner.state = "running"
        self.grant(spinner)

    def sleeps(self, actor: Actor) -> None:
        actor.state, actor.listed = "blocked", self.now
        self.waiting.append(actor)

    def wake_first(self) -> None:
        if self.waiting and not self.waiting[0].retries:
            self.waiting[0].retries = True
            self.due.append(self.waiting[0])

    def first_is(self, mode: int) -> bool:
        return bool(self.waiting) and self.waiting[0].wants == mode

    def choose(self, actor: Actor, n: int) -> int:
        number = below(draw(self.seed, actor.number, actor.draws), n)
        actor.draws += 1
        return number
