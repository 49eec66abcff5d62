"""The flash device: `docs/flash.md`, with times computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fssim.machine.device import FlashDevice
from fssim.machine.host import Host
from fssim.protocol import cpu, device, protocol
from tests.engine.scenes import ENGINES, Box, play, times

pytestmark = pytest.mark.parametrize("engine", ENGINES)


@protocol
def read(box: Box, after: int, offset: int, length: int):
    yield cpu(after)
    yield device.read(offset, length)


@protocol
def write(box: Box, after: int, offset: int, length: int):
    yield cpu(after)
    yield device.write(offset, length)


def flash(**parameters: Any) -> FlashDevice:
    """Pages of 1000 bytes that load in 100 ns; 1 ns per 10 bytes on the channel; everything else takes no time."""
    default = {"channels": 1, "page_bytes": 1000, "page_load_ns": 100, "channel_ps_per_byte": 100, "bus_ps_per_byte": 0}
    return FlashDevice(**{**default, **parameters})


def done(engine: str, *programs: Any, **parameters: Any) -> list[tuple[int, int]]:
    return times(play(engine, *programs, host=Host(cpus=16), device=flash(**parameters)), "DEVICE_DONE")


def test_a_read_passes_command_load_channel_decoding_and_bus(engine: str) -> None:
    # 7 + 100 + (5 + 50) + 500 * 0.002 + 500 * 0.01 = 168.
    parameters = {"command_ns": 7, "channel_command_ns": 5, "decode_ps_per_byte": 2, "bus_ps_per_byte": 10}
    assert done(engine, (read, 0, 0, 500), **parameters) == [(7 + 100 + 55 + 1 + 5, 0)]


def test_rates_are_rounded_up_to_nanoseconds(engine: str) -> None:
    # 1 byte at 0.1 ns a byte.
    assert done(engine, (read, 0, 0, 1)) == [(101, 0)]


def test_decoding_takes_no_longer_than_for_its_limit(engine: str) -> None:
    assert done(engine, (read, 0, 0, 1000), decode_ps_per_byte=1000, decode_limit_bytes=300) == [(100 + 100 + 300, 0)]


def test_a_page_in_the_cache_register_is_not_loaded_again(engine: str) -> None:
    # The second read finds the page loaded; the third needs another page of the only chip.
    result = done(engine, (read, 0, 0, 500), (read, 300, 500, 500), (read, 400, 1000, 500))
    assert result == [(150, 0), (350, 1), (550, 2)]


def test_a_load_overlaps_the_transfers_out_of_the_cache_register(engine: str) -> None:
    # Page 1 begins to load at 100, when page 0 has moved to the cache register; it is transferred from 200 to 300.
    assert done(engine, (read, 0, 0, 1000), (read, 0, 1000, 1000)) == [(200, 0), (300, 1)]


def test_a_page_waits_in_the_data_register_until_the_transfers_before_it_are_over(engine: str) -> None:
    # Transfers of 300: page 1 is loaded at 200 and transferred from 400 on; page 2 begins to load at 400.
    slow = {"channel_ps_per_byte": 300}
    assert done(engine, (read, 0, 0, 1000), (read, 0, 1000, 1000), (read, 0, 2000, 1000), **slow) == [
        (400, 0),
        (700, 1),
        (1000, 2),
    ]


def test_a_read_is_cut_at_pages_which_go_to_the_channels_in_turn(engine: str) -> None:
    # 1500 bytes from 500: the halves are loaded and transferred side by side.
    assert done(engine, (read, 0, 500, 1500), channels=2) == [(200, 0)]
    # On one channel page 1 begins to load at 100, when page 0 has moved to the cache register.
    assert done(engine, (read, 0, 500, 1500), channels=1) == [(300, 0)]


def test_stripes_alternate_between_chips_and_rotate_between_channels(engine: str) -> None:
    # Two channels: pages 0 and 2 meet on channel 0, there on two chips or one; with rotation 1, page 2 is on channel 1.
    both = ((read, 0, 0, 1000), (read, 0, 2000, 1000))
    assert done(engine, *both, channels=2, chips_per_channel=1) == [(200, 0), (300, 1)]
    assert done(engine, *both, channels=2, chips_per_channel=2) == [
        (200, 0),
        (300, 1),
    ]  # both loaded at 100, one channel
    assert done(engine, *both, channels=2, channel_rotation=1) == [(200, 0), (200, 1)]
    # Without a transfer time only the chips matter.
    free = {"channels": 2, "channel_ps_per_byte": 0}
    assert done(engine, *both, **free, chips_per_channel=1) == [(100, 0), (200, 1)]
    assert done(engine, *both, **free, chips_per_channel=2) == [(100, 0), (100, 1)]


def test_a_scattered_stripe_begins_at_a_channel_given_by_a_hash_of_its_number(engine: str) -> None:
    def shift(stripe: int) -> int:
        scrambled = stripe * 0x9E3779B97F4A7C15 % 2**64
        return (scrambled ^ scrambled >> 29) >> 8

    for page in (2, 4, 6, 8, 11):
        channel = (page + shift(page // 2)) % 2**64 % 2
        result = done(engine, (read, 0, 0, 1000), (read, 0, page * 1000, 1000), channels=2, placement="scattered")
        # With page 0 on channel 0: side by side, or one after the other.
        assert result == [(200, 0), (200 if channel == 1 else 300, 1)]


def test_a_channel_serves_its_chips_in_turn(engine: str) -> None:
    # Chip 0 has two chunks of page 0, chip 1 has page 1.  Page 0 is loaded first; then it is the turn of chip 1.
    result = done(engine, (read, 0, 0, 400), (read, 0, 0, 400), (read, 0, 1000, 400), chips_per_channel=2)
    assert result == [(140, 0), (180, 2), (220, 1)]


def test_the_bus_carries_whole_reads_one_after_the_other(engine: str) -> None:
    result = play(
        engine,
        (read, 0, 0, 1000),
        (read, 0, 1000, 1000),
        host=Host(cpus=2),
        device=flash(channels=2, bus_ps_per_byte=1000),
    )
    assert times(result, "DEVICE_DONE") == [(1200, 0), (2200, 1)]
    assert result.busy_ns["bus"] == (2000, 1)
    assert result.busy_ns["channels"] == (200, 2)
    assert result.busy_ns["chips"] == (200, 2)


def test_the_bus_carries_one_packet_of_each_read_in_turn(engine: str) -> None:
    # Decoded at 200 and 150.  Read 1 has the bus from 150 to 550 and waits behind read 0, which has it until 950; the
    # last 100 bytes of read 1 until 1050; then read 0 alone, 400 and 200 bytes.
    result = play(
        engine,
        (read, 0, 0, 1000),
        (read, 0, 1000, 500),
        host=Host(cpus=2),
        device=flash(channels=2, bus_ps_per_byte=1000, bus_packet_bytes=400),
    )
    assert times(result, "DEVICE_DONE") == [(1050, 1), (1650, 0)]
    assert result.busy_ns["bus"] == (1500, 1)


def test_each_packet_is_rounded_up_to_nanoseconds(engine: str) -> None:
    assert done(engine, (read, 0, 0, 1000), bus_ps_per_byte=1, bus_packet_bytes=300) == [(204, 0)]
    assert done(engine, (read, 0, 0, 1000), bus_ps_per_byte=1, bus_packet_bytes=5000) == [(201, 0)]
    assert done(engine, (read, 0, 0, 1000), bus_ps_per_byte=1) == [(201, 0)]


def test_the_bus_is_busy_as_long_as_the_run_sees_it(engine: str) -> None:
    # The goal is reached at 250, in the middle of a packet: 200 to 250 counts.
    result = play(
        engine,
        (read, 0, 0, 1000),
        host=Host(cpus=1),
        device=flash(bus_ps_per_byte=1000, bus_packet_bytes=400),
        time_limit_ns=250,
    )
    assert result.busy_ns["bus"] == (50, 1)


def test_the_end_of_a_transfer_is_delivered_early_while_the_channel_stays_busy(engine: str) -> None:
    # 400 bytes in 40 ns, the other 600 in 6 instead of 60; the channel is free at 200 and serves the second read then.
    early = {"fast_after_bytes": 400, "fast_ps_per_byte": 10}
    assert done(engine, (read, 0, 0, 1000), (read, 0, 0, 1000), **early) == [(146, 0), (246, 1)]
    assert done(engine, (read, 0, 0, 300), (read, 0, 0, 300), **early) == [(130, 0), (160, 1)]
    # The decoding begins when the last byte is there; it may be over before the transfer or after it.
    assert done(engine, (read, 0, 0, 1000), **early, decode_ps_per_byte=20) == [(166, 0)]
    assert done(engine, (read, 0, 0, 1000), **early, decode_ps_per_byte=1000, channel_command_ns=5) == [(1151, 0)]


def test_all_of_a_transfer_is_fast_after_0_bytes(engine: str) -> None:
    assert done(engine, (read, 0, 0, 1000), fast_ps_per_byte=10) == [(110, 0)]
    assert done(engine, (read, 0, 0, 1000), fast_after_bytes=400) == [(200, 0)]  # off


@protocol
def read_twice(box: Box, length: int):
    yield device.read(0, length)
    yield device.read(0, length)


def test_a_thread_may_read_again_before_its_first_transfer_is_over(engine: str) -> None:
    # Every chunk is delivered at once, its channel busy for 100 ns: both chunks of a thread are there at a time.
    result = done(engine, *[(read_twice, 1000)] * 3, fast_ps_per_byte=1, channel_ps_per_byte=100)
    assert [time for time, _ in result] == [101, 201, 301, 401, 501, 601]


def test_a_write_is_done_after_its_transfer_and_the_write_time(engine: str) -> None:
    parameters = {"command_ns": 3, "write_bus_ps_per_byte": 100, "write_ns": 20}
    assert done(engine, (write, 0, 0, 1000), (write, 0, 0, 500), **parameters) == [(123, 0), (173, 1)]


def test_a_write_waits_until_the_cache_has_room_for_all_of_it(engine: str) -> None:
    # 1 ns a byte to drain, room for 1500: the second write of 1000 waits until 500 of the first are drained.
    parameters = {"write_cache_bytes": 1500, "drain_ps_per_byte": 1000}
    assert done(engine, (write, 0, 0, 1000), (write, 0, 0, 1000), (write, 0, 0, 200), **parameters) == [
        (0, 0),
        (500, 1),
        (700, 2),
    ]


def test_a_small_write_does_not_overtake_a_large_one_at_the_cache(engine: str) -> None:
    parameters = {"write_cache_bytes": 1500, "drain_ps_per_byte": 1000}
    result = done(engine, (write, 0, 0, 1400), (write, 0, 0, 1500), (write, 0, 0, 1), **parameters)
    assert result == [(0, 0), (1400, 1), (1401, 2)]


def test_a_write_larger_than_the_cache_waits_until_it_is_empty(engine: str) -> None:
    parameters = {"write_cache_bytes": 100, "drain_ps_per_byte": 1000}
    assert done(engine, (write, 0, 0, 1000), (write, 0, 0, 1000), **parameters) == [(0, 0), (1000, 1)]


def test_without_a_drain_rate_the_cache_is_never_full(engine: str) -> None:
    assert done(engine, (write, 0, 0, 1000), (write, 0, 0, 1000)) == [(0, 0), (0, 1)]


def test_the_drain_is_busy_as_long_as_the_run_sees_it(engine: str) -> None:
    drain = {"write_cache_bytes": 10_000, "drain_ps_per_byte": 1000}
    result = play(
        engine, (write, 0, 0, 300), (read, 400, 0, 1000), (write, 500, 0, 900), host=Host(cpus=4), device=flash(**drain)
    )
    # 300 of the first write; of the second, from 500 on, until the read ends at 600.
    assert result.time_ns == 600
    assert result.busy_ns["drain"] == (400, 1)
