"""The same cell with one mechanism taken out: what would the IOPS be?"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from fssim import engine
from fssim.errors import FssimError
from fssim.explain.cell import Cell
from fssim.explain.events import Events
from fssim.explain.states import CPU
from fssim.explain.timeline import Timeline
from fssim.machine.device import MOST, Device, SimpleDevice
from fssim.profile import Machine
from fssim.protocol.language import Mutex, RWLock

_COST = re.compile(r"\bpath\.(\w+)")


@dataclass(frozen=True)
class WhatIf:
    """`change`: what is different.  `iops`: None if that run ended by an error, which `remark` then is."""

    change: str
    iops: float | None
    remark: str = ""


def what_if(cell: Cell, timeline: Timeline, events: Events) -> list[WhatIf]:
    """Run the cell again on machines without one of the mechanisms that it uses."""
    found = []
    for change, machine in _machines(cell, timeline, events):
        try:
            result = engine.run(cell.system(machine=machine, log=False))
        except FssimError as error:
            found.append(WhatIf(change, None, f"{type(error).__name__}: {error}"))
        else:
            found.append(WhatIf(change, result.iops))
    return found


def _machines(cell: Cell, timeline: Timeline, events: Events) -> Iterator[tuple[str, Machine]]:
    host, device = cell.machine.host, cell.machine.device

    def changed(**fields: Any) -> Machine:
        return dataclasses.replace(cell.machine, host=msgspec.structs.replace(host, **fields))

    def costs(names: set[str], nanoseconds: int) -> Machine:
        return changed(path_ns={**host.path_ns, **dict.fromkeys(names, nanoseconds)})

    if host.wakeup_ns or host.idle_exit_ns or host.switch_ns or host.interrupt_ns:
        yield (
            "wake-ups and context switches take no time",
            changed(wakeup_ns=0, wakeup_spread_ns=0, idle_exit_ns=0, switch_ns=0, interrupt_ns=0),
        )
    if host.idle_exit_ns:
        yield "CPUs do not go idle (no idle exit)", changed(idle_exit_ns=0)
    threads = len(timeline.system.threads)
    if threads > host.cpus:
        yield f"a CPU for every thread ({threads})", changed(cpus=threads)
    if timers := {name for place in events.sleeps for name in _COST.findall(place.text)}:
        # Not 0: a sleep until the next tick divides by the length of a tick.
        yield f"sleeps on a timer take no time (path.{', path.'.join(sorted(timers))})", costs(timers, 1)
    yield "an ideal device", dataclasses.replace(cell.machine, device=_ideal(device))
    function, names = _costliest(timeline)
    if names:
        yield f"{function} costs no CPU (path.{', path.'.join(names)})", costs(set(names), 0)
    contended = {timeline.kind_of(wait.obj) for wait in timeline.waits}
    if Mutex in contended:
        other = {"barging": "fifo", "fifo": "barging"}[host.mutex]
        text = {"fifo": "mutexes in order of arrival, without spinning", "barging": "mutexes that spin and barge"}
        yield text[other], changed(mutex=other)
    if RWLock in contended:
        other = {"spinning": "fifo", "fifo": "spinning"}[host.rwlock]
        text = {"fifo": "rwlocks in order of arrival, without spinning", "spinning": "rwlocks that spin and steal"}
        yield text[other], changed(rwlock=other)


def _ideal(device: Device) -> Device:
    """A device of the same kind that takes no time."""
    if isinstance(device, SimpleDevice):
        return SimpleDevice(latency_ns=0, queue_depth=MOST)
    costs = (name for name in device.__struct_fields__ if name.endswith(("_ns", "_ps_per_byte")))
    return msgspec.structs.replace(device, **dict.fromkeys(costs, 0))


def _costliest(timeline: Timeline) -> tuple[str, list[str]]:
    """The sub-protocol whose code paths take most CPU, and the names of their costs."""
    spent: Counter[str] = Counter()
    names: dict[str, set[str]] = {}
    for thread in timeline.workload:
        for segment in timeline.segments[thread]:
            if segment.state == CPU and (found := _COST.findall(segment.place.text)):
                spent[segment.place.function] += timeline.inside(segment.start, segment.end)
                names.setdefault(segment.place.function, set()).update(found)
    if not spent:
        return "", []
    function = spent.most_common(1)[0][0]
    return function, sorted(names[function])
