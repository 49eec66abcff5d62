"""What the figures say, in sentences."""

from __future__ import annotations

from collections import Counter

from fssim.explain.budget import ASLEEP, IN_DEVICE, LATENCY, PATH, WAITING, Budget, total
from fssim.explain.explanation import Explanation, RunSummary
from fssim.explain.states import CPU, POLLED

FULL = 0.95  # a resource that is busy for this share of the time limits the rate
NOTABLE = 0.1  # a difference of this share of the path cost is named
MOST_CAUSES = 3

_RESOURCES = {
    "gate": "the device's limit of IOPS",
    "slots": "the device's queue depth",
    "channels": "the flash channels",
    "chips": "the flash chips",
    "bus": "the device's bandwidth (bus)",
    "write bus": "the device's write bandwidth (write bus)",
    "drain": "the device's write bandwidth (its cache is drained no faster)",
}


def sentences(found: Explanation) -> list[tuple[str, str]]:
    """Return (about, text), the most important first."""
    said = [("Rate", _rate(found)), ("Parallelism", _parallelism(found)), ("Bottleneck", bottleneck(found))]
    if found.same is not None and found.alone is not None:
        said.append(("Path cost", _path_cost(found.run, found.same, found.alone)))
    if total(found.run.budget, WAITING) >= 0.01 * total(found.run.budget):
        said.append(("Waiting", _waiting(found, causes=_causes(found) not in bottleneck(found))))
    if modes := _modes(found):
        said.append(("Modes", modes))
    for timer in found.timers:
        said.append(
            (
                "Timer",
                f"{timer.place.function} (line {timer.place.line}) sleeps in {_share(timer.per_io)} of the I/Os, for "
                f"{_us(timer.sleep_ns)} on average; others wait {_us(timer.causes_ns)} an I/O because of it.",
            )
        )
    return said


def _rate(found: Explanation) -> str:
    run = found.run
    margin = f" (± {run.uncertainty:.1%})" if run.uncertainty is not None else ""
    text = f"{run.iops:,.0f} IOPS{margin}, one every {_us(run.between_ns)}."
    if found.alone is None or found.same is None:
        return text
    return (
        f"{text}  One thread: {found.alone.iops:,.0f}, one every {_us(found.alone.between_ns)}; one thread with the "
        f"same blocks in the same order: {found.same.iops:,.0f}.  {found.cell.threads} threads have "
        f"{run.iops / found.alone.iops:.2f} times the rate of one."
    )


def _parallelism(found: Explanation) -> str:
    run, cpus = found.run, found.cell.machine.host.cpus
    spinning = f", {run.spinning:.2f} of them spinning" if run.spinning >= 0.01 else ""
    device = {name: share for name, share in run.utilisation.items() if name != "cpu"}
    busiest = max(device, key=lambda name: device[name], default="")
    part = f"; the device's busiest part ({busiest}) is busy for {device[busiest]:.0%} of the time" if busiest else ""
    idle = f"  {found.idle_threads} of the threads complete no I/O in the window." if found.idle_threads else ""
    return (
        f"{run.in_flight:.1f} I/Os are in flight on average, those completed for {_us(run.latency_ns)}; "
        f"{run.cpus_busy:.2f} of {cpus} CPUs are busy{spinning}{part}.{idle}"
    )


def bottleneck(found: Explanation) -> str:
    """Name what limits the rate."""
    run = found.run
    budget = run.budget
    device = {name: share for name, share in run.utilisation.items() if name != "cpu"}
    busiest = max(device, key=lambda name: device[name], default="")
    whole = total(budget) or 1.0
    if busiest and device[busiest] >= FULL:
        return f"{_RESOURCES.get(busiest, busiest)}: busy for {device[busiest]:.0%} of the time."
    waiting = total(budget, WAITING) / whole
    cpu = run.utilisation.get("cpu", 0.0)
    if cpu >= FULL and run.spinning >= run.cpus_busy / 2:
        spinning = run.spinning / run.cpus_busy
        return _lock_bottleneck(found, f"the CPUs are full, and {spinning:.0%} of their time is spinning")
    if cpu >= FULL:
        return f"the CPUs: busy for {cpu:.0%} of the time."
    if waiting >= 0.5:
        return _lock_bottleneck(found, f"{waiting:.0%} of the threads' time is waiting")
    shares = {
        "sleeping on timers": total(budget, ASLEEP),
        "the latency of wake-ups and the queue for CPUs": total(budget, LATENCY),
        "the device, of which no part is full": total(budget, IN_DEVICE),
        "the path cost, CPU time of the I/Os themselves": total(budget, PATH),
        "waiting for locks": total(budget, WAITING),
    }
    largest = max(shares, key=lambda name: shares[name])
    return f"{largest}: {shares[largest] / whole:.0%} of a thread's time."


