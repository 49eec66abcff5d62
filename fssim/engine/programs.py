"""The bytecode of a run's programs, which both engines have compiled: it is their check of the protocols."""

from __future__ import annotations

from typing import Any

from fssim.protocol import Protocol, check_constants
from fssim.protocol.bytecode import Program
from fssim.protocol.language import Shared
from fssim.system import System, Thread

PROGRAMS_KEPT = 256

ProgramKey = tuple[Protocol, tuple[Any, ...]]
"""A protocol and the kinds of its arguments: threads of the same key have the same program."""

_compiled: dict[Any, Program] = {}


def program_key(thread: Thread) -> ProgramKey:
    """Return which of `compile_programs` a thread runs."""
    return thread.protocol, tuple([type(value) if isinstance(value, Shared) else int for value in thread.arguments])


def compile_programs(system: System) -> dict[ProgramKey, Program]:
    """Compile the threads' programs, each only once.

    Raises UserError or ProtocolError for arguments of the wrong kind, an operation or a code path that is missing, and
    a constant that none of the programs uses.
    """
    programs: dict[ProgramKey, Program] = {}
    for thread in system.threads:
        key = program_key(thread)
        if key not in programs:
            programs[key] = _compile(*key, system)
    check_constants(list(programs.values()), system.constants)
    return programs


def _compile(protocol: Protocol, kinds: tuple[Any, ...], system: System) -> Program:
    """Compile a program, or take it from the runs before: a grid runs the same few programs thousands of times."""
    path_ns = system.host.path_ns
    settings = (system.ghosts, tuple(system.overrides.items()), tuple(path_ns.items()), _globals(protocol, system))
    key = (protocol, kinds, settings)
    if key not in _compiled:
        if len(_compiled) >= PROGRAMS_KEPT:
            _compiled.clear()
        _compiled[key] = protocol.compile(
            arguments=kinds, constants=system.overrides, path_ns=path_ns, ghosts=system.ghosts
        )
    return _compiled[key]


def _globals(protocol: Protocol, system: System) -> tuple[tuple[str, Any], ...]:
    """Return the integers and protocols that a protocol, and those it calls, find by name: they may be rebound."""
    found: dict[tuple[str, Any], None] = {}
    todo = [protocol, *(value for value in system.overrides.values() if isinstance(value, Protocol))]
    for each in todo:
        code = each.function.__code__
        for name in (*code.co_names, *code.co_freevars):
            value = each.namespace(name)
            if isinstance(value, (int, Protocol)) and (name, value) not in found:
                found[name, value] = None
                if isinstance(value, Protocol):
                    todo.append(value)
    return tuple(found)
