"""Rules of the operators that are left to the CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ethos_hil.lowering.formats.pte_model import IN_PLACE, ExecutionPlan, KernelCall, Tensor
from ethos_hil.lowering.oracle import kernels
from ethos_hil.lowering.oracle.bounds.value import FLOAT32_UNIT, Bounded, NoBound, RoundingPolicy, of_constant, snap
from ethos_hil.lowering.oracle.kernels import PlanValues, Store

QUANTISE = ("quantized_decomposed::quantize_per_tensor.out", "cortex_m::quantize_per_tensor.out")
DEQUANTISE = ("quantized_decomposed::dequantize_per_tensor.out", "cortex_m::dequantize_per_tensor.out")


def run(call: KernelCall, memory: PlanMemory, *, quantised: bool) -> None:
    """Evaluate one operator with bounds.

    Args:
        call: the operator.
        memory: holds its inputs, and receives its outputs.
        quantised: whether PyTorch's answer is the quantised module's, which computes in float32; otherwise it is in
            float64.

    Raises:
        NoBound: the operator's effect on errors is not known.
    """
    rule = _RULES.get(call.operator)
    if rule is not None:
        rule(call, memory)
        return
    if call.operator.startswith("cortex_m::quantized") or call.operator == "cortex_m::softmax.out":
        raise NoBound("how far integers of the Cortex-M backend are from PyTorch's floats is not known")
    # No rule is needed where PyTorch's own inputs are known: the operator is computed for both answers.
    program, pytorch = (_Store(memory, call.operator, mine, double=not (mine or quantised)) for mine in (True, False))
    kernels.run_kernel(call, program)
    kernels.run_as_torch(call, pytorch)
    for index, array in program.written.items():
        other = pytorch.written[index]
        memory.set(
            index, Bounded.of_two_answers(array, other) if memory.rounding.random is None else Bounded.exact(other)
        )


class _Store(Store):
    """The values of one of the two answers. It keeps the tensors that are written."""

    def __init__(self, memory: PlanMemory, operator: str, mine: bool, *, double: bool) -> None:
        super().__init__(memory.plan)
        self._bounds = memory
        self._operator = operator
        self._mine = mine
        self._double = double
        self.written: dict[int, np.ndarray] = {}

    def tensor(self, index: int) -> Tensor:
        tensor = super().tensor(index)
        wider = self._double and tensor.scalar_type == "FLOAT"
        return dataclasses.replace(tensor, scalar_type="DOUBLE") if wider else tensor

    def get(self, index: int) -> Any:
        value = self._bounds.plan.values[index]
        if not isinstance(value, Tensor):
            return super().get(index)
        if index in self.written:
            return self.written[index]
        dtype = self.tensor(index).dtype
        if value.data is not None:
            return value.from_bytes(value.data).astype(dtype)
        x = self._bounds.get(index)
        array = x.pytorch_value
        if array is None:
            raise NoBound(f"CPU operator {self._operator} of numbers that may differ has no rule for its error")
        return (x.value if self._mine else array).astype(dtype)

    def set(self, index: int, array: np.ndarray) -> None:
        self.written[index] = np.array(array)


def _quantise(call: KernelCall, memory: PlanMemory) -> None:
    """Bound QUANTISE. `lowering.oracle.kernels` may round the reciprocal of the scale differently from PyTorch."""
    x, (scale, zero, low, high) = memory.get(call.args[0]), (memory.number(index) for index in call.args[1:5])
    value = _steps(x.value, np.float32(1) / np.float32(scale), zero, low, high)
    if x.pytorch_value is not None and memory.rounding.random is None:
        pytorch = _steps(x.pytorch_value, np.float32(1.0 / scale), zero, low, high)
        memory.set(call.args[-1], Bounded.of_two_answers(value, pytorch))
        return
    real = x.value / scale
    doubt = x.error / scale + 3 * FLOAT32_UNIT * (np.abs(real) + x.error / scale)
    result = snap(value, real, doubt, zero, low, high, memory.rounding)
    # An input with errors is not the program's own, so its integer may lie on either side of the value.
    memory.set(call.args[-1], Bounded(result.value, np.where(x.error > 0, 2 * result.error, result.error)))


def _steps(values: np.ndarray, inverse: np.float32, zero: int, low: int, high: int) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.rint(values.astype(np.float32) * inverse).astype(float) + zero
    return np.clip(np.nan_to_num(steps, nan=low), low, high).astype(np.int64)


def _dequantise(call: KernelCall, memory: PlanMemory) -> None:
    """Bound DEQUANTISE: PyTorch's product in float32, equal where the integers are, else rounded in each answer."""
    x, (scale, zero) = memory.get(call.args[0]), (memory.number(index) for index in call.args[1:3])

    def product(integers: np.ndarray) -> np.ndarray:
        return ((integers - zero).astype(np.float32) * np.float32(scale)).astype(float)

    value = product(x.value)
    if x.pytorch is not None:
        memory.set(call.args[-1], Bounded.of_two_answers(value, product(x.pytorch)))
        return
    steps = x.error * float(np.float32(scale))
    error = np.where(steps > 0, steps + 2 * FLOAT32_UNIT * (np.abs(value) + steps), 0)
    memory.set(call.args[-1], Bounded(value, error))


