"""The engine against closed forms of queueing theory.

Each case is simulated with many seeds.  Every run reports a 95 per cent interval; the share of intervals that hold the
theory's value is what is tested, with the bound that a binomial variable of 40 intervals at 95 per cent undercuts in
fewer than 1 of 1,000 test suites (31 of 40).
"""

from __future__ import annotations

import pytest

from fssim.engine import run
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.protocol import (
    Queue,
    Shared,
    begin_io,
    complete_io,
    cpu,
    device,
    exponential,
    now,
    protocol,
    sleep,
)
from fssim.statistics import batch_durations_ns, iops_interval, student_quantile
from fssim.system import System, Thread
from tests.theory.queues import machine_repair_throughput, mean_value_analysis, mm1_response, mmc_response

SERVICE_NS = 10_000
SEEDS = 40
ENOUGH = 31
MEAN_ARRIVAL_NS = 1
MEAN_THINK_NS = 1
CPU_NS = 1


class Source(Shared):
    """Draws the instants of a Poisson stream; whichever thread is free serves the next arrival."""

    next_arrival: int


@protocol
def customer(source: Source):
    """Takes the next arrival of the stream, waits for its instant, and is served."""
    while True:
        gap = yield exponential(MEAN_ARRIVAL_NS)
        source.next_arrival += gap
        wait = source.next_arrival - now()
        assert wait >= 0, "more customers than threads: the stream was held up"
        yield sleep(wait)
        yield begin_io()
        yield device.read(0, 512)
        yield complete_io()


@protocol
def machine():
    """Runs for an exponential time, then waits for the repairman."""
    while True:
        think = yield exponential(MEAN_THINK_NS)
        yield sleep(think)
        yield begin_io()
        yield device.read(0, 512)
        yield complete_io()


@protocol
def computing():
    """Computes for an exponential time on one of the CPUs, then reads."""
    while True:
        burst = yield exponential(CPU_NS)
        yield begin_io()
        yield cpu(burst)
        yield device.read(0, 512)
        yield complete_io()


class Ring(Shared):
    """Instants at which I/Os began, put by the device when they are done; -1 for those that have yet to begin."""

    done: Queue[int]


@protocol
def ring_submitter(ring: Ring):
    """One thread with as many asynchronous I/Os as the ring holds: computes before it submits each of them again."""
    while True:
        begun = yield ring.done.get()
        if begun >= 0:
            yield complete_io(begun)
        burst = yield exponential(CPU_NS)
        yield cpu(burst)
        begun = now()
        yield begin_io()
        yield device.submit_read(0, 512, ring.done, tag=begun)


class Office(Shared):
    """Instants at which jobs arrived."""

    jobs: Queue[int]


@protocol
def arrivals(office: Office):
    """A Poisson stream, put into the queue of those who work on it."""
    while True:
        gap = yield exponential(MEAN_ARRIVAL_NS)
        yield sleep(gap)
        arrived = now()
        yield begin_io()
        yield office.jobs.put(arrived)


@protocol
def clerk(office: Office):
    while True:
        arrived = yield office.jobs.get()
        burst = yield exponential(CPU_NS)
        yield cpu(burst)
        yield complete_io(arrived)


def exponential_device(servers):
    return SimpleDevice(latency_ns=SERVICE_NS, latency_distribution="exponential", queue_depth=servers)


def closed(program, threads, servers, seed, cpus=10_000, ios=4_000, **constants):
    return run(
        System(
            threads=[Thread(program)] * threads,
            host=Host(cpus=cpus),
            device=exponential_device(servers),
            constants=constants,
            seed=seed,
            ios=ios,
            warmup_ios=500,
            batch_ios=ios // 20,
        )
    )


@pytest.mark.parametrize("load", [0.3, 0.7])
@pytest.mark.parametrize("servers", [1, 4])
def test_mean_response_of_an_open_queue_is_inside_the_interval(servers, load):
    """M/M/1 and M/M/c.  The interval is that of 10 replications; 40 such intervals are made."""
    arrival_ns = round(SERVICE_NS / servers / load)
    theory = (mm1_response if servers == 1 else lambda a, s: mmc_response(a, s, servers))(
        1 / arrival_ns, 1 / SERVICE_NS
    )
    hits = 0
    for group in range(SEEDS):
        means = []
        for replication in range(10):
            source = Source()
            result = run(
                System(
                    threads=[Thread(customer, (source,))] * 200,
                    host=Host(cpus=1_000),
                    device=exponential_device(servers),
                    constants={"MEAN_ARRIVAL_NS": arrival_ns},
                    seed=1_000 * group + replication,
                    ios=2_000,
                    warmup_ios=1_000,
                )
            )
            means.append(result.latency_ns / result.ios)
        mean = sum(means) / len(means)
        deviation = (sum((m - mean) ** 2 for m in means) / (len(means) - 1)) ** 0.5
        half = student_quantile(0.95, len(means) - 1) * deviation / len(means) ** 0.5
        hits += abs(mean - theory) <= half
    assert hits >= ENOUGH


