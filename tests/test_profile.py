"""Profiles are read strictly: every mistake is one line with the file, the key, the value and what is allowed."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fssim import profile, resources
from fssim.errors import UserError
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host

GOOD: dict[str, Any] = {
    "name": "m",
    "description": "a machine",
    "source": "made up",
    "host": {"cpus": 8, "path_ns": {"map_blocks": 300}},
    "device": {"kind": "simple", "latency_ns": 10},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the good profile with one key set, or removed if the value is None."""
    raw = copy.deepcopy(GOOD)
    *tables, key = path.split(".")
    table = raw
    for name in tables:
        table = table.setdefault(name, {})
    if value is None:
        del table[key]
    else:
        table[key] = value
    return raw


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("nam", "m", "unknown key nam; did you mean name?"),
        ("host.wakup_ns", 1, "unknown key host.wakup_ns; did you mean wakeup_ns"),
        ("device.latncy_ns", 1, "unknown key device.latncy_ns; did you mean latency_ns"),
        ("host.cpus", 0, "host.cpus = 0: must be an integer >= 1"),
        ("host.wakeup_ns", -5, "host.wakeup_ns = -5: must be an integer >= 0"),
        ("host.wakeup_ns", 2.5, "host.wakeup_ns = 2.5: must be an integer >= 0"),
        ("host.wakeup_ns", "5", "host.wakeup_ns = '5': must be an integer >= 0"),
        ("host.wakeup_ns", True, "host.wakeup_ns = true: must be an integer >= 0"),
        ("host.path_ns.map_blocks", -1, "host.path_ns.map_blocks = -1: must be an integer >= 0"),
        ("host.wakeup_ns", 10**12 + 1, "host.wakeup_ns = 1000000000001: must be an integer >= 0 and <= 1000000000000"),
        ("host.path_ns.map_blocks", 2**70, "must be an integer >= 0 and <= 1000000000000"),
        ("host.cpus", 10**11, "host.cpus = 100000000000: must be an integer >= 1 and <= 65536"),
        ("device.latency_ns", 2**62, "must be an integer >= 0 and <= 1000000000000"),
        ("device.queue_depth", 65_537, "device.queue_depth = 65537: must be an integer >= 1 and <= 65536"),
        ("device.iops_cap", 10**10, "device.iops_cap = 10000000000: must be an integer >= 0 and <= 1000000000"),
        ("device.bandwidth_mb_s", 10**10, "must be an integer >= 0 and <= 1000000000"),
        ("host.rwlock", "fair", "host.rwlock = 'fair': must be 'fifo' or 'spinning'"),
        ("host.cpus", None, "key host.cpus is missing: must be an integer >= 1"),
        ("host", 3, "host = 3: must be a table or a text"),
        ("device.kind", "disk", "device.kind = 'disk': must be 'simple' or 'flash'"),
        ("device.kind", None, "key device.kind is missing: must be 'simple' or 'flash'"),
        ("device.latency_ns", -1, "device.latency_ns = -1: must be an integer >= 0"),
        ("device.queue_depth", 0, "device.queue_depth = 0: must be an integer >= 1"),
        ("device.latency_distribution", "normal", "must be 'exponential' or 'fixed'"),
        ("calibration", {"fitted_to": "x"}, "calibration.fitted_to = 'x': must be a list, each item a text"),
        ("calibration", {"fitted_to": ["x"], "loss": 1.0}, "key calibration.command is missing: must be a text"),
        (
            "calibration",
            {"fitted_to": [], "loss": 1, "command": "x", "standard_error": {"a": "b"}},
            "calibration.standard_error.a = 'b': must be a number",
        ),
    ],
)
def test_a_mistake_in_a_profile_names_file_key_value_and_what_is_allowed(path: str, value: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        profile.convert(changed(path, value), profile.MachineProfile, "machine.toml")
    assert str(caught.value).startswith("machine.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


FLASH: dict[str, Any] = {
    "kind": "flash",
    "channels": 8,
    "page_bytes": 4096,
    "page_load_ns": 60_000,
    "channel_ps_per_byte": 20_000,
    "bus_ps_per_byte": 1_500,
}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "page_load_ns",
            9 * 10**18,
            "page_load_ns = 9000000000000000000: must be an integer >= 0 and <= 1000000000000",
        ),
        ("channels", 10**9, "channels = 1000000000: must be an integer >= 1 and <= 65536"),
        ("chips_per_channel", 10**9, "chips_per_channel = 1000000000: must be an integer >= 1 and <= 65536"),
        ("chips_per_channel", 10_000, "channels * chips_per_channel is 80000; it must not exceed 65536"),
        ("channel_rotation", 10**9, "channel_rotation = 1000000000: must be an integer >= 0 and <= 65536"),
        ("page_bytes", 2**41, "page_bytes = 2199023255552: must be an integer >= 1 and <= 1099511627776"),
        ("write_cache_bytes", 2**41, "write_cache_bytes = 2199023255552: must be an integer >= 0 and <= 1099511627776"),
        ("bus_packet_bytes", 2**41, "bus_packet_bytes = 2199023255552: must be an integer >= 0 and <= 1099511627776"),
        ("drain_ps_per_byte", 10**10, "drain_ps_per_byte = 10000000000: must be an integer >= 0 and <= 1000000000"),
    ],
)
def test_a_number_of_a_flash_device_that_would_overflow_is_one_line(key: str, value: int, message: str) -> None:
    with pytest.raises(UserError) as caught:
        profile.convert(GOOD | {"device": FLASH | {key: value}}, profile.MachineProfile, "machine.toml")
    assert str(caught.value).startswith("machine.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_good_profile_gives_host_and_device() -> None:
    machine = profile.convert_machine(GOOD, "machine.toml")
    assert machine.host == Host(cpus=8, path_ns={"map_blocks": 300})
    assert machine.device == SimpleDevice(latency_ns=10)


def test_host_and_device_may_be_named() -> None:
    machine = profile.convert_machine(GOOD | {"host": "ideal", "device": "null-blk"}, "machine.toml")
    assert machine.host == profile.load_host("ideal")
    assert machine.device == SimpleDevice(latency_ns=10_000, queue_depth=64)


def test_a_machine_as_plain_data_reads_back_the_same() -> None:
    machine = profile.convert_machine(GOOD | {"device": "null-blk"}, "machine.toml")
    assert profile.convert_machine(profile.machine_as_plain(machine), "machine.toml") == machine


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"name = ", "not valid TOML"), (b"\xff\xfe", "not a text file in UTF-8"), (None, "Is a directory")],
)
def test_a_file_that_is_no_toml_is_one_line(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "x.toml"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(UserError, match=message):
        profile.read_toml(file)


@pytest.mark.parametrize(
    ("load", "given", "message"),
    [
        (profile.load_device, "nul-blk", "unknown device 'nul-blk'; did you mean null-blk?"),
        (profile.load_host, "ideel", "unknown host 'ideel'; did you mean ideal?"),
        (profile.load_device, "missing.toml", "missing.toml: no such file; known by name: array-2011"),
    ],
)
def test_an_unknown_name_lists_the_nearest(load: Any, given: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load(given)
    assert message in str(caught.value)


@pytest.mark.parametrize(("folder", "load"), [("devices", profile.load_device), ("hosts", profile.load_host)])
def test_every_shipped_profile_is_valid_and_says_where_its_numbers_come_from(folder: str, load: Any) -> None:
    names = list(resources.names(resources.models(folder)))
    assert names
    for name in names:
        load(name)
        raw = tomllib.loads((resources.models(folder) / f"{name}.toml").read_text())
        assert raw["name"] == name
        assert len(raw["source"]) > 20


def test_every_shipped_machine_is_valid_and_says_what_it_was_fitted_to() -> None:
    for name in resources.names(resources.models("machines")):
        machine = profile.load_machine(name)
        assert machine.name == name
        if machine.calibration is not None:
            for table in machine.calibration.fitted_to:
                assert (resources.experiments() / table.split(" (")[0]).is_file(), table
                assert "shared-read-lock" not in table  # what is to be predicted is never fitted
