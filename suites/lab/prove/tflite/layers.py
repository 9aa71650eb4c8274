"""Layers of TensorFlow Lite networks, with random constants and scales as a converter would choose them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ethos_hil.lowering.testing.tflite_graph import Array, TfliteGraph, TfliteTensor

NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3  # ActivationFunctionType of the schema
SAME, VALID = 0, 1  # its Padding
_SPREAD = {"int8": 74.0, "int16": 9000.0}  # standard deviation of values, which outputs of layers keep about
_WEIGHTS = 70.0  # the same of weights


class Layers:
    """A network under construction; each layer's method returns its output.

    All randomness depends on the network's name alone.
    """

    def __init__(self, name: str) -> None:
        self.graph = TfliteGraph()
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def input(
        self, *shape: int, dtype: str = "int8", scale: float | None = None, zero: int | None = None
    ) -> TfliteTensor:
        """Add an input. int16 has the zero point 0, as TensorFlow Lite defines it."""
        if scale is None:
            scale = float(self.rng.uniform(2e-4, 5e-4) if dtype == "int16" else self.rng.uniform(0.02, 0.08))
        if zero is None:
            zero = 0 if dtype == "int16" else int(self.rng.integers(-20, 20)) + (128 if dtype == "uint8" else 0)
        return self.graph.input(shape, dtype, scale, zero)

    def like(self, x: TfliteTensor, *shape: int, scale: float | None = None, zero: int | None = None) -> TfliteTensor:
        """Add a tensor of the same type and, unless given, the same quantisation."""
        factor = x.scale[0] if scale is None else scale
        return self.graph.tensor(shape or x.shape, x.dtype, factor, x.zero_point if zero is None else zero)

    def apply(
        self,
        operator: str,
        inputs: TfliteTensor | Sequence[TfliteTensor | None],
        *shape: int,
        options: str = "",
        scale: float | None = None,
        zero: int | None = None,
        **fields: Any,
    ) -> TfliteTensor:
        """Add an operator of one output, like its first input unless something else is given."""
        tensors = [inputs] if isinstance(inputs, TfliteTensor) else list(inputs)
        first = next(tensor for tensor in tensors if tensor is not None)
        output = self.like(first, *shape, scale=scale, zero=zero)
        self.graph.add(operator, tensors, [output], options, **fields)
        return output

    def numbers(self, *values: int) -> TfliteTensor:
        """Add a constant of int32: sizes, axes, paddings."""
        return self.graph.constant(np.array(values, np.int32))

    def convolution(
        self,
        x: TfliteTensor,
        depth: int,
        kernel: tuple[int, int] = (3, 3),
        stride: int = 1,
        *,
        padding: int = SAME,
        activation: int = NONE,
        dilation: int = 1,
        bias: bool = True,
    ) -> TfliteTensor:
        """Add a convolution with a scale for each output channel."""
        height, width = self._swept(x, kernel, stride, padding, dilation)
        weights, biases = self._weights(x, (depth, *kernel, x.shape[3]), 0, bias)
        return self.apply(
            "CONV_2D", [x, weights, biases], x.shape[0], height, width, depth, options="Conv2DOptions",
            scale=self._scale(x, weights, kernel[0] * kernel[1] * x.shape[3]), padding=padding, stride_w=stride,
            stride_h=stride, dilation_w_factor=dilation, dilation_h_factor=dilation,
            fused_activation_function=activation, zero=self._zero(x, activation),
        )  # fmt: skip

    def depthwise(
        self,
        x: TfliteTensor,
        kernel: tuple[int, int] = (3, 3),
        stride: int = 1,
        *,
        padding: int = SAME,
        activation: int = NONE,
        dilation: int = 1,
        multiplier: int = 1,
    ) -> TfliteTensor:
        """Add a depthwise convolution."""
        height, width = self._swept(x, kernel, stride, padding, dilation)
        depth = x.shape[3] * multiplier
        weights, biases = self._weights(x, (1, *kernel, depth), 3, bias=True)
        return self.apply(
            "DEPTHWISE_CONV_2D", [x, weights, biases], x.shape[0], height, width, depth,
            options="DepthwiseConv2DOptions", scale=self._scale(x, weights, kernel[0] * kernel[1]), padding=padding,
            stride_w=stride, stride_h=stride, depth_multiplier=multiplier, dilation_w_factor=dilation,
            dilation_h_factor=dilation, fused_activation_function=activation, zero=self._zero(x, activation),
        )  # fmt: skip

    def dense(self, x: TfliteTensor, depth: int, *, activation: int = NONE, bias: bool = True) -> TfliteTensor:
        """Add a fully connected layer of a (batch, features) tensor."""
        weights, biases = self._weights(x, (depth, x.shape[-1]), 0, bias, per_channel=False)
        return self.apply(
            "FULLY_CONNECTED", [x, weights, biases], *x.shape[:-1], depth, options="FullyConnectedOptions",
            scale=self._scale(x, weights, x.shape[-1]), fused_activation_function=activation,
            keep_num_dims=len(x.shape) > 2, zero=self._zero(x, activation),
        )  # fmt: skip

    def transposed(self, x: TfliteTensor, depth: int, kernel: int, stride: int, padding: int = SAME) -> TfliteTensor:
        """Add a transposed convolution."""
        more = max(kernel - stride, 0) if padding == VALID else 0
        height, width = (size * stride + more for size in x.shape[1:3])
        weights, biases = self._weights(x, (depth, kernel, kernel, x.shape[3]), 0, bias=True)
        output = self.like(x, 1, height, width, depth, scale=self._scale(x, weights, kernel * kernel * x.shape[3]))
        sizes = self.numbers(1, height, width, depth)
        self.graph.add(
            "TRANSPOSE_CONV", [sizes, weights, x, biases], [output], "TransposeConvOptions",
            padding=padding, stride_w=stride, stride_h=stride,
        )  # fmt: skip
        return output

    def pool(
        self, operator: str, x: TfliteTensor, kernel: tuple[int, int], stride: int, padding: int, activation: int = NONE
    ) -> TfliteTensor:
        """Add a pool."""
        height, width = self._swept(x, kernel, stride, padding)
        return self.apply(
            operator, x, x.shape[0], height, width, x.shape[3], options="Pool2DOptions", padding=padding,
            stride_w=stride, stride_h=stride, filter_width=kernel[1], filter_height=kernel[0],
            fused_activation_function=activation,
        )  # fmt: skip

    def binary(
        self,
        operator: str,
        first: TfliteTensor,
        second: TfliteTensor,
        scale: float | None = None,
        activation: int | None = NONE,
    ) -> TfliteTensor:
        """Add an operator of two inputs that broadcast."""
        shape = np.broadcast_shapes(first.shape, second.shape)
        if scale is None:
            scale = {"MUL": first.scale[0] * second.scale[0] * _SPREAD[first.dtype]}.get(
                operator, 1.2 * (first.scale[0] + second.scale[0])
            )
        name = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[operator]
        fields = {} if activation is None else {"fused_activation_function": activation}
        return self.apply(operator, [first, second], *shape, options=name, scale=scale, **fields)

    def values(self, shape: Sequence[int], x: TfliteTensor, scale: float | None = None) -> TfliteTensor:
        """Add a constant of random values, of the type of a tensor."""
        ends = np.iinfo(x.dtype)
        numbers = self.rng.integers(ends.min, ends.max, shape, endpoint=True).astype(x.dtype)
        return self.graph.constant(numbers, scale or x.scale[0], x.zero_point)

    def _weights(
        self, x: TfliteTensor, shape: tuple[int, ...], axis: int, bias: bool, *, per_channel: bool = True
    ) -> tuple[TfliteTensor, TfliteTensor | None]:
        channels = shape[axis]
        weights: Array = self.rng.normal(0, _WEIGHTS, shape).round().clip(-127, 127).astype(np.int8)
        scales = self.rng.uniform(0.002, 0.008, channels if per_channel else 1).astype(np.float32)
        kind = np.int64 if x.dtype == "int16" else np.int32
        reach = int(30 * _SPREAD[x.dtype] * _WEIGHTS)
        biases: Array = self.rng.integers(-reach, reach, channels).astype(kind)
        product = (np.float32(x.scale[0]) * scales).astype(np.float32)
        constant = self.graph.constant(weights, scales.tolist(), axis=axis if per_channel else 0)
        return constant, self.graph.constant(biases, product.tolist()) if bias else None

    @staticmethod
    def _scale(x: TfliteTensor, weights: TfliteTensor, products: int) -> float:
        """Return the scale with which sums of so many products spread as the input does."""
        return float(x.scale[0] * np.mean(weights.scale) * _WEIGHTS * np.sqrt(products) * 1.3)

    def _zero(self, x: TfliteTensor, activation: int) -> int:
        if x.dtype == "int16":
            return 0
        return -128 if activation in (RELU, RELU6) else int(self.rng.integers(-20, 20))

    @staticmethod
    def _swept(
        x: TfliteTensor, kernel: tuple[int, int], stride: int, padding: int, dilation: int = 1
    ) -> tuple[int, int]:
        """Return height and width of what a kernel makes of a map."""
        if padding == SAME:
            height, width = (-(-size // stride) for size in x.shape[1:3])
        else:
            height, width = (
                (size - (taps - 1) * dilation - 1) // stride + 1
                for size, taps in zip(x.shape[1:3], kernel, strict=True)
            )
        return height, width
