"""Odd but legal protocols mean the same natively and as bytecode; what would not is refused."""

from __future__ import annotations

import textwrap

import pytest

from fssim.errors import ProtocolError, UserError
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
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
def pick(mount: Mount):
    k = yield choose(len(mount.files))
    return mount.files[k]

@protocol
def sign(n: int):
    if n < 0:
        return 0 - 1, n
    while n > 0:
        yield cpu(1)
        if n == 3:
            return 3, n
        n -= 1
        if n == 7:
            break
    else_value = n * 10
    return 1, else_value
"""


def in_f(body: str) -> str:
    return "@protocol\ndef f(mount: Mount):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def run_both(text: str, threads: int = 2, **options):
    """Run the thread program `f(mount)` of a module on both engines; return the result, which is the same."""
    made = module(HELPERS + textwrap.dedent(text))
    mount = made.Mount(files=[made.Inode(size=size) for size in (1, 2, 5)], root=made.Inode(size=7))
    constants = {name: getattr(made, value) for name, value in options.pop("bind", {}).items()}
    return assert_identical(
        System(
            threads=[Thread(made.f, (mount,)) for _ in range(threads)],
            host=Host(cpus=2),
            device=SimpleDevice(latency_ns=100),
            constants=constants,
            seed=3,
            **options,
        )
    )


# Thread program, and what mount.position is at the end.  One thread runs it.
PROGRAMS = {
    "an argument that is a temporary is assigned first and used again": (
        """
        @protocol
        def g(inode: Inode, n: int):
            x = n
            inode.size = x
            return n

        @protocol
        def f(mount: Mount):
            mount.position = yield from g(mount.root, mount.root.size + 1)
        """,
        8,
    ),
    "an argument that is a temporary is returned twice": (
        """
        @protocol
        def g(n: int):
            return n, n

        @protocol
        def f(mount: Mount):
            a, b = yield from g(mount.root.size + 1)
            mount.position = a * 100 + b
        """,
        808,
    ),
    "an object argument that is a temporary gets a second name": (
        """
        @protocol
        def g(i: Inode):
            j = i
            j.size = 3
            i.size += 4
            return i.size

        @protocol
        def f(mount: Mount):
            mount.position = yield from g(mount.files[1])
        """,
        7,
    ),
    "one sub-protocol twice in an expression, and inside its own argument": (
        in_f(
            """
            a, b = yield from sign((yield from one(mount.root)) + (yield from one(mount.root)) - 4)
            c, d = yield from sign(b - (yield from one(mount.root)))
            e, g = yield from sign(2)
            mount.position = ((a * 100 + b) * 100 + c + 1) * 1000 + e * 100 + g
            """
        ),
        # sign(10): 9, 8, 7 -> break -> 1, 70;  sign(63): ... 7 -> 1, 70;  sign(2): 1, 0
        ((1 * 100 + 70) * 100 + 1 + 1) * 1000 + 100,
    ),
    "a record's field is read before a callee changes it": (
        in_f(
            """
            io = IO(offset=5)
            io.offset += (yield from bump_and_tell(io))
            mount.position = io.offset * 1000 + (yield from bump_and_tell(io)) - io.offset
            """
        ),
        110 * 1000,
    ),
    "a record's field in comparisons, min and choices with waits": (
        in_f(
            """
            io = IO(offset=5)
            least = min(io.offset, (yield from bump_and_tell(io)))
            if least < (yield from bump_and_tell(io)) and io.offset < (yield from bump_and_tell(io)):
                mount.position = io.offset * 10000
            mount.position += io.offset if io.offset == (yield from bump_and_tell(io)) else io.offset + 1
            """
        ),
        305 * 10000 + 406,
    ),
    "a record's field passed by value to who assigns the record": (
        """
        @protocol
        def g(io: IO, n: int):
            io.offset = n
            n = io.offset + 1
            io.length = n
            yield cpu(1)

        @protocol
        def level(io: IO, n: int):
            yield from g(io, io.offset + n)
            yield from g(io, n=io.length)

        @protocol
        def f(mount: Mount):
            io = IO(offset=5)
            yield from level(io, io.offset)
            io = IO(length=io.length, offset=io.length)
            mount.position = io.offset * 100 + io.length
        """,
        1212,
    ),
    "break, continue and return out of nested loops in branches": (
        """
        @protocol
        def search(mount: Mount):
            for k in range(len(mount.files)):
                n = 0
                while True:
                    n += 1
                    yield cpu(1)
                    if n % 2 == 0 and mount.files[k].size > 1:
                        if n > 5:
                            return k, n
                        continue
                    elif n > 3 or k == 0:
                        break
                    else:
                        mount.position += 1
            return 9, 9

        @protocol
        def f(mount: Mount):
            k, n = yield from search(mount)
            mount.position = mount.position * 100 + k * 10 + n
        """,
        499,
    ),
    "tests with waits on either side": (
        in_f(
            """
            if (yield mount.root.mutex.try_acquire()) == 1 or (yield choose(1)) == 0:
                mount.position += 10
            while mount.position < 40 and not (yield choose(1)):
                mount.position += 10
            yield mount.root.mutex.release()
            """
        ),
        40,
    ),
    "a variable that is called as a constant hides it": (
        in_f("MODE = 5\nLIMIT = MODE\nmount.position = LIMIT + MODE\n"),
        10,
    ),
    "the range of a loop is fixed when it begins": (
        in_f(
            """
            n = 3
            for k in range(n, 0 - n, -2):
                n = 100
                mount.position = mount.position * 10 + k + 3
                k = 50
            """
        ),
        642,
    ),
    "constants at the edge of 64 bits": (
        in_f("mount.root.size = -9223372036854775808\nmount.position = (mount.root.size + 9223372036854775807) % 7\n"),
        6,
    ),
    "names that the native form needs": (
        in_f(
            "_tick = 1\n_element = 2\nfor k in range(3):\n    mount.position += _tick + mount.files[k].size * _element"
        ),
        19,
    ),
    "the parts of a target are evaluated after the value": (
        in_f(
            """
            mount.root.size = 1
            mount.files[mount.root.size].size = (yield from one(mount.root)) + 1
            mount.files[mount.files[1].size].size += (yield from one(mount.files[1])) * 10
            mount.position = mount.files[2].size
            """
        ),
        25,
    ),
    "a field of what a sub-protocol returns": (
        in_f("(yield from pick(mount)).pages += 1\nmount.position = mount.files[0].pages + mount.files[1].pages\n")
        + "# thread 0 of seed 3 picks one of three files\n",
        None,
    ),
    "a closure": (
        """
        def make(n):
            AMOUNT = n

            @protocol
            def g(mount: Mount):
        # further left than the function
                mount.position += AMOUNT
                yield cpu(AMOUNT)

            @protocol
            def f(mount: Mount):
                \"\"\"A text
        further left than the function.\"\"\"
                yield from g(mount)

            return f

        f = make(5)
        """,
        5,
    ),
}


@pytest.mark.parametrize(("text", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_native_and_bytecode_mean_the_same(text, expected):
    result = run_both(text, threads=1)
    assert result.error is None
    if expected is not None:
        assert dict(result.final)["mount.position"] == expected
    run_both(text, threads=3)


@pytest.mark.parametrize(
    "body",
    [
        "assert (\n    mount.root.size\n    > 99\n), 'big'",
        "assert mount.root.size > (\n    99)",
        "mount.position = (\n    7\n    //\n    mount.position)",
        "mount.root.size //= (\n    mount.position)",
        "mount.position = (\n    3 +\n    mount.files[\n        7\n    ].size)",
        "mount.files[\n    7\n].size = (\n    3)",
        "yield (\n    cpu(\n        -1))",
        "yield (mount\n    .root\n    .iolock\n    .release(\n        SHARED))",
        "mount.position = (1 +\n    (yield choose(\n        mount.position)))",
        "while (\n    mount.files[\n        mount.position].size\n):\n    mount.position += 1",
    ],
)
def test_an_error_in_a_statement_of_several_lines_has_the_same_line(body):
    assert run_both(in_f("yield cpu(1)\n" + body)).error is not None


REFUSED = {
    "cpu = 3\nyield cpu(1)": "cpu is a variable here and cannot be called",
    "min = 3\nx = min(1, 2)": "min is a variable here",
    "one = 3\nx = yield from one(mount.root)": "one is a variable here",
    "x = now()\nnow = 3": "now is a variable here",
    "IO = 3\nio = IO(offset=1)": "IO is a variable here",
    "range = 3\nfor k in range(3):\n    pass": "the only `for` is",
    "yield device.read(0, 512)\ndevice = 3": "`device.read` is no effect",
    "yield cpu(path.x)\npath = 3": "path has no value",
    "x = thread_id(3)": "takes 0 arguments, 1 are given",
    "x = min(3, 4, 5)": "takes 2 arguments, 3 are given",
    "x = len(obj=mount.files)": "by position",
    "x = mount.position\nx <<= mount.root.size": "a shift count is a constant",
    "for k in range(mount.root.shadow):\n    pass": "real state cannot depend on it",
    "x = (yield from pick(mount)).shadow": "real state cannot depend on it",
    "io = IO()\nyield from READ(io)": "takes 2 arguments, 1 are given",
    "io = IO()\nyield from READ(io, 3)": "argument 2 of READ is a Inode, an integer is given",
    "io = IO()\nyield from READ(io, inode=mount.root)": "by position",
    "x = TABLE(3)": "cannot be called in a protocol",
    "yield TABLE(3)": "is no effect",
    "io = IO()\nyield from read(io, mount.root)": "write its name in upper case",
}


@pytest.mark.parametrize(("body", "message"), REFUSED.items(), ids=[body.replace("\n", "; ") for body in REFUSED])
def test_what_the_engines_could_not_agree_on_is_refused(body, message):
    with pytest.raises(ProtocolError) as caught:
        module(HELPERS + "TABLE = {}\nread = Operation(IO, Inode)\n" + in_f(body + "\nyield cpu(1)"))
    assert message in str(caught.value)


def test_a_thread_program_returns_nothing():
    with pytest.raises(UserError, match="f returns values, and nobody takes those of a thread's program"):
        run_both(in_f("yield cpu(1)\nreturn 3"))


def test_recursion_through_an_operation_is_found_when_it_is_bound():
    text = """
    @protocol
    def again(io: IO, inode: Inode):
        yield from READ(io, inode)

    @protocol
    def f(mount: Mount):
        io = IO()
        yield from READ(io, mount.root)
    """
    with pytest.raises(ProtocolError, match="again calls itself through READ"):
        run_both(text, bind={"READ": "again"})


@pytest.mark.parametrize("callee", ["f", "later"])
def test_a_closure_that_calls_what_is_not_there_yet_is_refused(callee):
    text = f"""
    def make():
        @protocol
        def f(mount: Mount):
            yield from {callee}(mount)
        later = 3
        return f
    make()
    """
    with pytest.raises(ProtocolError, match="calls itself" if callee == "f" else "later is not a protocol"):
        module(text)


def test_an_annotated_ghost_assignment_is_compiled_out():
    text = in_f("mount.root.shadow: int = 4\nyield cpu(1)")
    assert dict(run_both(text).final)["mount.root.shadow"] == 0
    assert dict(run_both(text, ghosts=True).final)["mount.root.shadow"] == 4


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("class Request(Local):\n    inode: Inode\n", r"Request\.inode is declared .*; it may be an int"),
        ("class Node(Shared):\n    label: str\n", r"Node\.label is declared .*; it may be an integer, a lock"),
        ("class Node(Shared):\n    all: list[str]\n", r"Node\.all is declared .*; it may be an integer, a lock"),
    ],
)
def test_a_field_of_a_kind_that_no_engine_has_is_refused(declaration, message):
    name = declaration.split("(")[0].removeprefix("class ")
    with pytest.raises(TypeError, match=message):
        module(f"{declaration}\n{name}()\n")
