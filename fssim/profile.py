"""Strict reading of the TOML files that people edit, and the profiles of machines, devices and hosts.

Every mistake is one line with the file, the key, the value given and what is allowed.  A misspelt key is an error that
names the nearest valid one: a parameter that is silently ignored would be worse than none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect

from fssim import resources
from fssim.errors import UserError, nearest
from fssim.machine.device import Device
from fssim.machine.host import Host

T = TypeVar("T")


class Calibration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where fitted parameters come from, and how well the data determine them.

    `fitted_to`: the tables of the fit, relative to `experiments/`, with their patterns in parentheses.  `command`: what
    to run to get them again.  `loss`: the value of `loss_definition` at the optimum.  `standard_error`: relative
    standard error by parameter, the key as in the profile ("device.page_load_ns").  `unidentified`: parameters that the
    tables do not determine.
    """

    fitted_to: list[str]
    command: str
    loss: float
    loss_definition: str = "mean absolute logarithmic error over the fitted cells"
    standard_error: dict[str, float] = {}
    unidentified: list[str] = []
    note: str = ""


class DeviceProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of `models/devices`: a device, what it stands for, and where its numbers come from."""

    name: str
    description: str
    source: str
    device: Device


class HostProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of `models/hosts`: a host, what it stands for, and where its numbers come from."""

    name: str
    description: str
    source: str
    host: Host


class MachineProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of `models/machines`.  `host` and `device` are tables, or the names of a host and a device profile."""

    name: str
    description: str
    source: str
    host: Host | str
    device: Device | str
    calibration: Calibration | None = None


@dataclass(frozen=True)
class Machine:
    """A host and a device that were calibrated together, and the profile they come from."""

    name: str
    description: str
    source: str
    host: Host
    device: Device
    calibration: Calibration | None
    file: str


def load_machine(given: str, named_in: Path | None = None) -> Machine:
    """Return the machine that a name of `models/machines` or a TOML file describes.

    A TOML file is relative to the file that names it, `named_in`, or else to the current folder.
    Raises `UserError` for an unknown name, an unreadable file, an unknown key or a value that is not allowed.
    """
    path = resources.find(given, resources.models("machines"), "machine", named_in)
    return convert_machine(read_toml(path), str(path))


def convert_machine(raw: dict[str, Any], file: str) -> Machine:
    """Turn a parsed machine profile into a machine; `file` is for the messages."""
    profile = convert(raw, MachineProfile, file)
    return Machine(
        name=profile.name,
        description=profile.description,
        source=profile.source,
        host=profile.host if isinstance(profile.host, Host) else load_host(profile.host),
        device=load_device(profile.device) if isinstance(profile.device, str) else profile.device,
        calibration=profile.calibration,
        file=file,
    )


def machine_as_plain(machine: Machine) -> dict[str, Any]:
    """Return a machine as a profile in plain data, with host and device in full; `convert_machine` reads it back."""
    profile = MachineProfile(
        name=machine.name,
        description=machine.description,
        source=machine.source,
        host=machine.host,
        device=machine.device,
        calibration=machine.calibration,
    )
    plain: dict[str, Any] = msgspec.to_builtins(profile)
    return {key: value for key, value in plain.items() if value is not None}


def parameter(plain: Mapping[str, Any], key: str) -> Any:
    """Return the value that a dotted key such as "device.page_load_ns" has in a profile as plain data, None if none."""
    value: Any = plain
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def load_device(given: str) -> Device:
    """Return the device that a name of `models/devices` or a TOML file describes."""
    return load(resources.find(given, resources.models("devices"), "device"), DeviceProfile).device


def load_host(given: str) -> Host:
    """Return the host that a name of `models/hosts` or a TOML file describes."""
    return load(resources.find(given, resources.models("hosts"), "host"), HostProfile).host


def load(path: Path, kind: type[T]) -> T:
    """Read a TOML file into a msgspec struct class.  Every mistake is a `UserError` of one line."""
    return convert(read_toml(path), kind, str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file; a file that cannot be read or parsed is a `UserError`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None


def convert(raw: dict[str, Any], kind: type[T], file: str) -> T:
    """Turn parsed TOML into a struct class; `file` is for the messages."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        problem = next(_problems(raw, inspect.type_info(kind), ""), None)
        raise UserError(f"{file}: {problem or error}") from None


