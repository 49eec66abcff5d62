"""Queues, spaces, block maps, asynchronous I/O and assigned references mean the same natively and as bytecode."""

from __future__ import annotations

import textwrap

import pytest

from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.protocol.bytecode import OPCODE_NAMES, PROPERTIES
from fssim.protocol.language import BlockMap, Queue, Space
from fssim.system import System, Thread
from tests.identity.compare import assert_identical
from tests.protocol.source import module

HELPERS = """
@protocol
def bump_and_tell(io: IO):
    io.offset += 100
    yield cpu(1)
    return io.offset

@protocol
def note(mount: Mount, digit: int):
    # Tells in which order things are evaluated.
    mount.position = mount.position * 10 + digit
    yield cpu(1)
    return digit

@protocol
def first(ring: Ring):
    request = yield ring.requests.get()
    return request
"""


def in_f(body: str) -> str:
    return "@protocol\ndef f(mount: Mount, ring: Ring):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")


def run_both(text: str, threads: int = 1, program: str = "f", **options):
    """Run the thread program `f(mount, ring)` of a module on both engines; return the result, which is the same.

    Two requests are in `ring.requests`: number 4 of mount.files[0], and number 9, an Urgent one, of mount.files[1].
    """
    made = module(HELPERS + textwrap.dedent(text))
    mount = made.Mount(files=[made.Inode(size=size) for size in (1, 2, 5)], root=made.Inode(size=7))
    requests = [
        made.Request(number=4, next=mount.files[0]),
        made.Urgent(number=9, deadline=3, next=mount.files[1]),
    ]
    ring = made.Ring(
        requests=Queue(requests),
        slots=Queue([30, 20, 10]),
        log=Space(10),
        extents=BlockMap(contents=bytes([0, 0, 1, 1, 2, 0, 3])),
        latest=requests[0],
    )
    return assert_identical(
        System(
            threads=[Thread(made.f, (mount, ring)) for _ in range(threads)],
            host=Host(cpus=2),
            device=SimpleDevice(latency_ns=100),
            seed=3,
            **options,
        )
    )


