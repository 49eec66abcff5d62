"""A machine with other values of some parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fssim.errors import UserError, nearest
from fssim.profile import Machine, convert_machine, machine_as_plain


def with_overrides(machine: Machine, overrides: Mapping[str, int], where: str) -> Machine:
    """Return the machine with these values of parameters, named by dotted keys such as "host.path_ns.jiffy".

    Raises `UserError`, which begins with `where`, for a parameter that the machine does not have and for a value that
    is not allowed.
    """
    if not overrides:
        return machine
    plain = machine_as_plain(machine)
    for name, value in overrides.items():
        *path, last = name.split(".")
        table: Any = plain
        for part in path:
            table = table[part] if isinstance(table, dict) and part in table else None
        if not isinstance(table, dict) or last not in table or isinstance(table[last], dict):
            known = table if isinstance(table, dict) else ("host", "device")
            raise UserError(f"{where}: machine {machine.name} has no parameter {name}{nearest(last, known)}")
        table[last] = value
    return convert_machine(plain, where)
