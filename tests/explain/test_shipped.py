"""Every filesystem that is shipped can be explained in one cell of each pattern that it describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fssim.explain.cell import Cell
from fssim.explain.explanation import explain
from fssim.explain.output import as_plain
from fssim.explain.terminal import print_explanation
from fssim.filesystem import filesystems, load_filesystem
from fssim.machine.device import FlashDevice
from fssim.profile import Machine
from fssim.resources import models
from fssim.workload import sysbench
from tests.explain.filesystems import machine

FLASH = FlashDevice(
    channels=4,
    page_bytes=8192,
    page_load_ns=20_000,
    channel_ps_per_byte=20_000,
    bus_ps_per_byte=1_500,
    write_command_ns=500,
    write_bus_ps_per_byte=500,
    write_polled=True,
)


@pytest.fixture(scope="module")
def on() -> Machine:
    """A machine on which every code path that any model names costs the same, whatever names there are."""
    files = [*models("filesystems").glob("*.py"), Path(sysbench.__file__)]
    texts = [file.read_text(encoding="utf-8") for file in files]
    names = {name for text in texts for name in re.findall(r"\bpath\.(\w+)", text)}
    settings = {"wakeup_ns": 3_000, "interrupt_ns": 2_000, "switch_ns": 500, "mutex": "barging"}
    return machine(FLASH, path_ns={**dict.fromkeys(names, 400), "jiffy": 200_000}, **settings)


@pytest.mark.parametrize("pattern", ["seqrd", "seqwr"])
@pytest.mark.parametrize("name", filesystems())
def test_every_filesystem_is_explained(
    name: str, pattern: str, on: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    filesystem = load_filesystem(name)
    if pattern == "seqwr" and filesystem.write is None:
        pytest.skip("describes reads only")
    found = explain(Cell(filesystem, on, pattern, 4096, 4, 2**20, 1, 64))
    assert found.run.iops > 0
    assert as_plain(found)["runs"]["one_thread"]["iops"] > 0
    print_explanation(found)
    printed = capsys.readouterr().out
    assert "Bottleneck" in printed
    assert max(map(len, printed.splitlines())) <= 100
