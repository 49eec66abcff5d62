"""How each class of locks was used, an I/O at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

from fssim.explain.events import Events
from fssim.explain.states import MODES
from fssim.explain.timeline import Timeline


@dataclass(frozen=True)
class LockReport:
    """A class of locks in one mode.  Averages in nanoseconds, 0 if there is nothing to average.

    `share_of_ios`: I/Os that took it in this mode at least once; `demoted_share`: those that demoted it.  `contended`:
    share of the acquisitions that had to wait.  `handover_ns`: from the release until the grantee runs.
    `handover_share_of_hold`: what of the holding time is a grantee that does not run yet.
    """

    lock: str
    mode: str
    share_of_ios: float
    demoted_share: float
    per_io: float
    contended: float
    wait_ns: float
    hold_ns: float
    handover_ns: float
    handover_share_of_hold: float
    tries_per_io: float
    failed_tries_per_io: float


def lock_reports(timeline: Timeline, events: Events) -> list[LockReport]:
    """Describe every class and mode that was used in the window."""
    handovers = _handovers(timeline)
    ios = max(events.ios, 1)
    tries: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for counts, number in ((events.tries, 0), (events.failed, 1)):
        for (_, lock), count in counts.items():
            tries[lock][number] += count
    reports = []
    for use in timeline.result.locks:
        exclusive = use.mode == "exclusive"
        tried, failed = tries[use.name] if exclusive else (0, 0)
        if not (use.acquisitions or use.holds or failed):
            continue
        delays = handovers.get((use.name, use.mode), [])
        within = sum(inside for _, inside in delays)
        reports.append(
            LockReport(
                lock=use.name,
                mode=use.mode,
                share_of_ios=events.used[use.name, use.mode] / ios,
                demoted_share=events.used[use.name, "demoted"] / ios if exclusive else 0.0,
                per_io=use.acquisitions / ios,
                contended=_ratio(use.contentions, use.acquisitions),
                wait_ns=_ratio(use.wait_total_ns, use.contentions),
                hold_ns=_ratio(use.hold_total_ns, use.holds),
                handover_ns=_ratio(sum(delay for delay, _ in delays), len(delays)),
                handover_share_of_hold=_ratio(within, use.hold_total_ns),
                tries_per_io=tried / ios,
                failed_tries_per_io=failed / ios,
            )
        )
    return reports


def _handovers(timeline: Timeline) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Of every grant after a wait: from the release that made it possible until its thread ran; what of it was held."""
    ends = {obj: sorted(hold.end for hold in holds) for obj, holds in timeline.holds.items()}
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for wait in timeline.waits:
        if wait.mode == 0 or not timeline.start_ns < wait.grant or wait.resume >= timeline.end_ns:
            continue  # in no mode, before the window, or not over at its end
        number = bisect_right(ends.get(wait.obj, []), wait.grant) - 1
        released = ends[wait.obj][number] if number >= 0 else wait.grant
        key = timeline.class_of(wait.obj), MODES[wait.mode]
        found[key].append((wait.resume - released, wait.resume - wait.grant))
    return found


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
