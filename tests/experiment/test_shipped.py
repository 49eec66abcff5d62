"""The experiments of the package cover what was measured, and every one of them can be run."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from fssim import resources
from fssim.experiment.definition import ErrorClaim, FigureClaim, FlatClaim, NotModelled
from fssim.experiment.loading import load_experiment, read_definition
from fssim.experiment.tables import read_table

NAMES = list(resources.names(resources.experiments()))
DATA = resources.experiments() / "data"

NOT_MEASURED = {
    "chinner_2011_read.threads",
    "chinner_2011_append.threads",
    "mason_2016_nvme.iodepth",
    "foster_2020_randwrite.xfs_log_blocks_126gb",  # the volume of that experiment has a log of this size
    "foster_2020_randwrite.xfs_agcount",
    "pratt_2009_large_create.mason_128_threads_odirect_mb_s.xfs_high",  # one claim has both bounds
}
"""Figures that say how something was measured."""

TABLES = {
    "chinner_2011_read.vanilla": ("xfs-vanilla", "seqrd"),
    "chinner_2011_read.shared_read_lock": ("xfs-shared-read-lock", "seqrd"),
    "chinner_2011_append.vanilla": ("xfs-vanilla", "seqwr"),
    "chinner_2011_append.concurrent_append": ("xfs-concurrent-append", "seqwr"),
}
"""Figures that are in tables of their own."""


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, f"{key}.{name}" if key else name)
    else:
        yield key, value


FACTS = dict(leaves(tomllib.loads((DATA / "seed-figures.toml").read_text(encoding="utf-8"))))


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_can_be_loaded(name: str) -> None:
    assert load_experiment(name).cells


def test_every_figure_of_the_mails_is_a_claim_or_in_a_table() -> None:
    used = set()
    for name in NAMES:
        for claim in read_definition(resources.experiments() / f"{name}.toml").claims:
            if isinstance(claim, FigureClaim | FlatClaim | NotModelled) and claim.fact:
                used.add(claim.fact)
    for key, value in FACTS.items():
        if key in NOT_MEASURED or key in TABLES:
            continue
        parts = [f"{key}[{n}]" for n in range(len(value))] if isinstance(value, list) else [key]
        assert set(parts) <= used, key


@pytest.mark.parametrize("key", TABLES)
def test_a_table_has_the_figures_of_the_mails(key: str) -> None:
    file, pattern = TABLES[key]
    table = read_table(DATA / "chinner-2011" / f"{file}.csv")
    assert [iops for cell, iops in sorted(table.items()) if cell.pattern == pattern] == FACTS[key]


def test_every_table_of_2011_is_compared() -> None:
    experiment = load_experiment("engel_2011")
    definition = experiment.definition
    named = {reference.file for reference in definition.references}
    assert definition.noise is not None
    named |= {definition.noise.first, definition.noise.second}
    assert {f"data/engel-2011/{path.name}" for path in (DATA / "engel-2011").glob("*.csv")} <= named
    claimed = {(c.filesystem, c.pattern) for c in definition.claims if isinstance(c, ErrorClaim)}
    for reference in experiment.references:
        for pattern in {key.pattern for key in reference.table}:
            assert (reference.reference.filesystem, pattern) in claimed


def test_all_kernels_patterns_and_cells_of_2011_are_predicted() -> None:
    experiment = load_experiment("engel_2011")
    assert len(experiment.cells) == 6 * 4 * 48
