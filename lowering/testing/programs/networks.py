"""Whole networks, built as TOSA graphs with seeded weights: what lowering makes of such models, in milliseconds.

Classifiers also give their last feature map: it has more to compare than a few saturated classes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ethos_hil.lowering.testing.programs.pieces import added, depthwise_layer, layer, per_channel, weights
from ethos_hil.lowering.testing.tosa_graph import Graph, Kernel, Value
from ethos_hil.lowering.testing.tosa_program import ProgramCatalogue, Rng

NETWORKS = ProgramCatalogue()
Function = Callable[[np.ndarray], np.ndarray]
ZERO = -128  # zero point of what a rectifier leaves
ALWAYS = ("random", "extremes")


def rectified(graph: Graph, source: Value) -> Value:
    """ReLU6 where the scale leaves room above six."""
    return graph.clamp(source, ZERO, 110)


def mean(graph: Graph, source: Value) -> Value:
    """Mean over height and width, (N, 1, 1, C), as ExecuTorch emits it."""
    wide = graph.rescale(source, 1.0, zero_in=ZERO, dtype="int32")
    total = graph.reduce("SUM", graph.reduce("SUM", wide, 1), 2)
    return graph.rescale(total, 1.0 / (source.shape[1] * source.shape[2]), zero_out=ZERO)


def quantized_table(function: Function, scale: float, scale_out: float, zero_out: int = 0, zero: int = 0) -> np.ndarray:
    """A function of int8 as TABLE entries."""
    values = function((np.arange(-128, 128) - zero) * scale)
    return np.clip(np.round(values / scale_out) + zero_out, -128, 127).astype(int)


def logistic(values: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-values))


def times(graph: Graph, first: Value, second: Value, scale: float, zeros: tuple[int, int, int] = (0, 0, 0)) -> Value:
    """MUL of two int8 values."""
    wide = [
        graph.rescale(value, 1.0, zero_in=zero, dtype="int32")
        for value, zero in zip((first, second), zeros, strict=False)
    ]
    return graph.rescale(graph.binary("MUL", *wide), scale, zero_out=zeros[2])


def softmax(graph: Graph, source: Value) -> Value:
    """Softmax over the last axis of three: maximum, difference, exponential, sum, reciprocal, product."""
    highest = graph.reduce("MAX", source, 2)
    wide = [graph.rescale(value, 2.0**20, dtype="int32") for value in (source, highest)]
    below = graph.rescale(graph.binary("SUB", *wide), 1 / 2.0**20, zero_out=127)
    powers = graph.table(below, quantized_table(np.exp, 0.05, 1 / 255, ZERO, 127))
    total = graph.reduce("SUM", graph.rescale(powers, 1.0, zero_in=ZERO, dtype="int32"), 2)
    sums = graph.rescale(total, 1 / source.shape[2], zero_out=ZERO)
    step = source.shape[2] / 255
    inverse = graph.table(sums, quantized_table(lambda v: 1 / np.maximum(v, step / 2), step, 1 / 255, ZERO, ZERO))
    return times(graph, powers, inverse, 1 / 64, (ZERO, ZERO, ZERO))


def block(graph: Graph, rng: Rng, source: Value, out: int, expansion: int, stride: int) -> Value:
    """MobileNetV2's inverted residual."""
    value = source
    if expansion != 1:
        value = rectified(graph, layer(graph, rng, value, source.shape[3] * expansion, 1, zero=ZERO))
    value = rectified(graph, depthwise_layer(graph, rng, value, 3, stride, ZERO))
    value = layer(graph, rng, value, out, 1, zero=ZERO)
    return added(graph, source, value, (0.6, 0.5, 0.9), ZERO) if stride == 1 and source.shape[3] == out else value


def mobilenet_v2(graph: Graph, rng: Rng) -> Value:
    """All shapes of ethos_hil.suites.models.mobilenetv2, the image with channels first."""
    image = graph.transpose(graph.input((1, 3, 224, 224)), (0, 2, 3, 1))
    value = rectified(graph, layer(graph, rng, image, 32, 3, 2, ZERO))
    for expansion, out, repeats, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for index in range(repeats):
            value = block(graph, rng, value, out, expansion, first if index == 0 else 1)
    value = rectified(graph, layer(graph, rng, value, 1280, 1, zero=ZERO))
    return graph.reshape(layer(graph, rng, mean(graph, value), 1000, 1, zero=ZERO), (1, 1000))


NETWORKS.add("MobileNetV2", mobilenet_v2, kinds=ALWAYS)
NETWORKS.add("MobileNetV2, arena of 200 KB", mobilenet_v2, flags=("--arena-cache-size=200000",), kinds=("random",))


