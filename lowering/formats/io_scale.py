"""What a program says of its integer inputs and outputs: the real numbers that they stand for.

exir's QuantizeInputs and QuantizeOutputs take the conversion at an end of a program away, and leave its numbers as
methods without inputs, each of which answers one: `input0_scale`, `input0_zp`, `output1_quant_min` and so on, behind
the method's name where they are told it (`encode_input0_scale`). Facts: executorch 1.5.1,
exir/passes/quantize_io_pass.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.program_info import element_text
from ethos_hil.lowering.formats.pte_model import FORWARD, ExecutionPlan, Tensor, Value


@dataclass(frozen=True)
class IoScale:
    """How the elements of a tensor stand for real numbers: `scale` times the difference to `zero_point`.

    Attributes:
        scale: the real value of a step.
        zero_point: the element that means 0.
        low, high: the least and the greatest element.
    """

    scale: float
    zero_point: int
    low: int
    high: int

    def quantised(self, values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
        """Return the elements nearest to real numbers, as the conversion does that was taken away
        (quantized_decomposed::quantize_per_tensor, in float32): ties to even, and what is beyond the ends is clipped.
        """
        return np.asarray(self._steps(values).clip(self.low, self.high).astype(dtype))

    def beyond(self, values: np.ndarray) -> int:
        """Return how many real numbers are clipped."""
        steps = self._steps(values)
        return int(np.count_nonzero((steps < self.low) | (steps > self.high)))

    def _steps(self, values: np.ndarray) -> np.ndarray:
        by = np.float32(1.0 / self.scale)
        return np.asarray(np.round(values.astype(np.float32) * by) + np.float32(self.zero_point))

    def real(self, elements: np.ndarray) -> np.ndarray:
        """Return the real numbers that elements stand for, float64."""
        return (elements.astype(np.float64) - self.zero_point) * self.scale

    def __str__(self) -> str:
        return element_text(self.scale, self.zero_point)


IoScales = tuple[IoScale | None, ...]
"""One for each input or output of a method; None where the program does not say it."""


def io_scales(plans: Sequence[ExecutionPlan], plan: ExecutionPlan) -> tuple[IoScales, IoScales]:
    """Return what a program says of the inputs and the outputs of one of its methods.

    Args:
        plans: all methods of the program.
        plan: the method.
    """
    numbers = {other.name: other.number for other in plans if other.number is not None}
    prefixes = (f"{plan.name}_", *([""] if plan.name == FORWARD else []))

    def of(kind: str, indices: Sequence[int]) -> IoScales:
        values = [plan.values[index] for index in indices]
        return tuple(
            _scale(numbers, [f"{prefix}{kind}{at}" for prefix in prefixes], value) for at, value in enumerate(values)
        )

    return of("input", plan.inputs), of("output", plan.outputs)


def _scale(numbers: Mapping[str, int | float], names: Sequence[str], tensor: Value) -> IoScale | None:
    """Return what methods say of a tensor; None where they do not, or say what cannot be."""
    if not isinstance(tensor, Tensor) or tensor.dtype.kind not in "iu":
        return None
    ends = np.iinfo(tensor.dtype)
    for name in names:
        scale, zero = numbers.get(f"{name}_scale"), numbers.get(f"{name}_zp")
        low, high = (numbers.get(f"{name}_quant_{end}", limit) for end, limit in (("min", ends.min), ("max", ends.max)))
        if scale is None or not isinstance(zero, int) or not isinstance(low, int) or not isinstance(high, int):
            continue
        if math.isfinite(scale) and scale > 0 and ends.min <= low < high <= ends.max:
            return IoScale(float(scale), zero, low, high)
    return None
