"""Parts that many programs are made of: seeded weights, scales and quantised layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from ethos_hil.lowering.testing.tosa_graph import Array, Graph, Kernel, Pair, Value, multiplier_shift
from ethos_hil.lowering.testing.tosa_program import Build, Rng

ADD_SHIFT = 20  # how far ExecuTorch shifts int8 operands of ADD and SUB to the left


def single(
    method: str, shape: Sequence[int], dtype: str, /, *arguments: Any, before: Sequence[Any] = (), **named: Any
) -> Build:
    """One method of the graph on one input, with arguments before and after it."""

    def build(graph: Graph, rng: Rng) -> Value:
        result: Value = getattr(graph, method)(*before, graph.input(shape, dtype), *arguments, **named)
        return result

    return build


def weights(rng: Rng, *shape: int) -> Array:
    """Random weights, some of them zero, so that the codec's runs of zeros occur."""
    return rng.integers(-127, 128, shape) * (rng.random(shape) < 0.8)


def per_channel(rng: Rng, channels: int, largest: float, bits: int = 31) -> list[tuple[int, int]]:
    return [multiplier_shift(float(s), bits) for s in rng.uniform(largest / 20, largest, channels)]


def spread(taps: int) -> float:
    """A scale that keeps sums of that many products with random weights mostly within the activation's type."""
    return 3.0 / np.sqrt(taps) / 73


def requantized(graph: Graph, rng: Rng, sums: Value, largest: float, dtype: str, zero_out: int = 11) -> Value:
    """Sums of a kernel back to an activation: per channel, and from int48 with multipliers of 15 bits."""
    bits = 15 if sums.dtype == "int48" else 31
    scales = per_channel(rng, sums.shape[-1], largest, bits)
    return graph.rescale(sums, scales, zero_out=0 if dtype == "int16" else zero_out, dtype=dtype)


def convolution(
    depth: int, out: int, kernel: Pair, size: Pair, *, dtype: str = "int8", batch: int = 1, **window: Unpack[Kernel]
) -> Build:
    """CONV2D with a bias and per-channel scales; int16 has no zero points."""

    def build(graph: Graph, rng: Rng) -> Value:
        source, kernels = graph.input((batch, *size, depth), dtype), weights(rng, out, *kernel, depth)
        more: Kernel = {"zero": 0 if dtype == "int16" else -7, **window}
        sums = graph.conv(source, kernels, rng.integers(-20000, 20000, out), **more)
        return requantized(graph, rng, sums, spread(depth * kernel[0] * kernel[1]), dtype)

    return build


def depthwise(
    depth: int, kernel: Pair, size: Pair, *, multiplier: int = 1, dtype: str = "int8", batch: int = 1,
    **window: Unpack[Kernel],
) -> Build:  # fmt: skip
    """DEPTHWISE_CONV2D with a bias, per-channel scales and a clamp."""

    def build(graph: Graph, rng: Rng) -> Value:
        source, kernels = graph.input((batch, *size, depth), dtype), weights(rng, *kernel, depth, multiplier)
        more: Kernel = {"zero": 0 if dtype == "int16" else -128, **window}
        sums = graph.depthwise(source, kernels, rng.integers(-9000, 9000, depth * multiplier), **more)
        low, high = (-128, 90) if dtype == "int8" else (-20000, 32767)
        return graph.clamp(requantized(graph, rng, sums, 0.01, dtype, zero_out=-128), low, high)

    return build


def _same(graph: Graph, source: Value, kernel: int, stride: int, zero: int) -> tuple[Value, Kernel]:
    """The source without the last row or column that no window reaches, which TOSA does not want, and the padding with
    which an output has a position for every `stride` of the input's; the larger half at the end.
    """
    reach = [(-(-extent // stride) - 1) * stride + kernel for extent in source.shape[1:3]]
    missing = [max(some - extent, 0) for some, extent in zip(reach, source.shape[1:3], strict=True)]
    pads = [half for total in missing for half in (total // 2, total - total // 2)]
    size = (source.shape[0], *map(min, source.shape[1:3], reach), source.shape[3])
    part = source if size == source.shape else graph.slice(source, (0, 0, 0, 0), size)
    return part, {"zero": zero, "pad": pads, "stride": (stride, stride)}


def layer(graph: Graph, rng: Rng, source: Value, out: int, kernel: int = 3, stride: int = 1, zero: int = 0) -> Value:
    """An int8 convolution with same padding and its rescale."""
    part, window = _same(graph, source, kernel, stride, zero)
    kernels = weights(rng, out, kernel, kernel, source.shape[3])
    sums = graph.conv(part, kernels, rng.integers(-2000, 2000, out), **window)
    return graph.rescale(sums, per_channel(rng, out, spread(kernel * kernel * source.shape[3])), zero_out=zero)


def depthwise_layer(graph: Graph, rng: Rng, source: Value, kernel: int = 3, stride: int = 1, zero: int = 0) -> Value:
    """An int8 depthwise convolution with same padding and its rescale."""
    part, window = _same(graph, source, kernel, stride, zero)
    kernels, depth = weights(rng, kernel, kernel, source.shape[3], 1), source.shape[3]
    sums = graph.depthwise(part, kernels, rng.integers(-2000, 2000, depth), **window)
    return graph.rescale(sums, per_channel(rng, depth, spread(kernel * kernel)), zero_out=zero)


def widened(graph: Graph, source: Value, scale: float, zero: int) -> Value:
    """An int8 operand of ADD or SUB as ExecuTorch emits it: int32, shifted left by 20."""
    return graph.rescale(source, scale * 2.0**ADD_SHIFT, zero_in=zero, dtype="int32")


def added(
    graph: Graph, first: Value, second: Value, scales: tuple[float, float, float] = (1.0, 0.5, 0.7), zero: int = 0
) -> Value:
    """ADD of two int8 values with a common zero point."""
    wide = [widened(graph, value, scale, zero) for value, scale in zip((first, second), scales, strict=False)]
    return graph.rescale(graph.binary("ADD", *wide), scales[2] / 2.0**ADD_SHIFT, zero_out=zero)
