"""Closed forms of queueing theory.  Times in seconds or any other unit, rates in its inverse.

Sources: Kleinrock, Queueing Systems I (1975), M/M/1, M/M/c, machine repair; Reiser and Lavenberg, JACM 27 (1980), mean
value analysis; load-dependent stations: Lazowska et al., Quantitative System Performance (1984), section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial


def mm1_response(arrival_rate: float, service_rate: float) -> float:
    """Mean time in an M/M/1 system."""
    return 1 / (service_rate - arrival_rate)


def mmc_response(arrival_rate: float, service_rate: float, servers: int) -> float:
    """Mean time in an M/M/c system, by Erlang's C formula."""
    load = arrival_rate / service_rate
    waits = load**servers / factorial(servers) / (1 - load / servers)
    waits /= sum(load**k / factorial(k) for k in range(servers)) + waits
    return 1 / service_rate + waits / (servers * service_rate - arrival_rate)


def machine_repair_throughput(machines: int, think_rate: float, service_rate: float, servers: int) -> float:
    """Completions per time of `machines` that break at `think_rate` each and are mended by `servers`."""
    weight = [1.0]
    for broken in range(1, machines + 1):
        weight.append(weight[-1] * (machines - broken + 1) * think_rate / (min(broken, servers) * service_rate))
    total = sum(weight)
    return sum(w / total * min(k, servers) * service_rate for k, w in enumerate(weight))


def mean_value_analysis(customers: int, stations: Sequence[tuple[float, int]]) -> float:
    """Throughput of a closed network of FIFO stations (mean service time, servers), one visit each a cycle.

    Exact: the marginal queue length probabilities of every station are carried along.
    """
    marginal = [[1.0] for _ in stations]
    throughput = 0.0
    for n in range(1, customers + 1):
        response = []
        for (service, servers), p in zip(stations, marginal, strict=True):
            response.append(sum(j * service / min(j, servers) * p[j - 1] for j in range(1, n + 1)))
        throughput = n / sum(response)
        for k, (service, servers) in enumerate(stations):
            p = marginal[k]
            new = [throughput * service / min(j, servers) * p[j - 1] for j in range(1, n + 1)]
            marginal[k] = [max(1 - sum(new), 0.0), *new]
    return throughput
