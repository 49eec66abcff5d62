"""Loads a changed copy of an engine, without jit, and lets `fssim.engine.run` use it for a while.

One file of `fssim/engine` is changed by exact textual replacement; the engines' modules are then imported anew, from
that text and the other files as they are.  The replaced text must occur exactly once: a mutant cannot vanish unseen
when the code changes.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numba
import numpy as np

import fssim.engine

ENGINES = Path(fssim.engine.__file__).parent
RELOADED = ("fssim.engine.compiled", "fssim.engine.compiled_run", "fssim.engine.reference")


class MutantVanished(Exception):
    """The text to replace does not occur exactly once: adapt the mutant to the code."""


def mutated_source(file: str, changes: Sequence[tuple[str, str]]) -> str:
    """Return the text of a file below `fssim/engine` with each `old` replaced by its `new`; old must occur once."""
    source = (ENGINES / file).read_text(encoding="utf-8")
    for old, new in changes:
        if source.count(old) != 1 or old == new:
            raise MutantVanished(f"fssim/engine/{file}: {source.count(old)} times instead of once:\n{old}")
        source = source.replace(old, new)
    return source


class _ChangedFile(importlib.machinery.SourceFileLoader):
    """Loads a module from another text than that of its file."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, path: Path, source: str) -> None:
        name = path.relative_to(ENGINES).with_suffix("").as_posix().replace("/", ".")
        self._name = f"fssim.engine.{name}"
        self._loader = _ChangedFile(self._name, str(path), source)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._loader.path, loader=self._loader)


@contextmanager
def interpreted_engines(file: str = "", source: str = "") -> Iterator[None]:
    """Let the engines run in plain Python, with `source` in place of a file below `fssim/engine` if one is named."""
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(RELOADED)}
    # `from fssim.engine import compiled` looks at the package before it looks at the modules.
    attributes = {name: fssim.engine.__dict__.pop(name, None) for name in ("compiled", "compiled_run", "reference")}
    finders = [_Finder(ENGINES / file, source)] if file else []
    sys.meta_path[:0] = finders
    jit_was_disabled = numba.config.DISABLE_JIT
    numba.config.DISABLE_JIT = True  # `njit` leaves functions as they are
    try:
        with np.errstate(over="ignore"):  # random numbers wrap around
            yield
    finally:
        numba.config.DISABLE_JIT = jit_was_disabled
        for finder in finders:
            sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(RELOADED)]:
            del sys.modules[name]
        sys.modules.update(kept)
        for name, module in attributes.items():
            if module is not None:
                setattr(fssim.engine, name, module)
            else:
                fssim.engine.__dict__.pop(name, None)
