"""The machines of the mails: complete, with a source for every number, and giving what they were fitted to."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fssim import profile, resources
from fssim.calibrate.figures import Definition, FittedFigure, load_fits, measure, put_number, solve
from fssim.errors import UserError
from fssim.experiment.overrides import with_overrides
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.profile import Machine, load_machine
from fssim.workload.fio import Fio

FITTED_ELSEWHERE = "engel-2011"  # by fssim.calibrate, which writes its comments
MACHINES = [name for name in resources.names(resources.models("machines")) if name != FITTED_ELSEWHERE]
FITS = list(resources.names(resources.experiments() / "fits"))
TOLERANCE = 0.02  # a number is rounded, and the model is not smooth


def profiles() -> list[Path]:
    """Hosts and devices that the machines name."""
    found: set[Path] = set()
    for name in MACHINES:
        raw = profile.read_toml(resources.models("machines") / f"{name}.toml")
        found |= {resources.models(f"{part}s") / f"{raw[part]}.toml" for part in ("host", "device")}
    return sorted(found)


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_loads_and_has_a_source(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert machine.source
    assert machine.description


@pytest.mark.parametrize("path", profiles(), ids=lambda path: path.stem)
def test_every_number_says_where_it_comes_from(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    numbers = [line for line in lines if re.match(r"\w+ = [0-9]", line)]
    assert numbers
    assert [line for line in numbers if "#" not in line] == []


def paths_named() -> set[str]:
    """Every code path that a filesystem or a workload names."""
    folders = (resources.models("filesystems"), Path(profile.__file__).parent / "workload")
    texts = [file.read_text(encoding="utf-8") for folder in folders for file in folder.glob("*.py")]
    return {name for text in texts for name in re.findall(r"\bpath\.([a-z]\w*)", text)}


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_has_a_cost_for_every_code_path(name: str) -> None:
    assert paths_named() - load_machine(name).host.path_ns.keys() == set()


# What they were fitted to


def figures() -> list[tuple[Definition, FittedFigure]]:
    return [(definition, fit) for name in FITS for definition in [load_fits(name)[0]] for fit in definition.fits]


@pytest.mark.parametrize(
    ("definition", "fit"), figures(), ids=[f"{d.machine}-{fit.parameter.split('.')[-1]}" for d, fit in figures()]
)
def test_a_machine_gives_the_figures_that_it_was_fitted_to(definition: Definition, fit: FittedFigure) -> None:
    # If it fails after a change of a protocol: python -m fssim.calibrate.figures NAME --write
    assert measure(fit, load_machine(definition.machine), definition.seed) == pytest.approx(fit.figure, rel=TOLERANCE)


# The tool


PLAIN = Machine(
    "plain", "", "", Host(cpus=4, path_ns=dict.fromkeys(paths_named(), 0)), SimpleDevice(latency_ns=1), None, ""
)


def figure(**changes: object) -> FittedFigure:
    stated: dict[str, object] = {
        "parameter": "device.latency_ns",
        "low": 1_000,
        "high": 100_000,
        "figure": 25_000.0,
        "source": "theory",
        "filesystem": "xfs-4.1",
        "workload": Fio(pattern="read", file_size_bytes=2**24, time_based=True),
        "ios": 1_000,
        "warmup_ios": 10,
    }
    return FittedFigure(**{**stated, **changes})  # type: ignore[arg-type]


def test_the_latency_of_one_read_at_a_time_is_the_inverse_of_the_rate() -> None:
    value, found = solve(figure(), PLAIN, 0, "a.toml")
    assert value == pytest.approx(40_000, rel=2e-3)
    assert found == pytest.approx(25_000, rel=2e-3)


def test_quantities_are_those_of_the_run() -> None:
    machine = with_overrides(replace(PLAIN, device=SimpleDevice(latency_ns=30_000, bandwidth_mb_s=400)), {}, "")
    # 4 KiB take 10.24 us on the bus, after 30 us.
    assert measure(figure(quantity="iops"), machine, 0) == pytest.approx(1e9 / 40_240)
    assert measure(figure(quantity="mb_s"), machine, 0) == pytest.approx(4096e3 / 40_240)
    assert measure(figure(quantity="device_busy"), machine, 0) == pytest.approx(10_240 / 40_240, rel=1e-3)


def test_a_figure_that_the_bounds_do_not_enclose_is_refused() -> None:
    with pytest.raises(UserError, match=r"a\.toml: device\.latency_ns = 1000 \.\.\. 2000 gives .* not 25000"):
        solve(figure(high=2_000), PLAIN, 0, "a.toml")


def test_a_parameter_that_the_machine_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match=r"has no parameter device\.latency; did you mean latency_ns"):
        solve(figure(parameter="device.latency"), PLAIN, 0, "a.toml")


def test_a_number_is_replaced_and_its_comment_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("a = 1  # one\nlatency_ns = 23_000  # fitted\nlatency = 3\n", encoding="utf-8")
    assert put_number(file, "device.latency_ns", 24_500)
    assert file.read_text(encoding="utf-8") == "a = 1  # one\nlatency_ns = 24_500  # fitted\nlatency = 3\n"
    assert not put_number(file, "device.unknown", 1)


def test_the_paths_of_a_protocol_are_found() -> None:
    assert {"fio_request", "xfs_convert", "write_entry"} <= paths_named()
