"""Builds small TOSA graphs op by op: that takes about a millisecond, lowering from PyTorch takes seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tosa_serializer as ts  # type: ignore[import-untyped]

Array = npt.NDArray[Any]

DTYPES = {"int8": ts.DType.INT8, "int16": ts.DType.INT16, "int32": ts.DType.INT32, "int48": ts.DType.INT48}


@dataclass(frozen=True)
class Value:
    """A tensor of a graph being built."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Graph:
    """Builds a TOSA graph op by op; each method returns its output."""

    def __init__(self) -> None:
        self._serializer = ts.TosaSerializer("", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False)
        self._count = 0
        self.inputs: list[Value] = []

    def input(self, shape: Sequence[int], dtype: str = "int8") -> Value:
        """A graph input."""
        value = self._named(shape, dtype)
        self._serializer.addInputTensor(ts.TosaSerializerTensor(value.name, list(shape), DTYPES[dtype], data=None))
        self.inputs.append(value)
        return value

    def output(self, *values: Value) -> Graph:
        """Makes values graph outputs."""
        block = self._serializer.currRegion.currBasicBlock
        for value in values:
            block.addOutput(value.name)
        return self

    def serialize(self) -> bytes:
        """The graph as a TOSA flatbuffer."""
        return bytes(self._serializer.serialize())

    def const(self, values: Any, dtype: str) -> Value:
        """A constant."""
        array = np.asarray(values)
        value = self._named(array.shape, dtype)
        wide = {"int8": np.int8, "int16": np.int16, "int32": np.int32, "int48": np.int64}[dtype]
        self._serializer.addConst(list(array.shape), DTYPES[dtype], array.astype(wide), name=value.name)
        return value

    def conv(
        self,
        source: Value,
        weights: Array,
        bias: Array,
        *,
        zero: int = 0,
        pad: Sequence[int] = (0, 0, 0, 0),
        stride: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
    ) -> Value:
        """CONV2D; weights (output, height, width, input); pad top, bottom, left, right; int32 result."""
        attribute = ts.TosaSerializerAttribute()
        accumulator = "int48" if source.dtype == "int16" else "int32"
        attribute.Conv2dAttribute(list(pad), list(stride), list(dilation), False, DTYPES[accumulator])
        shape = self._window_shape(source, weights.shape[1:3], pad, stride, dilation, weights.shape[0])
        return self._kernel_op(ts.Op.CONV2D, attribute, source, weights, bias, zero, shape, accumulator)

    def depthwise(
        self,
        source: Value,
        weights: Array,
        bias: Array,
        *,
        zero: int = 0,
        pad: Sequence[int] = (0, 0, 0, 0),
        stride: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
    ) -> Value:
        """DEPTHWISE_CONV2D; weights (height, width, channels, multiplier)."""
        attribute = ts.TosaSerializerAttribute()
        attribute.DepthwiseConv2dAttribute(list(pad), list(stride), list(dilation), False, DTYPES["int32"])
        depth = weights.shape[2] * weights.shape[3]
        shape = self._window_shape(source, weights.shape[:2], pad, stride, dilation, depth)
        return self._kernel_op(ts.Op.DEPTHWISE_CONV2D, attribute, source, weights, bias, zero, shape, "int32")

    def transpose_conv(
        self,
        source: Value,
        weights: Array,
        bias: Array,
        *,
        zero: int = 0,
        out_pad: Sequence[int] = (0, 0, 0, 0),
        stride: tuple[int, int] = (2, 2),
    ) -> Value:
        """TRANSPOSE_CONV2D; weights (output, height, width, input)."""
        attribute = ts.TosaSerializerAttribute()
        attribute.TransposeConv2dAttribute(list(out_pad), list(stride), False, DTYPES["int32"])
        n, height, width, _ = source.shape
        out, kernel_height, kernel_width, _ = weights.shape
        shape = (
            n,
            (height - 1) * stride[0] + out_pad[0] + out_pad[1] + kernel_height,
            (width - 1) * stride[1] + out_pad[2] + out_pad[3] + kernel_width,
            out,
        )
        return self._kernel_op(ts.Op.TRANSPOSE_CONV2D, attribute, source, weights, bias, zero, shape, "int32")

    def rescale(
        self,
        source: Value,
        scale: float | Sequence[tuple[int, int]],
        *,
        zero_in: int = 0,
        zero_out: int = 0,
        dtype: str = "int8",
    ) -> Value:
        """RESCALE, by a factor or by (multiplier, shift) pairs (more than one: per channel), rounding once."""
        pairs = [multiplier_shift(scale)] if isinstance(scale, float) else list(scale)
        attribute = ts.TosaSerializerAttribute()
        attribute.RescaleAttribute(
            scale32=source.dtype != "int48",
            rounding_mode=ts.RoundingMode.SINGLE_ROUND,
            per_channel=len(pairs) > 1,
            input_unsigned=False,
            output_unsigned=False,
        )
        width = "int16" if source.dtype == "int48" else "int32"
        inputs = [
            source,
            self.const([m for m, _ in pairs], width),
            self.const([s for _, s in pairs], "int8"),
            self.const([zero_in], source.dtype),
            self.const([zero_out], dtype),
        ]
        return self._op(ts.Op.RESCALE, attribute, inputs, source.shape, dtype)

    def average_pool(
        self,
        source: Value,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        pad: Sequence[int] = (0, 0, 0, 0),
        zero_in: int = 0,
        zero_out: int = 0,
    ) -> Value:
        """AVG_POOL2D."""
        attribute = ts.TosaSerializerAttribute()
        attribute.AvgPool2dAttribute(list(kernel), list(stride), list(pad), DTYPES["int32"])
        shape = self._window_shape(source, kernel, pad, stride, (1, 1), source.shape[3])
        zeros = [self.const([zero_in], source.dtype), self.const([zero_out], source.dtype)]
        return self._op(ts.Op.AVG_POOL2D, attribute, [source, *zeros], shape, source.dtype)

    def max_pool(
        self,
        source: Value,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        pad: Sequence[int] = (0, 0, 0, 0),
    ) -> Value:
        """MAX_POOL2D."""
        attribute = ts.TosaSerializerAttribute()
        attribute.MaxPool2dAttribute(list(kernel), list(stride), list(pad), ts.NanPropagationMode.PROPAGATE)
        shape = self._window_shape(source, kernel, pad, stride, (1, 1), source.shape[3])
        return self._op(ts.Op.MAX_POOL2D, attribute, [source], shape, source.dtype)

    def binary(self, name: str, first: Value, second: Value) -> Value:
        """ADD, SUB, MUL, MINIMUM, MAXIMUM, LOGICAL_LEFT_SHIFT, ARITHMETIC_RIGHT_SHIFT (rounding: ..._ROUND)."""
        attribute = ts.TosaSerializerAttribute()
        inputs = [first, second]
        if name in ("MINIMUM", "MAXIMUM"):
            getattr(attribute, f"{name.capitalize()}Attribute")(ts.NanPropagationMode.PROPAGATE)
        elif name.startswith("ARITHMETIC_RIGHT_SHIFT"):
            attribute.ArithmeticRightShiftAttribute(name.endswith("ROUND"))
            name = "ARITHMETIC_RIGHT_SHIFT"
        else:
            getattr(attribute, "".join(part.capitalize() for part in name.split("_")) + "Attribute")()
        if name == "MUL":
            inputs.append(self.const([0], "int8"))
        shape = tuple(max(a, b) for a, b in zip(first.shape, second.shape, strict=True))
        dtype = "int32" if name == "MUL" else first.dtype
        return self._op(getattr(ts.Op, name), attribute, inputs, shape, dtype)

    def unary(self, name: str, source: Value) -> Value:
        """ABS, CLZ."""
        attribute = ts.TosaSerializerAttribute()
        getattr(attribute, f"{name.capitalize()}Attribute")()
        return self._op(getattr(ts.Op, name), attribute, [source], source.shape, source.dtype)

    def table(self, source: Value, entries: Array) -> Value:
        """TABLE: 256 int8 entries for int8, 513 int16 entries for int16 (int32 result)."""
        attribute = ts.TosaSerializerAttribute()
        attribute.TableAttribute()
        dtype = "int8" if source.dtype == "int8" else "int32"
        return self._op(ts.Op.TABLE, attribute, [source, self.const(entries, source.dtype)], source.shape, dtype)

    def clamp(self, source: Value, low: int, high: int) -> Value:
        """CLAMP."""
        attribute = ts.TosaSerializerAttribute()
        size = 1 if source.dtype == "int8" else 2
        low_bytes, high_bytes = (list(v.to_bytes(size, "little", signed=True)) for v in (low, high))
        attribute.ClampAttribute(low_bytes, high_bytes, nan_mode=ts.NanPropagationMode.PROPAGATE)
        return self._op(ts.Op.CLAMP, attribute, [source], source.shape, source.dtype)

    def reduce_sum(self, source: Value, axis: int) -> Value:
        """REDUCE_SUM of int32."""
        attribute = ts.TosaSerializerAttribute()
        attribute.ReduceSumAttribute(axis)
        return self._op(ts.Op.REDUCE_SUM, attribute, [source], self._reduced(source, axis), source.dtype)

    def reduce_max(self, source: Value, axis: int) -> Value:
        """REDUCE_MAX."""
        attribute = ts.TosaSerializerAttribute()
        attribute.ReduceMaxAttribute(axis, ts.NanPropagationMode.PROPAGATE)
        return self._op(ts.Op.REDUCE_MAX, attribute, [source], self._reduced(source, axis), source.dtype)

    def transpose(self, source: Value, axes: Sequence[int]) -> Value:
        """TRANSPOSE."""
        attribute = ts.TosaSerializerAttribute()
        attribute.TransposeAttribute(list(axes))
        shape = tuple(source.shape[axis] for axis in axes)
        return self._op(ts.Op.TRANSPOSE, attribute, [source], shape, source.dtype)

    def reshape(self, source: Value, shape: Sequence[int]) -> Value:
        """RESHAPE."""
        attribute = ts.TosaSerializerAttribute()
        attribute.ReshapeAttribute()
        return self._op(ts.Op.RESHAPE, attribute, [source, self._shape(shape)], tuple(shape), source.dtype)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """CONCAT."""
        attribute = ts.TosaSerializerAttribute()
        attribute.ConcatAttribute(axis)
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        return self._op(ts.Op.CONCAT, attribute, list(values), tuple(shape), values[0].dtype)

    def slice(self, source: Value, start: Sequence[int], size: Sequence[int]) -> Value:
        """SLICE."""
        attribute = ts.TosaSerializerAttribute()
        attribute.SliceAttribute()
        inputs = [source, self._shape(start), self._shape(size)]
        return self._op(ts.Op.SLICE, attribute, inputs, tuple(size), source.dtype)

    def pad(self, source: Value, amounts: Sequence[int], value: int) -> Value:
        """PAD; amounts before and after each axis."""
        attribute = ts.TosaSerializerAttribute()
        attribute.PadAttribute()
        shape = tuple(n + amounts[2 * i] + amounts[2 * i + 1] for i, n in enumerate(source.shape))
        return self._op(
            ts.Op.PAD, attribute, [source, self._shape(amounts), self.const([value], source.dtype)], shape, source.dtype
        )

    def _shape(self, values: Sequence[int]) -> Value:
        value = self._named((len(values),), "int32")
        self._serializer.addConst([len(values)], ts.DType.SHAPE, list(values), name=value.name)
        return value

    def _named(self, shape: Sequence[int], dtype: str) -> Value:
        self._count += 1
        return Value(f"t{self._count}", tuple(shape), dtype)

    def _kernel_op(
        self,
        op: Any,
        attribute: Any,
        source: Value,
        weights: Array,
        bias: Array,
        zero: int,
        shape: tuple[int, ...],
        dtype: str,
    ) -> Value:
        inputs = [
            source,
            self.const(weights, "int8"),
            self.const(bias, dtype),
            self.const([zero], source.dtype),
            self.const([0], "int8"),
        ]
        return self._op(op, attribute, inputs, shape, dtype)

    def _op(self, op: Any, attribute: Any, inputs: list[Value], shape: tuple[int, ...], dtype: str) -> Value:
        value = self._named(shape, dtype)
        self._serializer.currRegion.currBasicBlock.addTensor(value.name, list(shape), DTYPES[dtype])
        self._serializer.addOperator(op, [v.name for v in inputs], [value.name], attribute)
        return value

    @staticmethod
    def _reduced(source: Value, axis: int) -> tuple[int, ...]:
        return tuple(1 if i == axis else n for i, n in enumerate(source.shape))

    @staticmethod
    def _window_shape(
        source: Value,
        kernel: Sequence[int],
        pad: Sequence[int],
        stride: tuple[int, int],
        dilation: tuple[int, int],
        depth: int,
    ) -> tuple[int, int, int, int]:
        n, height, width, _ = source.shape
        rows = (height + pad[0] + pad[1] - (kernel[0] - 1) * dilation[0] - 1) // stride[0] + 1
        columns = (width + pad[2] + pad[3] - (kernel[1] - 1) * dilation[1] - 1) // stride[1] + 1
        return n, rows, columns, depth


def multiplier_shift(factor: float) -> tuple[int, int]:
    """The 31-bit multiplier and shift closest to `factor`."""
    mantissa, exponent = math.frexp(factor)
    multiplier = round(mantissa * (1 << 31))
    if multiplier == 1 << 31:
        multiplier, exponent = multiplier // 2, exponent + 1
    return multiplier, 31 - exponent
