"""DMA: one-dimensional copies between regions, or into SHRAM for look-up tables."""

from __future__ import annotations

from harness.npu.featuremap import Memory
from harness.npu.operations import Dma


class DmaStep:
    """Executes one Dma."""

    def __init__(self, op: Dma) -> None:
        self.op = op

    def run(self, memory: Memory) -> None:
        """Copies the bytes."""
        op = self.op
        source = memory[op.source_region][op.source : op.source + op.length]
        memory[op.destination_region][op.destination : op.destination + op.length] = source
