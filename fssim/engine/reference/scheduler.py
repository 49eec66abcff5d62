"""The processors: who runs, who waits for a CPU, and how threads block, wake and are preempted (section 2)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from fssim.engine.objects import IDLE_LIMIT_NS
from fssim.engine.reference.simulation import Due, Simulation
from fssim.engine.reference.statistics import Category, Occupancy, Statistics
from fssim.engine.reference.thread import SimThread, State


@dataclass(slots=True, eq=False)
class Cpu:
    """A processor.  `idle_since`: the instant at which it last became free."""

    number: int
    is_free: bool = True
    idle_since: int = 0


class Scheduler:
    """Gives CPUs to threads, first come, first served; a thread goes to its home, the CPU it last held, if free."""

    def __init__(self, simulation: Simulation, statistics: Statistics) -> None:
        self.simulation = simulation
        self.statistics = statistics
        self._host = simulation.host
        self._cpus = [Cpu(number) for number in range(simulation.host.cpus)]
        # The device's driver runs where the latest submission was made.
        self._submission_cpu: Cpu | None = None
        self._ready: deque[SimThread] = deque()
        self._busy = Occupancy()
        statistics.resources["cpu"] = (self._busy, simulation.host.cpus)

    def start(self, thread: SimThread) -> None:
        """Bring a new thread to the READY event; `thread.then` is its beginning."""
        thread.home = self._cpus[thread.number % len(self._cpus)]
        self.statistics.enter(thread, self.statistics.wakeup, self.simulation.now)
        self.simulation.schedule(0, self._on_ready, thread)

    def run_after(self, thread: SimThread, delay_ns: int) -> None:
        """Let a thread that holds a CPU go on after a delay, keeping the CPU."""
        self.simulation.schedule(delay_ns, self._on_run, thread)

    def block(self, thread: SimThread, category: Category) -> None:
        """Take the thread from its CPU; `category` says what it spends its time on until it is woken."""
        self._stop_owning(thread)
        thread.state = State.BLOCKED
        self.statistics.count_sleep(thread, category)
        self.statistics.enter(thread, category, self.simulation.now)
        self._give_up_cpu(thread)

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
        """Wake a thread that waits for another thread: it will switch contexts before its next step."""
        thread.must_switch = True
        self.statistics.enter(thread, self.statistics.wakeup, self.simulation.now)
        self._ready_after(thread, self._host.wakeup_ns + self._idle_exit_ns(thread.home))

    def interrupt(self, thread: SimThread) -> None:
        """Wake a thread that waits for the device, which has done its I/O or told what it waits for."""
        self.statistics.enter(thread, self.statistics.wakeup, self.simulation.now)
        self._ready_after(thread, self._host.interrupt_ns + self._idle_exit_ns(thread.home))

    def submits(self, thread: SimThread) -> None:
        """The thread, which runs, is about to hand a request to the device."""
        self._submission_cpu = thread.home

    def sleep(self, thread: SimThread, duration_ns: int) -> None:
        """Block the thread and wake it after a time."""
        thread.sleeps_until = self.simulation.now + duration_ns
        self.block(thread, self.statistics.sleep)
        self._ready_after(thread, duration_ns + self._host.wakeup_ns)

    def end(self, thread: SimThread) -> None:
        """The thread is gone and leaves its CPU."""
        thread.state = State.ENDED
        self.statistics.enter(thread, None, self.simulation.now)
        self._give_up_cpu(thread)

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
        self.statistics.count_sleep(thread, self.statistics.ready)
        self._join_ready_queue(thread)
        self._give_up_cpu(thread)

    def _idle_exit_ns(self, home: Cpu) -> int:
        """What it takes to bring a CPU out of idle; the longer it has been idle, the deeper it sleeps."""
        full_ns, depth_ns = self._host.idle_exit_ns, self._host.idle_depth_ns
        # CPU 0 takes the interrupts, and so is awake.
        if not full_ns or not home.is_free or home.number == 0 or home is self._submission_cpu:
            return 0
        if not depth_ns:
            return full_ns
        depth = min(depth_ns, IDLE_LIMIT_NS)
        idle = min(self.simulation.now - home.idle_since, IDLE_LIMIT_NS)
        return full_ns * ((idle * idle << 16) // (idle * idle + depth * depth)) >> 16

    def _ready_after(self, thread: SimThread, latency_ns: int) -> None:
        if self._host.wakeup_spread_ns:
            latency_ns += thread.exponential(self._host.wakeup_spread_ns)
        self.simulation.schedule(latency_ns, self._on_ready, thread)

    def _on_ready(self, event: Due[SimThread]) -> None:
        thread = event.value
        cpu = thread.home if thread.home.is_free else next((cpu for cpu in self._cpus if cpu.is_free), None)
        if cpu is None:
            self._join_ready_queue(thread)
            return
        cpu.is_free = False
        self._busy.change(self.simulation.now, +1)
        self._put_on_cpu(thread, cpu)
        self._run(thread)

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

    def _put_on_cpu(self, thread: SimThread, cpu: Cpu) -> None:
        thread.home = cpu
        thread.state = State.RUNNING
        thread.on_cpu_since = self.simulation.now
        self.statistics.enter(thread, self.statistics.cpu, self.simulation.now)

    def _give_up_cpu(self, thread: SimThread) -> None:
        cpu = thread.home
        if self._ready:
            successor = self._ready.popleft()
            self._put_on_cpu(successor, cpu)
            self.run_after(successor, 0)
        else:
            cpu.is_free = True
            cpu.idle_since = self.simulation.now
            self._busy.change(self.simulation.now, -1)

    @staticmethod
    def _stop_owning(thread: SimThread) -> None:
        """Those who spin because this thread runs must now sleep."""
        for lock in thread.held:
            lock.owner_stops(thread)
