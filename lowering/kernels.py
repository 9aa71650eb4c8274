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

Store = list[Any]
"""The values of a plan as they are now: arrays in logical shape for tensors, else the plan's own value."""

_INT32 = np.iinfo(np.int32)


def run_kernel(plan: Plan, call: KernelCall, store: Store) -> None:
    """Executes one KernelCall, writing its outputs into `store`; an OracleError when the operator can't run here."""
    kernel = _KERNELS.get(call.operator, _torch_kernel)
    try:
        kernel(plan, call, store)
    except OracleError:
        raise
    except Exception as error:
        raise OracleError(
            f"operator {call.operator} cannot be computed on the host: {type(error).__name__}: {error}".split("\n")[0]
        ) from error


def _quantise(plan: Plan, call: KernelCall, store: Store) -> None:
    values, scale, zero_point, low, high = (store[index] for index in call.args[:5])
    out = plan.tensor(call.args[-1])
    inverse = np.float32(1) / np.float32(scale)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.rint(values.astype(np.float32) * inverse)
    # The kernel converts to a 32-bit integer before it adds; out of range saturates and NaN is 0 on a Cortex-M.
    whole = np.nan_to_num(rounded.astype(np.float64), nan=0.0, posinf=_INT32.max, neginf=_INT32.min)
    steps = np.clip(whole, _INT32.min, _INT32.max).astype(np.int64) + int(zero_point)
    store[call.args[-1]] = np.clip(steps, int(low), int(high)).astype(out.dtype).reshape(out.sizes)


def _dequantise(plan: Plan, call: KernelCall, store: Store) -> None:
    values, scale, zero_point = (store[index] for index in call.args[:3])
    out = plan.tensor(call.args[-1])
    steps = (values.astype(np.int64) - int(zero_point)).astype(np.float32)
    store[call.args[-1]] = (steps * np.float32(scale)).astype(out.dtype).reshape(out.sizes)


def _copy(plan: Plan, call: KernelCall, store: Store) -> None:
    """dim_order_ops::_to_dim_order_copy: another element type or memory layout, the same logical values."""
    out = plan.tensor(call.args[-1])
    store[call.args[-1]] = store[call.args[0]].astype(out.dtype).reshape(out.sizes)


_KERNELS: dict[str, Callable[[Plan, KernelCall, Store], None]] = {
    "quantized_decomposed::quantize_per_tensor.out": _quantise,
    "quantized_decomposed::dequantize_per_tensor.out": _dequantise,
    "cortex_m::quantize_per_tensor.out": _quantise,
    "cortex_m::dequantize_per_tensor.out": _dequantise,
    "dim_order_ops::_to_dim_order_copy.out": _copy,
}


def _torch_kernel(plan: Plan, call: KernelCall, store: Store) -> None:
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
            out = plan.tensor(index)
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
        store[index] = tensor.numpy().reshape(plan.tensor(index).sizes)


def _argument(store: Store, index: int) -> Any:
    value = store[index]
    if isinstance(value, np.ndarray):
        import torch

        return torch.from_numpy(np.array(value, copy=True, order="C"))
    if isinstance(value, ValueList):
        if value.kind in ("bool", "double"):
            return list(value.items)
        return [_argument(store, int(item)) if int(item) >= 0 else None for item in value.items]
    return value


def initial_values(plan: Plan) -> Store:
    """A fresh store: constants are there, other tensors are None until something writes them."""
    return [_initial(value) for value in plan.values]


def _initial(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.from_bytes(value.data) if value.data is not None else None


def is_true(value: Any) -> bool:
    """The condition of a JumpFalseCall: a bool, or a tensor of bools that are all true."""
    return bool(np.all(value)) if isinstance(value, np.ndarray) else bool(value)