@NETWORKS.program("pointwise", kinds=ALWAYS)
def _(graph: Graph, rng: Rng) -> tuple[Value, Value]:
    """Nearly all work in 1x1 convolutions, at most 384 channels wide."""
    value = rectified(graph, layer(graph, rng, graph.input((1, 112, 112, 3)), 24, 3, 2, ZERO))
    for wide, out, stride in ((96, 48, 2), (192, 64, 1), (256, 64, 1), (256, 96, 2), (384, 128, 1), (384, 128, 1)):
        inner = rectified(graph, layer(graph, rng, value, wide, 1, zero=ZERO))
        outer = layer(graph, rng, inner, out, 1, stride, ZERO)
        value = added(graph, value, outer, zero=ZERO) if outer.shape == value.shape else outer
    return value, layer(graph, rng, mean(graph, value), 100, 1, zero=ZERO)


@NETWORKS.program("keywords", kinds=ALWAYS)
def _(graph: Graph, rng: Rng) -> tuple[Value, Value]:
    """DS-CNN: depthwise and pointwise layers on a spectrogram, softmax at the end."""
    source = graph.input((1, 49, 10, 1))
    kernels, window = weights(rng, 64, 10, 4, 1), Kernel(zero=5, pad=(4, 5, 1, 1), stride=(2, 2))
    sums = graph.conv(source, kernels, rng.integers(-2000, 2000, 64), **window)
    value = rectified(graph, graph.rescale(sums, per_channel(rng, 64, 0.006), zero_out=ZERO))
    for _ in range(4):
        value = rectified(graph, depthwise_layer(graph, rng, value, zero=ZERO))
        value = rectified(graph, layer(graph, rng, value, 64, 1, zero=ZERO))
    pooled = graph.average_pool(value, (25, 5), zeros=(ZERO, ZERO))
    return value, softmax(graph, graph.reshape(layer(graph, rng, pooled, 12, 1), (1, 1, 12)))


@NETWORKS.program("depthwise", kinds=ALWAYS)
def _(graph: Graph, rng: Rng) -> tuple[Value, Value]:
    """Most work in depthwise convolutions, with kernels of three, five and seven."""
    value = rectified(graph, layer(graph, rng, graph.input((1, 64, 64, 3)), 48, 3, 1, ZERO))
    for kernel, stride in ((3, 1), (5, 1), (7, 2), (3, 1), (5, 1), (7, 1), (3, 2), (5, 1)):
        value = rectified(graph, depthwise_layer(graph, rng, value, kernel, stride, ZERO))
    return value, layer(graph, rng, mean(graph, value), 10, 1, zero=ZERO)


@NETWORKS.program("residual", kinds=ALWAYS)
def _(graph: Graph, rng: Rng) -> tuple[Value, Value]:
    """ResNet-8 for 32x32 images."""
    value = rectified(graph, layer(graph, rng, graph.input((1, 32, 32, 3)), 16, 3, 1, ZERO))
    for out, stride in ((16, 1), (32, 2), (64, 2)):
        inner = rectified(graph, layer(graph, rng, value, out, 3, stride, ZERO))
        outer = layer(graph, rng, inner, out, zero=ZERO)
        short = value if stride == 1 else layer(graph, rng, value, out, 1, stride, ZERO)
        value = rectified(graph, added(graph, short, outer, (0.5, 0.45, 0.95), ZERO))
    pooled = graph.average_pool(value, (8, 8), zeros=(ZERO, ZERO))
    return value, softmax(graph, graph.reshape(layer(graph, rng, pooled, 10, 1), (1, 1, 10)))


