"""DMA: copies of rows between regions, or into the internal memory for look-up tables.

Established with TOSA: one dimension on every NPU; on Ethos-U85 two and three, and rows that an index picks (GATHER
reads through it, SCATTER writes). A row number outside of the index's bounds is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import Dma, DmaIndex, DmaSide
from ethos_hil.harness.npu.isa.stream import Fault

INDEX_BYTES = 4
CHUNK = 1 << 18  # bytes moved at a time; each takes an address of 8 bytes


class DmaStep:
    """Executes one Dma."""

    def __init__(self, op: Dma) -> None:
        self.op = op
        self.run = self._copy if op.sizes == (1, 1) and op.index is None else self._rows

    def _copy(self, memory: RegionMemory) -> None:
        op = self.op
        source = memory[op.source.region][op.source.base : op.source.base + op.length]
        memory[op.destination.region][op.destination.base : op.destination.base + op.length] = source

    def _rows(self, memory: RegionMemory) -> None:
        """Copy rows in order, after all are read; where two rows have one destination, the later one stays."""
        op = self.op
        inner, outer = op.sizes
        plain: Any = np.broadcast_to(np.arange(inner, dtype=np.int64), (outer, inner))
        chosen = plain if op.index is None else self._numbers(op.index, memory)
        of_source = op.index is not None and op.index.of_source
        source = self._starts(op.source, chosen if of_source else plain)
        destination = self._starts(op.destination, plain if of_source else chosen)
        lanes = np.arange(op.length)
        step = max(1, CHUNK // op.length)
        rows = np.empty((source.size, op.length), np.uint8)
        for at in range(0, source.size, step):
            rows[at : at + step] = memory[op.source.region][source[at : at + step, None] + lanes]
        for at in range(0, source.size, step):
            memory[op.destination.region][destination[at : at + step, None] + lanes] = rows[at : at + step]

    def _starts(self, side: DmaSide, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        outer = np.arange(numbers.shape[0], dtype=np.int64)[:, None]
        return (side.base + outer * side.strides[1] + numbers * side.strides[0]).ravel()

    def _numbers(self, index: DmaIndex, memory: RegionMemory) -> npt.NDArray[np.int64]:
        op = self.op
        inner, outer = op.sizes
        strides = (inner * INDEX_BYTES + index.skip, INDEX_BYTES)
        numbers: npt.NDArray[np.int32] = np.ndarray((outer, inner), "<i4", memory[index.region], index.base, strides)
        for number in (int(numbers.min()), int(numbers.max())):
            if not 0 <= number <= index.maximum:
                message = f"the index picks row {number} beyond it"
                raise Fault.of(op, FailureKind.BUS, "DMA0_IDX_MAX", index.maximum, message)
        return numbers.astype(np.int64)
