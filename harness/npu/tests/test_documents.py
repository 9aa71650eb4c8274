"""Protects docs/npu.md and its data: no kind of operation that the decoder knows is missing from their tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu.isa.operations import ResizeMode
from ethos_hil.harness.npu.isa.registers import ElementwiseMode, PoolMode
from ethos_hil.harness.npu.isa.scaling import Rounding

DOCUMENTS = Path(__file__).resolve().parents[3] / "docs"
DOCUMENT = (DOCUMENTS / "npu.md").read_text()
COVERED = json.loads((DOCUMENTS / "data" / "npu-coverage.json").read_text())["operations"]
KINDS = [
    *(f"ELEMENTWISE {mode.name}" for mode in ElementwiseMode if mode is not ElementwiseMode.LRELU),
    *(f"POOL {mode.name}" for mode in PoolMode if mode is not PoolMode.ARGMAX_Y),
    *(f"RESIZE {mode.name}" for mode in ResizeMode),
    *("CONV", "DEPTHWISE", "MATMUL", "DMA", "LRELU", "ARGMAX_Y"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_operation_is_documented(kind: str) -> None:
    """In the table of what conformance programs exercise, or among what no program reaches."""
    assert kind in COVERED or kind in DOCUMENT


def test_every_rounding_and_configuration_is_documented() -> None:
    for rounding in Rounding:
        assert f"| {rounding.name} |" in DOCUMENT
    for configuration in EthosU.all():
        generation, size = configuration.name.removeprefix("ethos-").upper().split("-")
        row = next(line for line in DOCUMENT.splitlines() if f"| {generation}-" in line)
        assert f"-{size}" in row
