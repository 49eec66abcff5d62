"""What a device may not be."""

from __future__ import annotations

import pytest

from fssim.errors import UserError
from fssim.machine.device import FlashDevice
from fssim.profile import convert_machine

FLASH = {"channels": 1, "page_bytes": 4096, "page_load_ns": 1, "channel_ps_per_byte": 100, "bus_ps_per_byte": 0}


def test_the_fast_part_of_a_transfer_must_not_be_slower_than_the_rest() -> None:
    with pytest.raises(ValueError, match=r"^fast_ps_per_byte is 101; it must not exceed channel_ps_per_byte \(100\)$"):
        FlashDevice(**FLASH, fast_ps_per_byte=101)
    assert FlashDevice(**FLASH, fast_ps_per_byte=100).fast_after_bytes == 0


def test_a_profile_with_such_a_device_is_refused_in_one_line() -> None:
    device = {**FLASH, "kind": "flash", "fast_ps_per_byte": 101}
    raw = {"name": "m", "description": "", "source": "", "host": {"cpus": 1}, "device": device}
    with pytest.raises(UserError, match=r"^m\.toml: fast_ps_per_byte is 101; .* channel_ps_per_byte \(100\)") as caught:
        convert_machine(raw, "m.toml")
    assert "\n" not in str(caught.value)