def _lock_bottleneck(found: Explanation, how: str) -> str:
    locks = {item.what: time for item, time in found.run.budget.items() if item.group == WAITING}
    lock = max(locks, key=lambda name: locks[name])
    text = f"locks: {how}, most of it for {lock}"
    roots = found.blames.roots
    own = sum(time for root, time in roots.items() if root.phase.kind in (CPU, POLLED))
    if found.same is not None and own >= 0.5 * found.blames.total_ns and found.run.iops >= 0.9 * found.same.iops:
        return (
            f"{text}.  But its holders compute, and an I/O takes no longer than with one thread: the lock keeps more "
            "threads from helping, and the path cost decides what the rate is."
        )
    return f"{text}; {_causes(found)}."


def _causes(found: Explanation) -> str:
    whole = found.blames.total_ns or 1
    named = [
        f"for {time / whole:.0%} of it {root.text}"
        for root, time in list(found.blames.roots.items())[:MOST_CAUSES]
        if time >= 0.05 * whole
    ]
    return "; ".join(named) if named else "it has many causes"


def _waiting(found: Explanation, causes: bool) -> str:
    budget = found.run.budget
    waiting, whole = total(budget, WAITING), total(budget) or 1.0
    locks = sorted(
        ((time, item.what) for item, time in budget.items() if item.group == WAITING and time >= 0.01 * waiting),
        reverse=True,
    )
    each = ", ".join(f"{what} {_us(time)}" for time, what in locks)
    why = f"; {_causes(found)}" if causes else ""
    return f"{_us(waiting)} an I/O ({waiting / whole:.0%} of the threads' time): {each}{why}."


def _modes(found: Explanation) -> str:
    """Say how many I/Os take a lock exclusively that has two modes, and how often a try-lock fails."""
    two_modes = {lock.lock for lock in found.locks if lock.mode == "shared"}
    said = []
    for lock in found.locks:
        if lock.lock in two_modes and lock.mode == "exclusive" and lock.share_of_ios:
            demoted = f", {_share(lock.demoted_share)} demote it" if lock.demoted_share else ""
            said.append(f"{_share(lock.share_of_ios)} of the I/Os take {lock.lock} exclusively{demoted}")
        if lock.failed_tries_per_io:
            said.append(f"{lock.failed_tries_per_io:.3f} try-locks of {lock.lock} fail an I/O")
    return "; ".join(said) + "." if said else ""


def _path_cost(run: RunSummary, same: RunSummary, alone: RunSummary) -> str:
    """Compare what the I/Os themselves cost: an effect of the blocks' order must not be blamed on a lock."""
    here, there, own = (total(summary.budget, PATH) for summary in (run, same, alone))
    text = (
        f"{_us(here)} of CPU an I/O, against {_us(there)} with one thread and the same blocks, {_us(own)} with one "
        "thread in its own order"
    )
    verdicts = []
    if abs(there - own) > NOTABLE * own:
        verdicts.append(_difference("the order of the blocks", there - own, same.budget, alone.budget))
    if abs(here - there) > NOTABLE * there:
        verdicts.append(_difference("running beside others", here - there, run.budget, same.budget))
    if not verdicts:
        verdicts.append("the path costs the same: neither extents nor page cache explain a difference in the rate")
    device = total(run.budget, IN_DEVICE), total(same.budget, IN_DEVICE)
    waits = (
        f"  The device takes {_us(device[0])}, its own queues included, against {_us(device[1])}."
        if any(device)
        else ""
    )
    return f"{text}: {'; '.join(verdicts)}.{waits}"


def _difference(reason: str, difference: float, more: Budget, less: Budget) -> str:
    by_function: Counter[str] = Counter()
    for budget, sign in ((more, 1), (less, -1)):
        for item, time in budget.items():
            if item.group == PATH:
                by_function[item.what] += sign * time  # type: ignore[assignment]
    most = max(by_function, key=lambda name: by_function[name] * (1 if difference > 0 else -1))
    verb = "adds" if difference > 0 else "saves"
    return f"{reason} {verb} {_us(abs(difference))}, {_us(abs(by_function[most]))} of it in {most}"


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:,.2f} µs" if nanoseconds < 100_000 else f"{nanoseconds / 1000:,.0f} µs"


def _share(share: float) -> str:
    return f"{share:.1%}" if share >= 0.01 else f"{share:.2%}"


__all__ = ["bottleneck", "sentences"]
