"""Results as files: a table of the predicted matrices, and everything as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from fssim.experiment.analysis import Comparison, ErrorSummary
from fssim.experiment.cells import CellResult
from fssim.experiment.definition import as_plain
from fssim.experiment.report import Report, summary
from fssim.experiment.tables import Key
from fssim.profile import machine_as_plain
from fssim.statistics import CONFIDENCE, Interval

COLUMNS = ("filesystem", "pattern", "block_size", "threads", "iops", "iops_low", "iops_high")


def results_csv(report: Report) -> str:
    """Return the predicted matrices as CSV, a row a cell."""
    lines = [",".join(COLUMNS)]
    for record in records(report):
        values = (record[column] for column in COLUMNS)
        lines.append(",".join(f"{value:.1f}" if isinstance(value, float) else str(value) for value in values))
    return "\n".join(lines) + "\n"


def records(report: Report) -> list[dict[str, Any]]:
    """Return the predicted matrices as one record a cell, such as `pandas.DataFrame` takes."""
    return [
        {
            "filesystem": filesystem,
            **_key(key),
            "iops": result.iops.value,
            "iops_low": result.iops.low,
            "iops_high": result.iops.high,
        }
        for (filesystem, key), result in ordered(report)
    ]


def ordered(report: Report) -> list[tuple[tuple[str, Key], CellResult]]:
    """Return the finished cells in the order of the experiment, however they were run."""
    definition = report.experiment.definition
    grid = definition.grid
    names = (
        (variant.filesystem, Key(pattern, size, threads))
        for variant in definition.variants
        for pattern in grid.patterns
        for size in grid.block_sizes_bytes
        for threads in grid.threads
    )
    return [(name, report.outcome.cells[name]) for name in names if name in report.outcome.cells]


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
        "interrupted": report.outcome.interrupted,
        "summary": [{"about": sentence.about, "text": sentence.text} for sentence in summary(report)],
        "claims": [{"text": claim.text, "found": claim.found, "holds": claim.holds} for claim in findings.claims],
        "claims_not_judged": findings.claims_not_judged,
        "comparisons": [_comparison(comparison) for comparison in findings.comparisons],
        "repeat_noise_percent": {pattern: _errors(found) for pattern, found in findings.noise.items()},
        "ratios": [{**_key(key), **_interval("ratio", ratio)} for key, ratio in findings.ratios.items()],
        "cells": [{"filesystem": name, **_key(key), **_cell(result)} for (name, key), result in ordered(report)],
        "failures": [
            {"filesystem": failure.filesystem, **_key(failure.key), "seed": failure.seed, "error": failure.message}
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
        "time_by_category_ns": dict(result.time_by_category_ns),
        "busy_ns": {name: {"busy_ns": busy, "servers": servers} for name, (busy, servers) in result.busy_ns.items()},
        "locks": [{field: getattr(lock, field) for field in lock.__dataclass_fields__} for lock in result.locks],
    }