def _copy(call: KernelCall, memory: PlanMemory) -> None:
    """Bound a copy to another memory layout, shape, or type."""
    x, out = memory.get(call.args[0]), memory.tensor(call.args[-1])
    x = rearrange(x, lambda array: array.reshape(out.sizes))
    kinds = x.value.dtype.kind + out.dtype.kind
    if kinds in ("ff", "ii", "bb"):
        memory.set(call.args[-1], x)
    elif x.pytorch_value is not None:
        with np.errstate(invalid="ignore"):
            memory.set(
                call.args[-1],
                Bounded.of_two_answers(*(array.astype(out.dtype) for array in (x.value, x.pytorch_value))),
            )
    elif out.dtype.kind != "f":
        raise NoBound(f"a copy of numbers that may differ to {out.dtype} has no error bound")
    else:
        memory.set(call.args[-1], Bounded(x.value.astype(float), x.error + 2 * FLOAT32_UNIT * np.abs(x.value)))


def _copy_in_place(call: KernelCall, memory: PlanMemory) -> None:
    """Bound a write to a tensor that the program keeps."""
    out, x = memory.tensor(call.args[0]), memory.get(call.args[1])
    if x.value.shape != out.sizes or x.value.dtype.kind != out.dtype.kind:
        raise NoBound(f"a copy of {list(x.value.shape)} into a {out} has no error bound")
    memory.set(call.args[0], x)


_RULES: dict[str, Callable[[KernelCall, PlanMemory], None]] = {
    **dict.fromkeys(QUANTISE, _quantise),
    **dict.fromkeys(DEQUANTISE, _dequantise),
    IN_PLACE: _copy_in_place,
    "dim_order_ops::_to_dim_order_copy.out": _copy,
    "dim_order_ops::_clone_dim_order.out": _copy,
    "aten::clone.out": _copy,
    "aten::view_copy.out": _copy,
    "aten::unsqueeze_copy.out": _copy,
    "aten::squeeze_copy.dims_out": _copy,
}


class PlanMemory(PlanValues):
    """The tensors of a plan. Tensors at the same place are one tensor, in another shape (`oracle.kernels.Store`)."""

    def __init__(self, plan: ExecutionPlan, rounding: RoundingPolicy) -> None:
        super().__init__(plan)
        self.rounding = rounding
        self._places: dict[tuple[int | None, int], Bounded] = {}

    def number(self, index: int) -> Any:
        """Return value `index`, which is not a tensor."""
        return self._values[index]

    def get(self, index: int) -> Bounded:
        """Return tensor `index` in its logical shape."""
        tensor = self.tensor(index)
        if tensor.data is not None:
            return of_constant(
                tensor.from_bytes(tensor.data), "FP32" if tensor.scalar_type == "FLOAT" else "", self.rounding
            )
        place = (tensor.buffer, tensor.offset)
        if index in self.plan.state and place not in self._places:
            start = bytes(tensor.nbytes) if tensor.initial is None else tensor.initial
            self.set(index, Bounded.exact(tensor.from_bytes(start)))  # as the program starts
        kept = self._places.get(place)
        if kept is None or kept.value.size != np.prod(tensor.sizes, dtype=int):
            raise NoBound(f"tensor {index}, a {tensor}, is read in parts that were written otherwise")
        return rearrange(kept, tensor.in_logical_shape)

    def set(self, index: int, value: Bounded) -> None:
        """Write tensor `index`, given in its logical shape."""
        tensor = self.tensor(index)
        self._places[tensor.buffer, tensor.offset] = rearrange(value, lambda array: array.transpose(tensor.dim_order))


def rearrange(x: Bounded, move: Callable[[np.ndarray], np.ndarray]) -> Bounded:
    """Return values and errors after the same movement."""
    return Bounded(move(x.value), move(x.error), x.scaled, None if x.pytorch is None else move(x.pytorch))
