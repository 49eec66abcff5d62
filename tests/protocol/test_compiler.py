"""What the compiler and the native rebuild make of a protocol that is in the language."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fssim.errors import ProtocolError, UserError
from fssim.protocol import check_constants
from fssim.protocol.bytecode import OPCODE_NAMES, OPERANDS
from tests.protocol.source import module


def opcodes(program):
    return [OPCODE_NAMES[row[0]] for row in program.code]


def drive(generator, answers=()):
    """Run a native generator to its end; return the effects it yielded."""
    answers = iter(answers)
    effects = []
    try:
        effect = generator.send(None)
        while True:
            effects.append(effect[0])
            effect = generator.send(next(answers, 0))
    except StopIteration:
        return effects


LOCKING = """
@protocol
def read(io: IO, inode: Inode):
    yield inode.iolock.acquire(MODE)
    yield device.read(io.offset, io.length)
    yield inode.iolock.release(MODE)

@protocol
def thread(mount: Mount):
    io = IO(length=4096)
    for k in range(2):
        io.file = yield choose(len(mount.files))
        yield from READ(io, mount.files[io.file])
"""


def test_a_constant_is_overridden_in_bytecode_and_native_alike():
    made = module(LOCKING)
    constants = {"READ": made.read, "MODE": made.EXCLUSIVE}
    program = made.thread.compile((made.Mount,), constants)
    values = dict(program.constants)
    modes = {values[row[3]] for row in program.code if OPCODE_NAMES[row[0]] in ("ACQUIRE", "RELEASE")}
    assert modes == {made.EXCLUSIVE}
    generator = made.thread.native(constants)(made.Mount(files=[made.Inode()], root=made.Inode()))
    generator.send(None)
    assert generator.send(0)[0::2] == ("ACQUIRE", made.EXCLUSIVE)


def test_an_override_that_nothing_uses_is_an_error_with_the_nearest_name():
    made = module(LOCKING)
    constants = {"READ": made.read, "MOED": 2}
    program = made.thread.compile((made.Mount,), constants)
    with pytest.raises(UserError, match=r"constant MOED is used by no protocol of this run.*READ"):
        check_constants([program], constants)


def test_an_unbound_operation_is_an_error_when_linked_and_not_when_decorated():
    made = module(LOCKING)
    with pytest.raises(ProtocolError, match="READ is not bound"):
        made.thread.compile((made.Mount,))


def test_a_code_path_without_a_cost_is_an_error_with_the_nearest_name():
    made = module("@protocol\ndef f(inode: Inode):\n    yield cpu(path.submit)\n")
    with pytest.raises(ProtocolError, match=r"no cost for path\.submit; did you mean submitted"):
        made.f.compile((made.Inode,), path_ns={"submitted": 3})
    program = made.f.compile((made.Inode,), path_ns={"submit": 3})
    assert 3 in dict(program.constants).values()


def test_the_branch_that_a_constant_excludes_is_checked_and_left_out():
    text = """
    @protocol
    def f(inode: Inode):
        if MODE == SHARED:
            yield cpu(1)
        else:
            yield sleep(1)
    """
    made = module(text)
    assert opcodes(made.f.compile((made.Inode,))) == ["CPU", "END"]
    assert opcodes(made.f.compile((made.Inode,), {"MODE": 2})) == ["SLEEP", "END"]
    with pytest.raises(ProtocolError, match="no field 'sise'"):
        module(text.replace("yield sleep(1)", "inode.sise = 1"))


def test_arguments_are_passed_by_value_and_records_by_reference():
    made = module(
        """
        @protocol
        def callee(io: IO, n: int):
            io.offset += 10
            n += 1
            return n

        @protocol
        def caller(inode: Inode):
            io = IO(offset=5)
            n = 7
            m = yield from callee(io, io.offset)
            k = yield from callee(io, n)
            inode.size = io.offset
            inode.pages = n * 100 + m * 10 + k
        """
    )
    inode = made.Inode()
    drive(made.caller(inode))
    assert (inode.size, inode.pages) == (25, 7 * 100 + 6 * 10 + 8)


def test_the_left_operand_is_evaluated_before_a_wait_in_the_right_one():
    made = module(
        """
        @protocol
        def callee(io: IO):
            io.offset = 100
            yield cpu(1)
            return 1

        @protocol
        def caller(inode: Inode):
            io = IO(offset=5)
            inode.size = io.offset + (yield from callee(io))
        """
    )
    inode = made.Inode()
    drive(made.caller(inode))
    assert inode.size == 6
    names = opcodes(made.caller.compile((made.Inode,)))
    assert names.index("ADD") > names.index("CPU")
    # io.offset is copied before the callee overwrites it.
    assert names[: names.index("CPU")].count("MOV") >= 4


def test_ghost_statements_are_compiled_out_unless_asked_for():
    made = module(
        """
        @protocol
        def f(inode: Inode):
            inode.shadow = inode.size
            if inode.shadow > 3:
                inode.owner = thread_id()
            assert inode.shadow == inode.size
            yield cpu(1)
        """
    )
    assert opcodes(made.f.compile((made.Inode,))) == ["CPU", "END"]
    assert "STORE" in opcodes(made.f.compile((made.Inode,), ghosts=True))
    for ghosts, expected in ((False, 0), (True, 9)):
        inode = made.Inode(size=9)
        drive(made.f.native(ghosts=ghosts)(inode))
        assert inode.shadow == expected


def test_loops_tick_and_end():
    made = module(
        """
        @protocol
        def f(inode: Inode):
            for k in range(5, 0, -2):
                inode.size = inode.size * 10 + k
            while inode.pages < 3:
                inode.pages += 1
                if inode.pages == 2:
                    break
        """
    )
    inode = made.Inode()
    assert drive(made.f(inode)) == []
    assert (inode.size, inode.pages) == (531, 2)
    assert opcodes(made.f.compile((made.Inode,))).count("TICK") == 2


def test_asserts_hold_under_python_o(tmp_path):
    (tmp_path / "p.py").write_text(
        "from fssim.protocol import *\n"
        "class S(Shared):\n    x: int\n"
        "@protocol\n"
        "def f(s: S):\n    yield cpu(1)\n    assert s.x > 0, 'x is positive'\n"
        "g = f(S())\n"
        "g.send(None)\n"
        "try:\n    g.send(0)\nexcept AssertionError as e:\n    print(e)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-O", str(tmp_path / "p.py")], capture_output=True, text=True, check=True
    ).stdout
    assert shown == "x is positive\n"


def test_every_jump_leads_into_the_code():
    made = module(LOCKING)
    program = made.thread.compile((made.Mount,), {"READ": made.read})
    for row in program.code:
        for position, kind in enumerate(OPERANDS[OPCODE_NAMES[row[0]]], start=1):
            if kind == "target":
                assert 0 <= row[position] < len(program.code)
            elif kind in ("a", "b", "obj", "dst"):
                assert 0 <= row[position] < program.registers


def test_the_disassembler_shows_source_lines_and_names():
    made = module(LOCKING)
    text = made.thread.disassemble(constants={"READ": made.read})
    assert "yield inode.iolock.acquire(MODE)" in text
    assert "ACQUIRE     r" in text
    assert "Inode.iolock, #1" in text
    assert "io.length" in text


def test_a_mistyped_field_is_an_error_when_an_object_is_made_and_when_it_is_set():
    made = module("")
    with pytest.raises(TypeError, match="Inode has no field 'sise'"):
        made.Inode(sise=3)
    with pytest.raises(AttributeError):
        made.Inode().sise = 3
    with pytest.raises(TypeError, match=r"Mount\.files: an object or list must be given"):
        made.Mount()


def test_thread_arguments_are_checked():
    made = module(LOCKING)
    with pytest.raises(UserError, match=r"thread takes 1 arguments \(mount\), 0 are given"):
        made.thread.compile((), {"READ": made.read})
    with pytest.raises(UserError, match="mount is Mount, Inode is given"):
        made.thread.compile((made.Inode,), {"READ": made.read})
    with pytest.raises(UserError, match="io is a Local record"):
        made.read.compile((made.IO, made.Inode))