# Thread program, and what mount.position is at the end.  One thread runs it.
PROGRAMS = {
    "two results of an effect": (
        """
        state, run = yield ring.extents.lookup(2, 9)
        mount.position = state * 10 + run
        """,
        12,
    ),
    "two results of an effect into variables that its arguments come from": (
        """
        block = 2
        count = 9
        block, count = yield ring.extents.lookup(block, count)
        count, block = yield ring.extents.lookup(count + 2, block)
        mount.position = count * 10 + block
        """,
        21,  # state 1, run 2; then block 4, count 1: state 2, run 1
    ),
    "two results of an effect, the same variable twice": (
        """
        x, x = yield ring.extents.lookup(2, 9)
        mount.position = x
        """,
        2,
    ),
    "the results of a lookup that nobody takes": (
        """
        yield ring.extents.lookup(2, 9)
        mount.position = 5
        """,
        5,
    ),
    "arguments of a lookup with waits, left to right": (
        """
        io = IO(offset=2)
        state, run = yield ring.extents.lookup(io.offset, (yield from bump_and_tell(io)) - 100)
        mount.position = state * 1000 + run * 100 + io.offset - 100
        yield ring.extents.fill((yield from note(mount, 1)), (yield from note(mount, 2)), (yield from note(mount, 3)))
        """,
        1202123,  # and the fill gives blocks 1 and 2 the state 3
    ),
    "properties in expressions and tests": (
        """
        yield ring.pending.inc()
        if ring.pending.value == 1 and ring.slots.length > 2 or ring.log.free < 5:
            mount.position = 1
        while ring.slots.length:
            x = yield ring.slots.get()
            mount.position = mount.position * 10 + x // 10
        yield ring.log.take(3)
        mount.position = mount.position * 10 + min(ring.log.free, 8)
        mount.position += 100000 * (ring.extents.runs * 10 + ring.extents.present)
        """,
        3400000 + 13217,  # runs: 1 1, 2, 3; present: four blocks
    ),
    "a property is read when its turn comes": (
        """
        x = ring.slots.length * 100 + (yield ring.slots.get()) + ring.slots.length
        mount.position = x
        """,
        332,
    ),
    "a property as an argument and an index": (
        """
        yield cpu(ring.slots.length)
        mount.files[ring.requests.length].pages = ring.log.free
        mount.position = now() * 100 + mount.files[2].pages
        """,
        310,
    ),
    "a property of a primitive behind an assigned reference": (
        """
        yield mount.files[2].dio.inc()
        mount.root = mount.files[2]
        mount.position = mount.root.dio.value + ring.latest.next.dio.value
        ring.latest.next = mount.root
        mount.position = mount.position * 10 + ring.latest.next.dio.value
        """,
        11,
    ),
    "an assigned reference, used at once and through another": (
        """
        mount.root = mount.files[1]
        mount.root.size += 10
        ring.latest.next = mount.root
        mount.root = mount.files[2]
        mount.position = ring.latest.next.size * 100 + mount.root.size
        """,
        1205,
    ),
    "a variable keeps the object when the reference goes on": (
        """
        inode = mount.root
        mount.root = mount.files[0]
        yield inode.mutex.acquire()
        yield mount.root.mutex.acquire()
        mount.position = inode.size * 10 + mount.root.size
        yield mount.root.mutex.release()
        yield inode.mutex.release()
        """,
        71,
    ),
    "a reference assigned from a queue and from a sub-protocol": (
        """
        ring.latest = yield ring.requests.get()
        mount.position = ring.latest.number
        ring.latest = yield from first(ring)
        mount.position = mount.position * 10 + ring.latest.number
        """,
        49,
    ),
    "an object of a derived class, by a reference to its base": (
        """
        yield from first(ring)
        request = yield ring.requests.get()
        request.number += 1
        ring.latest = request
        yield ring.requests.put(ring.latest)
        again = yield ring.requests.get()
        mount.position = again.number * 10 + again.next.size
        """,
        102,
    ),
    "items leave in the order in which they came": (
        """
        yield ring.slots.put(5)
        x = yield ring.slots.get()
        y = yield ring.slots.get()
        z = (yield ring.slots.get()) + (yield ring.slots.get())
        mount.position = x * 10000 + y * 100 + z
        """,
        302015,
    ),
    "what is put may wait for what is got": (
        """
        yield ring.slots.put((yield ring.slots.get()) + 1)
        while ring.slots.length > 1:
            yield ring.slots.get()
        mount.position = yield ring.slots.get()
        """,
        31,
    ),
    "a tag by position, by name, and an object as a tag": (
        """
        while ring.slots.length:
            yield ring.slots.get()
        yield device.submit_read(0, 512, ring.slots, 3)
        yield device.submit_write(4096, 512, to=ring.slots, tag=mount.root.size)
        yield device.submit_write(0, 512, ring.requests, ring.latest)
        a = yield ring.slots.get()
        b = yield ring.slots.get()
        yield from first(ring)
        yield from first(ring)
        request = yield from first(ring)
        mount.position = a * 100 + b * 10 + request.number
        """,
        374,
    ),
    "names of a submission in another order, evaluated in that of the text": (
        """
        yield ring.pending.inc()
        yield device.submit_write(
            length=(yield from note(mount, 1)), to=ring.pending, offset=(yield from note(mount, 2))
        )
        yield device.submit_read(
            tag=(yield from note(mount, 3)),
            offset=(yield from note(mount, 4)),
            to=ring.slots,
            length=(yield from note(mount, 5)),
        )
        yield ring.pending.wait_zero()
        """,
        12345,
    ),
    "a record's field as a tag is taken before a later argument changes it": (
        """
        io = IO(offset=5)
        yield device.submit_read(tag=io.offset, offset=io.offset, length=(yield from bump_and_tell(io)), to=ring.slots)
        yield sleep(200)
        while ring.slots.length > 1:
            yield ring.slots.get()
        mount.position = (yield ring.slots.get()) * 1000 + io.offset
        """,
        5105,
    ),
    "a counter that the device counts down": (
        """
        for _ in range(3):
            yield ring.pending.inc()
            yield device.submit_read(0, 512, ring.pending)
        mount.position = ring.pending.value * 1000
        yield ring.pending.wait_zero()
        mount.position += now()
        """,
        3100,
    ),
    "an I/O that is complete since an instant": (
        """
        begun = now()
        yield begin_io()
        yield device.submit_write(0, 512, ring.slots, begun)
        yield end_submission()
        for k in range(3):
            yield ring.slots.get()
        since = yield ring.slots.get()
        yield complete_io(since)
        mount.position = now() - since
        """,
        100,
    ),
    "units from an expression, given back in parts": (
        """
        yield ring.log.take(ring.log.free - 2)
        mount.position = ring.log.free
        yield ring.log.give(1)
        yield ring.log.give(7)
        mount.position = mount.position * 100 + ring.log.free
        """,
        210,
    ),
    "runs merge and break as blocks are filled": (
        """
        mount.position = ring.extents.runs
        yield ring.extents.fill(0, 2, 1)
        mount.position = mount.position * 10 + ring.extents.runs
        yield ring.extents.fill(4, 1, 1)
        mount.position = mount.position * 10 + ring.extents.runs
        yield ring.extents.fill(2, 1, 0)
        mount.position = mount.position * 10 + ring.extents.runs
        yield ring.extents.fill(0, 7, 2)
        mount.position = mount.position * 10 + ring.extents.runs
        yield ring.extents.fill(0, 7, 0)
        mount.position = mount.position * 10 + ring.extents.runs
        """,
        332310,
    ),
    "an assert of a property holds": (
        "assert ring.slots.length == 3 and ring.log.free > 9, 'as it was made'\nmount.position = 1\n",
        1,
    ),
}


