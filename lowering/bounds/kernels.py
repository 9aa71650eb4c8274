"""Rules of the operators that are left to the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowering import kernels
from lowering.bounds.memory import Memory
from lowering.bounds.value import FLOAT32_UNIT, Bounded, NoBound, snapped
from lowering.plan import KernelCall, Tensor

QUANTISE = ("quantized_decomposed::quantize_per_tensor.out", "cortex_m::quantize_per_tensor.out")
DEQUANTISE = ("quantized_decomposed::dequantize_per_tensor.out", "cortex_m::dequantize_per_tensor.out")
_SELECTIONS = ("aten::sort.values", "aten::topk.values")
"""Their results are elements of their inputs, and the places of these."""


def run(call: KernelCall, memory: Memory, *, quantised: bool) -> None:
    """Evaluates one.

    Args:
        call: the operator.
        memory: with its inputs, and then with its outputs.
        quantised: whether PyTorch's answer is the quantised module's, which computes in the same precision.

    Raises:
        NoBound: it is not known what the operator makes of errors.
    """
    rule = _RULES.get(call.operator)
    if rule is not None:
        rule(call, memory)
    elif call.operator in kernels.OWN:
        raise NoBound(f"CPU operator {call.operator} is not PyTorch's own here, and has no rule for its error")
    else:
        # PyTorch's own operator, in both answers: the same of the same numbers.
        store = _Store(memory, call.operator, floats=quantised or call.operator in _SELECTIONS)
        kernels.run_kernel(call, store)


class _Store(kernels.Store):
    """What a kernel reads and writes is in the memory that knows the bounds, and must have no error.

    Without `floats` there must be none: PyTorch's answer was computed in another precision.
    """

    def __init__(self, memory: Memory, operator: str, *, floats: bool) -> None:
        super().__init__(memory.plan)
        self._bounds = memory
        self._operator = operator
        self._floats = floats

    def get(self, index: int) -> Any:
        value = self._bounds.plan.values[index]
        if not isinstance(value, Tensor) or value.data is not None:
            return super().get(index)
        x = self._bounds.get(index)
        if value.dtype.kind == "f" and not self._floats:
            raise NoBound(f"CPU operator {self._operator} of floats has no rule for its error")
        if not x.is_exact:
            raise NoBound(f"CPU operator {self._operator} of numbers that may differ has no rule for its error")
        return x.value.astype(value.dtype)

    def set(self, index: int, array: np.ndarray) -> None:
        self._bounds.set(index, Bounded.exact(array))


def _quantise(call: KernelCall, memory: Memory) -> None:
    """As `lowering.kernels` does it, whose reciprocal of the scale may be rounded otherwise than PyTorch's."""
    x, (scale, zero, low, high) = memory.get(call.args[0]), (memory.number(index) for index in call.args[1:5])
    inverse = np.float32(1) / np.float32(scale)
    steps = np.rint(x.value.astype(np.float32) * inverse).astype(float) + zero
    real = x.value / scale
    doubt = x.error / scale + 3 * FLOAT32_UNIT * (np.abs(real) + x.error / scale)
    value = np.clip(steps, low, high).astype(np.int64)
    snap = snapped(value, real, doubt, zero, low, high, memory.rounding)
    # An input that has errors is not the program's own, so that its integer may be on either side of the value.
    memory.set(call.args[-1], Bounded(snap.value, np.where(x.error > 0, 2 * snap.error, snap.error)))


def _dequantise(call: KernelCall, memory: Memory) -> None:
    """The same float32 product as PyTorch's: equal where the integers are, else each rounded for itself."""
    x, (scale, zero) = memory.get(call.args[0]), (memory.number(index) for index in call.args[1:3])
    value = ((x.value - zero).astype(np.float32) * np.float32(scale)).astype(float)
    steps = x.error * float(np.float32(scale))
    memory.set(
        call.args[-1], Bounded(value, np.where(steps > 0, steps + 2 * FLOAT32_UNIT * (np.abs(value) + steps), 0))
    )


def _copy(call: KernelCall, memory: Memory) -> None:
    """Another memory layout, or another type that holds the same numbers."""
    x, out = memory.get(call.args[0]), memory.tensor(call.args[-1])
    with np.errstate(invalid="ignore"):
        value = x.value.astype(out.dtype)
    kept = Bounded.exact(value, scaled=x.scaled)
    if not x.is_exact and not np.array_equal(kept.value, x.value):
        raise NoBound(f"a copy of numbers that may differ to {out.dtype} has no error bound")
    memory.set(call.args[-1], Bounded(kept.value.reshape(out.sizes), x.error.reshape(out.sizes), x.scaled))


_RULES: dict[str, Callable[[KernelCall, Memory], None]] = {
    **dict.fromkeys(QUANTISE, _quantise),
    **dict.fromkeys(DEQUANTISE, _dequantise),
    "dim_order_ops::_to_dim_order_copy.out": _copy,
    "dim_order_ops::_clone_dim_order.out": _copy,
    "aten::clone.out": _copy,
    "aten::view_copy.out": _copy,
    "aten::unsqueeze_copy.out": _copy,
    "aten::squeeze_copy.dims_out": _copy,
}
