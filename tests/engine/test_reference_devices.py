"""The simple device: `docs/semantics.md` section 6, with times computed by hand."""

from __future__ import annotations

import pytest

from fssim.engine.random import draw, exponential
from fssim.machine.device import SimpleDevice
from fssim.machine.host import Host
from fssim.protocol import device, protocol
from tests.engine.scenes import ENGINES, Box, play, times

pytestmark = pytest.mark.parametrize("engine", ENGINES)


@protocol
def read(box: Box, length: int):
    yield device.read(0, length)


@protocol
def write_twice(box: Box, length: int):
    yield device.write(0, length)
    yield device.write(0, length)


@protocol
def write_at(box: Box, first: int, second: int, third: int, fourth: int):
    yield device.write(first, 512)
    yield device.write(second, 512)
    yield device.write(third, 512)
    yield device.write(fourth, 512)


def test_a_slot_serves_one_request_and_the_others_wait_in_order(engine: str) -> None:
    device = SimpleDevice(latency_ns=10, queue_depth=2)
    result = play(engine, *[(read, 512)] * 5, device=device)
    assert times(result, "DEVICE_DONE") == [(10, 0), (10, 1), (20, 2), (20, 3), (30, 4)]
    assert result.busy_ns["slots"] == (50, 2)


def test_the_freed_slot_starts_the_next_request_before_the_thread_is_woken(engine: str) -> None:
    # The next request's event is scheduled before the wake-up of thread 0, so it is done first at 10.
    device = SimpleDevice(latency_ns=10, queue_depth=1)
    result = play(engine, (read, 512), (read, 512), host=Host(cpus=2, interrupt_ns=10), device=device)
    assert times(result, "DEVICE_DONE") == [(10, 0), (20, 1)]
    assert times(result, "RESUME") == [(20, 0), (30, 1)]
    assert result.log is not None
    kinds = [tuple(row[:2]) for row in result.log.tolist()][3:]
    assert kinds[:2] == [(20, 1), (20, 0)]


def test_the_gate_spaces_the_starts_of_service(engine: str) -> None:
    # 30 million a second: one in 34 ns, rounded up.
    device = SimpleDevice(latency_ns=10, iops_cap=30_000_000)
    result = play(engine, *[(read, 512)] * 3, device=device)
    assert times(result, "DEVICE_DONE") == [(10, 0), (44, 1), (78, 2)]
    assert result.busy_ns["gate"] == (78, 1)  # the third reservation, until 102, counts to the end of the run only


def test_the_bus_carries_one_request_after_the_other_at_the_bandwidth(engine: str) -> None:
    # 512 bytes at 1000 MB/s: 512 ns.
    device = SimpleDevice(latency_ns=10, bandwidth_mb_s=1000)
    result = play(engine, (read, 512), (read, 1024), device=device)
    assert times(result, "DEVICE_DONE") == [(522, 0), (1546, 1)]
    assert result.busy_ns["bus"] == (1536, 1)
    assert result.busy_ns["slots"] == (522 + 1546, 32)


def test_a_transfer_that_does_not_go_on_where_the_last_ended_seeks(engine: str) -> None:
    # 512 bytes take 512 ns.  The head is at 0 first; the third write goes on behind the second, the fourth goes back.
    device = SimpleDevice(latency_ns=10, bandwidth_mb_s=1000, seek_ns=100)
    result = play(engine, (write_at, 0, 4096, 4608, 4096), device=device)
    assert times(result, "DEVICE_DONE") == [(522, 0), (1144, 0), (1666, 0), (2288, 0)]
    assert result.busy_ns["bus"] == (4 * 512 + 2 * 100, 1)


def test_seeks_without_a_bandwidth_are_refused(engine: str) -> None:
    with pytest.raises(ValueError, match="seek_ns is 5; it needs bandwidth_mb_s"):
        SimpleDevice(latency_ns=10, seek_ns=5)


def test_a_transfer_time_is_rounded_up(engine: str) -> None:
    device = SimpleDevice(latency_ns=0, bandwidth_mb_s=3000)
    assert times(play(engine, (read, 1000), device=device), "DEVICE_DONE") == [(334, 0)]


def test_an_exponential_latency_is_drawn_at_submission_from_the_threads_stream(engine: str) -> None:
    device = SimpleDevice(latency_ns=1000, latency_distribution="exponential", queue_depth=1)
    first, second = (exponential(draw(9, 0, n), 1000) for n in (0, 1))
    assert times(play(engine, (write_twice, 512), device=device, seed=9), "DEVICE_DONE") == [
        (first, 0),
        (first + second, 0),
    ]


def test_only_the_parts_that_a_device_has_are_listed_as_resources(engine: str) -> None:
    assert list(play(engine, (read, 512), device=SimpleDevice(latency_ns=1)).busy_ns) == ["cpu", "slots"]
