"""The CPU's part of a program, computed on the host exactly as ExecuTorch's portable kernels compute it.

Quantise and dequantise are written out in float32: that equals ExecuTorch's own C++ kernels bit for bit (a test
compares with the ones in the wheel), whereas torch's Python version of quantize_per_tensor multiplies by a
reciprocal rounded differently and differs on values near a rounding boundary. All other operators run in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowering.errors import OracleError
from lowering.plan import KernelCall, Plan, Tensor, ValueList

_INT32 = np.iinfo(np.int32)


class Store:
    """The values of a plan while it runs, in memory laid out as planned.

    Tensors share memory where the plan says so; programs rely on it: a view is compiled to nothing but a second
    tensor at the same place.
    """

    def __init__(self, plan: Plan) -> None:
        self._values = list(plan.values)
        self._memory = [np.zeros(size, np.uint8) for size in plan.planned_sizes]

    def tensor(self, index: int) -> Tensor:
        """The tensor that value `index` is now."""
        value = self._values[index]
        if not isinstance(value, Tensor):
            raise OracleError(f"value {index} is no tensor")
        return value

    def get(self, index: int) -> Any:
        """Value `index`; a tensor as an array in its logical shape, valid until something is written."""
        value = self._values[index]
        if not isinstance(value, Tensor):
            return value
        if value.data is not None:
            return value.from_bytes(value.data)
        return value.from_bytes(self._place(index, value).data)

    def set(self, index: int, array: np.ndarray) -> None:
        """Writes tensor `index`."""
        tensor = self.tensor(index)
        if tensor.data is not None:
            raise OracleError(f"tensor {index} is a constant and cannot be written")
        self._place(index, tensor)[:] = np.frombuffer(tensor.to_bytes(array), np.uint8)

    def move(self, source: int, target: int) -> None:
        """Lets value `target` be value `source`: of a tensor the place, not the contents."""
        self._values[target] = self._values[source]

    def is_true(self, index: int) -> bool:
        """Value `index` as a condition: a bool, or a tensor of bools that are all true."""
        return bool(np.all(self.get(index)))

    def _place(self, index: int, tensor: Tensor) -> np.ndarray:
        if tensor.buffer is None:
            raise OracleError(f"tensor {index} has no memory")
        return self._memory[tensor.buffer][tensor.offset : tensor.offset + tensor.nbytes]


def run_kernel(call: KernelCall, store: Store) -> None:
    """Executes one KernelCall; an OracleError when the operator can't run here."""
    try:
        _KERNELS.get(call.operator, _torch_kernel)(call, store)
    except OracleError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise OracleError(f"operator {call.operator} cannot be computed on the host: {reason}") from error


def _quantise(call: KernelCall, store: Store) -> None:
    values, scale, zero_point, low, high = (store.get(index) for index in call.args[:5])
    out = store.tensor(call.args[-1])
    inverse = np.float32(1) / np.float32(scale)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.rint(values.astype(np.float32) * inverse)
    # The kernel converts to a 32-bit integer before it adds; on a Cortex-M that saturates, and NaN gives 0.
    whole = np.nan_to_num(rounded.astype(np.float64), nan=0.0, posinf=_INT32.max, neginf=_INT32.min)
    steps = np.clip(whole, _INT32.min, _INT32.max).astype(np.int64) + int(zero_point)
    store.set(call.args[-1], np.clip(steps, int(low), int(high)).astype(out.dtype).reshape(out.sizes))


def _dequantise(call: KernelCall, store: Store) -> None:
    values, scale, zero_point = (store.get(index) for index in call.args[:3])
    out = store.tensor(call.args[-1])
    steps = (values.astype(np.int64) - int(zero_point)).astype(np.float32)
    store.set(call.args[-1], (steps * np.float32(scale)).astype(out.dtype).reshape(out.sizes))


def _copy(call: KernelCall, store: Store) -> None:
    """dim_order_ops::_to_dim_order_copy: another element type or memory layout, the same logical values."""
    out = store.tensor(call.args[-1])
    store.set(call.args[-1], store.get(call.args[0]).astype(out.dtype).reshape(out.sizes))


_KERNELS: dict[str, Callable[[KernelCall, Store], None]] = {
    "quantized_decomposed::quantize_per_tensor.out": _quantise,
    "quantized_decomposed::dequantize_per_tensor.out": _dequantise,
    "cortex_m::quantize_per_tensor.out": _quantise,
    "cortex_m::dequantize_per_tensor.out": _dequantise,
    "dim_order_ops::_to_dim_order_copy.out": _copy,
}


def _torch_kernel(call: KernelCall, store: Store) -> None:
    """Any operator torch has under the same name; the last arguments of a call repeat its outputs."""
    import torch

    namespace, _, full_name = call.operator.partition("::")
    name, _, overload = full_name.partition(".")
    try:
        operator = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except AttributeError:
        raise OracleError(f"operator {call.operator} has no host implementation, so there is no reference") from None
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    outputs: list[tuple[int, torch.Tensor]] = []
    for argument, index in zip(operator._schema.arguments, call.args, strict=False):
        if argument.is_out:
            out = store.tensor(index)
            tensor = torch.from_numpy(np.zeros(out.sizes, out.dtype))
            outputs.append((index, tensor))
            keywords[argument.name] = tensor
        elif argument.kwarg_only:
            keywords[argument.name] = _argument(store, index)
        else:
            positional.append(_argument(store, index))
    with torch.no_grad():
        operator(*positional, **keywords)
    for index, tensor in outputs:
        store.set(index, tensor.numpy().reshape(store.tensor(index).sizes))


def _argument(store: Store, index: int) -> Any:
    value = store.get(index)
    if isinstance(value, np.ndarray):
        import torch

        return torch.from_numpy(np.array(value, copy=True, order="C"))
    if isinstance(value, ValueList):
        if value.kind in ("bool", "double"):
            return list(value.items)
        return [_argument(store, int(item)) if int(item) >= 0 else None for item in value.items]
    return value
