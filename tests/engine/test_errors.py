"""Errors come back whole from worker processes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest

from fssim.errors import FssimError, ProtocolError, RunError


def classes(base: type[FssimError]) -> Iterator[type[FssimError]]:
    yield base
    for child in base.__subclasses__():
        yield from classes(child)


def example(kind: type[FssimError]) -> FssimError:
    if issubclass(kind, RunError):
        return kind("what happened", thread=3, lock="mount.files[1].mutex", time_ns=17, seed=5, line=42)
    if issubclass(kind, ProtocolError):
        return kind("model.py", 12, "what is wrong")
    return kind("what is wrong")


@pytest.mark.parametrize("kind", list(classes(FssimError)), ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling_with_all_its_fields(kind: type[FssimError]) -> None:
    error = example(kind)
    error.add_note("a note")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert again.args == error.args
        assert vars(again) == vars(error)
