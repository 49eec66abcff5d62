"""Random sequences of lock operations: both engines log exactly what an independent model of the rules says."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from functools import cache
from random import Random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fssim.engine import ENGINES, run
from fssim.machine.host import Host
from fssim.system import System, Thread
from tests.contract.model import DEMOTE, RELEASE, TAKE, TAKE_SHARED, TRY, TRY_SHARED, Actor, Model
from tests.contract.scene import KINDS, Kind, rows
from tests.protocol.source import module

STEP_NS = 700_000  # between two operations: a wait of six is longer than the 4 ms of the hand-off
OPERATIONS = (TAKE_SHARED, TAKE, TAKE, TRY_SHARED, TRY, RELEASE, RELEASE, RELEASE, DEMOTE)

FOLLOWER = """
from fssim.protocol import *

class Place(Shared):
    lock: {declared}

class Tape(Shared):
    instants: list[int]
    operations: list[int]
    computes: list[int]

@protocol
def follow(place: Place, tape: Tape):
    holds = 0
    for step in range(len(tape.operations)):
        left = tape.instants[step] - now()
        if left > 0:
            if tape.computes[step]:
                yield cpu(left)
            else:
                yield sleep(left)
        operation = tape.operations[step]
        if operation == 0 and not holds:
            holds = 1
            yield place.lock.acquire({shared})
        elif operation == 1 and not holds:
            holds = 2
            yield place.lock.acquire({exclusive})
        elif operation == 2:
            got = yield place.lock.try_acquire({shared})
            if got:
                holds = 1
        elif operation == 3:
            got = yield place.lock.try_acquire({exclusive})
            if got:
                holds = 2
        elif operation == 4 and holds:
            {release}
            holds = 0
        elif operation == 5 and holds == 2:
            {demote}
            holds = 1
"""


@cache
def follower(kind: Kind) -> ModuleType:
    modes = kind.has_modes
    made: ModuleType = module(
        "",
        header=FOLLOWER.format(
            declared=kind.declared,
            shared="SHARED" if modes else "",
            exclusive="EXCLUSIVE" if modes else "",
            release="yield place.lock.release(holds)" if modes else "yield place.lock.release()",
            demote="yield place.lock.demote()" if modes else "yield cpu(0)",
        ),
    )
    return made


def tapes(kind: Kind, threads: int, steps: list[tuple[int, int, bool]]) -> list[list[tuple[int, int, bool]]]:
    """Deal the steps (thread, operation, computes until then) out to the threads; all release in the end."""
    dealt: list[list[tuple[int, int, bool]]] = [[] for _ in range(threads)]
    steps = [*steps, *((thread, RELEASE, True) for thread in range(threads))]
    for number, (thread, operation, computes) in enumerate(steps, start=1):
        if not kind.has_modes:
            operation = {TAKE_SHARED: TAKE, TRY_SHARED: TRY, DEMOTE: RELEASE}.get(operation, operation)
        computes = computes or not kind.may_sleep
        dealt[thread % threads].append((number * STEP_NS, operation, computes))
    return dealt


STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(OPERATIONS), st.booleans()), min_size=4, max_size=60)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(threads=st.integers(2, 6), steps=STEPS, seed=st.integers(0, 1000))
def test_random_operations_are_granted_as_the_model_of_the_kind_says(kind, threads, steps, seed):
    expected = Model(
        kind.name, seed, [Actor(number, deque(tape)) for number, tape in enumerate(tapes(kind, threads, steps))]
    ).run()
    made = follower(kind)
    place = made.Place()
    follow = [made.Tape(instants=a, operations=b, computes=c) for a, b, c in map(columns, tapes(kind, threads, steps))]
    system = System(
        threads=[Thread(made.follow, (place, tape)) for tape in follow],
        host=Host(cpus=threads, **dict(kind.host)),
        seed=seed,
        log=True,
    )
    for engine in ENGINES:
        result = run(system, engine=engine)
        logged = rows(result, "ACQUIRE", "TRY", "RELEASE", "DEMOTE", "GRANT", "RESUME")
        assert logged == expected, engine


def columns(tape: list[tuple[int, int, bool]]) -> list[list[int]]:
    """Return the instants, the operations and the ways of waiting of a tape, as the protocol reads them."""
    return [[int(step[column]) for step in tape] for column in range(3)]


def test_random_operations_are_worth_comparing():
    """Random tapes bring about grants, demotes, spinners that must sleep, vain looks, and hand-offs after 4 ms."""
    random = Random(1)
    met: Counter[str] = Counter()
    for kind in KINDS:
        for seed in range(100):
            steps = [(random.randrange(6), random.choice(OPERATIONS), random.random() < 0.5) for _ in range(60)]
            model = Watched(kind.name, seed, [Actor(n, deque(tape)) for n, tape in enumerate(tapes(kind, 6, steps))])
            met.update(f"{kind.name}: {row[2]}" for row in model.run())
            met.update(f"{kind.name}: {event}" for event in model.events)
    for kind in KINDS:
        assert met[f"{kind.name}: GRANT"] > 500, met
        if kind.has_modes:
            assert met[f"{kind.name}: DEMOTE"] > 100
        if kind.spins and kind.may_sleep:
            assert met[f"{kind.name}: a spinner must sleep"] > 50
            assert met[f"{kind.name}: a sleeper looks in vain"] > 10
    assert met["rwlock spinning: hand-off"] > 10
    assert met["mutex barging: choice"] > 50


@dataclass
class Watched(Model):
    """Notes what happens inside the model."""

    events: list[str] = field(default_factory=list)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "handoff" and value:
            self.events.append("hand-off")
        super().__setattr__(name, value)

    def spinners_sleep(self) -> None:
        self.events += ["a spinner must sleep"] * len(self.spinners)
        super().spinners_sleep()

    def retry(self, actor: Actor) -> bool:
        got = super().retry(actor)
        self.events += [] if got else ["a sleeper looks in vain"]
        return got

    def choose(self, actor: Actor, n: int) -> int:
        self.events.append("choice")
        return super().choose(actor, n)
