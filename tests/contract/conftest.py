"""The contract suite runs in both engines, and over every kind of lock where a test asks for `kind`."""

from __future__ import annotations

import pytest

from fssim.engine import ENGINES
from tests.contract.scene import KINDS, Kind


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Name of an engine."""
    name: str = request.param
    return name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`kind`: every kind of lock, unless the test names its kinds itself."""
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "kind" in metafunc.fixturenames and not any("kind" in names for names in named):
        metafunc.parametrize("kind", KINDS)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Show kinds by their name."""
    return val.name.replace(" ", "-") if isinstance(val, Kind) else None
