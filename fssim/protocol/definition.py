"""`@protocol`: compiles a generator function when it is decorated, and keeps it for the engines."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Generator, Mapping
from typing import Any

from fssim.errors import ProtocolError, UserError, nearest
from fssim.protocol import language
from fssim.protocol.bytecode import Program
from fssim.protocol.compiler import Compiler
from fssim.protocol.language import Local, Shared
from fssim.protocol.native import Native, build_native


class Protocol:
    """A locking protocol: one text that the reference engine runs, the compiled engine executes, the checker explores.

    Made by `@protocol`.  Errors of the text are raised there, as `ProtocolError` with file and line.
    """

    is_protocol = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.filename = inspect.getsourcefile(function) or function.__code__.co_filename
        self.tree = _parse(function, self.filename)
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self.parameters = self._read_parameters()
        results = Compiler(constants={}, path_ns=None, ghosts=True, fixed=False).check(self)
        self.has_results = bool(results)

    def __repr__(self) -> str:
        return f"<protocol {self.name} ({self.filename}:{self.tree.lineno})>"

    def __call__(self, *arguments: Any, **keywords: Any) -> Generator[Any, Any, Any]:
        """Start the native generator, with every constant as the module has it."""
        generator: Generator[Any, Any, Any] = self.native()(*arguments, **keywords)
        return generator

    def namespace(self, name: str, default: Any = None) -> Any:
        """Value of a global or enclosing name, as the function sees it."""
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:  # not assigned yet
                return default
        return self.function.__globals__.get(name, default)

    def compile(
        self,
        arguments: tuple[Any, ...] = (),
        constants: Mapping[str, Any] | None = None,
        path_ns: Mapping[str, int] | None = None,
        ghosts: bool = False,
    ) -> Program:
        """Return the linked bytecode.

        `arguments`: kind of each argument, int or a Shared class.  `constants`: overrides of upper-case names.
        `path_ns`: CPU cost of each code path in nanoseconds.  Raises ProtocolError or UserError.
        """
        self._check_arguments(arguments)
        if self.has_results:
            raise UserError(f"{self.name} returns values, and nobody takes those of a thread's program")
        compiler = Compiler(constants or {}, path_ns or {}, ghosts, fixed=True)
        return compiler.program(self, arguments)

    def native(
        self,
        constants: Mapping[str, Any] | None = None,
        path_ns: Mapping[str, int] | None = None,
        ghosts: bool = False,
    ) -> Native:
        """Return the plain generator function with the same constants, ghosts and loop ticks as the bytecode."""
        return build_native(self, constants or {}, path_ns, ghosts)

    def disassemble(self, **options: Any) -> str:
        """Return the bytecode as text, with source lines.  Options as for `compile`; `arguments` may be left out.

        Works for sub-protocols too: a Local parameter is shown as the registers of its fields.
        """
        from fssim.protocol.disassembler import disassemble

        arguments = options.pop("arguments", tuple(kind for _, kind in self.parameters))
        settings = {"constants": {}, "path_ns": {}, "ghosts": False, **options}
        return disassemble(Compiler(**settings, fixed=True).program(self, arguments))

    def _check_arguments(self, arguments: tuple[Any, ...]) -> None:
        if len(arguments) != len(self.parameters):
            names = ", ".join(name for name, _ in self.parameters)
            raise UserError(f"{self.name} takes {len(self.parameters)} arguments ({names}), {len(arguments)} are given")
        for (name, kind), given in zip(self.parameters, arguments, strict=True):
            if isinstance(kind, type) and issubclass(kind, Local):
                raise UserError(
                    f"{self.name}: {name} is a Local record; a thread makes its own, `{name} = {kind.__name__}()`"
                )
            fits = given is int if kind is int else isinstance(given, type) and issubclass(given, kind)
            if not fits:
                raise UserError(f"{self.name}: {name} is {kind.__name__}, {getattr(given, '__name__', given)} is given")

    def _read_parameters(self) -> tuple[tuple[str, Any], ...]:
        spec = self.tree.args
        if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.posonlyargs or spec.defaults:
            raise ProtocolError(
                self.filename,
                self.tree.lineno,
                f"{self.name}: parameters are plain names with a type, without defaults",
            )
        try:
            enclosing = {name: self.namespace(name) for name in self._cells}
            hints = typing.get_type_hints(self.function, localns=enclosing)
        except NameError as error:
            raise ProtocolError(
                self.filename, self.tree.lineno, f"{self.name}: a parameter's type is not known: {error}"
            ) from None
        parameters = []
        for argument in spec.args:
            kind = hints.get(argument.arg, int)
            if not (kind is int or (isinstance(kind, type) and issubclass(kind, (Shared, Local)))):
                raise ProtocolError(
                    self.filename,
                    argument.lineno,
                    f"{argument.arg} is declared {kind!r}; a parameter is an int, a Shared or a Local class",
                )
            parameters.append((argument.arg, kind))
        return tuple(parameters)


def _parse(function: Callable[..., Any], filename: str) -> ast.FunctionDef:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise UserError(
            f"{function.__name__}: its source is not to be found; a protocol has to stand in a file or notebook cell"
        ) from None
    # Not `textwrap.dedent`: a comment or a text may begin further left than the function.
    nested = lines[0][:1].isspace()
    try:
        body = ast.parse("".join(["if True:\n", *lines] if nested else lines)).body
    except SyntaxError:  # of a lambda, `inspect` may give half a statement
        body = []
    definition = body[0].body[0] if body and isinstance(body[0], ast.If) else body[0] if body else None
    if not isinstance(definition, ast.FunctionDef):
        raise ProtocolError(filename, first, "@protocol decorates a `def`; a protocol is a plain generator function")
    return ast.increment_lineno(definition, first - 2 if nested else first - 1)


def protocol(function: Callable[..., Any]) -> Protocol:
    """Decorate a generator function: check it against the language and compile it.

    Raises ProtocolError with file, line and what to write instead.
    """
    return Protocol(function)


def check_constants(programs: list[Program], constants: Mapping[str, Any]) -> None:
    """Raise UserError if an override is used by none of a run's programs: its name is mistyped, or it has no effect."""
    used = frozenset().union(*(program.overrides_used for program in programs)) if programs else frozenset()
    for name in constants:
        if name not in used:
            raise UserError(f"constant {name} is used by no protocol of this run{nearest(name, used)}")


__all__ = ["Protocol", "check_constants", "language", "protocol"]
