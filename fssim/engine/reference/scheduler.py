"""The processors: who runs, who waits for a CPU, and how threads block, wake and are preempted (section 2)."""

from __future__ import annotations

from collections import deque

from fssim.engine.reference.simulation import Due, Simulation
from fssim.engine.reference.statistics import Category, Occupancy, Statistics
from fssim.engine.reference.thread import SimThread, State


class Scheduler:
    """Gives CPUs to threads, first come, first served."""

    def __init__(self, simulation: Simulation, statistics: Statistics) -> None:
        self.simulation = simulation
        self.statistics = statistics
        self._host = simulation.host
        self._free_cpus = simulation.host.cpus
        self._ready: deque[SimThread] = deque()
        self._busy = Occupancy()
        statistics.resources["cpu"] = (self._busy, simulation.host.cpus)

    def start(self, thread: SimThread) -> None:
        """Bring a new thread to the READY event; `thread.then` is its beginning."""
        self.statistics.enter(thread, self.statistics.wakeup, self.simulation.now)
        self.simulation.schedule(0, self._on_ready, thread)

    def run_after(self, thread: SimThread, delay_ns: int) -> None:
        """Let a thread that holds a CPU go on after a delay, keeping the CPU."""
        self.simulation.schedule(delay_ns, self._on_run, thread)

    def block(self, thread: SimThread, category: Category) -> None:
        """Take the thread from its CPU; `category` says what it spends its time on until it is woken."""
        self._stop_owning(thread)
        thread.state = State.BLOCKED
        self.statistics.enter(thread, category, self.simulation.now)
        self._give_up_cpu()

    def spin(self, thread: SimThread, category: Category) -> None:
        """The thread waits without giving up its CPU."""
        thread.state = State.SPINNING
        self.statistics.enter(thread, category, self.simulation.now)

    def stop_spinning(self, thread: SimThread) -> None:
        """A spinner has been granted its lock and goes on when it has noticed."""
        thread.state = State.RUNNING
        self.statistics.enter(thread, self.statistics.cpu, self.simulation.now)
        self.run_after(thread, self._host.spin_handoff_ns)

    def wake(self, thread: SimThread) -> None:
        """Wake a thread that waits for a lock or counter: it will switch contexts before its next step."""
        thread.must_switch = True
        self.statistics.enter(thread, self.statistics.wakeup, self.simulation.now)
        self._ready_after(thread, self._host.wakeup_ns)

    def interrupt(self, thread: SimThread) -> None:
        """Wake a thread whose device I/O is done."""
        self.statistics.enter(thread, self.statistics.wakeup, self.simulation.now)
        self._ready_after(thread, self._host.interrupt_ns)

    def sleep(self, thread: SimThread, duration_ns: int) -> None:
        """Block the thread and wake it after a time."""
        thread.sleeps_until = self.simulation.now + duration_ns
        self.block(thread, self.statistics.sleep)
        self._ready_after(thread, duration_ns + self._host.wakeup_ns)

    def end(self, thread: SimThread) -> None:
        """The thread is gone and leaves its CPU."""
        thread.state = State.ENDED
        self.statistics.enter(thread, None, self.simulation.now)
        self._give_up_cpu()

    def may_be_preempted(self, thread: SimThread) -> bool:
        """True if the thread's time slice is used up and another thread wants the CPU."""
        return (
            self._host.timeslice_ns > 0
            and bool(self._ready)
            and not thread.atomic
            and self.simulation.now - thread.on_cpu_since >= self._host.timeslice_ns
        )

    def preempt(self, thread: SimThread) -> None:
        """Send the thread to the tail of the ready queue, whose head gets its CPU."""
        self._stop_owning(thread)
        self._join_ready_queue(thread)
        self._give_up_cpu()

    def _ready_after(self, thread: SimThread, latency_ns: int) -> None:
        if self._host.wakeup_spread_ns:
            latency_ns += thread.exponential(self._host.wakeup_spread_ns)
        self.simulation.schedule(latency_ns, self._on_ready, thread)

    def _on_ready(self, event: Due[SimThread]) -> None:
        thread = event.value
        if self._free_cpus:
            self._free_cpus -= 1
            self._busy.change(self.simulation.now, +1)
            self._put_on_cpu(thread)
            self._run(thread)
        else:
            self._join_ready_queue(thread)

    def _on_run(self, event: Due[SimThread]) -> None:
        self._run(event.value)

    def _run(self, thread: SimThread) -> None:
        if thread.must_switch:
            thread.must_switch = False
            if self._host.switch_ns:
                self.run_after(thread, self._host.switch_ns)
                return
        thread.then(thread)

    def _join_ready_queue(self, thread: SimThread) -> None:
        thread.state = State.READY
        self.statistics.enter(thread, self.statistics.ready, self.simulation.now)
        self._ready.append(thread)

    def _put_on_cpu(self, thread: SimThread) -> None:
        thread.state = State.RUNNING
        thread.on_cpu_since = self.simulation.now
        self.statistics.enter(thread, self.statistics.cpu, self.simulation.now)

    def _give_up_cpu(self) -> None:
        if self._ready:
            successor = self._ready.popleft()
            self._put_on_cpu(successor)
            self.run_after(successor, 0)
        else:
            self._free_cpus += 1
            self._busy.change(self.simulation.now, -1)

    @staticmethod
    def _stop_owning(thread: SimThread) -> None:
        """Those who spin because this thread runs must now sleep."""
        for lock in thread.held:
            lock.owner_stops(thread)
