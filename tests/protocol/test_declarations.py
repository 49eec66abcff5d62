"""What may be declared and given: kinds of fields, and values of primitives when objects are made and when they run."""

from __future__ import annotations

import pytest

from fssim.engine import ENGINES, run
from fssim.errors import UserError
from fssim.machine.host import Host
from fssim.protocol.language import BlockMap, Counter, Mutex, Queue, RWLock, Space
from fssim.system import System, Thread
from tests.protocol.source import module

DECLARED = """
class Parcel(Shared):
    weight: int

class Letter(Parcel):
    stamps: int

class Office(Shared):
    parcels: Queue[Parcel]
    numbers: Queue[int]
    room: Space
    shelf: BlockMap
    locks: list[Mutex]
    rooms: list[Space]

@protocol
def f(office: Office):
    yield cpu(1)
"""


def office(**given):
    made = module(DECLARED)
    return made, made.Office(**{"room": Space(1), "locks": [], "rooms": [], **given})


def run_office(made, given, engine):
    return run(System(threads=[Thread(made.f, (given,))], host=Host(cpus=1)), engine=engine)


@pytest.mark.parametrize("capacity", [0, -1, 2**63, 1.0, True, None, "3"])
def test_a_space_has_a_capacity_of_64_bits_from_1_on(capacity):
    with pytest.raises(ValueError, match=r"a Space has a capacity of 1 \.\.\. 2\*\*63 - 1, not "):
        Space(capacity)
    assert Space(1).capacity == 1
    assert Space(2**63 - 1).capacity == 2**63 - 1


def test_a_space_has_no_capacity_of_its_own_and_must_be_given():
    made = module(DECLARED)
    with pytest.raises(TypeError, match=r"Office\.room: a Space must be given, room=Space\(capacity\)"):
        made.Office(locks=[], rooms=[])
    with pytest.raises(TypeError):
        Space()


@pytest.mark.parametrize(
    "arguments",
    [{"blocks": -1}, {"blocks": 3, "state": 4}, {"blocks": 3, "state": -1}, {"contents": bytes([0, 4])}],
)
def test_a_block_map_has_blocks_in_the_four_states(arguments):
    with pytest.raises(ValueError, match=r"a BlockMap has 0 or more blocks in states 0 \.\.\. 3"):
        BlockMap(**arguments)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("parcels", Mutex(), r"^office\.parcels is .*Mutex.*; it must be a Queue$"),
        ("parcels", [], r"^office\.parcels is \[\]; it must be a Queue$"),
        ("numbers", Counter(), r"^office\.numbers is .*; it must be a Queue$"),
        ("room", Queue([1]), r"^office\.room is .*; it must be a Space$"),
        ("room", 5, r"^office\.room is 5; it must be a Space$"),
        ("shelf", b"\1", r"^office\.shelf is b'\\x01'; it must be a BlockMap$"),
        ("rooms", [Space(1), RWLock()], r"^office\.rooms\[1\] is .*; it must be a Space$"),
        ("rooms", Space(1), r"^office\.rooms is .*; it must be a list$"),
        ("numbers", Queue([1, None]), r"^office\.numbers\[1\] is None; it must be int$"),
        ("numbers", Queue([True]), r"^office\.numbers\[0\] is True; it must be int$"),
        ("numbers", Queue([2**63]), r"^office\.numbers\[0\] is 9223372036854775808; it must be int$"),
        ("parcels", Queue([7]), r"^office\.parcels\[0\] is 7; it must be Parcel$"),
    ],
)
def test_a_field_that_is_given_something_else_is_refused_before_the_run(engine, field, value, message):
    made, given = office(**{field: value})
    with pytest.raises(UserError, match=message):
        run_office(made, given, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_object_of_another_class_in_a_queue_is_refused_and_one_of_a_derived_class_is_not(engine):
    made, given = office()
    given.parcels = Queue([made.Parcel(), given])
    with pytest.raises(UserError, match=r"^office\.parcels\[1\] is .*; it must be Parcel$"):
        run_office(made, given, engine)
    given.parcels = Queue([made.Parcel(), made.Letter(weight=3, stamps=4)])
    assert dict(run_office(made, given, engine).final)["office.parcels[1].stamps"] == 4


@pytest.mark.parametrize(
    "kind", ["Queue", "list[Queue]", "list[Queue[int]]", "Queue[str]", "Queue[IO]", "Queue[Mutex]"]
)
def test_a_queue_is_declared_with_what_it_holds_and_not_in_a_list(kind):
    with pytest.raises(TypeError, match=r"Node\.all is declared .*; it may be an integer, a lock, a Counter, Queue\["):
        module(f"class Node(Shared):\n    all: {kind}\n\nNode()\n")


@pytest.mark.parametrize("kind", ["Queue[Monotonic]", "Queue[Ghost]", "Queue[bool]"])
def test_what_a_queue_holds_are_plain_integers_or_objects(kind):
    with pytest.raises(TypeError, match=r"Node\.all is declared"):
        module(f"class Node(Shared):\n    all: {kind}\n\nNode()\n")
