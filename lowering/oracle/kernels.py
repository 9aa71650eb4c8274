"""The CPU's part of a program, computed on the host exactly as ExecuTorch's portable kernels compute it.

Quantise and dequantise are written out in float32. That equals ExecuTorch's own C++ kernels bit for bit (a test
compares with the ones in the wheel). Torch's Python version of quantize_per_tensor multiplies by a reciprocal that is
rounded differently, and differs for values near a rounding boundary. Pools, means, batch normalisation and bilinear
interpolation are written out as well, because torch adds in another order and treats NaN and -0.0 differently.
`exact_kernels` has the operators that NumPy computes exactly, `float_kernels` those that are written out operation by
operation, `cortex_m_kernels` those of ExecuTorch's Cortex-M backend; all others run in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ethos_hil.base.errors import OracleError
from ethos_hil.lowering.formats.pte_model import IN_PLACE, ExecutionPlan, KernelCall, Tensor, ValueList
from ethos_hil.lowering.oracle.cortex_m_kernels import CORTEX_M, PAD, pad
from ethos_hil.lowering.oracle.exact_kernels import EXACT, SPLIT, split
from ethos_hil.lowering.oracle.float_kernels import FLOATS, LAYERS, SEVERAL
from ethos_hil.lowering.upstream.names.operators import schema_arguments


class PlanValues:
    """The values of a plan while it runs. Its instructions may change what is a value, and where a tensor is."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self._values = list(plan.values)

    def tensor(self, index: int) -> Tensor:
        """Return the tensor that is value `index` at present."""
        value = self._values[index]
        if not isinstance(value, Tensor):
            raise OracleError(f"value {index} is not a tensor")
        return value

    def restart(self) -> None:
        """Restore the values for another execution. Memory keeps its contents, as it does on a device."""
        self._values = list(self.plan.values)

    def move(self, source: int, target: int) -> None:
        """Make value `target` the same as value `source`; for a tensor the place in memory, not the contents."""
        self._values[target] = self._values[source]


class Store(PlanValues):
    """The values of a plan while it runs, in memory laid out as planned.

    Tensors share memory where the plan says so. Programs rely on it: a view compiles to nothing but a second tensor at
    the same place.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        super().__init__(plan)
        self._memory = [np.zeros(size, np.uint8) for size in plan.planned_sizes]
        # A device gives them memory, too: upstream's exporter of language models plans none for inputs.
        self._unplanned = {
            index: np.zeros(value.nbytes, np.uint8)
            for index in (*plan.inputs, *plan.outputs)
            if isinstance(value := plan.values[index], Tensor) and value.buffer is None and value.data is None
        }
        for index, value in enumerate(plan.values):
            if isinstance(value, Tensor) and value.initial is not None:
                self._place(index, value)[:] = np.frombuffer(value.initial, np.uint8)

    def outputs(self, index: int) -> list[int]:
        """Return the tensors that an output argument names: value `index` itself, or the items of a list."""
        value = self._values[index]
        return [int(item) for item in value.items] if isinstance(value, ValueList) else [index]

    def get(self, index: int) -> Any:
        """Return value `index`; a tensor as an array in its logical shape, valid until the next write."""
        value = self._values[index]
        if not isinstance(value, Tensor):
            return value
        if value.data is not None:
            return value.from_bytes(value.data)
        return value.from_bytes(self._place(index, value).data)

    def set(self, index: int, array: np.ndarray) -> None:
        """Write tensor `index`."""
        tensor = self.tensor(index)
        if tensor.data is not None:
            raise OracleError(f"tensor {index} is a constant and cannot be written")
        self._place(index, tensor)[:] = np.frombuffer(tensor.to_bytes(array), np.uint8)

    def is_true(self, index: int) -> bool:
        """Return value `index` as a condition: a bool, or whether all elements of a tensor of bools are true."""
        return bool(np.all(self.get(index)))

    def _place(self, index: int, tensor: Tensor) -> np.ndarray:
        if tensor.buffer is None:
            if index not in self._unplanned:
                raise OracleError(f"tensor {index} has no memory")
            return self._unplanned[index]
        return self._memory[tensor.buffer][tensor.offset : tensor.offset + tensor.nbytes]


_INT32 = np.iinfo(np.int32)


def run_kernel(call: KernelCall, store: Store) -> None:
    """Execute one KernelCall. Raises OracleError when the operator can't run here."""
    try:
        kernel = _KERNELS.get(call.operator)
        if kernel is not None:
            kernel(call, store)
        elif not _run_ported(call, store):
            run_as_torch(call, store)
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
        steps = np.float32(zero_point) + np.rint(values.astype(np.float32) * inverse)
    # Upstream casts to a 32-bit integer, which is undefined out of range. As on the host, NaN is below all others. The
    # firmware saturates infinities and other values out of range, like the Cortex-M's own conversion.
    whole = np.nan_to_num(steps.astype(np.float64), nan=_INT32.min, posinf=_INT32.max, neginf=_INT32.min)
    store.set(call.args[-1], np.clip(whole, int(low), int(high)).astype(out.dtype).reshape(out.sizes))


