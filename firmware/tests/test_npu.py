"""The driver on the virtual board, where that board's own tests do not look: results must come from their own job."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from harness.image import Plan, pack
from harness.targets.virtual import VirtualTarget
from harness.virtual.device import Device
from harness.virtual.tests.programs import NPU, load

RUNS = 3


def block(pte: bytes, name: bytes) -> int:
    """Where the data of a block of the only delegate's blob starts."""
    padded = name.ljust(16, b"\0")
    assert pte.count(padded) == 1
    return pte.index(padded) + 32


def put_word(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


def test_what_the_npu_did_not_write_is_no_result(firmware: bytes) -> None:
    """A scratch larger than the NPU uses, and an output where nothing is written: no old or lucky bytes come out."""
    recorded = load("add")
    pte = put_word(recorded.pte, block(recorded.pte, b"scratch_size"), 512)
    pte = put_word(pte, block(pte, b"outputs") + 4 * (1 + 6 + 1), 256)  # after count, sizes and element size: offset
    target = VirtualTarget(NPU)
    target.load(pack(firmware, pte, [recorded.inputs], Plan(1, len(recorded.inputs))))
    (run,) = target.run(timeout=30).runs
    (output,) = run.delegates[0].outputs
    assert set(output.astype(np.uint8).ravel().tolist()) == {0xA5}


@dataclass
class Accesses:
    """What the driver did to the registers, with the write that starts a job marked."""

    log: list[str] = field(default_factory=list)


def test_a_job_costs_few_register_accesses(firmware: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each is a microsecond on a board, and a fraction of a millisecond on a virtual one.
    accesses = Accesses()
    read, write = Device.read, Device.write

    def logged_read(self: Device, offset: int) -> int:
        accesses.log.append(f"r {offset:x}")
        return read(self, offset)

    def logged_write(self: Device, offset: int, value: int) -> None:
        accesses.log.append("run" if (offset, value) == (0x08, 1) else f"w {offset:x}")
        write(self, offset, value)

    monkeypatch.setattr(Device, "read", logged_read)
    monkeypatch.setattr(Device, "write", logged_write)
    recorded = load("add")
    target = VirtualTarget(NPU)
    target.load(pack(firmware, recorded.pte, [recorded.inputs], Plan(1, len(recorded.inputs), repeat=RUNS)))
    target.run(timeout=30)
    starts = [position for position, access in enumerate(accesses.log) if access == "run"]
    assert len(starts) == RUNS
    per_job = {after - before for before, after in pairwise(starts)}
    assert per_job == {16}
    assert starts[0] < 40, "set-up"
