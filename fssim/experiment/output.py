"""Results as files: a table of the predicted matrices, and everything as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from fssim.experiment.analysis import UnknownResult
from fssim.experiment.cells import CellResult
from fssim.experiment.claims import ClaimResult
from fssim.experiment.comparison import ChangeResult, Comparison, ErrorSummary
from fssim.experiment.definition import as_plain
from fssim.experiment.loading import Cell
from fssim.experiment.report import Report, summary
from fssim.experiment.tables import Key
from fssim.profile import machine_as_plain
from fssim.statistics import CONFIDENCE, Interval

COLUMNS = (
    "filesystem",
    "pattern",
    "block_size",
    "threads",
    "iops",
    "iops_low",
    "iops_high",
    "measured",
    "error_percent",
    "case",
)
"""Columns of every table; one more for each alternative, "iops if NAME"."""


def results_csv(report: Report) -> str:
    """Return the predictions as CSV, a row a cell; what is not known or not measured is empty."""
    import csv
    import io

    rows = records(report)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *map(_column, report.outcome.alternatives)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _written(value) for name, value in row.items()})
    return text.getvalue()


def _written(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _column(alternative: str) -> str:
    return f"iops if {alternative}"


def records(report: Report) -> list[dict[str, Any]]:
    """Return the predictions as one record a cell, such as `pandas.DataFrame` takes; None: not known."""
    found = []
    for cell, result in ordered(report):
        name = cell.label, cell.key
        measured = next(
            (
                comparison.measured[cell.key]
                for comparison in report.findings.comparisons
                if comparison.filesystem == cell.filesystem and cell.key in comparison.measured
            ),
            None,
        )
        record = {
            "filesystem": cell.filesystem,
            **_key(cell.key),
            "iops": result.iops.value,
            "iops_low": result.iops.low,
            "iops_high": result.iops.high,
            "measured": measured,
            "error_percent": None if measured is None else (result.iops.value / measured - 1) * 100,
            "case": cell.name if report.experiment.definition.cases else None,
        }
        for alternative, cells in report.outcome.alternatives.items():
            record[_column(alternative)] = cells[name].iops.value if name in cells else None
        found.append(record)
    return found


def ordered(report: Report) -> list[tuple[Cell, CellResult]]:
    """Return the finished cells in the order of the experiment, however they were run."""
    cells = report.outcome.cells
    return [(cell, cells[cell.label, cell.key]) for cell in report.experiment.cells if (cell.label, cell.key) in cells]


def results_json(report: Report) -> str:
    """Return all results as JSON; `python -m fssim.experiment results.json` runs the same again."""
    findings = report.findings
    plain: dict[str, Any] = {
        "experiment": report.experiment.name,
        "command": report.command,
        "engine": report.engine,
        "seed": report.experiment.definition.run.seed,
        "confidence": CONFIDENCE,
        "versions": dict(report.versions),
        "definition": as_plain(report.experiment.definition),
        "machine": machine_as_plain(report.experiment.machine),
        "machines": {case: machine_as_plain(machine) for case, machine in report.experiment.machines.items()},
        "interrupted": report.outcome.interrupted,
        "summary": [{"about": sentence.about, "text": sentence.text} for sentence in summary(report)],
        "claims": [_claim(claim) for claim in findings.claims],
        "claims_not_judged": findings.claims_not_judged,
        "comparisons": [_comparison(comparison) for comparison in findings.comparisons],
        "repeat_noise_percent": {pattern: _errors(found) for pattern, found in findings.noise.items()},
        "changes": [_change(change) for change in findings.changes],
        "unknowns": [_unknown(unknown) for unknown in findings.unknowns],
        "cells": [
            {"name": cell.name, "filesystem": cell.filesystem, **_key(cell.key), **_cell(result)}
            for cell, result in ordered(report)
        ],
        "failures": [
            {
                "name": failure.name,
                "filesystem": failure.filesystem,
                **_key(failure.key),
                "seed": failure.seed,
                "error": failure.message,
            }
            for failure in report.outcome.failures
        ],
    }
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def _key(key: Key) -> dict[str, Any]:
    return {"pattern": key.pattern, "block_size": key.block_size_bytes, "threads": key.threads}


def _interval(name: str, interval: Interval) -> dict[str, float | None]:
    high = interval.high if math.isfinite(interval.high) else None  # JSON knows no infinity
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": high}


def _errors(found: ErrorSummary | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {"median": found.median, "p90": found.p90, "max": found.max, "cells": found.cells}


def _claim(claim: ClaimResult) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "text": claim.text,
        "measured": claim.measured,
        "found": claim.found,
        "holds": claim.holds,
        "role": claim.role,
        "source": claim.source,
        "reason": claim.reason,
    }
    if claim.alternatives:
        plain["alternatives"] = {
            name: {"found": other.found, "holds": other.holds} for name, other in claim.alternatives.items()
        }
    return plain


def _change(found: ChangeResult) -> dict[str, Any]:
    return {
        "name": found.change.name,
        "before": found.change.before,
        "after": found.change.after,
        "ratios": [
            {**_key(key), **_interval("ratio", ratio), "measured": found.measured_ratios.get(key)}
            for key, ratio in found.ratios.items()
        ],
    }


def _unknown(found: UnknownResult) -> dict[str, Any]:
    return {
        "name": found.unknown.name,
        "verdict": found.verdict,
        "concerned": found.concerned,
        "iops": [
            {"label": label, **_key(key), **dict(zip(found.names, rates, strict=True))}
            for (label, key), rates in found.cells.items()
        ],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "filesystem": comparison.filesystem,
        "pattern": comparison.pattern,
        "reference": comparison.reference.reference.file,
        "role": comparison.role,
        "error_percent": _errors(comparison.summary),
        "trivial_rule_error_percent": _errors(comparison.trivial),
        "cells": [
            {
                **_key(key),
                "predicted": comparison.predicted[key],
                "measured": measured,
                "error_percent": comparison.error_percent[key],
            }
            for key, measured in comparison.measured.items()
        ],
    }


def _cell(result: CellResult) -> dict[str, Any]:
    return {
        "seed": result.seed,
        **_interval("iops", result.iops),
        "ios": result.ios,
        "window_ns": result.window_ns,
        "latency_ns": result.latency_ns,
        "events": result.events,
        "starving": result.starving,
        "time_by_category_ns": dict(result.time_by_category_ns),
        "busy_ns": {name: {"busy_ns": busy, "servers": servers} for name, (busy, servers) in result.busy_ns.items()},
        "locks": [{field: getattr(lock, field) for field in lock.__dataclass_fields__} for lock in result.locks],
    }