def _dequantise(call: KernelCall, store: Store) -> None:
    values, scale, zero_point = (store.get(index) for index in call.args[:3])
    out = store.tensor(call.args[-1])
    steps = (values.astype(np.int64) - int(zero_point)).astype(np.float32)
    store.set(call.args[-1], (steps * np.float32(scale)).astype(out.dtype).reshape(out.sizes))


def _copy(call: KernelCall, store: Store) -> None:
    """Copy the logical values to another element type or memory layout."""
    out = store.tensor(call.args[-1])
    store.set(call.args[-1], store.get(call.args[0]).astype(out.dtype).reshape(out.sizes))


def _copy_in_place(call: KernelCall, store: Store) -> None:
    """Compute aten::copy_, which writes to its first argument."""
    out = store.tensor(call.args[0])
    values = np.broadcast_to(store.get(call.args[1]), out.sizes)
    store.set(call.args[0], values.astype(out.dtype))


def _pair(store: Store, index: int, default: tuple[int, int] = (1, 1)) -> tuple[int, int]:
    """Return the height's and the width's item of a list argument, which may have one item for both, or none."""
    items = [int(store.get(int(item))) for item in store.get(index).items]
    return (items[0], items[-1]) if items else default


def _elements(
    values: np.ndarray,
    windows: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the positions of a kernel, row by row, for all windows ([..., OH, OW]) at once.

    Each item has for each window: the value there, whether that is inside the input, and its index in the channel.
    """
    height, width = values.shape[-2:]
    top = np.arange(windows[-2])[:, None] * stride[0] - padding[0]
    left = np.arange(windows[-1])[None, :] * stride[1] - padding[1]
    for step_y in range(kernel[0]):
        for step_x in range(kernel[1]):
            y, x = top + step_y * dilation[0], left + step_x * dilation[1]
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            yield values[..., y.clip(0, height - 1), x.clip(0, width - 1)], inside, y * width + x


def _average_pool(call: KernelCall, store: Store) -> None:
    """Compute aten::avg_pool2d.out in float32 from the first element on; torch starts with 0.0 and loses -0.0."""
    values, _, _, _, _, include_padding, divisor = (store.get(index) for index in call.args[:7])
    out = store.tensor(call.args[-1])
    kernel, padding = _pair(store, call.args[1]), _pair(store, call.args[3])
    stride = _pair(store, call.args[2], kernel)
    total, started = np.zeros(out.sizes, np.float32), np.zeros(out.sizes, bool)
    with np.errstate(all="ignore"):
        for value, inside, _ in _elements(values, out.sizes, kernel, stride, padding):
            total = np.where(inside, np.where(started, total + value, value), total)
            started |= inside
        if divisor is None:
            heights, widths = (
                _window_sizes(out.sizes[at - 2], values.shape[at - 2], kernel[at], stride[at], border, padding[at])
                for at, border in enumerate(padding if include_padding else (0, 0))
            )
            divisor = heights[:, None] * widths[None, :]
        store.set(call.args[-1], total / np.asarray(divisor).astype(np.float32))


def _window_sizes(windows: int, size: int, kernel: int, stride: int, border: int, padding: int) -> np.ndarray:
    """Return how many positions of each window along one dimension lie in the input or its `border`."""
    begin = np.arange(windows) * stride - padding
    return np.asarray(np.minimum(begin + kernel, size + border) - np.maximum(begin, -border))


def _max_pool(call: KernelCall, store: Store) -> None:
    """Compute aten::max_pool2d_with_indices.out: the first of the largest. Unlike in torch, NaN only wins if first."""
    values = store.get(call.args[0])
    out, indices = call.args[6:8]
    sizes = store.tensor(out).sizes
    kernel, padding, dilation = (_pair(store, call.args[at]) for at in (1, 3, 4))
    stride = _pair(store, call.args[2], kernel)
    best, best_index, started = np.zeros(sizes, values.dtype), np.zeros(sizes, np.int64), np.zeros(sizes, bool)
    for value, inside, index in _elements(values, sizes, kernel, stride, padding, dilation):
        better = inside & (~started | (value > best))
        best, best_index = np.where(better, value, best), np.where(better, index, best_index)
        started |= inside
    store.set(out, best)
    store.set(indices, best_index)


def _sort(call: KernelCall, store: Store) -> None:
    source, dimension, descending = (store.get(index) for index in call.args[:3])
    _write_in_order(source, int(dimension), bool(descending), None, store, call.args[3:5])


def _topk(call: KernelCall, store: Store) -> None:
    source, k, dimension, largest = (store.get(index) for index in call.args[:4])
    _write_in_order(source, int(dimension), bool(largest), int(k), store, call.args[5:7])


def _write_in_order(
    source: np.ndarray, dimension: int, descending: bool, k: int | None, store: Store, outputs: Sequence[int]
) -> None:
    """Write the first values in order, and their indices: equal ones stay in their order, as in the firmware.

    torch leaves open which of equal elements comes first, and its topk takes another one than its sort.
    """
    import torch

    in_order = torch.sort(torch.from_numpy(source), dim=dimension, descending=descending, stable=True)
    for index, tensor in zip(outputs, in_order, strict=True):
        store.set(index, (tensor if k is None else tensor.narrow(dimension, 0, k)).numpy())


def _mean(call: KernelCall, store: Store) -> None:
    """Compute aten::mean.out: a float32 sum, element by element, where torch adds in blocks; then a division."""
    values, dimensions = store.get(call.args[0]), store.get(call.args[1])
    chosen = [int(store.get(int(item))) % values.ndim for item in dimensions.items] if dimensions else []
    reduced = sorted(chosen) or list(range(values.ndim))
    number = int(np.prod([values.shape[axis] for axis in reduced]))
    with np.errstate(all="ignore"):
        sums = np.add.accumulate(np.moveaxis(values, reduced, range(len(reduced))).reshape(number, -1), axis=0)
        # Upstream's sum over the last dimension alone starts with 0.0, which matters where all elements are -0.0.
        total = sums[-1] + np.float32(0) if reduced == [values.ndim - 1] else sums[-1]
        store.set(call.args[-1], (total / np.float32(number)).reshape(store.tensor(call.args[-1]).sizes))


def _remainder(call: KernelCall, store: Store) -> None:
    """Compute aten::remainder of integers: with the sign of the dividend, where torch has the divisor's."""
    values, divisor = (np.asarray(store.get(index)) for index in call.args[:2])
    if store.tensor(call.args[-1]).dtype.kind not in "iu" or not divisor.all():
        run_as_torch(call, store)
    else:
        _write(store, call.args[-1], np.fmod(values.astype(np.int64), divisor.astype(np.int64)))


def _batch_norm(call: KernelCall, store: Store) -> None:
    """Compute aten::_native_batch_norm_legit_no_training.out: the inverse deviation in double, the rest in float32."""
    values, weight, bias, mean, variance, _, epsilon = (store.get(index) for index in call.args[:7])

    def per_channel(items: np.ndarray) -> np.ndarray:
        return items.reshape(-1, *[1] * (values.ndim - 2))

    with np.errstate(all="ignore"):
        scale = (1.0 / np.sqrt(variance.astype(np.float64) + epsilon)).astype(np.float32)
        result = (values - per_channel(mean)) * per_channel(scale)
        if weight is not None:
            result = result * per_channel(weight)
        # Without a bias upstream adds 0.0, which turns -0.0 to 0.0.
        result = result + (np.float32(0) if bias is None else per_channel(bias))
    store.set(call.args[7], result)


def _bilinear(call: KernelCall, store: Store) -> None:
    """Compute aten::upsample_bilinear2d.vec_out in float32: two rows, each between two columns, then between them."""
    values, _, corners, factors = (_plain(store, index) for index in call.args[:4])
    if values.dtype != np.float32:
        _torch_kernel(call, store)
        return
    out = store.tensor(call.args[-1])
    rows, columns = (
        _interpolation(values.shape[axis], out.sizes[axis], factor, corners=corners)
        for axis, factor in zip((2, 3), factors or (None, None), strict=True)
    )
    with np.errstate(all="ignore"):
        top, bottom = (
            values[:, :, row[:, None], columns.first] * columns.first_weight
            + values[:, :, row[:, None], columns.second] * columns.second_weight
            for row in (rows.first, rows.second)
        )
        store.set(call.args[-1], top * rows.first_weight[:, None] + bottom * rows.second_weight[:, None])


class _Interpolation(NamedTuple):
    """For each output position of an axis: its two neighbours in the input, and the weight of each."""

    first: np.ndarray
    second: np.ndarray
    first_weight: np.ndarray
    second_weight: np.ndarray


def _interpolation(size: int, count: int, factor: float | None, *, corners: bool) -> _Interpolation:
    """Return how `size` elements are stretched to `count`, by `factor` if it is given.

    With `corners`, the first and last element keep their positions.
    """
    at = np.arange(count, dtype=np.float32)
    if size == count:
        same = np.arange(count)
        return _Interpolation(same, same, np.ones_like(at), np.zeros_like(at))
    if corners:
        position = at * np.float32((size - 1) / (count - 1) if count > 1 else 0)
    else:
        scale = np.float32(1 / (factor if factor is not None else count / size))
        position = np.maximum(scale * (at + np.float32(0.5)) - np.float32(0.5), np.float32(0))
    first = np.floor(position).astype(np.int64).clip(0, size - 1)
    weight = (position - first.astype(np.float32)).clip(0, 1)
    return _Interpolation(first, (first + 1).clip(0, size - 1), np.float32(1) - weight, weight)


def _pad_cortex_m(call: KernelCall, store: Store) -> None:
    """Compute cortex_m::pad.out; where an image's sizes allow it, upstream's kernel takes it for channels_last."""
    image = store.tensor(call.args[0])
    last = len(image.sizes) == 4 and (
        image.sizes[1] == 1 or image.sizes[2:] == (1, 1) or tuple(image.dim_order) == (0, 2, 3, 1)
    )
    _write(store, call.args[-1], pad(*(_plain(store, index) for index in call.args[:4]), channels_last=last))


_KERNELS: dict[str, Callable[[KernelCall, Store], None]] = {
    "quantized_decomposed::quantize_per_tensor.out": _quantise,
    "quantized_decomposed::dequantize_per_tensor.out": _dequantise,
    "cortex_m::quantize_per_tensor.out": _quantise,
    "cortex_m::dequantize_per_tensor.out": _dequantise,
    "dim_order_ops::_to_dim_order_copy.out": _copy,
    "dim_order_ops::_clone_dim_order.out": _copy,
    IN_PLACE: _copy_in_place,
    "aten::avg_pool2d.out": _average_pool,
    "aten::mean.out": _mean,
    "aten::max_pool2d_with_indices.out": _max_pool,
    "aten::remainder.Scalar_out": _remainder,
    "aten::remainder.Tensor_out": _remainder,
    "aten::sort.values": _sort,
    "aten::topk.values": _topk,
    "aten::_native_batch_norm_legit_no_training.out": _batch_norm,
    "aten::upsample_bilinear2d.vec_out": _bilinear,
    PAD: _pad_cortex_m,
}


def run_as_torch(call: KernelCall, store: Store) -> None:
    """Execute one KernelCall as PyTorch does, even where it is written out here."""
    if not _run_exact(call, store):
        _torch_kernel(call, store)


def _run_exact(call: KernelCall, store: Store) -> bool:
    """Run an operator of `exact_kernels` or `cortex_m_kernels`. Return false if it is not one, or declines."""
    if call.operator == SPLIT:
        parts = split(*(_plain(store, index) for index in call.args[:-2]))
        for index, part in zip(store.outputs(call.args[-1]), parts, strict=True):
            _write(store, index, part)
        return True
    kernel = EXACT.get(call.operator) or CORTEX_M.get(call.operator)
    # The last two arguments are the output, once for the operator and once for its caller.
    with np.errstate(all="ignore"):
        result = kernel(*(_plain(store, index) for index in call.args[:-2])) if kernel is not None else None
    if result is None:
        return False
    _write(store, call.args[-1], result)
    return True


def _run_ported(call: KernelCall, store: Store) -> bool:
    """Run an operator of `float_kernels`. Return false if it is not one, or declines its arguments."""
    several = SEVERAL.get(call.operator)
    if several is not None:
        outputs = store.outputs(call.args[-1])
        results = several(*(_plain(store, index) for index in call.args[: -1 - len(outputs)]))
        for index, result in zip(outputs, results or (), strict=False):
            if np.prod(store.tensor(index).sizes):  # statistics that no one asks for are empty
                _write(store, index, result)
        return results is not None
    kernel = FLOATS.get(call.operator) or LAYERS.get(call.operator)
    answer = kernel(*(_plain(store, index) for index in call.args[:-2])) if kernel is not None else None
    if answer is not None:
        _write(store, call.args[-1], answer)
    return answer is not None


def _write(store: Store, index: int, result: Any) -> None:
    out = store.tensor(index)
    with np.errstate(all="ignore"):  # a float that float16 cannot hold
        store.set(index, np.asarray(result).astype(out.dtype, copy=False).reshape(out.sizes))


def _plain(store: Store, index: int) -> Any:
    """Return a value; a list as a list of its values."""
    value = store.get(index)
    if not isinstance(value, ValueList):
        return value
    if value.kind in ("bool", "double"):
        return list(value.items)
    return [_plain(store, int(item)) if int(item) >= 0 else None for item in value.items]


def _torch_kernel(call: KernelCall, store: Store) -> None:
    """Run any operator that torch has under the same name. The last arguments of a call repeat its outputs."""
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
    for argument, index in zip(schema_arguments(operator), call.args, strict=False):
        if argument.is_out:
            places = store.outputs(index)
            tensors = [torch.from_numpy(np.zeros(store.tensor(at).sizes, store.tensor(at).dtype)) for at in places]
            outputs += zip(places, tensors, strict=True)
            keywords[argument.name] = tensors[0] if places == [index] else tensors
        elif argument.kwarg_only:
            keywords[argument.name] = _argument(_plain(store, index))
        else:
            positional.append(_argument(_plain(store, index)))
    with torch.no_grad():
        operator(*positional, **keywords)
    for index, tensor in outputs:
        store.set(index, tensor.numpy().reshape(store.tensor(index).sizes))


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        import torch

        return torch.from_numpy(np.array(value, copy=True, order="C"))
    return [_argument(item) for item in value] if isinstance(value, list) else value
