"""Every construct outside the language is refused at decoration, with file, line and what to write instead."""

from __future__ import annotations

import textwrap

import pytest

from fssim.errors import ProtocolError
from tests.protocol.source import line_of, module

REFUSED = [
    # what a person forgets
    ("inode.iolock.acquire(SHARED)", "write `yield inode.iolock.acquire(SHARED)`"),
    ("cpu(5)", "write `yield cpu(5)`"),
    ("one(inode)", "write `yield from one(inode)`"),
    ("READ(io, inode)", "write `yield from READ(io, inode)`"),
    ("yield one(inode)", "write `yield from one(inode)`"),
    ("x = one(inode)", "write `yield from one(inode)`"),
    ("x = inode.dio.dec()", "write `yield inode.dio.dec()`"),
    ("x = choose(3)", "write `yield choose(3)`"),
    ("yield from cpu(5)", "cpu is not a protocol"),
    ("yield from inode.iolock.acquire(SHARED)", "is not a protocol"),
    ("yield from wrong(inode)", "calls itself"),
    ("yield", "`yield` takes an effect"),
    ("yield 5", "`yield` takes an effect"),
    ("yield lower", "`yield` takes an effect"),
    ("yield print(3)", "is no effect"),
    ("yield inode.size.acquire()", "Inode.size is a Monotonic and has no acquire()"),
    ("device.read(0, 512)", "write `yield device.read(0, 512)`"),
    ("yield device.trim(0, 512)", "device has no 'trim'"),
    ("yield device.read(0)", "takes 2 arguments, 1 are given"),
    ("yield cpu(1, 2)", "takes 1 argument, 2 are given"),
    ("yield cpu(nanoseconds=1)", "by position"),
    ("yield cpu(inode)", "an integer is needed"),
    # fields
    ("inode.sise = 3", "Inode has no field 'sise'; did you mean size?"),
    ("x = inode.sise", "did you mean size?"),
    ("inode.size.x = 3", "is an integer and has no field"),
    ("io.offest = 1", "IO has no field 'offest'; did you mean offset?"),
    ("x = 1 + io", "is a record of class IO"),
    ("other = io", "has one name only"),
    ("x = inode.iolock", "is a RWLock, no value; use its methods"),
    ("inode.iolock = 3", "cannot be assigned"),
    ("mount.root = mount", "`mount.root` is a Inode, a Mount is given"),
    ("mount.root = 3", "`mount.root` is a Inode, an integer is given"),
    ("inode.size = inode", "`inode.size` is a Monotonic, a Inode is given"),
    ("ring.latest = inode", "`ring.latest` is a Request, a Inode is given"),
    ("r = yield ring.requests.get()\nring.late = r", "Ring has no field 'late'"),
    ("mount.root += 1", "Mount.root is not an integer"),
    ("mount.files = mount.files", "Mount.files is a list of Inode, no value"),
    ("mount.files = inode", "Mount.files is a list of Inode and cannot be assigned"),
    ("mount.files[0] = inode", "cannot be assigned; assign a variable or a field"),
    ("ring.requests = 3", "Ring.requests is a Queue of Request and cannot be assigned"),
    ("io.offset = inode", "`io.offset` takes an integer"),
    ("x = mount.files", "index it or take its len()"),
    ("x = mount.root[0]", "is no list of objects"),
    ("x = len(mount.root)", "len() takes a field declared"),
    ("yield inode.iolock.lock()", "RWLock has no lock()"),
    ("yield inode.iolock.aquire(SHARED)", "did you mean acquire"),
    ("yield inode.iolock.acquire()", "takes 1 argument, 0 are given"),
    ("yield inode.mutex.acquire(SHARED)", "takes 0 arguments, 1 are given"),
    ("yield inode.iolock.acquire(7)", "7 is no lock mode; write SHARED or EXCLUSIVE"),
    ("x = yield inode.iolock.acquire(SHARED)", "has no result"),
    # queues, spaces, block maps and what the device tells
    ("yield ring.requests.put(inode)", "`inode` is a Inode, a Request is needed here"),
    ("yield ring.requests.put(3)", "`3` is an integer, a Request is needed here"),
    ("yield ring.slots.put(inode)", "`inode` is a Inode, an integer is needed here"),
    ("yield ring.slots.put()", "takes 1 argument, 0 are given"),
    ("yield ring.slots.get(1)", "takes 0 arguments, 1 are given"),
    ("yield ring.slots.push(1)", "a Queue of int has no push(); did you mean put?"),
    ("yield ring.log.take()", "takes 1 argument, 0 are given"),
    ("yield ring.log.give(inode)", "`inode` is a Inode, an integer is needed here"),
    ("x = yield ring.log.take(1)", "has no result; write it as a statement of its own"),
    ("x = yield ring.log.acquire()", "a Space has no acquire()"),
    ("yield ring.extents.lookup(1)", "takes 2 arguments, 1 are given"),
    ("yield ring.extents.fill(1, 2)", "takes 3 arguments, 2 are given"),
    ("yield ring.extents.fill(1, inode, 2)", "`inode` is a Inode, an integer is needed here"),
    ("x = yield ring.extents.lookup(1, 2)", "has 2 results; 2 names take them"),
    ("x = 1 + (yield ring.extents.lookup(1, 2))", "has 2 results; 2 names take them"),
    ("a, b, c = yield ring.extents.lookup(1, 2)", "has 2 results; 2 names take them"),
    ("a, b = yield ring.slots.get()", "has 1 results; 1 names take them"),
    ("a, b = yield ring.log.take(1)", "has no result; write it as a statement of its own"),
    ("x = ring.slots.get()", "write `yield ring.slots.get()`"),
    ("x = ring.slots.lenght", "a Queue of int has no value 'lenght'; did you mean length?; use its methods: put, g"),
    ("x = ring.log.fre", "a Space has no value 'fre'; did you mean free?"),
    ("x = ring.extents.run", "a BlockMap has no value 'run'; did you mean runs?"),
    ("x = inode.dio.values", "a Counter has no value 'values'; did you mean value?"),
    ("x = inode.mutex.value", "a Mutex has no value 'value'"),
    ("inode.dio.value = 3", "is a Counter, no value; use its methods: inc, dec, wait_zero, value"),
    ("x = ring.extents", "is a BlockMap, no value; use its methods: lookup, fill, runs, present"),
    ("x = ring.requests", "is a Queue of Request, no value; use its methods: put, get, length"),
    ("x = yield ring.requests.get()\nx = 3", "x was a Request and is now an integer"),
    ("yield device.submit_read(0, 512)", "device.submit_read takes (offset, length, to=...), where `to` is a Count"),
    ("yield device.submit_read(0, 512, inode.mutex)", "where `to` is a Counter or a Queue"),
    ("yield device.submit_read(0, 512, inode)", "where `to` is a Counter or a Queue"),
    ("yield device.submit_read(0, 512, ring.slots)", "a Queue is told with a tag=..., the item that it gets; a"),
    ("yield device.submit_write(0, 512, inode.dio, 3)", "a Queue is told with a tag=..., the item that it gets; a Co"),
    ("yield device.submit_write(0, 512, inode.dio, tag=3)", "a Queue is told with a tag=..., the item that it gets; "),
    ("yield device.submit_write(0, 512, ring.slots, inode)", "`inode` is a Inode, an integer is needed here"),
    ("yield device.submit_write(0, 512, to=ring.requests, tag=3)", "`3` is an integer, a Request is needed here"),
    ("yield device.submit_read(0, inode, inode.dio)", "`inode` is a Inode, an integer is needed here"),
    ("yield device.submit_read(0, 512, target=inode.dio)", "takes (offset, length, to=..., tag=...)"),
    ("yield device.submit_read(0, 512, inode.dio, to=inode.dio)", "takes (offset, length, to=..., tag=...)"),
    ("yield device.submit_read(0, 512, ring.slots, 3, 4, tag=3)", "takes (offset, length, to=..., tag=...)"),
    ("yield device.submit(0, 512)", "it has read(offset, length) and write(offset, length), submit_read and su"),
    ("x = yield device.submit_read(0, 512, inode.dio)", "has no result"),
    ("device.submit_read(0, 512, inode.dio)", "write `yield device.submit_read(0, 512, inode.dio)`"),
    ("yield end_submission(3)", "takes 0 arguments, 1 are given"),
    ("yield complete_io(1, 2)", "takes 1 argument, 2 are given"),
    ("yield complete_io(since=1)", "by position"),
    ("yield complete_io(inode)", "`inode` is a Inode, an integer is needed here"),
    ("x = yield end_submission()", "has no result"),
    # names and types
    ("x = unknown", "unknown is not known here"),
    ("x = lower", "not a constant; write its name in upper case"),
    ("x = y", "y is not known here"),
    ("if inode.size > 0:\n    x = 1\ny = x", "x has no value on some path"),
    ("while inode.size > 0:\n    x = 1\ny = x", "x has no value on some path"),
    ("for k in range(3):\n    x = 1\ny = k", "k has no value on some path"),
    ("x = 1\nx = inode", "x was an integer and is now a Inode"),
    ("x = inode\ny = x + 1", "an integer is needed here"),
    ("i = Inode()", "is shared; make it outside"),
    ("j = IO(0, 1)", "takes its fields by name"),
    ("j = IO(ofset=1)", "did you mean offset?"),
    ("a, b = yield from one(inode)", "2 names take 1 results"),
    ("x = yield from pair(io, inode)", "returns 2 values, one is needed here"),
    ("a, b = 1, 2", "takes its values from `yield from`"),
    ("yield from pair(io)", "pair needs inode"),
    ("yield from pair(io, inode, 3)", "takes 2 arguments, 3 are given"),
    ("yield from pair(io, 3)", "inode of pair is a Inode, an integer is given"),
    ("yield from pair(inode, inode)", "io of pair is a IO, a Inode is given"),
    ("yield from pair(io, node=inode)", "no free parameter 'node'"),
    # Python outside the subset
    ("x = [1]", ": a list"),
    ("x = {}", ": a dict"),
    ("x = {1}", ": a set"),
    ("x = (1, 2)", ": a tuple"),
    ("x = [k for k in range(3)]", ": a comprehension"),
    ("x = lambda: 3", ": lambda"),
    ("x = f'{1}'", ": an f-string"),
    ("x = 'text'", "computes with integers only"),
    ("x = 1.5", "computes with integers only"),
    ("x = None", "computes with integers only"),
    ("x = 1 / 2", "write `//`"),
    ("x = 2 ** inode.size", "write a constant or `1 << n`"),
    ("x = 1 << inode.size", "a shift count is a constant"),
    ("x = 1 << 63", "a shift count is a constant"),
    ("x = 1 // 0", "division by zero"),
    ("x = 1 << 62\ny = 9223372036854775808", "does not fit into 64 bits"),
    ("x = inode.size and 3", "are tests only"),
    ("x = 1 < inode.size < 3", "write `a < b and b < c`"),
    ("x = inode is mount", "compare integers with"),
    ("x = inode == mount", "an integer is needed here"),
    ("x = (y := 3)", "assign in a statement of its own"),
    ("a = b = 3", "write two assignments"),
    ("try:\n    pass\nexcept ValueError:\n    pass", "test a value with `if`"),
    ("raise ValueError", "write `assert condition"),
    ("with inode:\n    pass", "write `yield lock.acquire(mode)`"),
    ("import os", "import at module level"),
    ("global lower", "put shared state into a Shared class"),
    ("del io", "nothing in a protocol needs deleting"),
    ("def f():\n    pass", "define a @protocol at module level"),
    ("for k in mount.files:\n    pass", "the only `for` is"),
    ("for k in range(0, 3, 0):\n    pass", "a constant other than 0"),
    ("for k in range(3):\n    pass\nelse:\n    pass", "the only `for` is"),
    ("while True:\n    break\nelse:\n    pass", "`while ... else`"),
    ("print(3)", "does nothing without `yield`"),
    ("x = abs(3)", "cannot be called in a protocol"),
    ("match 3:\n    case 3:\n        pass", "write if / elif"),
    ("return 1, inode, io.length, 4, 5, 6, 7, 8, 9", "at most 8 values"),
    ("if inode.size > 0:\n    return 1\nreturn 1, 2", "returns different things"),
    ("if inode.size > 0:\n    return 1", "returns a value on some paths and none on others"),
    ("assert inode.size, lower", "is plain text"),
    ("assert (yield inode.dio.dec()) > 0", "an assert cannot wait"),
    # ghosts
    ("x = inode.shadow", "real state cannot depend on it"),
    ("inode.size = inode.shadow", "real state cannot depend on it"),
    ("if inode.shadow > 0:\n    inode.size = 1", "may decide about ghost statements only"),
    ("while inode.shadow > 0:\n    pass", "real state cannot depend on it"),
    ("yield cpu(inode.shadow)", "real state cannot depend on it"),
    ("inode.shadow = yield choose(2)", "a ghost statement cannot wait"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=[body.splitlines()[0] for body, _ in REFUSED])
def test_refused_with_line_and_alternative(body, message):
    head = "@protocol\ndef wrong(io: IO, inode: Inode, mount: Mount, ring: Ring):  # HERE\n"
    text = head + textwrap.indent(body, "    ") + "\n"
    with pytest.raises(ProtocolError) as caught:
        module(text + "    yield cpu(1)\n" if "return" not in body else text)
    assert message in str(caught.value)
    first = line_of(text)
    assert first <= caught.value.line <= first + len(body.splitlines())
    assert caught.value.filename.startswith("<fssim_test_source")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("def wrong(inode: Inode = None):", "without defaults"),
        ("def wrong(*inodes):", "without defaults"),
        ('def wrong(inode: "Unknown"):', "type is not known"),
        ("def wrong(inode: str):", "a parameter is an int, a Shared or a Local class"),
        ("async def wrong(inode: Inode):", "plain generator function"),
    ],
)
def test_parameters_are_checked(head, message):
    with pytest.raises(ProtocolError, match=message):
        module(f"@protocol\n{head}\n    yield cpu(1)\n")


def test_mutual_recursion_is_found_at_decoration():
    with pytest.raises(ProtocolError, match="ping is not a protocol"):
        module(
            "@protocol\ndef pong(n: int):\n    yield from ping(n)\n"
            "@protocol\ndef ping(n: int):\n    yield from pong(n)\n"
        )
