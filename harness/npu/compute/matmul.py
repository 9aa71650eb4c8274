"""MATMUL: a convolution of Ethos-U85 whose weights are a feature map. Sums are exact, as in `convolution`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.compute import output
from ethos_hil.harness.npu.compute.convolution import FLOAT32_EXACT
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, RegionMemory
from ethos_hil.harness.npu.isa.operations import MatMul
from ethos_hil.harness.npu.isa.scaling import FLOAT64_EXACT, scale


class MatMulStep:
    """Executes one MatMul."""

    def __init__(self, op: MatMul) -> None:
        self.op = op
        bound = op.ifm.depth * _largest(op.ifm) * _largest(op.ifm2)
        if bound >= FLOAT64_EXACT:
            raise Fault(
                FailureKind.UNSUPPORTED, op.offset, op.name, "IFM_DEPTH_M1", op.ifm.depth - 1, "sums may exceed 53 bits"
            )
        self._dtype: Any = np.float32 if bound < FLOAT32_EXACT else np.float64
        self._may_overflow = op.start is not None or bound >= 1 << (op.accumulator_bits - 1)

    def run(self, memory: RegionMemory) -> None:
        """Read both inputs and write the OFM."""
        op = self.op
        first, second = (self._centred(source, memory) for source in (op.ifm, op.ifm2))
        sums = np.matmul(first, second[0].T).astype(np.int64)
        if op.start is not None:
            sums += op.start.load(memory)
        if self._may_overflow:
            output.check_accumulators(op, sums)
        if op.ofm.is_accumulators:
            op.ofm.store(memory, sums)
        else:
            op.ofm.store(memory, output.finish(scale(sums, op.scale), op.ofm, op.activation, memory))

    def _centred(self, source: FeatureMap, memory: RegionMemory) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = source.load(memory).astype(self._dtype)
        values -= source.zero_point
        return values


def _largest(source: FeatureMap) -> int:
    """Return the largest magnitude of a difference to the zero point."""
    low, high = source.limits
    return max(abs(low - source.zero_point), abs(high - source.zero_point))