def _problems(value: Any, kind: inspect.Type, key: str) -> Iterator[str]:
    """Yield what is wrong with a parsed value, in words for the author of the file."""
    if isinstance(kind, inspect.UnionType):
        yield from _problems_of_union(value, kind, key)
    elif isinstance(kind, inspect.StructType) and isinstance(value, dict):
        yield from _problems_of_struct(value, kind, key)
    elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
        for name, item in value.items():
            yield from _problems(item, kind.value_type, _join(key, name))
    elif isinstance(kind, inspect.ListType) and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _problems(item, kind.item_type, f"{key}[{number}]")
        if kind.min_length and len(value) < kind.min_length:
            yield f"{key} = {_shown(value)}: must be {_wanted(kind)}"
    elif not _allowed(value, kind):
        yield f"{key} = {_shown(value)}: must be {_wanted(kind)}"


def _problems_of_struct(value: dict[str, Any], kind: inspect.StructType, key: str) -> Iterator[str]:
    fields = {field.encode_name: field for field in kind.fields}
    tag = [kind.tag_field] if kind.tag_field else []
    if kind.tag_field in value and value[kind.tag_field] != kind.tag:
        yield f"{_join(key, kind.tag_field)} = {_shown(value[kind.tag_field])}: must be {_shown(kind.tag)}"
    for name in value:
        if name not in fields and name not in tag:
            yield f"unknown key {_join(key, name)}{nearest(name, [*fields, *tag])}"
    for name, field in fields.items():
        if name in value:
            yield from _problems(value[name], field.type, _join(key, name))
        elif field.required:
            yield f"key {_join(key, name)} is missing: must be {_wanted(field.type)}"


def _problems_of_union(value: Any, kind: inspect.UnionType, key: str) -> Iterator[str]:
    structs = [member for member in kind.types if isinstance(member, inspect.StructType)]
    if not isinstance(value, dict) or not structs:
        if not any(_allowed(value, member) for member in kind.types):
            yield f"{key} = {_shown(value)}: must be {_wanted(kind)}"
        return
    tag_field = structs[0].tag_field
    if tag_field is None:
        yield from _problems_of_struct(value, structs[0], key)
        return
    by_tag = {member.tag: member for member in structs}
    tag = value.get(tag_field)
    if tag in by_tag:
        yield from _problems_of_struct(value, by_tag[tag], key)
        return
    wanted = _wanted(inspect.LiteralType(tuple(by_tag)))
    given = f"{_join(key, tag_field)} = {_shown(tag)}" if tag is not None else f"key {_join(key, tag_field)} is missing"
    yield f"{given}: must be {wanted}"


def _allowed(value: Any, kind: inspect.Type) -> bool:
    """Say whether a value that is no table is one of this kind."""
    match kind:
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool) and _in_range(value, kind)
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool) and _in_range(value, kind)
        case inspect.StrType():
            return isinstance(value, str) and len(value) >= (kind.min_length or 0)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.NoneType():
            return value is None
        case inspect.LiteralType():
            return value in kind.values
        case inspect.DictType() | inspect.StructType():
            return isinstance(value, dict)
        case inspect.ListType():
            return isinstance(value, list)
        case _:
            return True


def _in_range(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
        and (kind.multiple_of is None or value % kind.multiple_of == 0)
    )


def _wanted(kind: inspect.Type) -> str:
    """Describe what is allowed."""
    match kind:
        case inspect.IntType() | inspect.FloatType():
            noun = "an integer" if isinstance(kind, inspect.IntType) else "a number"
            limits = [
                f"{sign} {limit}"
                for sign, limit in ((">=", kind.ge), (">", kind.gt), ("<=", kind.le), ("<", kind.lt))
                if limit is not None
            ]
            if kind.multiple_of is not None:
                limits.append(f"a multiple of {kind.multiple_of:g}")
            return " ".join([noun, " and ".join(limits)]).strip()
        case inspect.StrType():
            return "a text"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            return " or ".join(_shown(value) for value in kind.values)
        case inspect.ListType():
            some = " with at least one item" if kind.min_length else ""
            return f"a list{some}, each item {_wanted(kind.item_type)}"
        case inspect.DictType() | inspect.StructType():
            return "a table"
        case inspect.UnionType():
            parts = [_wanted(member) for member in kind.types if not isinstance(member, inspect.NoneType)]
            return " or ".join(dict.fromkeys(parts))
        case _:
            return "something else"


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _shown(value: Any) -> str:
    """Show a value as its author wrote it, cut short if it is long."""
    if isinstance(value, dict):
        return "a table"
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
