"""Programs of convolutions: kernels, strides, dilations, paddings, depths, weight formats, 8- and 16-bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np

from ethos_hil.lowering.testing.programs.pieces import convolution, depthwise, per_channel, requantized, weights
from ethos_hil.lowering.testing.tosa_graph import Array, Graph, Kernel, Pads, Pair, Value
from ethos_hil.lowering.testing.tosa_program import Build, ProgramCatalogue, Rng

CONVOLUTIONS = ProgramCatalogue()
EDGE = (1, 1, 1, 1)

CONVOLUTIONS.add_all({
    "conv point": convolution(16, 24, (1, 1), (8, 9)),
    "conv 3x3 shallow": convolution(3, 16, (3, 3), (13, 11), pad=EDGE),
    "conv 3x3 odd depth": convolution(37, 21, (3, 3), (7, 6), pad=EDGE),
    "conv 3x3 stride 2": convolution(8, 16, (3, 3), (16, 14), pad=(0, 1, 1, 0), stride=(2, 2)),
    "conv stride 1x2": convolution(5, 9, (3, 3), (9, 11), pad=EDGE, stride=(1, 2)),
    "conv stride 3": convolution(5, 9, (3, 3), (21, 18), stride=(3, 3)),
    "conv stride 4": convolution(3, 9, (5, 5), (21, 17), stride=(4, 4)),
    "conv point stride 2": convolution(18, 9, (1, 1), (9, 7), stride=(2, 2)),
    "conv dilation 2": convolution(12, 9, (3, 3), (12, 11), pad=(2, 2, 2, 2), dilation=(2, 2)),
    "conv dilation 2x1": convolution(4, 9, (5, 3), (14, 11), pad=(4, 4, 1, 1), dilation=(2, 1)),
    "conv dilation 3": convolution(4, 9, (3, 3), (14, 11), pad=(3, 3, 3, 3), dilation=(3, 3)),
    "conv 9x9": convolution(4, 6, (9, 9), (14, 13), pad=(4, 4, 4, 4)),
    "conv 9x9 deep": convolution(40, 8, (9, 9), (10, 10)),
    "conv 1x7": convolution(6, 17, (1, 7), (9, 12), pad=(0, 0, 3, 3)),
    "conv 11x1": convolution(6, 17, (11, 1), (20, 5)),
    "conv 2x2 even, one-sided padding": convolution(6, 10, (2, 2), (7, 9), pad=(0, 1, 0, 1)),
    "conv zero point of padding": convolution(8, 8, (3, 3), (6, 6), pad=EDGE, zero=127),
    "conv one input channel": convolution(1, 13, (3, 3), (12, 10), pad=EDGE),
    "conv one output channel": convolution(33, 1, (3, 3), (6, 7), pad=EDGE),
    "conv split in depth": convolution(128, 256, (3, 3), (5, 5), pad=EDGE),
    "conv wide": convolution(16, 20, (3, 3), (3, 200), pad=EDGE),
    "conv tall": convolution(16, 20, (3, 3), (200, 3), pad=EDGE),
    "conv weights by DMA": convolution(96, 320, (3, 3), (9, 9), pad=EDGE),
    "conv as fully connected": convolution(300, 100, (1, 1), (1, 1)),
    "conv as fully connected, large": convolution(1024, 1000, (1, 1), (1, 1)),
    "conv as fully connected, batch 4": convolution(70, 33, (1, 1), (1, 1), batch=4),
    "conv of one element": convolution(1, 1, (1, 1), (1, 1)),
    "conv with batch": convolution(8, 9, (3, 3), (6, 7), pad=EDGE, batch=2),
    "conv int16 point": convolution(16, 24, (1, 1), (8, 9), dtype="int16"),
    "conv int16 3x3": convolution(9, 17, (3, 3), (7, 6), pad=EDGE, dtype="int16"),
    "conv int16 3x3 stride 2": convolution(20, 7, (3, 3), (9, 11), pad=EDGE, stride=(2, 2), dtype="int16"),
    "conv int16 dilation 2": convolution(12, 9, (3, 3), (12, 11), pad=(2, 2, 2, 2), dilation=(2, 2), dtype="int16"),
    "conv int16 9x9": convolution(4, 6, (9, 9), (11, 10), pad=(4, 4, 4, 4), dtype="int16"),
    "conv int16 deep": convolution(140, 70, (3, 3), (5, 5), pad=EDGE, dtype="int16"),
    "depthwise 3x3": depthwise(24, (3, 3), (12, 13), pad=EDGE),
    "depthwise 5x5 stride 2": depthwise(17, (5, 5), (23, 21), pad=(2, 2, 2, 2), stride=(2, 2)),
    "depthwise dilation 2": depthwise(17, (3, 3), (14, 13), dilation=(2, 2)),
    "depthwise 9x9": depthwise(6, (9, 9), (14, 13), pad=(4, 4, 4, 4)),
    "depthwise deep": depthwise(130, (3, 3), (6, 7), pad=(1, 0, 1, 1), stride=(2, 2)),
    "depthwise 1x5": depthwise(35, (1, 5), (6, 14), pad=(0, 0, 2, 2)),
    "depthwise stride 3": depthwise(20, (3, 3), (12, 15), stride=(3, 3)),
    "depthwise with batch": depthwise(20, (3, 3), (6, 7), pad=EDGE, batch=3),
    "depthwise multiplier 2": depthwise(8, (3, 3), (6, 7), pad=EDGE, multiplier=2),
    "depthwise multiplier of one channel": depthwise(1, (5, 3), (12, 9), pad=(2, 2, 1, 1), multiplier=18),
    "depthwise int16 3x3": depthwise(24, (3, 3), (9, 8), pad=EDGE, dtype="int16"),
    "depthwise int16 stride 2": depthwise(33, (3, 3), (9, 11), pad=EDGE, stride=(2, 2), dtype="int16"),
    "depthwise int16 dilation 2": depthwise(10, (3, 3), (11, 9), dilation=(2, 2), dtype="int16"),
})  # fmt: skip


def sums(
    graph: Graph, rng: Rng, *shape: int, bias: int = 999, dtype: str = "int8", depth: int = 8, **kernel: Unpack[Kernel]
) -> Value:
    """A convolution of a map of 6 x 7, with random weights of that shape, and biases below that number."""
    source = graph.input((1, 6, 7, depth), dtype)
    return graph.conv(source, weights(rng, *shape, depth), rng.integers(-bias, bias, shape[0]), **kernel)


def beyond_24_bits(graph: Graph, rng: Rng) -> Value:
    # sums reach 1600 * 127 * 255: not exact in float32
    source = graph.input((1, 2, 2, 1600))
    products = graph.conv(source, np.full((3, 1, 1, 1600), 127), np.array([0, 1, -1]), zero=-128)
    return graph.rescale(products, [(1 << 30, 48), (1 << 30, 49), (1340000001, 49)])


def one_above_24_bits(rng: Rng) -> list[Array]:
    values = np.full((1, 1, 1, 1042), 127, np.int8)
    values[..., -1] = 1
    return [values]


def past_24_bits(graph: Graph, rng: Rng) -> Value:
    # 2**24 + 1, which float32 does not have, becomes 1 where 2**24 becomes 0
    taps = np.full(1042, 127)
    taps[1040:] = 24, 9
    products = graph.conv(graph.input((1, 1, 1, 1042)), taps.reshape(1, 1, 1, 1042), np.zeros(1))
    return graph.rescale(products, [(-(-(1 << 54) // ((1 << 24) + 1)), 55)])


def cancelling(graph: Graph, rng: Rng) -> Value:
    # sum and bias times the multiplier exceed 53 bits each; together they are one, a hair below half-way when scaled
    taps = rng.integers(80, 128, (64, 1, 1, 900))
    bias = 1 - 127 * taps.reshape(64, 900).sum(axis=1)
    return graph.rescale(graph.conv(graph.input((1, 1, 1, 900)), taps, bias), [((1 << 31) - 1, 32)] * 64)


CONVOLUTIONS.add("conv one past 24 bits", past_24_bits, given=[one_above_24_bits])
largest = [lambda rng: [np.full((1, 1, 1, 900), 127, np.int8)]]
CONVOLUTIONS.add("conv with a bias that cancels the sum", cancelling, given=largest)


def ties(graph: Graph, rng: Rng) -> Value:
    # one weight, so sums are consecutive; scales are powers of two, so every other sum (fourth, ...) is half-way
    scales = [(1 << 30, 30 + shift) for shift in (1, 2, 3, 5, 1, 2, 3, 5)]
    biases = np.array([0, 0, 0, 0, -300, 301, -302, 303])
    return graph.rescale(graph.conv(graph.input((1, 16, 16, 1)), np.ones((8, 1, 1, 1)), biases), scales, zero_out=-3)


def ties_of_int16(graph: Graph, rng: Rng) -> Value:
    scales = [(1 << 14, 14 + shift) for shift in (1, 2, 3, 5)]
    products = graph.conv(graph.input((1, 32, 32, 1), "int16"), np.ones((4, 1, 1, 1)), np.zeros(4))
    return graph.rescale(products, scales, dtype="int16")


def of_40_bits(graph: Graph, rng: Rng) -> Value:
    source = graph.input((1, 4, 5, 8), "int16")
    products = graph.conv(source, weights(rng, 16, 1, 1, 8), rng.integers(-(2**38), 2**38, 16))
    return graph.rescale(products, per_channel(rng, 16, 2e-7, 15), dtype="int16")


def by_way_of_int32(graph: Graph, rng: Rng) -> Value:
    # as ExecuTorch emits it: an identity to int32, which must not overflow, then the scales with 31 bits
    narrow = graph.rescale(sums(graph, rng, 16, 3, 3, dtype="int16"), [(1 << 14, 14)], dtype="int32")
    return graph.rescale(narrow, per_channel(rng, 16, 0.003), dtype="int16")


def table_of_int16(graph: Graph, rng: Rng) -> Value:
    products = sums(graph, rng, 16, 1, 1, dtype="int16")
    entries = np.cumsum(rng.integers(-120, 121, 513)).clip(-32768, 32767)
    looked_up = graph.table(requantized(graph, rng, products, 0.01, "int16"), entries)
    return graph.rescale(looked_up, 1 / 128, dtype="int16")


def given_weights(name: str, kernels: Sequence[int], dtype: str = "int8") -> Build:
    """A convolution, or a depthwise one, whose weights are an input."""

    def build(graph: Graph, rng: Rng) -> Value:
        zero, out = (0, 0) if dtype == "int16" else (4, 11)
        add = graph.depthwise if name == "depthwise" else graph.conv
        products = add(graph.input((1, 5, 6, 8), dtype), graph.input(kernels), rng.integers(-999, 999, 8), zero=zero)
        # one scale: of those per channel, Vela 5.1 gives every channel the first
        return graph.rescale(products, 0.0012, zero_out=out, dtype=dtype)

    return build


def held(draw: Callable[[Rng], Array], scale: float, dtype: str = "int8", **kernel: Unpack[Kernel]) -> Build:
    """A convolution with these weights."""

    def build(graph: Graph, rng: Rng) -> Value:
        values = draw(rng)
        source = graph.input((1, 6, 7, values.shape[3]))
        products = graph.conv(source, values, rng.integers(-99, 99, len(values)), **kernel)
        return requantized(graph, rng, products, scale, dtype)

    return build


def sparse(out: int, kernel: int, depth: int) -> Callable[[Rng], Array]:
    """At most two of four neighbouring input channels are not zero."""

    def draw(rng: Rng) -> Array:
        values = rng.integers(-127, 128, (out, kernel, kernel, depth // 4, 4))
        mask = rng.permuted(np.broadcast_to([True, True, False, False], values.shape), axis=-1)
        return (values * mask).reshape(out, kernel, kernel, depth)

    return draw


def of_values(count: int) -> Callable[[Rng], Array]:
    return lambda rng: rng.choice(rng.permutation(np.arange(-127, 128))[:count], (40, 3, 3, 64))


def solid(graph: Graph, rng: Rng, depth: int, pad: int) -> Value:
    source, kernels = graph.input((1, 5, 6, 7, 4)), weights(rng, 9, depth, 3, 3, 4)
    products = graph.conv3d(source, kernels, rng.integers(-999, 999, 9), zero=5, pad=(pad,) * 6)
    return requantized(graph, rng, products, 0.01, "int8")


EXTREME = [((1 << 31) - 1, 31), (1 << 30, 62), (1, 20), ((1 << 31) - 1, 44), (3, 22), (1 << 30, 38)]
CONVOLUTIONS.add_all({
    "conv beyond 24 bits": beyond_24_bits,
    "conv with ties in every channel": ties,
    "conv int16 with ties in every channel": ties_of_int16,
    "conv with one scale for all channels":
        lambda g, r: g.rescale(sums(g, r, 16, 3, 3, pad=EDGE, zero=4), 0.0071, zero_out=-9),
    "conv with extreme scales": lambda g, r: g.rescale(sums(g, r, 6, 1, 1), EXTREME),
    "conv with double rounding": lambda g, r: g.rescale(
        sums(g, r, 16, 3, 3, pad=EDGE, zero=4), per_channel(r, 16, 0.02), zero_out=-9, double_round=True),
    "conv to int32": lambda g, r: sums(g, r, 16, 3, 3, bias=2**29, pad=EDGE, zero=4),
    "conv int8 to int16":
        lambda g, r: requantized(g, r, sums(g, r, 16, 3, 3, pad=EDGE, zero=4), 2.0, "int16"),
    "conv int16 to int8":
        lambda g, r: requantized(g, r, sums(g, r, 16, 3, 3, dtype="int16", pad=EDGE), 0.00004, "int8"),
    "conv int16 with 40-bit bias": of_40_bits,
    "conv int16 by way of int32": by_way_of_int32,
    "conv, clamped":
        lambda g, r: g.clamp(requantized(g, r, sums(g, r, 16, 1, 1), 0.02, "int8", -20), -20, 77),
    "conv with table": lambda g, r: g.table(
        g.rescale(sums(g, r, 16, 1, 1), per_channel(r, 16, 0.02)), r.integers(-128, 128, 256)),
    "conv int16 with table": table_of_int16,
    "conv weights as input": given_weights("conv", (8, 3, 3, 8)),
    "conv int16 weights as input": given_weights("conv", (8, 1, 1, 8), "int16"),
    "depthwise weights as input": given_weights("depthwise", (3, 3, 8, 1)),
    "conv int4 weights": held(lambda r: r.integers(-7, 8, (16, 3, 3, 8)), 0.05, weight_type="int4"),
    "conv weights 2:4 sparse": held(sparse(64, 3, 128), 0.002, pad=EDGE),
    "conv weights 2:4 sparse, point": held(sparse(96, 1, 256), 0.004),
    "conv weights equal": held(of_values(1), 0.002, pad=EDGE, zero=3),
    "conv weights of two values": held(of_values(2), 0.002, pad=EDGE, zero=3),
    "conv weights of four values": held(of_values(4), 0.002, pad=EDGE, zero=3),
    "conv weights of fourteen values": held(of_values(14), 0.002, pad=EDGE, zero=3),
    "conv weights mostly zero": held(
        lambda r: r.integers(-127, 128, (40, 3, 3, 32)) * (r.random((40, 3, 3, 32)) < 0.03), 0.02, pad=EDGE, zero=3),
    "conv weights extreme":
        held(lambda r: np.where(r.random((24, 3, 3, 40)) < 0.5, -128, 127), 0.002, pad=EDGE, zero=-128),
    "conv 3D, flat kernel": lambda g, r: solid(g, r, 1, 0),
    "conv 3D": lambda g, r: solid(g, r, 3, 1),
    "conv padded beyond its kernel":
        lambda g, r: requantized(g, r, sums(g, r, 16, 1, 1, pad=EDGE, zero=4), 0.01, "int8"),
})  # fmt: skip


def transposed(
    depth: int, out: int, kernel: Pair, size: Pair, stride: Pair, out_pad: Pads = (0, 0, 0, 0), dtype: str = "int8"
) -> None:
    def build(graph: Graph, rng: Rng) -> Value:
        zero = 0 if dtype == "int16" else 5
        kernels, biases = weights(rng, out, *kernel, depth), rng.integers(-999, 999, out)
        source = graph.input((1, *size, depth), dtype)
        products = graph.transpose_conv(source, kernels, biases, zero=zero, out_pad=out_pad, stride=stride)
        return requantized(graph, rng, products, 0.01, dtype, -4)

    edges = ", cropped" if any(out_pad) else ""
    kind = "" if dtype == "int8" else f" {dtype}"
    name = f"transposed conv{kind} {kernel[0]}x{kernel[1]} stride {stride[0]}x{stride[1]}{edges}"
    CONVOLUTIONS.add(name, build)


transposed(9, 8, (3, 3), (7, 6), (2, 2), (-1, 0, -1, 0))
transposed(9, 8, (3, 3), (7, 6), (2, 2))
transposed(4, 8, (2, 2), (5, 6), (2, 2))
transposed(20, 12, (4, 4), (5, 6), (2, 2), (-1, -1, -1, -1))
transposed(6, 5, (3, 3), (5, 6), (1, 1), (-1, -1, -1, -1))
transposed(6, 5, (1, 4), (1, 9), (1, 2))
transposed(6, 5, (4, 1), (9, 1), (2, 1))
transposed(6, 5, (3, 3), (5, 6), (3, 3))
transposed(9, 8, (3, 3), (7, 6), (2, 2), (-1, 0, -1, 0), "int16")
