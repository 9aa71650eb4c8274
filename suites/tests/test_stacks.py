"""Ordinary networks, end to end on the virtual Corstone-300: every one verified bit for bit, at every size of NPU."""

from __future__ import annotations

import pytest

from harness.run import run
from lowering.model import from_module
from lowering.profile import Npu
from suites.models.stacks import STACKS

SEEDS = (0, 1, 2)
SIZES = (32, 64, 128, 256)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", STACKS)
def test_stack_is_verified(name: str, seed: int) -> None:
    """Each network meets three of the four sizes; over the networks, each size meets all kinds of layers."""
    macs = SIZES[(list(STACKS).index(name) + seed) % len(SIZES)]
    source = from_module(*STACKS[name].example(seed), label=f"{name}-{seed}")
    report = run(source, Npu.parse(f"ethos-u55-{macs}"))
    assert report.record.verdict == "verified", report.record.failure
    assert report.record.ops
    assert sum(op.cycles or 0 for op in report.record.ops) == report.record.metric("npu_cycles").value  # type: ignore[union-attr]
