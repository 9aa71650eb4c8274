"""A builder of small TOSA graphs, operator by operator. It takes a millisecond; lowering from PyTorch takes seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import tosa_serializer as ts

Array = npt.NDArray[Any]
Scale = float | Sequence[tuple[int, int]]

# The types of elements, and the NumPy types in which the serializer takes constants of them.
_TYPES = {
    "bool": (ts.DType.BOOL, np.bool_), "int4": (ts.DType.INT4, np.int8), "int8": (ts.DType.INT8, np.int8),
    "int16": (ts.DType.INT16, np.int16), "int32": (ts.DType.INT32, np.int32), "int48": (ts.DType.INT48, np.int64),
    "float32": (ts.DType.FP32, np.float32),
}  # fmt: skip
DTYPES = {name: dtype for name, (dtype, _) in _TYPES.items()}


@dataclass(frozen=True)
class Value:
    """A tensor of a graph being built."""

    name: str
    shape: tuple[int, ...]
    dtype: str


Pair = tuple[int, int]
"""Rows first."""
Pads = Sequence[int]
Held = Array | Value
"""What a constant or another operator gives."""
Body = Callable[..., Value | Sequence[Value]]
"""Of a branch or loop: it gets its arguments as values, and returns its results."""
COMPARISONS = ("EQUAL", "GREATER", "GREATER_EQUAL")
NO_PADDING = (0, 0, 0, 0)
_NAN = ts.NanPropagationMode.PROPAGATE
_KINDS = {"INTDIV": "IntDiv", "MATMUL": "MatMul", "ARGMAX": "ArgMax"}  # of attributes, where they differ from the name
ACCUMULATORS = {"int8": "int32", "int16": "int48", "float32": "float32"}


class Kernel(TypedDict, total=False):
    """What a convolution may be told beside its operands."""

    zero: int
    pad: Pads
    stride: Pair
    dilation: Pair
    weight_type: str
    weight_zero: int


class Graph:
    """A TOSA-1.0 graph under construction; each operator's method returns its output.

    It has every operator that ExecuTorch 1.4.1's Arm backend emits (backends/arm/operators), of integers and float32,
    and nothing of TOSA's block-scaled profiles. Shapes of elementwise operators broadcast where a dimension is one.
    Of operators that read a window of the input, `pad` is top, bottom, left, right; (y, x) pairs have rows first.
    """

    def __init__(self) -> None:
        self._serializer = ts.TosaSerializer("", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False)
        self._count = 0
        self._bodies: list[tuple[str, Callable[[], None]]] = []
        self.inputs: list[Value] = []

    def input(self, shape: Sequence[int], dtype: str = "int8") -> Value:
        value = self._argument(shape, dtype)
        self.inputs.append(value)
        return value

    def output(self, *values: Value) -> Self:
        block = self._serializer.currRegion.currBasicBlock
        for value in values:
            block.addOutput(value.name)
        return self

    def serialize(self) -> bytes:
        """Return the graph as a TOSA flatbuffer. Nothing can be added after that."""
        while self._bodies:  # a body may have bodies of its own
            name, build = self._bodies.pop(0)
            self._serializer.startRegion(name)
            self._serializer.currRegion.addBasicBlock(name)
            build()
        return bytes(self._serializer.serialize())

    def const(self, values: Any, dtype: str) -> Value:
        array = np.asarray(values)
        value = self._named(array.shape, dtype)
        self._serializer.addConst(list(array.shape), DTYPES[dtype], array.astype(_TYPES[dtype][1]), name=value.name)
        return value

    def rescale(
        self,
        source: Value,
        scale: Scale,
        *,
        zero_in: int = 0,
        zero_out: int = 0,
        dtype: str = "int8",
        double_round: bool = False,
        unsigned: tuple[bool, bool] = (False, False),
    ) -> Value:
        """Add RESCALE, by a factor or by (multiplier, shift) pairs (more than one: per channel).

        Multipliers have 31 bits, or 15 where the source is int48. It rounds once unless `double_round`; `unsigned` says
        whether input and output are unsigned.
        """
        bits = 15 if source.dtype == "int48" else 31
        pairs = [multiplier_shift(scale, bits)] if isinstance(scale, float) else list(scale)
        inputs = [
            source,
            self.const([m for m, _ in pairs], "int16" if bits == 15 else "int32"),
            self.const([s for _, s in pairs], "int8"),
            self.const([zero_in], source.dtype),
            self.const([zero_out], dtype),
        ]
        rounding = ts.RoundingMode.DOUBLE_ROUND if double_round else ts.RoundingMode.SINGLE_ROUND
        attributes = (bits == 31, rounding, len(pairs) > 1, *unsigned)
        return self._op("RESCALE", inputs, source.shape, dtype, *attributes)

    def binary(self, name: str, first: Value, second: Value, *, shift: int = 0) -> Value:
        """Add an operator on two values, by its TOSA name.

        "ARITHMETIC_RIGHT_SHIFT_ROUND" is ARITHMETIC_RIGHT_SHIFT with rounding; `shift` is that of MUL, whose result is
        int32 where the operands are integers; comparisons give bool.
        """
        inputs = [first, second]
        attributes: list[Any] = [_NAN] if name in ("MINIMUM", "MAXIMUM") else []
        if name.startswith("ARITHMETIC_RIGHT_SHIFT"):
            attributes, name = [name.endswith("ROUND")], "ARITHMETIC_RIGHT_SHIFT"
        dtype = "bool" if name in COMPARISONS else first.dtype
        if name == "MUL":
            inputs.append(self.const([shift], "int8"))
            dtype = dtype if dtype == "float32" else "int32"
        shape = tuple(max(a, b) for a, b in zip(first.shape, second.shape, strict=True))
        return self._op(name, inputs, shape, dtype, *attributes)

    def unary(self, name: str, source: Value) -> Value:
        """Add an operator on one value that has no attributes, by its TOSA name."""
        return self._op(name, [source], source.shape, source.dtype)

    def negate(self, source: Value, zeros: Pair = (0, 0)) -> Value:
        inputs = [source, *(self.const([zero], source.dtype) for zero in zeros)]
        return self._op("NEGATE", inputs, source.shape, source.dtype)

    def cast(self, source: Value, dtype: str) -> Value:
        return self._op("CAST", [source], source.shape, dtype)

    def select(self, condition: Value, first: Value, second: Value) -> Value:
        """Add SELECT: the first value where the condition holds, else the second."""
        shape = tuple(max(extents) for extents in zip(condition.shape, first.shape, second.shape, strict=True))
        return self._op("SELECT", [condition, first, second], shape, first.dtype)

    def table(self, source: Value, entries: Array) -> Value:
        """Add TABLE: 256 int8 entries for int8, 513 int16 entries for int16 (int32 result)."""
        dtype = "int8" if source.dtype == "int8" else "int32"
        return self._op("TABLE", [source, self.const(entries, source.dtype)], source.shape, dtype)

    def clamp(self, source: Value, low: float, high: float) -> Value:
        ends = (list(np.array(end, source.dtype).tobytes()) for end in (low, high))
        return self._op("CLAMP", [source], source.shape, source.dtype, *ends, _NAN)

    def reduce(self, name: str, source: Value, axis: int) -> Value:
        """Add a reduction by the last word of its name: SUM, PRODUCT (int32), MAX, MIN, ALL or ANY (bool).

        The axis stays, with size 1.
        """
        modes = (_NAN,) if name in ("MAX", "MIN") else ()
        shape = tuple(1 if i == axis else n for i, n in enumerate(source.shape))
        return self._op(f"REDUCE_{name}", [source], shape, source.dtype, axis, *modes)

    def argmax(self, source: Value, axis: int) -> Value:
        """Add ARGMAX; the result is int32, without the axis."""
        return self._op("ARGMAX", [source], source.shape[:axis] + source.shape[axis + 1 :], "int32", axis, _NAN)

    def transpose(self, source: Value, axes: Sequence[int]) -> Value:
        return self._op("TRANSPOSE", [source], [source.shape[axis] for axis in axes], source.dtype, list(axes))

    def reverse(self, source: Value, axis: int) -> Value:
        return self._op("REVERSE", [source], source.shape, source.dtype, axis)

    def reshape(self, source: Value, shape: Sequence[int]) -> Value:
        return self._op("RESHAPE", [source, self._shape(shape)], shape, source.dtype)

    def tile(self, source: Value, multiples: Sequence[int]) -> Value:
        shape = [n * times for n, times in zip(source.shape, multiples, strict=True)]
        return self._op("TILE", [source, self._shape(multiples)], shape, source.dtype)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        return self._op("CONCAT", values, shape, values[0].dtype, axis)

    def slice(self, source: Value, start: Sequence[int], size: Sequence[int]) -> Value:
        return self._op("SLICE", [source, self._shape(start), self._shape(size)], size, source.dtype)

    def pad(self, source: Value, amounts: Sequence[int], value: float) -> Value:
        """Add PAD; `amounts` are before and after each axis."""
        shape = [n + amounts[2 * i] + amounts[2 * i + 1] for i, n in enumerate(source.shape)]
        return self._op("PAD", [source, self._shape(amounts), self.const([value], source.dtype)], shape, source.dtype)

    def gather(self, values: Value, indices: Value) -> Value:
        """Add GATHER of (N, K, C) by (N, W) int32; the result is (N, W, C)."""
        return self._op("GATHER", [values, indices], (*indices.shape, values.shape[2]), values.dtype)

    def scatter(self, values: Value, indices: Value, rows: Value) -> Value:
        """Add SCATTER of (N, W, C) rows into (N, K, C) at (N, W) int32."""
        return self._op("SCATTER", [values, indices, rows], values.shape, values.dtype)

    def conv(self, source: Value, weights: Held, bias: Held, **kernel: Unpack[Kernel]) -> Value:
        """Add CONV2D; weights (output, height, width, input), maybe a value; result int32, or int48 for int16."""
        window = _window(kernel)
        shape = _window_shape(source, weights.shape[1:3], *window, weights.shape[0])
        return self._kernel_op("CONV2D", window, (source, weights, bias), shape, kernel)

    def conv3d(self, source: Value, weights: Held, bias: Held, **kernel: Unpack[Kernel]) -> Value:
        """Add CONV3D with strides of one; source NDHWC, weights (output, depth, height, width, input)."""
        pad = list(kernel.get("pad", (0, 0, 0, 0, 0, 0)))
        extents = (source.shape[1 + i] + pad[2 * i] + pad[2 * i + 1] - weights.shape[1 + i] + 1 for i in range(3))
        shape = (source.shape[0], *extents, weights.shape[0])
        return self._kernel_op("CONV3D", (pad, [1, 1, 1], [1, 1, 1]), (source, weights, bias), shape, kernel)

    def depthwise(self, source: Value, weights: Held, bias: Held, **kernel: Unpack[Kernel]) -> Value:
        """Add DEPTHWISE_CONV2D; weights (height, width, channels, multiplier)."""
        window = _window(kernel)
        shape = _window_shape(source, weights.shape[:2], *window, weights.shape[2] * weights.shape[3])
        return self._kernel_op("DEPTHWISE_CONV2D", window, (source, weights, bias), shape, kernel)

    def transpose_conv(
        self, source: Value, weights: Held, bias: Held, zero: int = 0, out_pad: Pads = NO_PADDING, stride: Pair = (2, 2)
    ) -> Value:
        """Add TRANSPOSE_CONV2D; weights (output, height, width, input)."""
        n, height, width, _ = source.shape
        out, kernel_height, kernel_width, _ = weights.shape
        rows = (height - 1) * stride[0] + out_pad[0] + out_pad[1] + kernel_height
        columns = (width - 1) * stride[1] + out_pad[2] + out_pad[3] + kernel_width
        window, shape = (list(out_pad), list(stride)), (n, rows, columns, out)
        return self._kernel_op("TRANSPOSE_CONV2D", window, (source, weights, bias), shape, {"zero": zero})

    def matmul(self, first: Value, second: Value, zeros: Pair = (0, 0)) -> Value:
        """Add MATMUL of (N, H, C) and (N, C, W); the result is int32, or int48 for int16."""
        inputs = [first, second, self.const([zeros[0]], first.dtype), self.const([zeros[1]], second.dtype)]
        return self._op("MATMUL", inputs, (*first.shape[:2], second.shape[2]), ACCUMULATORS[first.dtype])

    def average_pool(
        self, source: Value, kernel: Pair, stride: Pair = (1, 1), pad: Pads = NO_PADDING, zeros: Pair = (0, 0)
    ) -> Value:
        wide = DTYPES[source.dtype if source.dtype == "float32" else "int32"]
        shape = _window_shape(source, kernel, pad, stride, (1, 1), source.shape[3])
        inputs = [source, *(self.const([zero], source.dtype) for zero in zeros)]
        return self._op("AVG_POOL2D", inputs, shape, source.dtype, list(kernel), list(stride), list(pad), wide)

    def max_pool(self, source: Value, kernel: Pair, stride: Pair = (1, 1), pad: Pads = NO_PADDING) -> Value:
        shape = _window_shape(source, kernel, pad, stride, (1, 1), source.shape[3])
        return self._op("MAX_POOL2D", [source], shape, source.dtype, list(kernel), list(stride), list(pad), _NAN)

    def resize(
        self, source: Value, mode: str, scale: tuple[int, int, int, int], offset: Pair = (0, 0), border: Pair = (0, 0)
    ) -> Value:
        """Add RESIZE, "NEAREST" or "BILINEAR" (to int32, int48); scale is y numerator, denominator, then those of x."""
        extents = [
            ((source.shape[1 + axis] - 1) * scale[2 * axis] - offset[axis] + border[axis]) // scale[2 * axis + 1] + 1
            for axis in (0, 1)
        ]
        inputs = [source, self._shape(scale), self._shape(offset), self._shape(border)]
        dtype = ACCUMULATORS[source.dtype] if mode == "BILINEAR" else source.dtype
        shape = (source.shape[0], *extents, source.shape[3])
        return self._op("RESIZE", inputs, shape, dtype, getattr(ts.ResizeMode, mode))

    def cond_if(self, condition: Value, then: Body, otherwise: Body, arguments: Sequence[Value]) -> Value:
        """Add COND_IF on one bool. The result has the first argument's shape and type."""
        bodies = self._body(then, arguments), self._body(otherwise, arguments)
        return self._op("COND_IF", [condition, *arguments], arguments[0].shape, arguments[0].dtype, *bodies)

    def while_loop(self, condition: Body, body: Body, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Add WHILE_LOOP. The results have the arguments' shapes and types."""
        bodies = self._body(condition, arguments), self._body(body, arguments)
        first, *rest = arguments
        more = [self._named(value.shape, value.dtype) for value in rest]
        return (self._op("WHILE_LOOP", arguments, first.shape, first.dtype, *bodies, more=more), *more)

    def _kernel_op(
        self, op: str, window: Sequence[Any], operands: tuple[Value, Held, Held], shape: Sequence[int], kernel: Kernel
    ) -> Value:
        source, weights, bias = operands
        accumulator = ACCUMULATORS[source.dtype]
        held = weights if isinstance(weights, Value) else self.const(weights, kernel.get("weight_type", "int8"))
        zeros = [
            self.const([kernel.get("zero", 0)], source.dtype),
            self.const([kernel.get("weight_zero", 0)], held.dtype),
        ]
        added = bias if isinstance(bias, Value) else self.const(bias, accumulator)
        return self._op(op, [source, held, added, *zeros], shape, accumulator, *window, False, DTYPES[accumulator])

    def _argument(self, shape: Sequence[int], dtype: str) -> Value:
        value = self._named(shape, dtype)
        self._serializer.addInputTensor(ts.TosaSerializerTensor(value.name, list(shape), DTYPES[dtype], data=None))
        return value

    def _body(self, build: Body, arguments: Sequence[Value]) -> str:
        """Return the name of a new region, which `build` fills from values like `arguments`."""
        self._count += 1
        name = f"body{self._count}"

        def fill() -> None:
            result = build(*(self._argument(value.shape, value.dtype) for value in arguments))
            self.output(*([result] if isinstance(result, Value) else result))

        self._bodies.append((name, fill))
        return name

    def _shape(self, values: Sequence[int]) -> Value:
        value = self._named((len(values),), "int32")
        self._serializer.addConst([len(values)], ts.DType.SHAPE, list(values), name=value.name)
        return value

    def _named(self, shape: Sequence[int], dtype: str) -> Value:
        self._count += 1
        return Value(f"t{self._count}", tuple(shape), dtype)

    def _op(
        self, op: str, inputs: Sequence[Value], shape: Sequence[int], dtype: str, *attributes: Any, more: Any = ()
    ) -> Value:
        """Add an operator and return its first output; `more` are the shapes and types of further outputs."""
        attribute = ts.TosaSerializerAttribute()
        kind = _KINDS.get(op) or "".join(part.capitalize() for part in op.split("_"))
        getattr(attribute, f"{kind}Attribute")(*attributes)
        outputs = [self._named(shape, dtype), *more]
        for value in outputs:
            block = self._serializer.currRegion.currBasicBlock
            block.addTensor(value.name, list(value.shape), DTYPES[value.dtype])
        names = [[value.name for value in values] for values in (inputs, outputs)]
        self._serializer.addOperator(getattr(ts.Op, op), *names, attribute)
        return outputs[0]


def multiplier_shift(factor: float, bits: int = 31) -> Pair:
    """Return the multiplier of `bits` bits and the shift that come closest to `factor`."""
    mantissa, exponent = math.frexp(factor)
    multiplier = round(mantissa * (1 << bits))
    if multiplier == 1 << bits:
        multiplier, exponent = multiplier // 2, exponent + 1
    return multiplier, bits - exponent


def _window(kernel: Kernel) -> tuple[list[int], list[int], list[int]]:
    pad, stride, dilation = kernel.get("pad", NO_PADDING), kernel.get("stride", (1, 1)), kernel.get("dilation", (1, 1))
    return list(pad), list(stride), list(dilation)


def _window_shape(
    source: Value, kernel: Sequence[int], pad: Pads, stride: Sequence[int], dilation: Sequence[int], depth: int
) -> tuple[int, int, int, int]:
    n, height, width, _ = source.shape
    rows = (height + pad[0] + pad[1] - (kernel[0] - 1) * dilation[0] - 1) // stride[0] + 1
    columns = (width + pad[2] + pad[3] - (kernel[1] - 1) * dilation[1] - 1) // stride[1] + 1
    return n, rows, columns, depth
