"""The driver on the virtual board, where that board's own tests do not look: results must come from their own job."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from harness.image import Plan, pack
from harness.targets.virtual import VirtualTarget
from harness.virtual.device import Device, Job, Result
from harness.virtual.engine import Engine
from harness.virtual.tests.programs import NPU, load

RUNS = 3


class LazyEngine(Engine):
    """An NPU that works once, and then only says that it did."""

    last: Result | None = None

    def run(self, job: Job) -> Result:
        if self.last is None:
            self.last = super().run(job)
        else:
            self.executions.append(self.last.execution)
        return self.last


class LazyTarget(VirtualTarget):
    engine = LazyEngine


def test_an_npu_that_writes_nothing_hands_out_no_old_result(firmware: bytes) -> None:
    recorded = load("convolutions")  # its output shares no memory with its input
    target = LazyTarget(NPU)
    target.load(pack(firmware, recorded.pte, [recorded.inputs], Plan(1, len(recorded.inputs), repeat=RUNS)))
    first, *others = target.run(timeout=30).runs
    np.testing.assert_array_equal(first.delegates[0].outputs[0], recorded.delegate_outputs[0])
    assert len(others) == RUNS - 1
    for run in others:
        assert not np.array_equal(run.delegates[0].outputs[0], recorded.delegate_outputs[0])
        assert not np.array_equal(run.outputs[0], recorded.outputs[0])


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
