"""An explanation as JSON; `docs/explain.md` says what the keys mean."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from fssim.explain.budget import Budget
from fssim.explain.explanation import Explanation, RunSummary
from fssim.explain.places import Place
from fssim.explain.words import sentences
from fssim.profile import machine_as_plain


def as_json(found: Explanation) -> str:
    """Return everything that the terminal shows, and what it leaves out."""
    return json.dumps(as_plain(found), indent=1, ensure_ascii=False) + "\n"


def as_plain(found: Explanation) -> dict[str, Any]:
    """Return an explanation in plain data."""
    cell, blames = found.cell, found.blames
    return {
        "cell": {
            "filesystem": cell.filesystem.name,
            "pattern": cell.pattern,
            "block_size": cell.block_size_bytes,
            "threads": cell.threads,
            "file_size": cell.file_size_bytes,
            "seed": cell.seed,
            "ios": cell.ios,
            "warmup_ios": cell.warmup_ios,
        },
        "idle_threads": found.idle_threads,
        "summary": [{"about": about, "text": text} for about, text in sentences(found)],
        "runs": {
            "cell": _run(found.run),
            "one_thread_same_blocks": _run(found.same),
            "one_thread": _run(found.alone),
        },
        "locks": [dataclasses.asdict(lock) for lock in found.locks],
        "waits": [
            {
                "lock": blame.lock,
                "wanted": blame.wanted,
                "held": blame.held,
                "holder": {**blame.phase._asdict(), "text": blame.phase.text},
                "waited_ns_per_io": blame.waited_ns / found.run.ios,
                "share": blame.waited_ns / blames.total_ns if blames.total_ns else 0.0,
                "waits_begun": blame.begun,
            }
            for blame in blames.direct
        ],
        "roots": [
            {
                **root.phase._asdict(),
                "lock": root.lock,
                "held": root.held,
                "text": root.text,
                "waited_ns_per_io": time / found.run.ios,
                "share": time / blames.total_ns if blames.total_ns else 0.0,
            }
            for root, time in blames.roots.items()
        ],
        "timers": [
            {
                **_place(timer.place),
                "per_io": timer.per_io,
                "sleep_ns": timer.sleep_ns,
                "others_wait_ns_per_io": timer.causes_ns,
            }
            for timer in found.timers
        ],
        "try_locks": [
            {**_place(tries.place), "lock": tries.lock, "per_io": tries.per_io, "failed_per_io": tries.failed_per_io}
            for tries in found.tries
        ],
        "lines_of_several_threads": [
            {
                **_place(line.place),
                "per_io": line.cell,
                "one_thread_same_blocks": line.same,
                "one_thread": line.alone,
            }
            for line in found.lines
        ],
        "what_if": [
            {
                "change": each.change,
                "iops": each.iops,
                "ratio": each.iops and each.iops / found.run.iops,
                "error": each.remark,
            }
            for each in found.what_ifs
        ],
        "machine": machine_as_plain(cell.machine),
    }


def _run(run: RunSummary | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "iops": run.iops,
        "iops_uncertainty": run.uncertainty,
        "ns_between_completions": run.between_ns,
        "latency_ns": run.latency_ns,
        "in_flight": run.in_flight,
        "cpus_busy": run.cpus_busy,
        "cpus_spinning": run.spinning,
        "utilisation": dict(run.utilisation),
        "budget_ns_per_io": _budget(run.budget),
        "daemons_ns_per_io": _budget(run.daemons),
    }


def _budget(budget: Budget) -> list[dict[str, Any]]:
    return [
        {"group": item.group, "kind": item.kind, "what": item.what, "ns": time}
        for item, time in sorted(budget.items(), key=lambda entry: -entry[1])
    ]


def _place(place: Place) -> dict[str, Any]:
    return {"function": place.function, "file": place.file, "line": place.line, "text": place.text}