@NETWORKS.program("transformer", kinds=ALWAYS)
def _(graph: Graph, rng: Rng) -> Value:
    """One encoder block: four heads of attention over 24 tokens of 64 features, then two dense layers."""
    tokens, width, heads = 24, 64, 4

    def dense(source: Value, out: int) -> Value:
        rows = graph.reshape(source, (tokens, 1, 1, source.shape[-1]))
        return graph.reshape(layer(graph, rng, rows, out, 1), (1, tokens, out))

    def by_head(source: Value, *, columns: bool) -> Value:
        split = graph.reshape(source, (tokens, heads, width // heads))
        return graph.transpose(split, (1, 2, 0) if columns else (1, 0, 2))

    def normalized(source: Value) -> Value:
        wide = graph.rescale(source, 1.0, dtype="int32")
        centre = graph.rescale(graph.reduce("SUM", wide, 2), 1 / width)
        pair = [graph.rescale(value, 2.0**20, dtype="int32") for value in (source, centre)]
        away = graph.rescale(graph.binary("SUB", *pair), 0.8 / 2.0**20)
        square = graph.rescale(times(graph, away, away, 1 / 128, (0, 0, ZERO)), 1.0, zero_in=ZERO, dtype="int32")
        variance = graph.rescale(graph.reduce("SUM", square, 2), 1 / width, zero_out=ZERO)
        root = graph.table(variance, quantized_table(lambda v: 1 / np.sqrt(v + 1.0), 1.0, 1 / 255, ZERO, ZERO))
        scaled = times(graph, away, root, 0.05, (0, ZERO, 0))
        gain = graph.const(rng.integers(60, 128, (1, 1, width)), "int8")
        shift = graph.const(rng.integers(-40, 40, (1, 1, width)), "int8")
        return added(graph, times(graph, scaled, gain, 1 / 90), shift, (0.9, 0.4, 1.0))

    source = graph.input((1, tokens, width))
    ready = normalized(source)
    query, key, value = (dense(ready, width) for _ in range(3))
    scores = graph.rescale(graph.matmul(by_head(query, columns=False), by_head(key, columns=True)), 1 / 73 / width**0.5)
    mixed = graph.matmul(softmax(graph, scores), by_head(value, columns=False), (ZERO, 0))
    context = graph.reshape(graph.transpose(graph.rescale(mixed, 1 / 100), (1, 0, 2)), (1, tokens, width))
    source = added(graph, source, dense(context, width))
    inner = dense(normalized(source), 2 * width)
    gelu = quantized_table(lambda v: v * logistic(1.702 * v), 0.03, 0.03)
    return added(graph, source, dense(graph.table(inner, gelu), width))


@NETWORKS.program("autoencoder", kinds=ALWAYS)
def _(graph: Graph, rng: Rng) -> Value:
    """Three convolutions down, three transposed ones up, a sigmoid."""
    value = graph.input((1, 32, 32, 3))
    for out in (12, 24, 20):
        value = rectified(graph, layer(graph, rng, value, out, 3, 2, ZERO))
    for out in (24, 12, 3):
        kernels, biases = weights(rng, out, 4, 4, value.shape[3]), rng.integers(-999, 999, out)
        sums = graph.transpose_conv(value, kernels, biases, zero=ZERO, out_pad=(-1, -1, -1, -1))
        value = graph.rescale(sums, per_channel(rng, out, 0.003), zero_out=0 if out == 3 else ZERO)
    return graph.table(value, quantized_table(logistic, 0.05, 1 / 255, ZERO))


@NETWORKS.program("recurrent", kinds=ALWAYS)
def _(graph: Graph, rng: Rng) -> tuple[Value, Value]:
    """An LSTM over six steps, unrolled: dense layers, slices, sigmoid and tanh tables, products, sums."""
    steps, features, hidden = 6, 20, 24
    source = graph.input((1, 1, steps, features))
    state, cell = graph.input((1, 1, 1, hidden)), graph.input((1, 1, 1, hidden))
    squash = quantized_table(logistic, 0.05, 1 / 255, ZERO)
    bend = quantized_table(np.tanh, 0.03, 1 / 127)
    from_input, from_state = weights(rng, 4 * hidden, 1, 1, features), weights(rng, 4 * hidden, 1, 1, hidden)
    biases = rng.integers(-999, 999, 4 * hidden)
    for step in range(steps):
        now = graph.slice(source, (0, 0, step, 0), (1, 1, 1, features))
        pairs = (now, from_input), (state, from_state)
        sums = [graph.rescale(graph.conv(value, matrix, biases), 0.004) for value, matrix in pairs]
        gates = added(graph, sums[0], sums[1], (0.8, 0.7, 1.0))
        parts = [graph.slice(gates, (0, 0, 0, index * hidden), (1, 1, 1, hidden)) for index in range(4)]
        keep, take, give = (graph.table(part, squash) for part in parts[:3])
        fresh = graph.table(parts[3], bend)
        kept, taken = times(graph, cell, keep, 1 / 255, (0, ZERO, 0)), times(graph, fresh, take, 1 / 255, (0, ZERO, 0))
        cell = added(graph, kept, taken, (0.9, 0.7, 1.0))
        state = times(graph, graph.table(cell, bend), give, 1 / 255, (0, ZERO, 0))
    return state, cell


@NETWORKS.program("16-bit activations", kinds=ALWAYS)
def _(graph: Graph, rng: Rng) -> Value:
    """Convolutions with a residual on int16, interpolated tables between them."""
    curve = np.round(np.tanh(np.linspace(-4, 4, 513)) * 30000).astype(int)

    def conv(source: Value, out: int, stride: int = 1) -> Value:
        depth, pad = source.shape[3], (0, 1, 0, 1) if stride == 2 else (1, 1, 1, 1)
        kernels, biases = weights(rng, out, 3, 3, depth), rng.integers(-(2**20), 2**20, out)
        sums = graph.conv(source, kernels, biases, pad=pad, stride=(stride, stride))
        return graph.rescale(sums, per_channel(rng, out, 0.02 / depth**0.5, 15), dtype="int16")

    value = graph.input((1, 24, 24, 3), "int16")
    for out in (12, 20):
        down = graph.rescale(graph.table(conv(value, out, 2), curve), 1 / 128, dtype="int16")
        same = conv(down, out)
        wide = [graph.rescale(branch, 2.0**12 * scale, dtype="int32") for branch, scale in ((down, 1.0), (same, 0.6))]
        value = graph.rescale(graph.binary("ADD", *wide), 0.6 / 2.0**12, dtype="int16")
    return graph.average_pool(value, (6, 6))
