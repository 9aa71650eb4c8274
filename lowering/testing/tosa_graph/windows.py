"""TOSA's convolutions, pools, matrix products and resizes: operators that read a window of the input per output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tosa_serializer as ts  # type: ignore[import-untyped]

from ethos_hil.lowering.testing.tosa_graph.tensors import DTYPES, Array, Tensors, Value

NO_PADDING = (0, 0, 0, 0)
ACCUMULATORS = {"int8": "int32", "int16": "int48"}


class Windows(Tensors):
    """Builds operators with windows. `pad` is top, bottom, left, right; (y, x) pairs have rows first."""

    def conv(
        self,
        source: Value,
        weights: Array | Value,
        bias: Array,
        *,
        zero: int = 0,
        pad: Sequence[int] = NO_PADDING,
        stride: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
        weight_type: str = "int8",
        weight_zero: int = 0,
    ) -> Value:
        """Add CONV2D; weights (output, height, width, input), maybe a value; result int32, or int48 for int16."""
        attribute = ts.TosaSerializerAttribute()
        accumulator = ACCUMULATORS[source.dtype]
        attribute.Conv2dAttribute(list(pad), list(stride), list(dilation), False, DTYPES[accumulator])
        shape = _window_shape(source, weights.shape[1:3], pad, stride, dilation, weights.shape[0])
        return self._kernel_op(ts.Op.CONV2D, attribute, source, weights, bias, zero, shape, weight_type, weight_zero)

    def conv3d(
        self,
        source: Value,
        weights: Array,
        bias: Array,
        *,
        zero: int = 0,
        pad: Sequence[int] = (0, 0, 0, 0, 0, 0),
        stride: tuple[int, int, int] = (1, 1, 1),
        dilation: tuple[int, int, int] = (1, 1, 1),
    ) -> Value:
        """Add CONV3D; source NDHWC, weights (output, depth, height, width, input)."""
        attribute = ts.TosaSerializerAttribute()
        accumulator = ACCUMULATORS[source.dtype]
        attribute.Conv3dAttribute(list(pad), list(stride), list(dilation), False, DTYPES[accumulator])
        extents = [
            (source.shape[1 + i] + pad[2 * i] + pad[2 * i + 1] - (weights.shape[1 + i] - 1) * dilation[i] - 1)
            // stride[i]
            + 1
            for i in range(3)
        ]
        shape = (source.shape[0], *extents, weights.shape[0])
        return self._kernel_op(ts.Op.CONV3D, attribute, source, weights, bias, zero, shape)

    def depthwise(
        self,
        source: Value,
        weights: Array,
        bias: Array,
        *,
        zero: int = 0,
        pad: Sequence[int] = NO_PADDING,
        stride: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
    ) -> Value:
        """Add DEPTHWISE_CONV2D; weights (height, width, channels, multiplier)."""
        attribute = ts.TosaSerializerAttribute()
        accumulator = ACCUMULATORS[source.dtype]
        attribute.DepthwiseConv2dAttribute(list(pad), list(stride), list(dilation), False, DTYPES[accumulator])
        depth = weights.shape[2] * weights.shape[3]
        shape = _window_shape(source, weights.shape[:2], pad, stride, dilation, depth)
        return self._kernel_op(ts.Op.DEPTHWISE_CONV2D, attribute, source, weights, bias, zero, shape)

    def transpose_conv(
        self,
        source: Value,
        weights: Array,
        bias: Array,
        *,
        zero: int = 0,
        out_pad: Sequence[int] = NO_PADDING,
        stride: tuple[int, int] = (2, 2),
    ) -> Value:
        """Add TRANSPOSE_CONV2D; weights (output, height, width, input)."""
        attribute = ts.TosaSerializerAttribute()
        accumulator = ACCUMULATORS[source.dtype]
        attribute.TransposeConv2dAttribute(list(out_pad), list(stride), False, DTYPES[accumulator])
        n, height, width, _ = source.shape
        out, kernel_height, kernel_width, _ = weights.shape
        shape = (
            n,
            (height - 1) * stride[0] + out_pad[0] + out_pad[1] + kernel_height,
            (width - 1) * stride[1] + out_pad[2] + out_pad[3] + kernel_width,
            out,
        )
        return self._kernel_op(ts.Op.TRANSPOSE_CONV2D, attribute, source, weights, bias, zero, shape)

    def matmul(self, first: Value, second: Value, zeros: tuple[int, int] = (0, 0)) -> Value:
        """Add MATMUL of (N, H, C) and (N, C, W); the result is int32, or int48 for int16."""
        attribute = ts.TosaSerializerAttribute()
        attribute.MatMulAttribute()
        inputs = [first, second, self.const([zeros[0]], first.dtype), self.const([zeros[1]], second.dtype)]
        shape = (*first.shape[:2], second.shape[2])
        return self._op(ts.Op.MATMUL, attribute, inputs, shape, ACCUMULATORS[first.dtype])

    def average_pool(
        self,
        source: Value,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        pad: Sequence[int] = NO_PADDING,
        zero_in: int = 0,
        zero_out: int = 0,
    ) -> Value:
        """Add AVG_POOL2D."""
        attribute = ts.TosaSerializerAttribute()
        attribute.AvgPool2dAttribute(list(kernel), list(stride), list(pad), DTYPES["int32"])
        shape = _window_shape(source, kernel, pad, stride, (1, 1), source.shape[3])
        zeros = [self.const([zero_in], source.dtype), self.const([zero_out], source.dtype)]
        return self._op(ts.Op.AVG_POOL2D, attribute, [source, *zeros], shape, source.dtype)

    def max_pool(
        self,
        source: Value,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        pad: Sequence[int] = NO_PADDING,
    ) -> Value:
        """Add MAX_POOL2D."""
        attribute = ts.TosaSerializerAttribute()
        attribute.MaxPool2dAttribute(list(kernel), list(stride), list(pad), ts.NanPropagationMode.PROPAGATE)
        shape = _window_shape(source, kernel, pad, stride, (1, 1), source.shape[3])
        return self._op(ts.Op.MAX_POOL2D, attribute, [source], shape, source.dtype)

    def resize(
        self,
        source: Value,
        mode: str,
        scale: tuple[int, int, int, int],
        offset: tuple[int, int] = (0, 0),
        border: tuple[int, int] = (0, 0),
    ) -> Value:
        """Add RESIZE, "NEAREST" or "BILINEAR" (to int32, int48); scale is y numerator, denominator, then the same for
        x.
        """
        attribute = ts.TosaSerializerAttribute()
        attribute.ResizeAttribute(getattr(ts.ResizeMode, mode))
        extents = [
            ((source.shape[1 + axis] - 1) * scale[2 * axis] - offset[axis] + border[axis]) // scale[2 * axis + 1] + 1
            for axis in (0, 1)
        ]
        inputs = [source, self._shape(scale), self._shape(offset), self._shape(border)]
        dtype = ACCUMULATORS[source.dtype] if mode == "BILINEAR" else source.dtype
        return self._op(ts.Op.RESIZE, attribute, inputs, (source.shape[0], *extents, source.shape[3]), dtype)

    def _kernel_op(
        self,
        op: Any,
        attribute: Any,
        source: Value,
        weights: Array | Value,
        bias: Array,
        zero: int,
        shape: tuple[int, ...],
        weight_type: str = "int8",
        weight_zero: int = 0,
    ) -> Value:
        accumulator = ACCUMULATORS[source.dtype]
        held = weights if isinstance(weights, Value) else self.const(weights, weight_type)
        zeros = [self.const([zero], source.dtype), self.const([weight_zero], held.dtype)]
        return self._op(op, attribute, [source, held, self.const(bias, accumulator), *zeros], shape, accumulator)


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
