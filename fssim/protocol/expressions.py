"""Compiles expressions, effects and tests.  Order of evaluation is Python's: operands left to right."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from fssim.errors import nearest
from fssim.protocol import language
from fssim.protocol.bytecode import PROPERTIES
from fssim.protocol.emitter import MISSING, Emitter, Record, Value, waits
from fssim.protocol.language import INTEGERS, Operation, Shared, element_class, item_of, primitive_of
from fssim.protocol.subset import (
    BINARY,
    COMPARE,
    DEFAULTS,
    EFFECTS,
    FOLD,
    METHODS,
    OPPOSITE,
    READABLE,
    Method,
    kind_name,
    use_of,
)

INT64 = range(-(2**63), 2**63)
_STATIC = (
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.BoolOp,
    ast.boolop,
    ast.UnaryOp,
    ast.unaryop,
    ast.Compare,
    ast.cmpop,
    ast.BinOp,
    ast.operator,
)


class Expressions(Emitter):
    """The part of the compiler that yields values."""

    def inline(self, node: ast.YieldFrom) -> tuple[Value, ...] | None:
        """Compile `yield from`; return the results.  Calls need statements, see `Compiler`."""
        raise NotImplementedError

    # -- values --------------------------------------------------------------------------------------------------------
    def object_of(self, node: ast.Attribute) -> Value:
        """The object whose field `node` is."""
        value = self.expression(node.value)
        if value.kind is int:
            self.fail(node, f"`{ast.unparse(node.value)}` is an integer and has no field {node.attr!r}")
        return value

    def integer(self, node: ast.expr) -> Value:
        value = self.expression(node)
        if value.kind is not int:
            self.fail(node, f"`{ast.unparse(node)}` is {kind_name(value.kind)}, an integer is needed here")
        return value

    def expression(self, node: ast.expr) -> Value:
        outer, self.node = self.node, node
        value = self._expression(node)
        self.node = outer
        return value

    def _expression(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool() | int()):
                return self.constant(node, int(node.value))  # type: ignore[arg-type]
            case ast.Constant():
                self.fail(node, f"`{ast.unparse(node)}` is no integer; a protocol computes with integers only")
            case ast.Name():
                return self.name(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Subscript():
                return self.element(node)
            case ast.BinOp():
                opcode = BINARY.get(type(node.op))
                if opcode is None:
                    self.refuse_operator(node, node.op)
                self.check_shift(node, opcode, node.right)
                left = self.integer(node.left)
                return self.binary(node, opcode, *self._right(left, node.right))
            case ast.UnaryOp():
                return self.unary(node)
            case ast.Compare():
                opcode, _, swapped, left, right = self.comparison(node)
                return self.binary(node, opcode, right, left) if swapped else self.binary(node, opcode, left, right)
            case ast.IfExp():
                return self.choice(node)
            case ast.Call():
                return self.call(node)
            case ast.Yield():
                return self.effect(node, wanted=1)[0]
            case ast.YieldFrom():
                results = self.inline(node)
                if not results or len(results) != 1:
                    self.fail(
                        node, f"{ast.unparse(node.value)} returns {len(results or ())} values, one is needed here"
                    )
                return results[0]
            case ast.BoolOp():
                self.fail(node, "`and` and `or` are tests only; write `if`, or `1 if a and b else 0`")
        self.refuse(node)

    def constant(self, node: ast.AST, value: int) -> Value:
        if value not in INT64:
            self.fail(node, f"{value} does not fit into 64 bits")
        return Value(constant=value)

    def name(self, node: ast.Name) -> Value:
        known = self.frame.names.get(node.id)
        if isinstance(known, Record):
            self.fail(node, f"{node.id} is a record of class {known.cls.__name__}; use one of its fields")
        if known is not None:
            self.check_assigned(node)
            return known
        if node.id in self.frame.declared:
            self.fail(node, f"{node.id} has no value on some path to here; give it one before the branch or loop")
        found = self.lookup(node.id)
        if found is MISSING:
            self.fail(node, f"{node.id} is not known here{nearest(node.id, self.frame.names)}")
        if isinstance(found, int):
            if not node.id.isupper():
                self.fail(node, f"the global {node.id} is not a constant; write its name in upper case if it is one")
            return self.constant(node, int(found))
        self.fail(node, f"{node.id} is no integer; a protocol uses integers, Shared and Local objects and protocols")

    def attribute(self, node: ast.Attribute) -> Value:
        if isinstance(node.value, ast.Name):
            base = self.lookup(node.value.id)
            if base is language.path:
                return self.path_cost(node)
            if base is language.device:
                self.fail(node, f"`device.{node.attr}` is an effect: write `yield device.{node.attr}(offset, length)`")
        record = self.record_of(node.value)
        if record is not None:
            return Value(int, self.record_field(node, record), stable=False)
        if isinstance(node.value, ast.Attribute) and primitive_of(self.kind_of(node.value)) is not None:
            return self.property(node, node.value)
        obj = self.object_of(node)
        kind = self.field_kind(node, obj.kind)
        if kind in INTEGERS or (isinstance(kind, type) and issubclass(kind, Shared)):
            at = self.register()
            self.emit("LOAD", at, self.use(obj), self.member(obj.kind, node.attr))
            return Value(int if kind in INTEGERS else kind, at)
        self.fail(node, f"{obj.kind.__name__}.{node.attr} is {kind_name(kind)}, no value; {use_of(kind)}")

    def property(self, node: ast.Attribute, target: ast.Attribute) -> Value:
        """Read a property of a primitive."""
        obj, kind = self.object_of(target), self.kind_of(target)
        self.field_kind(target, obj.kind)
        primitive = primitive_of(kind)
        readable = READABLE.get(primitive, ())
        if node.attr not in readable:
            self.fail(
                node, f"{kind_name(kind)} has no value {node.attr!r}{nearest(node.attr, readable)}; {use_of(kind)}"
            )
        at = self.register()
        self.emit("PEEK", at, self.use(obj), self.member(obj.kind, target.attr), PROPERTIES.index(node.attr))
        return Value(int, at)

    def path_cost(self, node: ast.Attribute) -> Value:
        if self.path_ns is None:
            return Value(constant=1)  # at decoration no host is known
        if node.attr not in self.path_ns:
            self.fail(node, f"the host profile gives no cost for path.{node.attr}{nearest(node.attr, self.path_ns)}")
        return self.constant(node, self.path_ns[node.attr])

    def element(self, node: ast.Subscript) -> Value:
        match node.value:
            case ast.Attribute() as target if element_class(self.kind_of(target)) is not None:
                obj = self.object_of(target)
            case _:
                self.fail(node, f"`{ast.unparse(node.value)}` is no list of objects and cannot be indexed")
        cls = element_class(self.field_kind(target, obj.kind))
        obj, index = self._right(obj, node.slice)
        at = self.register()
        self.emit("LOADX", at, self.use(obj), self.member(obj.kind, target.attr), self.use(index))
        return Value(cls, at)

    def _right(self, left: Value, right: ast.expr) -> tuple[Value, Value]:
        """Evaluate the right operand; the left one is saved first if that could change it."""
        if not left.stable and waits(right):
            left = self.copy(left)
        return left, self.integer(right)

    def operands(self, nodes: list[ast.expr]) -> list[Value]:
        values: list[Value] = []
        for position, node in enumerate(nodes):
            value = self.expression(node)
            if not value.stable and any(waits(later) for later in nodes[position + 1 :]):
                value = self.copy(value)
            values.append(value)
        return values

    def binary(self, node: ast.AST, opcode: str, left: Value, right: Value) -> Value:
        if left.constant is not None and right.constant is not None:
            if opcode in ("DIV", "MOD") and right.constant == 0:
                self.fail(node, "division by zero")
            return self.constant(node, FOLD[opcode](left.constant, right.constant))
        at = self.register()
        self.emit(opcode, at, self.use(left), self.use(right))
        return Value(int, at)

    def check_shift(self, node: ast.AST, opcode: str, right: ast.expr) -> None:
        if opcode not in ("SHL", "SHR"):
            return
        count = self.integer(right).constant
        if count is None or not 0 <= count <= 62:
            self.fail(
                node, "a shift count is a constant between 0 and 62; multiply or divide by a power of two instead"
            )

    def refuse_operator(self, node: ast.AST, operator: ast.operator) -> NoReturn:
        instead = {
            ast.Div: "`/` makes fractions; write `//`, and add the divisor minus one first to round up",
            ast.Pow: "`**`; write a constant or `1 << n`",
            ast.MatMult: "`@`",
        }.get(type(operator), type(operator).__name__)
        self.fail(node, f"outside the protocol language: {instead}")

    def unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and type(node.operand.value) is int:
            return self.constant(node, -node.operand.value)  # the lowest integer has no positive counterpart
        value = self.integer(node.operand)
        opcode = {ast.USub: "NEG", ast.Not: "NOT", ast.Invert: "INV"}.get(type(node.op))
        if opcode is None:
            return value  # unary plus
        if value.constant is not None:
            folded = {"NEG": -value.constant, "NOT": int(not value.constant), "INV": ~value.constant}[opcode]
            return self.constant(node, folded)
        at = self.register()
        self.emit(opcode, at, self.use(value))
        return Value(int, at)

    def comparison(self, node: ast.Compare, opposite: bool = False) -> tuple[str, str, bool, Value, Value]:
        if len(node.ops) != 1:
            self.fail(node, "outside the protocol language: a chained comparison; write `a < b and b < c`")
        kind: type[ast.cmpop] = type(node.ops[0])
        if kind not in COMPARE:
            self.fail(
                node, f"outside the protocol language: `{ast.unparse(node)}`; compare integers with < <= == != >= >"
            )
        value_op, jump_op, swapped = COMPARE[OPPOSITE[kind] if opposite else kind]
        left = self.integer(node.left)
        left, right = self._right(left, node.comparators[0])
        return value_op, jump_op, swapped, left, right

    def choice(self, node: ast.IfExp) -> Value:
        known = self.static_test(node.test)
        if known is not None:
            with self.discarded():
                self.integer(node.orelse if known else node.body)
            return self.integer(node.body if known else node.orelse)
        at = self.register()
        otherwise = self.test(node.test, jump_if=False)
        self.emit("MOV", at, self.use(self.integer(node.body)))
        end = [self.emit("JMP", 0)]
        self.patch(otherwise)
        self.emit("MOV", at, self.use(self.integer(node.orelse)))
        self.patch(end)
        return Value(int, at)

    def call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and primitive_of(self.kind_of(node.func.value)) is not None:
            self.fail(node, f"`{ast.unparse(node)}` may wait: write `yield {ast.unparse(node)}`")
        if not isinstance(node.func, ast.Name):
            self.refuse(node)
        name = node.func.id
        found = self.called(node.func)
        if found is MISSING and name in ("min", "max"):
            self.check_count(node, 2)
            left = self.integer(node.args[0])
            return self.binary(node, name.upper(), *self._right(left, node.args[1]))
        if found is MISSING and name == "len":
            self.check_count(node, 1)
            target = node.args[0]
            if isinstance(target, ast.Attribute) and element_class(self.kind_of(target)) is not None:
                obj = self.object_of(target)
                at = self.register()
                self.emit("LEN", at, self.use(obj), self.member(obj.kind, target.attr))
                return Value(int, at)
            self.fail(node, "len() takes a field declared `list[Class]`")
        if found is language.thread_id or found is language.now:
            self.check_count(node, 0)
            at = self.register()
            self.emit("TID" if found is language.thread_id else "NOW", at)
            return Value(int, at)
        if getattr(found, "is_protocol", False) or isinstance(found, Operation):
            self.fail(node, f"`{ast.unparse(node)}` is a protocol: write `yield from {ast.unparse(node)}`")
        if callable(found) and found in EFFECTS:
            self.fail(node, f"`{ast.unparse(node)}` may wait: write `yield {ast.unparse(node)}`")
        self.fail(node, f"{name}() cannot be called in a protocol; min, max, len, thread_id, now and `yield from` can")

    # -- effects -------------------------------------------------------------------------------------------------------
    def effect(self, node: ast.Yield, wanted: int) -> tuple[Value, ...]:
        """Compile an effect whose `wanted` results somebody takes; return them."""
        call = node.value
        if not isinstance(call, ast.Call):
            self.fail(node, "`yield` takes an effect, such as `yield inode.iolock.acquire(SHARED)` or `yield cpu(500)`")
        self.node = node
        # In a row, as an effect with two results needs them.
        results = (Value(int, self.register()), Value(int, self.register()))
        if not isinstance(call.func, ast.Attribute):
            given = self._plain_effect(call, results)
        elif self._is_device(call.func.value):
            given = self._device_effect(call, call.func)
        else:
            given = self._primitive_effect(call, call.func, results)
        if wanted and len(given) != wanted:
            has = f"{len(given)} results" if given else "no result"
            instead = "write it as a statement of its own" if not given else f"{len(given)} names take them"
            self.fail(node, f"`{ast.unparse(call)}` has {has}; {instead}")
        return given

    def _device_effect(self, call: ast.Call, target: ast.Attribute) -> tuple[Value, ...]:
        method = target.attr
        opcode = {"read": "READ", "write": "WRITE", "submit_read": "SUBMITR", "submit_write": "SUBMITW"}.get(method)
        if opcode is None:
            self.fail(
                call,
                f"device has no {method!r}; it has read(offset, length) and write(offset, length), "
                "submit_read and submit_write(offset, length, to=..., tag=...)",
            )
        if opcode in ("READ", "WRITE"):
            self.emit(opcode, *(self.use(a) for a in self._integers(call, call.args, 2)))
            return ()
        given = dict(zip(("offset", "length", "to", "tag"), call.args, strict=False))
        for keyword in call.keywords:
            if keyword.arg not in ("offset", "length", "to", "tag") or keyword.arg in given or len(call.args) > 4:
                self.fail(call, f"`{ast.unparse(call)}`: device.{method} takes (offset, length, to=..., tag=...)")
            given[keyword.arg] = keyword.value
        to = given.get("to")
        kind = self.kind_of(to) if isinstance(to, ast.Attribute) else None
        primitive = primitive_of(kind)
        if "offset" not in given or "length" not in given or primitive not in (language.Queue, language.Counter):
            self.fail(call, f"device.{method} takes (offset, length, to=...), where `to` is a Counter or a Queue")
        assert isinstance(to, ast.Attribute)
        if ("tag" in given) != (primitive is language.Queue):
            self.fail(call, "a Queue is told with a tag=..., the item that it gets; a Counter without")
        pair, _ = self.register(), self.register()
        owner, tag = Value(), Value(constant=0)
        for name, node in given.items():  # in the order of the text, which is Python's
            if name == "to":
                owner = self.object_of(to)
                self.field_kind(to, owner.kind)
            elif name == "tag":
                tag = self._item(node, kind)
                tag = tag if tag.stable else self.copy(tag)
            else:
                self.move(pair + (name == "length"), self.integer(node))
        self.emit(opcode, pair, self.use(owner), self.member(owner.kind, to.attr), self.use(tag))
        return ()

    def _primitive_effect(
        self, call: ast.Call, target: ast.Attribute, results: tuple[Value, Value]
    ) -> tuple[Value, ...]:
        text, name = ast.unparse(target), target.attr
        if not isinstance(target.value, ast.Attribute):
            self.fail(call, f"`{text}` is no effect; methods of locks, counters and queues, device, cpu, sleep are")
        owner = self.object_of(target.value)
        kind = self.field_kind(target.value, owner.kind)
        primitive = primitive_of(kind)
        if primitive is None:
            self.fail(call, f"{owner.kind.__name__}.{target.value.attr} is {kind_name(kind)} and has no {name}()")
        methods = METHODS[primitive]
        if name not in methods:
            self.fail(call, f"{kind_name(kind)} has no {name}(){nearest(name, methods)}")
        method = methods[name]
        self.check_count(call, method.arguments)
        lock = [self.use(owner), self.member(owner.kind, target.value.attr)]
        arguments = self._method_arguments(call, method, kind)
        given = results[: method.results]
        if method.gives_item:
            given = (Value(item_of(kind), results[0].register),)
        self.emit(method.opcode, *(value.register for value in given[:1]), *lock, *arguments)
        return given

    def _method_arguments(self, call: ast.Call, method: Method, kind: Any) -> list[int]:
        """Operands of a primitive's method behind its object and member."""
        match method.takes:
            case "mode":
                [mode] = self._integers(call, call.args, 1)
                if mode.constant is not None and mode.constant not in (language.SHARED, language.EXCLUSIVE):
                    self.fail(call, f"{mode.constant} is no lock mode; write SHARED or EXCLUSIVE")
                return [self.use(mode)]
            case "item":
                return [self.use(self._item(call.args[0], kind))]
            case "pair" | "pair, integer":
                pair = self._pair(call, call.args[:2])
                return [pair, *(self.use(self.integer(node)) for node in call.args[2:])]
            case "integer":
                return [self.use(value) for value in self._integers(call, call.args, 1)]
        return [self.use(Value(constant=language.EXCLUSIVE))] if method.opcode in ("ACQUIRE", "TRY", "RELEASE") else []

    def _pair(self, call: ast.Call, nodes: list[ast.expr]) -> int:
        """Evaluate two integers into registers in a row; return the first."""
        first, second = self.register(), self.register()
        for at, value in zip((first, second), self._integers(call, nodes, 2), strict=True):
            self.move(at, value)
        return first

    def _item(self, node: ast.expr, kind: Any) -> Value:
        """Evaluate what is put into a queue of this kind."""
        item, value = item_of(kind), self.expression(node)
        fits = item is int if value.kind is int else item is not int and issubclass(value.kind, item)
        if not fits:
            self.fail(node, f"`{ast.unparse(node)}` is {kind_name(value.kind)}, {kind_name(item)} is needed here")
        return value

    def _is_device(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self.lookup(node.id) is language.device

    def _plain_effect(self, call: ast.Call, results: tuple[Value, Value]) -> tuple[Value, ...]:
        found = self.called(call.func) if isinstance(call.func, ast.Name) else MISSING
        if getattr(found, "is_protocol", False) or isinstance(found, Operation):
            self.fail(call, f"`{ast.unparse(call)}` is a protocol: write `yield from {ast.unparse(call)}`")
        if not callable(found) or found not in EFFECTS:
            self.fail(
                call,
                f"`{ast.unparse(call)}` is no effect; methods of locks, counters and queues, device, cpu, sleep are",
            )
        opcode, count, has_result = EFFECTS[found]
        left_out = found in DEFAULTS and not call.args and not call.keywords
        arguments = [Value(constant=DEFAULTS[found])] if left_out else []
        if not arguments:
            self.check_count(call, count)
            arguments = self._integers(call, call.args, count)
        given = results[: int(has_result)]
        self.emit(opcode, *(value.register for value in given), *map(self.use, arguments))
        return given

    def _integers(self, call: ast.Call, nodes: list[ast.expr], count: int) -> list[Value]:
        if nodes is call.args:
            self.check_count(call, count)
        values = self.operands(nodes)
        for node, value in zip(nodes, values, strict=True):
            if value.kind is not int:
                self.fail(node, f"`{ast.unparse(node)}` is {kind_name(value.kind)}, an integer is needed here")
        return values

    def check_count(self, call: ast.Call, count: int) -> None:
        text = ast.unparse(call)
        if call.keywords:
            self.fail(call, f"`{text}`: arguments are given by position here")
        if len(call.args) != count:
            self.fail(call, f"`{text}` takes {count} argument{'s' if count != 1 else ''}, {len(call.args)} are given")

    # -- tests ---------------------------------------------------------------------------------------------------------
    def static_test(self, node: ast.expr) -> int | None:
        """Value of a test that constants decide, None if they do not."""
        for n in ast.walk(node):
            if not isinstance(n, _STATIC) or (isinstance(n, ast.Name) and not self._is_constant(n.id)):
                return None
        match node:
            case ast.BoolOp(op=op, values=values):
                parts = [self.static_test(value) for value in values]
                if any(part is None for part in parts):
                    return None
                return int(all(parts) if isinstance(op, ast.And) else any(parts))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.static_test(operand)
                return None if inner is None else int(not inner)
        with self.discarded_value() as box:
            box.append(self.expression(node))
        constant = box[0].constant
        return None if constant is None else int(bool(constant))

    def _is_constant(self, name: str) -> bool:
        return isinstance(self.lookup(name), int)

    @contextmanager
    def discarded_value(self) -> Iterator[list[Value]]:
        box: list[Value] = []
        used = set(self.used)
        with self.discarded():
            yield box
        self.used |= used

    def test(self, node: ast.expr, jump_if: bool) -> list[int]:
        """Compile a test; return jumps (to patch), taken if its truth is `jump_if`; else control falls through."""
        match node:
            case ast.BoolOp(op=op, values=values):
                # `and` fails, `or` succeeds at the first operand that decides.
                decides = isinstance(op, ast.Or)
                if decides == jump_if:
                    return [jump for value in values for jump in self.test(value, jump_if)]
                early = [jump for value in values[:-1] for jump in self.test(value, not jump_if)]
                last = self.test(values[-1], jump_if)
                self.patch(early)
                return last
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.test(operand, not jump_if)
            case ast.Compare():
                _, jump, swapped, left, right = self.comparison(node, opposite=not jump_if)
                if swapped:
                    left, right = right, left
                return [self.emit(jump, self.use(left), self.use(right), 0)]
        value = self.integer(node)
        return [self.emit("JNZ" if jump_if else "JZ", self.use(value), 0)]
