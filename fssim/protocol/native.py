"""Rebuilds a protocol's own text as the generator function that the reference engine runs.

The text stays as it is, line for line.  Added: a tick at the head of every loop body, checked indexing, a check that
results fit into 64 bits (augmented assignments are written out for it).  Replaced:
names that the run overrides.  Taken out: ghost statements, if the run has none.  Asserts stay, also under
`python -O`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Generator, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fssim.errors import UserError
from fssim.protocol import language
from fssim.protocol.compiler import assertion_text

if TYPE_CHECKING:
    from fssim.protocol.definition import Protocol

Native = Callable[..., Generator[Any, Any, Any]]


OVERFLOWING = (ast.Add, ast.Sub, ast.Mult, ast.LShift, ast.FloorDiv)
"""Operators that can lead out of 64 bits; floor division by dividing the lowest integer by -1."""


class DoesNotFit(ArithmeticError):
    """The result of an operation does not fit into 64 bits."""


def fitting(value: int) -> int:
    """Return a result if it fits into 64 bits."""
    if -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        return value
    raise DoesNotFit


def fitting_range(start: int, stop: int, step: int) -> Iterator[int]:
    """`range(start, stop, step)` that counts as the bytecode does, also beyond `stop`."""
    while start < stop if step > 0 else start > stop:
        yield start
        start = fitting(start + step)


def checked_element(elements: list[Any], index: int) -> Any:
    """`elements[index]` without Python's negative indices."""
    if not 0 <= index < len(elements):
        raise IndexError(f"index {index} of a list of {len(elements)}")
    return elements[index]


def _tick() -> None:
    language.running.tick()


class _Rewrite(ast.NodeTransformer):
    def __init__(self, ghosts: bool) -> None:
        self.ghosts = ghosts

    def visit(self, node: ast.AST) -> Any:
        if getattr(node, "_ghost", False) and not self.ghosts:
            return ast.copy_location(ast.Pass(), node)
        return super().visit(node)

    def _loop(self, node: ast.While | ast.For) -> ast.AST:
        self.generic_visit(node)
        tick = ast.Expr(ast.Call(ast.Name("@tick", ast.Load()), [], []))
        # On the line of the loop, as in the bytecode.
        ast.copy_location(tick, node)
        node.body.insert(0, ast.fix_missing_locations(tick))
        return node

    visit_While = _loop

    def visit_For(self, node: ast.For) -> ast.AST:
        if isinstance(node.iter, ast.Call) and len(node.iter.args) == 3:  # with steps of 1 the stop comes first
            node.iter.func = ast.copy_location(ast.Name("@range", ast.Load()), node.iter.func)
        return self._loop(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _fits(node) if isinstance(node.op, OVERFLOWING) else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        # The lowest integer has no positive counterpart: its text is a negated constant that does not fit.
        return _fits(node) if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        target, value = copy.deepcopy(node.target), node.target
        if isinstance(node.target, ast.Attribute):
            # To find the object may take time, and must not happen twice.
            found = ast.Assign([ast.Name("@object", ast.Store())], node.target.value)
            statements.append(ast.copy_location(found, node))
            target = ast.Attribute(ast.Name("@object", ast.Load()), node.target.attr, ast.Store())
            value = ast.Attribute(ast.Name("@object", ast.Load()), node.target.attr, ast.Load())
        else:
            value.ctx = ast.Load()
        result = ast.copy_location(ast.BinOp(value, node.op, node.value), node)
        statements.append(ast.copy_location(ast.Assign([target], result), node))
        return [ast.fix_missing_locations(self.visit(statement)) for statement in statements]

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        call = ast.Call(ast.Name("@element", ast.Load()), [node.value, node.slice], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        # `assert` would raise on the line of its test in some versions of Python, and not at all under `python -O`.
        call = ast.Call(ast.Name("@fails", ast.Load()), [ast.Constant(assertion_text(node))], [])
        self.generic_visit(node)
        raised = ast.If(node.test, [ast.Pass()], [ast.Raise(call)])
        ast.copy_location(raised.orelse[0], node)
        return ast.fix_missing_locations(ast.copy_location(raised, node))


def _fits(node: ast.expr) -> ast.expr:
    call = ast.Call(ast.Name("@fits", ast.Load()), [node], [])
    return ast.fix_missing_locations(ast.copy_location(call, node))


def build_native(
    protocol: Protocol, constants: Mapping[str, Any], path_ns: Mapping[str, int] | None, ghosts: bool
) -> Native:
    """Return the generator function of a protocol and, through its names, of all that it calls."""
    return _Builder(constants, path_ns, ghosts).build(protocol)


class _Builder:
    def __init__(self, constants: Mapping[str, Any], path_ns: Mapping[str, int] | None, ghosts: bool) -> None:
        self.constants = constants
        self.path = language.path if path_ns is None else SimpleNamespace(**path_ns)
        self.ghosts = ghosts
        self.built: dict[int, Native] = {}

    def build(self, protocol: Protocol) -> Native:
        if id(protocol) in self.built:
            return self.built[id(protocol)]
        tree = copy.deepcopy(protocol.tree)
        tree.decorator_list = []
        for argument in tree.args.args:
            argument.annotation = None
        tree.returns = None
        tree = _Rewrite(self.ghosts).visit(tree)
        if not any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(tree)):
            # Without a yield the function would not be a generator and could not be delegated to.
            never = ast.If(ast.Constant(False), [ast.Expr(ast.Yield())], [])
            tree.body.insert(0, ast.fix_missing_locations(ast.copy_location(never, tree)))
        module = ast.Module([tree], [])
        # No name of a protocol can hide these.
        namespace: dict[str, Any] = {
            "@tick": _tick,
            "@element": checked_element,
            "@fits": fitting,
            "@range": fitting_range,
            "@fails": AssertionError,
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in namespace:
                found = self._resolve(protocol, node.id)
                if found is not _MISSING:
                    namespace[node.id] = found
        exec(compile(module, protocol.filename, "exec"), namespace)
        native: Native = namespace[tree.name]
        self.built[id(protocol)] = native
        return native

    def _resolve(self, protocol: Protocol, name: str) -> Any:
        if name.isupper() and name in self.constants:
            found = self.constants[name]
        else:
            found = protocol.namespace(name, _MISSING)
        if getattr(found, "is_protocol", False):
            return self.build(found)
        if isinstance(found, language.Operation):

            def unbound(*_: Any) -> Any:
                raise UserError(f"{name} is not bound; give constants={{'{name}': protocol}}")

            return unbound
        return self.path if found is language.path else found


_MISSING = object()
