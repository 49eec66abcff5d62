"""An experiment as its TOML file states it: question, cells, measured references, claims and what is not known.

The cells are those of a grid (sysbench: every variant with every pattern, block size and number of threads) or cases,
each with a workload of its own.  Every cell has a name, and claims, run lengths and unknowns refer to cells by it:
"xfs-2.6.39 seqwr 4096 x 16" in a grid, a case's own name otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from fssim.experiment.tables import Key
from fssim.experiment.workloads import Workload
from fssim.filesystem import Geometry
from fssim.machine.host import Count
from fssim.workload.sysbench import Sysbench

Pattern = Literal["seqrd", "rndrd", "seqwr", "rndwr", "rndrw", "seqrewr"]
Role = Literal["calibration", "prediction"]
BlockSize = Annotated[int, Meta(ge=512, multiple_of=512)]
Ios = Annotated[int, Meta(ge=1, le=10**9)]
Percent = Annotated[float, Meta(gt=0)]
Name = Annotated[str, Meta(min_length=1)]
Names = Annotated[list[str], Meta(min_length=1)]
"""Names of cells, with the wildcards * and ?."""


class Grid(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cells: every pattern with every block size and number of threads."""

    patterns: Annotated[list[Pattern], Meta(min_length=1)]
    block_sizes_bytes: Annotated[list[BlockSize], Meta(min_length=1)]
    threads: Annotated[list[Count], Meta(min_length=1)]


class RunLength(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cells that run another number of I/Os than the rest."""

    cells: Names
    ios: Ios


class Run(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a cell runs: `ios` in the window, but at least `ios_per_thread` of every thread, after a warm-up.

    `lengths`: the last rule whose names fit a cell decides.
    """

    seed: Annotated[int, Meta(ge=0)] = 0
    ios: Ios = 2000
    ios_per_thread: Ios = 16
    warmup_fraction: Annotated[float, Meta(ge=0, le=10)] = 0.25
    lengths: list[RunLength] = []


class CellChoice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cell whose I/Os are taken apart."""

    pattern: Pattern
    block_size_bytes: BlockSize
    threads: Count


class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filesystem version that is simulated in every cell of the grid."""

    filesystem: str


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one change is worth: the ratio of IOPS of the variant after it over the variant before it."""

    name: str
    before: str
    after: str


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cell of its own.

    `machine`: if it is not the experiment's.  `overrides`: parameters of the machine by their dotted keys, such as
    "device.page_load_ns".  `workload`: what it states is added to the experiment's workload of the same kind.
    """

    name: Name
    filesystem: str
    workload: Workload
    machine: str | None = None
    overrides: dict[str, int] = {}
    volume: Geometry | None = None


class Reference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measured table, relative to the experiment, and whether the machine was fitted to it."""

    filesystem: str
    file: str
    role: Role
    source: str
    remark: str = ""
    optional: bool = False


class Noise(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two measurements of the same thing."""

    first: str
    second: str


class TrivialRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one would guess without a simulator: the measured table of something else."""

    name: str
    file: str


class ErrorClaim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="error"):
    """The absolute error over the cells of a reference is at most so large.  `reason`: why it is missed, if it is."""

    filesystem: str
    pattern: Pattern
    statistic: Literal["median", "p90", "max"]
    at_most_percent: Percent
    reason: str = ""


class DirectionClaim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="direction"):
    """A change moves IOPS in the measured direction in every cell with at least so many threads.

    `change`: its name, if it is not the first one.
    """

    pattern: Pattern
    from_threads: Count = 1
    change: str = ""
    reason: str = ""


Quantity = Literal["iops", "mb_s", "device_busy", "cpu_per_byte"]


class FigureClaim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="figure"):
    """A figure that somebody measured: of one `cell`, or its ratio `over` that of another.

    It is right if it lies within `tolerance_percent` of the measured one, or else between `at_least` and `at_most`.
    `fact`: key of the figure in the experiment's file of facts, such as "mason_2016_nvme.overwrite[1]"; its number is
    the measured one if `measured` does not give it.  `text`: how the claim is called.
    """

    cell: str
    over: str = ""
    quantity: Quantity = "iops"
    fact: str = ""
    measured: float | None = None
    tolerance_percent: Percent | None = None
    at_least: float | None = None
    at_most: float | None = None
    role: Role = "prediction"
    text: str = ""
    source: str = ""
    reason: str = ""


class FlatClaim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="flat"):
    """The IOPS of the cells differ by at most so much: the largest is at most that much larger than the smallest."""

    cells: Names
    within_percent: Percent
    fact: str = ""
    role: Role = "prediction"
    text: str = ""
    source: str = ""
    reason: str = ""


class NotModelled(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="not-modelled"):
    """Something that somebody measured and the model does not have; `reason`: why."""

    text: Name
    fact: str = ""
    source: str = ""
    reason: Name


Claim = ErrorClaim | DirectionClaim | FigureClaim | FlatClaim | NotModelled


class Alternative(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another value of what is not known: parameters of the machine, or constants of the filesystem's protocols."""

    name: Name
    overrides: dict[str, int] = {}
    constants: dict[str, int] = {}


class Unknown(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that the measurements do not tell, so that predictions are made for several values of it.

    `why`: why it is not known.  `measurement`: what would tell.  `as_is`: what the machine and the filesystem assume.
    `cells`: those that depend on it.
    """

    name: Name
    why: str
    measurement: str
    as_is: Name
    alternatives: Annotated[list[Alternative], Meta(min_length=1)]
    cells: Names = msgspec.field(default_factory=lambda: ["*"])


class Definition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    question: str
    machine: str
    workload: Workload = Sysbench()
    volume: Geometry = Geometry()
    grid: Grid | None = None
    cell: CellChoice | None = None
    variants: list[Variant] = []
    changes: list[Change] = []
    cases: list[Case] = []
    run: Run = Run()
    references: list[Reference] = []
    noise: Noise | None = None
    trivial_rule: TrivialRule | None = None
    facts: str = ""
    claims: list[Claim] = []
    unknowns: list[Unknown] = []


def cell_name(filesystem: str, key: Key) -> str:
    """Return the name of a cell of a grid."""
    return f"{filesystem} {key.pattern} {key.block_size_bytes} x {key.threads}"


def as_plain(definition: Definition) -> dict[str, object]:
    """Return the definition as plain data, for a result's own record of its configuration."""
    plain = msgspec.to_builtins(definition)
    assert isinstance(plain, dict)
    return plain
