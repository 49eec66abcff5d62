"""Compiles a protocol, with everything it calls, to the register bytecode of `fssim.protocol.bytecode`.

The language is a subset of Python; whatever is outside it is refused with file, line and what to write instead.
Sub-protocols are inlined: a program is one flat piece of code without calls.  Registers are a stack: a frame's
variables, then temporaries.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NoReturn

from fssim.errors import nearest
from fssim.protocol.bytecode import OPCODE_NAMES, OPCODES, OPERANDS, WIDTH, Program
from fssim.protocol.emitter import MISSING, RECORDS, Frame, Loop, Record, Value, merge, waits
from fssim.protocol.expressions import Expressions
from fssim.protocol.language import GHOSTS, INTEGERS, Local, Operation, Shared, field_kinds
from fssim.protocol.subset import BINARY, kind_name

if TYPE_CHECKING:
    from fssim.protocol.definition import Protocol

MOST_RESULTS = 8


class Compiler(Expressions):
    """Compiles one program: statements, calls, and the whole."""

    # -- programs and calls --------------------------------------------------------------------------------------------
    def check(self, protocol: Protocol) -> tuple[Value, ...]:
        """Compile for the sake of the errors, mark the ghost statements in the tree, and return the results."""
        kinds = tuple(kind for _, kind in protocol.parameters)
        return self.body(protocol, self.parameters(protocol, kinds), None) or ()

    def parameters(self, protocol: Protocol, kinds: tuple[Any, ...]) -> dict[str, Value | Record]:
        """Give registers to the parameters, the first ones in order; those of a Local class are records."""
        names: dict[str, Value | Record] = {}
        for (name, _), kind in zip(protocol.parameters, kinds, strict=True):
            if isinstance(kind, type) and issubclass(kind, Local):
                registers = {field_name: self.register() for field_name in field_kinds(kind)}
                names[name] = Record(kind, registers)
                self.register_names |= {at: f"{name}.{field_name}" for field_name, at in registers.items()}
            else:
                at = self.register()
                names[name] = Value(kind, at)
                self.register_names[at] = name
        return names

    def program(self, protocol: Protocol, arguments: tuple[Any, ...]) -> Program:
        self.node = protocol.tree
        self.body(protocol, self.parameters(protocol, arguments), None)
        self.lines_end()
        base = self.most
        behind = base + len(self.pool)
        return Program(
            name=protocol.name,
            code=tuple(self._resolve(row, base, behind) for row in self.code),
            lines=tuple(self.lines),
            files=tuple(self.files),
            registers=behind + self.record_registers,
            constants=tuple((base + k, value) for value, k in self.pool.items()),
            arguments=arguments,
            members=tuple(self.members),
            texts=tuple(self.texts),
            register_names={
                (behind + at - RECORDS if at >= RECORDS else at): name for at, name in self.register_names.items()
            },
            overrides_used=frozenset(self.used),
        )

    def lines_end(self) -> None:
        self.code.append([OPCODES["END"]] + [0] * (WIDTH - 1))
        self.lines.append(0)
        self.files.append(self.files[-1] if self.files else "")

    @staticmethod
    def _resolve(row: list[int], base: int, behind: int) -> tuple[int, ...]:
        """Give constants (negative) and record fields their final registers."""
        out = list(row)
        for position, kind in enumerate(OPERANDS[OPCODE_NAMES[row[0]]], start=1):
            if kind in ("a", "b", "c", "obj", "dst", "dst2", "pair"):
                if out[position] < 0:
                    out[position] = base - 1 - out[position]
                elif out[position] >= RECORDS:
                    out[position] += behind - RECORDS
        return tuple(out)

    def body(
        self, protocol: Protocol, names: dict[str, Value | Record], result_base: int | None
    ) -> tuple[Value, ...] | None:
        """Compile a protocol's body in a frame of its own; return its results."""
        frame = Frame(protocol, names, {}, 0, set(names), result_base)
        self.frames.append(frame)
        for name in _assigned_names(protocol.tree):
            given = names.get(name)
            if isinstance(given, Record):
                self.fail(protocol.tree, f"{name} is a parameter of a Local class and cannot be assigned")
            # A parameter that is assigned gets a register of its own, so that the caller's stays as it was.
            at = frame.declared[name] = self.register()
            self.register_names[at] = name
            if given is not None:
                self.emit("MOV", at, self.use(given))
                names[name] = Value(given.kind, at)
        frame.first_temporary = self.top
        self.block(protocol.tree.body)
        if frame.assigned is not None:
            frame.returned_nothing = True
        if frame.results is not None and frame.returned_nothing:
            self.fail(protocol.tree, f"{protocol.name} returns a value on some paths and none on others")
        self.patch(frame.returns)
        self.frames.pop()
        return frame.results

    def inline(self, node: ast.YieldFrom) -> tuple[Value, ...] | None:
        call = node.value
        if not isinstance(call, ast.Call):
            self.fail(node, "`yield from` takes the call of a protocol: `yield from other(io, inode)`")
        callee = self.called(call.func) if isinstance(call.func, ast.Name) else None
        name = ast.unparse(call.func)
        if isinstance(callee, Operation):
            self.check_operation(call, name, callee)
            return None
        if not getattr(callee, "is_protocol", False):
            if name == self.frame.protocol.name:
                self.fail(node, f"{name} calls itself; a protocol cannot recurse, write a loop")
            self.fail(
                node, f"{name} is not a protocol; `yield from` takes one, decorated with @protocol and defined above"
            )
        assert callee is not None
        if any(frame.protocol is callee for frame in self.frames):
            self.fail(node, f"{callee.name} calls itself through {name}; a protocol cannot recurse, write a loop")
        parameters = dict(callee.parameters)
        if len(call.args) > len(parameters):
            self.fail(node, f"{callee.name} takes {len(parameters)} arguments, {len(call.args)} are given")
        given: dict[str, ast.expr] = dict(zip(parameters, call.args, strict=False))
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg not in parameters or keyword.arg in given:
                self.fail(node, f"{callee.name} has no free parameter {keyword.arg!r}")
            given[keyword.arg] = keyword.value
        if missing := [name for name in parameters if name not in given]:
            self.fail(node, f"{callee.name} needs {', '.join(missing)}")
        results_at = self.top
        for _ in range(MOST_RESULTS):
            self.register()
        names: dict[str, Value | Record] = {}
        for name, argument in given.items():
            value = self.argument(argument, parameters[name], f"{name} of {callee.name}")
            # The callee may assign the record whose field this is: it gets the value as it is now.
            if isinstance(value, Value) and not value.stable:
                value = self.copy(value)
            names[name] = value
        saved = self.node
        results = self.body(callee, names, results_at)
        self.node = saved
        self.top = results_at + len(results or ())
        return results

    def check_operation(self, call: ast.Call, name: str, operation: Operation) -> None:
        if not name.isupper():
            self.fail(call, f"{name} is an Operation: write its name in upper case, so that a run can bind it")
        if self.fixed:
            self.fail(call, f"{name} is not bound; give constants={{'{name}': protocol}}")
        self.check_count(call, len(operation.parameters))
        for number, (argument, kind) in enumerate(zip(call.args, operation.parameters, strict=True), start=1):
            self.argument(argument, kind, f"argument {number} of {name}")

    def argument(self, node: ast.expr, kind: Any, what: str) -> Value | Record:
        if isinstance(node, ast.Name) and isinstance(self.frame.names.get(node.id), Record):
            self.check_assigned(node)
            record = self.frame.names[node.id]
            assert isinstance(record, Record)
            if not (isinstance(kind, type) and issubclass(record.cls, kind)):
                self.fail(node, f"{what} is {kind_name(kind)}, {record.cls.__name__} is given")
            return record
        value = self.expression(node)
        fits = kind is int if value.kind is int else isinstance(kind, type) and issubclass(value.kind, kind)
        if not fits:
            self.fail(node, f"{what} is {kind_name(kind)}, {kind_name(value.kind)} is given")
        return value

    # -- statements ----------------------------------------------------------------------------------------------------
    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            top = self.top
            self.node = statement
            self.statement(statement)
            self.top = top

    def statement(self, node: ast.stmt) -> None:
        if not self.is_ghost(node):
            self.plain_statement(node)
            return
        node._ghost = True  # type: ignore[attr-defined]  # native.py strips it
        if waits(node):
            self.fail(node, "a ghost statement cannot wait: take the `yield` out of it")
        outer, self.in_ghost = self.in_ghost, True
        if self.ghosts:
            self.plain_statement(node)
        else:
            with self.discarded():
                self.plain_statement(node)
        self.in_ghost = outer

    def plain_statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case ast.Expr(value=ast.Yield() as effect):
                self.effect(effect, wanted=0)
            case ast.Expr(value=ast.YieldFrom() as call):
                self.inline(call)
            case ast.Expr(value=ast.Call() as call):
                self.refuse_bare_call(call)
            case ast.Assign(targets=[target], value=value):
                self.assign(node, target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(node, target, value)
            case ast.AugAssign():
                self.augmented(node)
            case ast.If():
                self.conditional(node)
            case ast.While():
                self.while_loop(node)
            case ast.For():
                self.for_loop(node)
            case ast.Break() | ast.Continue():
                self.leave(node)
            case ast.Return():
                self.give_back(node)
            case ast.Assert():
                self.assertion(node)
            case ast.Assign():
                self.fail(node, "outside the protocol language: `a = b = value`; write two assignments")
            case _:
                self.refuse(node)

    def refuse_bare_call(self, call: ast.Call) -> NoReturn:
        text = ast.unparse(call)
        if isinstance(call.func, ast.Name):
            found = self.called(call.func)
            if getattr(found, "is_protocol", False) or isinstance(found, Operation):
                self.fail(call, f"`{text}` does nothing without `yield from`: write `yield from {text}`")
        self.fail(call, f"`{text}` does nothing without `yield`: write `yield {text}`")

    def assign(self, node: ast.stmt, target: ast.expr, source: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                if isinstance(source, ast.Call) and (cls := self.local_class(source)):
                    self.new_record(node, name, cls, source)
                    return
                if isinstance(source, ast.Name) and isinstance(self.frame.names.get(source.id), Record):
                    self.fail(node, f"{source.id} is a Local record and has one name only; pass it as an argument")
                self.store_name(node, name, self.expression(source))
            case ast.Attribute():
                value = self.expression(source)
                self.store_field(target, self.copy(value) if not value.stable and waits(target) else value)
            case ast.Tuple(elts=targets):
                if not all(isinstance(t, ast.Name) for t in targets) or not isinstance(
                    source, (ast.Yield, ast.YieldFrom)
                ):
                    self.fail(
                        node,
                        "a tuple of names takes its values from `yield from` or an effect: "
                        "`a, b = yield from other(io)`",
                    )
                if isinstance(source, ast.Yield):
                    results = self.effect(source, wanted=len(targets))
                else:
                    results = self.inline(source) or ()
                if len(results) != len(targets):
                    self.fail(node, f"{len(targets)} names take {len(results)} results of {ast.unparse(source)}")
                for name_node, value in zip(targets, results, strict=True):
                    assert isinstance(name_node, ast.Name)
                    self.store_name(node, name_node.id, value)
            case _:
                self.fail(node, f"`{ast.unparse(target)}` cannot be assigned; assign a variable or a field")

    def store_name(self, node: ast.AST, name: str, value: Value) -> None:
        known = self.frame.names.get(name)
        if isinstance(known, Record):
            self.fail(node, f"{name} is a {known.cls.__name__} and cannot become {kind_name(value.kind)}")
        if known is not None and known.kind is not value.kind:
            self.fail(node, f"{name} was {kind_name(known.kind)} and is now {kind_name(value.kind)}; use another name")
        at = self.frame.declared[name]
        self.move(at, value)
        self.frame.names[name] = Value(value.kind, at)
        if self.frame.assigned is not None:
            self.frame.assigned = self.frame.assigned | {name}

    def local_class(self, call: ast.Call) -> type[Local] | None:
        if isinstance(call.func, ast.Name):
            found = self.called(call.func)
            if isinstance(found, type) and issubclass(found, Local):
                return found
            if isinstance(found, type) and issubclass(found, Shared):
                self.fail(call, f"{call.func.id} is shared; make it outside and give it to the thread as an argument")
        return None

    def new_record(self, node: ast.stmt, name: str, cls: type[Local], call: ast.Call) -> None:
        if call.args:
            self.fail(node, f"{cls.__name__} takes its fields by name: {cls.__name__}(offset=...)")
        kinds = field_kinds(cls)
        given: dict[str, Value] = {}
        for keyword in call.keywords:
            if keyword.arg not in kinds:
                self.fail(node, f"{cls.__name__} has no field {keyword.arg!r}{nearest(str(keyword.arg), kinds)}")
            given[str(keyword.arg)] = self.copy(self.integer(keyword.value))
        known = self.frame.names.get(name)
        if isinstance(known, Value):
            self.fail(node, f"{name} was {kind_name(known.kind)} and is now {cls.__name__}; use another name")
        if isinstance(known, Record) and known.cls is not cls:
            self.fail(node, f"{name} is a {known.cls.__name__} and cannot become a {cls.__name__}")
        if known is None:
            known = Record(cls, {field_name: RECORDS + self.record_registers + k for k, field_name in enumerate(kinds)})
            self.record_registers += len(kinds)
            for field_name, at in known.registers.items():
                self.register_names[at] = f"{name}.{field_name}"
        for field_name, at in known.registers.items():
            self.emit("MOV", at, self.use(given.get(field_name, Value(constant=0))))
        self.frame.names[name] = known
        if self.frame.assigned is not None:
            self.frame.assigned = self.frame.assigned | {name}

    def store_field(self, target: ast.Attribute, value: Value) -> None:
        record = self.record_of(target.value)
        if record is not None:
            at = self.record_field(target, record)
            if value.kind is not int:
                self.fail(target, f"`{ast.unparse(target)}` takes an integer")
            self.move(at, value)
            return
        obj = self.object_of(target)
        kind = self.field_kind(target, obj.kind)
        refers = isinstance(kind, type) and issubclass(kind, Shared)
        if kind not in INTEGERS and not refers:
            self.fail(target, f"{obj.kind.__name__}.{target.attr} is {kind_name(kind)} and cannot be assigned")
        fits = value.kind is not int and issubclass(value.kind, kind) if refers else value.kind is int
        if not fits:
            self.fail(target, f"`{ast.unparse(target)}` is {kind_name(kind)}, {kind_name(value.kind)} is given")
        self.emit("STORE", self.use(obj), self.member(obj.kind, target.attr), self.use(value))

    def augmented(self, node: ast.AugAssign) -> None:
        opcode = BINARY.get(type(node.op))
        if opcode is None:
            self.refuse_operator(node, node.op)
        self.check_shift(node, opcode, node.value)
        match node.target:
            case ast.Name(id=name):
                left = self.integer(ast.copy_location(ast.Name(name, ast.Load()), node))
                right = self._right(left, node.value)
                self.store_name(node, name, self.binary(node, opcode, right[0], right[1]))
            case ast.Attribute() as target:
                record = self.record_of(target.value)
                if record is not None:
                    at = self.record_field(target, record)
                    left, right_value = self._right(Value(int, at, stable=False), node.value)
                    self.move(at, self.binary(node, opcode, left, right_value))
                    return
                obj = self.object_of(target)
                if self.field_kind(target, obj.kind) not in INTEGERS:
                    self.fail(target, f"{obj.kind.__name__}.{target.attr} is not an integer")
                member = self.member(obj.kind, target.attr)
                at = self.register()
                self.emit("LOAD", at, self.use(obj), member)
                value = self.binary(node, opcode, Value(int, at), self.integer(node.value))
                self.emit("STORE", self.use(obj), member, self.use(value))
            case _:
                self.fail(node, "only a variable or a field can be changed by `+=` and its kin")

    def conditional(self, node: ast.If) -> None:
        known = self.static_test(node.test)
        if known is not None:
            taken, other = (node.body, node.orelse) if known else (node.orelse, node.body)
            names = dict(self.frame.names)
            with self.discarded():
                self.block(other)
            self.frame.names = {**names}
            self.block(taken)
            return
        jumps = self.test(node.test, jump_if=False)
        before = self.frame.assigned
        self.block(node.body)
        after_body = self.frame.assigned
        self.frame.assigned = before
        if node.orelse:
            skip = [] if after_body is None else [self.emit("JMP", 0)]
            self.patch(jumps)
            self.block(node.orelse)
            self.patch(skip)
        else:
            self.patch(jumps)
        self.frame.assigned = merge(after_body, self.frame.assigned)

    def while_loop(self, node: ast.While) -> None:
        if node.orelse:
            self.fail(node, "outside the protocol language: `while ... else`; set a variable before `break`")
        known = self.static_test(node.test)
        start = self.label = len(self.code)
        exits = [] if known is not None else self.test(node.test, jump_if=False)
        before = self.frame.assigned
        loop = Loop()
        self.frame.loops.append(loop)
        if known == 0:
            with self.discarded():
                self.block(node.body)
        else:
            self.node = node
            self.emit("TICK")
            self.block(node.body)
            self.patch_to(loop.continues, start)
            if self.frame.assigned is not None:
                self.node = node
                self.emit("JMP", start)
        self.frame.loops.pop()
        self.patch(exits + loop.breaks)
        self.frame.assigned = before if not known else None
        for state in loop.break_states:
            self.frame.assigned = merge(self.frame.assigned, state)

    def patch_to(self, jumps: list[int], target: int) -> None:
        for index in jumps:
            self.code[index][1] = target

    def for_loop(self, node: ast.For) -> None:
        match node:
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args, keywords=[]), orelse=[]
            ) if 1 <= len(args) <= 3 and self.lookup("range") is MISSING and not self.is_variable("range"):
                pass
            case _:
                self.fail(
                    node, "the only `for` is `for name in range(stop)`, `range(start, stop)` or with a constant step"
                )
        step = self.integer(args[2]).constant if len(args) == 3 else 1
        if not step:
            self.fail(node, "the step of a range is a constant other than 0")
        start = self.copy(self.integer(args[0])) if len(args) > 1 else self.copy(Value(constant=0))
        stop = self.copy(self.integer(args[1] if len(args) > 1 else args[0]))
        head = self.label = len(self.code)
        over = (stop, start) if step > 0 else (start, stop)
        exits = [self.emit("JLE", self.use(over[0]), self.use(over[1]), 0)]
        before = self.frame.assigned
        loop = Loop()
        self.frame.loops.append(loop)
        self.store_name(node, name, start)
        self.emit("TICK")
        self.block(node.body)
        self.patch(loop.continues)
        self.node = node
        self.emit("ADD", start.register, start.register, self.use(Value(constant=step)))
        self.emit("JMP", head)
        self.frame.loops.pop()
        self.patch(exits + loop.breaks)
        self.frame.assigned = before
        for state in loop.break_states:
            self.frame.assigned = merge(self.frame.assigned, state)

    def leave(self, node: ast.Break | ast.Continue) -> None:
        if not self.frame.loops:
            self.fail(node, "break and continue belong inside a loop")
        loop = self.frame.loops[-1]
        jump = self.emit("JMP", 0)
        if isinstance(node, ast.Break):
            loop.breaks.append(jump)
            loop.break_states.append(self.frame.assigned)
        else:
            loop.continues.append(jump)
        self.frame.assigned = None

    def give_back(self, node: ast.Return) -> None:
        frame = self.frame
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] if node.value else []
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            parts = []
        if not parts:
            frame.returned_nothing = True
        else:
            values = self.operands(parts)
            if len(values) > MOST_RESULTS:
                self.fail(node, f"a protocol returns at most {MOST_RESULTS} values")
            if frame.results is None:
                frame.results = tuple(Value(v.kind, (frame.result_base or 0) + k) for k, v in enumerate(values))
            if len(values) != len(frame.results) or any(
                v.kind is not r.kind for v, r in zip(values, frame.results, strict=False)
            ):
                self.fail(node, f"{frame.protocol.name} returns different things in different places")
            if frame.result_base is not None:
                for value, result in zip(values, frame.results, strict=True):
                    self.move(result.register, value)
        frame.returns.append(self.emit("JMP", 0))
        frame.assigned = None

    def assertion(self, node: ast.Assert) -> None:
        if node.msg is not None and not (isinstance(node.msg, ast.Constant) and isinstance(node.msg.value, str)):
            self.fail(node, "the message of an assert is plain text")
        if waits(node.test):
            self.fail(node, "an assert cannot wait: take the `yield` out of it")
        text = self.text(assertion_text(node))
        holds = self.test(node.test, jump_if=True)
        self.emit("ASSERT", self.use(Value(constant=0)), text)
        self.patch(holds)

    # -- ghosts --------------------------------------------------------------------------------------------------------
    def is_ghost(self, node: ast.stmt) -> bool:
        """Whether a statement exists for properties only.  `field_kind` refuses ghosts anywhere else."""
        match node:
            case (
                ast.Assign(targets=[ast.Attribute() as target])
                | ast.AnnAssign(target=ast.Attribute() as target)
                | ast.AugAssign(target=ast.Attribute() as target)
            ):
                return self.kind_of(target) in GHOSTS
            case ast.Assert(test=test):
                return self.reads_ghost(test)
            case ast.If(test=test, body=body, orelse=orelse) if self.reads_ghost(test):
                if not all(self.is_ghost(statement) or isinstance(statement, ast.Pass) for statement in body + orelse):
                    self.fail(node, "a test of a ghost field may decide about ghost statements only")
                return True
        return False

    def reads_ghost(self, node: ast.AST) -> bool:
        return any(
            isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and self.kind_of(n) in GHOSTS
            for n in ast.walk(node)
        )


def _assigned_names(tree: ast.FunctionDef) -> list[str]:
    """Names that the function assigns, in order of appearance."""
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
    return list(found)


def assertion_text(node: ast.Assert) -> str:
    """The message of an assert: the one written, or else the condition."""
    return node.msg.value if isinstance(node.msg, ast.Constant) else ast.unparse(node.test)  # type: ignore[return-value]
