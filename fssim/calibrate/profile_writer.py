"""Writes a machine profile as TOML, with the uncertainty of every fitted value beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def as_toml(raw: Mapping[str, Any], remarks: Mapping[str, str]) -> str:
    """Return plain data as TOML text.

    `raw`: tables of strings, numbers, truth values, lists and tables.  `remarks`: comment to put behind a dotted key.
    """
    return "\n".join(_table(raw, "", remarks)).lstrip("\n") + "\n"


def _table(table: Mapping[str, Any], prefix: str, remarks: Mapping[str, str]) -> Iterator[str]:
    inner = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            inner[key] = value
            continue
        remark = remarks.get(prefix + key)
        yield f"{_key(key)} = {_value(value)}" + (f"  # {remark}" if remark else "")
    for key, value in inner.items():
        yield ""
        yield f"[{'.'.join(_key(part) for part in [*_parts(prefix), key])}]"
        yield from _table(value, f"{prefix}{key}.", remarks)


def _parts(prefix: str) -> list[str]:
    return [part for part in prefix.split(".") if part]


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, list):
        inside = [_value(item) for item in value]
        line = f"[{', '.join(inside)}]"
        return line if len(line) <= 100 else "[\n" + "".join(f"  {item},\n" for item in inside) + "]"
    return json.dumps(value, ensure_ascii=False)