@pytest.mark.parametrize(("machines", "servers"), [(1, 1), (5, 1), (20, 4), (64, 8)])
def test_throughput_of_machine_repair_is_inside_the_interval(machines, servers):
    think_ns = 40_000
    theory = 1e9 * machine_repair_throughput(machines, 1 / think_ns, 1 / SERVICE_NS, servers)
    hits = 0
    for seed in range(SEEDS):
        result = closed(machine, machines, servers, seed, MEAN_THINK_NS=think_ns)
        hits += theory in iops_interval(batch_durations_ns(result), 200)
    assert hits >= ENOUGH


@pytest.mark.parametrize(("threads", "cpus", "servers"), [(4, 1, 1), (16, 2, 4), (64, 8, 16)])
def test_throughput_of_a_closed_network_is_inside_the_interval(threads, cpus, servers):
    """Processors and device as two stations, by exact mean value analysis."""
    cpu_ns = 6_000
    theory = 1e9 * mean_value_analysis(threads, [(cpu_ns, cpus), (SERVICE_NS, servers)])
    hits = 0
    for seed in range(SEEDS):
        result = closed(computing, threads, servers, seed, cpus=cpus, CPU_NS=cpu_ns)
        hits += theory in iops_interval(batch_durations_ns(result), 200)
    assert hits >= ENOUGH


@pytest.mark.parametrize(("depth", "servers", "cpu_ns"), [(1, 1, 6_000), (8, 1, 6_000), (32, 4, 2_000), (256, 16, 400)])
def test_throughput_of_one_thread_with_asynchronous_io_is_inside_the_interval(depth, servers, cpu_ns):
    """Its I/Os are the customers of a closed network: the thread is one station, the device the other.

    With many customers the stations must not be nearly as fast as each other, or batches of 200 are not independent.
    """
    theory = 1e9 * mean_value_analysis(depth, [(cpu_ns, 1), (SERVICE_NS, servers)])
    hits = 0
    for seed in range(SEEDS):
        result = run(
            System(
                threads=[Thread(ring_submitter, (Ring(done=Queue([-1] * depth)),))],
                host=Host(cpus=1),
                device=exponential_device(servers),
                constants={"CPU_NS": cpu_ns},
                seed=seed,
                ios=4_000,
                warmup_ios=1_000,
                batch_ios=200,
            )
        )
        hits += theory in iops_interval(batch_durations_ns(result), 200)
    assert hits >= ENOUGH


@pytest.mark.parametrize("depth", [1, 7, 100])
def test_one_thread_with_asynchronous_io_and_a_device_alone_are_at_the_rate_of_the_device(depth):
    """A fixed service of one server, no computing: a completion every service, and Little's law holds exactly."""
    result = run(
        System(
            threads=[Thread(ring_submitter, (Ring(done=Queue([-1] * depth)),))],
            host=Host(cpus=1),
            device=SimpleDevice(latency_ns=SERVICE_NS, queue_depth=1),
            constants={"CPU_NS": 0},
            ios=1_000,
            warmup_ios=200,
        )
    )
    assert result.window_ns == 1_000 * SERVICE_NS
    assert result.latency_ns == 1_000 * depth * SERVICE_NS
    assert result.in_flight_ns == depth * result.window_ns


@pytest.mark.parametrize(("clerks", "load"), [(1, 0.7), (4, 0.3), (4, 0.8)])
def test_mean_response_of_workers_that_share_a_queue_is_inside_the_interval(clerks, load):
    """M/M/c with a queue of the language and c threads in the place of the device."""
    arrival_ns = round(SERVICE_NS / clerks / load)
    theory = mmc_response(1 / arrival_ns, 1 / SERVICE_NS, clerks)
    hits = 0
    for group in range(SEEDS):
        means = []
        for replication in range(10):
            office = Office()
            result = run(
                System(
                    threads=[Thread(arrivals, (office,)), *[Thread(clerk, (office,))] * clerks],
                    host=Host(cpus=clerks + 1),
                    constants={"MEAN_ARRIVAL_NS": arrival_ns, "CPU_NS": SERVICE_NS},
                    seed=1_000 * group + replication,
                    ios=2_000,
                    warmup_ios=1_000,
                )
            )
            means.append(result.latency_ns / result.ios)
        mean = sum(means) / len(means)
        deviation = (sum((m - mean) ** 2 for m in means) / (len(means) - 1)) ** 0.5
        half = student_quantile(0.95, len(means) - 1) * deviation / len(means) ** 0.5
        hits += abs(mean - theory) <= half
    assert hits >= ENOUGH


def test_the_closed_forms_agree_with_each_other():
    """Machine repair is a closed network whose first station has a server for everybody; M/M/1 is M/M/c with c = 1."""
    assert machine_repair_throughput(20, 1 / 40, 1 / 10, 4) == pytest.approx(
        mean_value_analysis(20, [(40, 20), (10, 4)]), rel=1e-9
    )
    assert mmc_response(0.7, 1.0, 1) == pytest.approx(mm1_response(0.7, 1.0), rel=1e-12)