@pytest.mark.parametrize(("body", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_native_and_bytecode_mean_the_same(body, expected):
    result = run_both(in_f(body))
    assert result.error is None
    assert dict(result.final)["mount.position"] == expected
    run_both(in_f(body), threads=3)  # whatever that comes to, also a deadlock


@pytest.mark.parametrize(
    "body",
    [
        "assert (\n    ring.slots.length\n    > 99\n), 'many'",
        "mount.position = (\n    7\n    //\n    (ring.pending\n        .value))",
        "yield (ring\n    .log\n    .take(\n        0))",
        "yield ring.extents.fill(\n    0,\n    ring.extents\n        .present + 9,\n    1)",
        "state, run = (\n    yield ring.extents.lookup(\n        -1, 1))",
        "yield device.submit_read(\n    0,\n    0,\n    to=ring.slots,\n    tag=3)",
        "yield device.submit_write(\n    0,\n    512,\n    ring.pending)\nyield sleep(300)",
        "yield complete_io(\n    now()\n    + 1)",
        "mount.root = mount.files[\n    7]",
    ],
)
def test_an_error_in_a_statement_of_several_lines_has_the_same_line(body):
    assert run_both(in_f("yield cpu(1)\n" + body)).error is not None


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_is_one_instruction_that_leaves_no_row(name):
    owner = {"value": "pending", "length": "slots", "free": "log", "runs": "extents", "present": "extents"}[name]
    text = in_f(f"mount.position = ring.{owner}.{name}")
    made = module(HELPERS + text)
    program = made.f.compile((made.Mount, made.Ring))
    peeks = [row for row in program.code if OPCODE_NAMES[row[0]] == "PEEK"]
    assert [row[4] for row in peeks] == [PROPERTIES.index(name)]
    assert len(run_both(text).log) == 1  # END


def test_the_disassembler_shows_pairs_targets_and_properties():
    made = module(
        HELPERS
        + in_f(
            "state, run = yield ring.extents.lookup(2, 3)\n"
            "yield device.submit_read(state, run, ring.slots, tag=ring.log.free)"
        )
    )
    text = made.f.disassemble()
    for expected in ("LOOKUP", "Ring.extents", "SUBMITR", "Ring.slots", "PEEK", "free"):
        assert expected in text


def test_what_came_out_of_a_queue_leads_to_an_argument_of_an_operation():
    text = """
    @protocol
    def read(io: IO, inode: Inode):
        inode.size += io.length
        yield cpu(1)

    @protocol
    def f(mount: Mount, ring: Ring):
        request = yield ring.requests.get()
        io = IO(length=40)
        yield from READ(io, request.next)
        mount.position = mount.files[0].size
    """
    made = module(HELPERS + textwrap.dedent(text))
    mount = made.Mount(files=[made.Inode(size=1)], root=made.Inode())
    request = made.Request(next=mount.files[0])
    ring = made.Ring(requests=Queue([request]), log=Space(1), latest=request)
    result = assert_identical(
        System(threads=[Thread(made.f, (mount, ring))], host=Host(cpus=1), constants={"READ": made.read})
    )
    assert dict(result.final)["mount.position"] == 41
