"""Speed of the engines on the shared-read protocol with the full flash model, back to back: `make benchmark`.

Figures are simulated I/Os per second and core (one process, one thread, the jit done before).  The last test prints the
ratio of the engines, both measured in turn within it.
"""

from __future__ import annotations

import time

import pytest

from fssim.engine import run
from fssim.filesystem import load_filesystem
from fssim.profile import load_machine
from fssim.workload.sysbench import build_system

BLOCK_SIZE_BYTES = 512


def system(threads, ios, filesystem="xfs-2.6.39+shared-read-lock", pattern="rndrd"):
    return build_system(
        load_filesystem(filesystem),
        load_machine("engel-2011"),
        pattern,
        BLOCK_SIZE_BYTES,
        threads,
        ios=ios,
        warmup_ios=200,
        seed=1,
    )


@pytest.mark.parametrize("threads", [1, 16, 128])
@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_simulated_ios(benchmark, engine, threads):
    ios = 200_000 if engine == "compiled" else 4_000
    wanted = system(threads, ios)
    run(system(threads, 100), engine=engine)
    benchmark.pedantic(run, args=(wanted,), kwargs={"engine": engine}, rounds=5, iterations=1)
    rate = ios / benchmark.stats.stats.median
    benchmark.extra_info["simulated_ios_per_second"] = rate
    print(f"\n{engine:10s} {threads:4d} threads: {rate:12,.0f} simulated I/Os per second and core")


def test_a_short_cell(benchmark):
    """What a cell of an experiment costs besides its I/Os: objects, bytecode, layout, statistics."""
    wanted = system(16, 2_048)
    run(wanted)
    benchmark.pedantic(lambda: run(system(16, 2_048)), rounds=20, iterations=1)


def test_ratio_of_the_engines(benchmark):
    """Processor time of both in turn, five times; the median of the ratios at 16 threads."""
    fast, slow = system(16, 100_000), system(16, 4_000)
    run(system(16, 100))
    ratios = []

    def both():
        begin = time.process_time()
        run(fast)
        middle = time.process_time()
        run(slow, engine="reference")
        end = time.process_time()
        ratios.append((100_000 / (middle - begin)) / (4_000 / (end - middle)))

    benchmark.pedantic(both, rounds=5, iterations=1)
    ratio = sorted(ratios)[len(ratios) // 2]
    benchmark.extra_info["compiled_over_reference"] = ratio
    print(f"\ncompiled over reference at 16 threads: {ratio:.0f} x")
