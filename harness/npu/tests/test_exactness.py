"""Protects the arithmetic: every operation equals tosa_reference_model bit for bit, at every size of Ethos-U55."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.npu import CONFIGURATIONS, Fault
from harness.npu.conformance.compiled import compile_graph, reference
from harness.npu.conformance.graph import Graph, Value, multiplier_shift
from harness.npu.operations import Elementwise

Array = npt.NDArray[Any]
Rng = np.random.Generator
Case = Callable[[Graph, Rng], Value]

NPUS = [configuration.name for configuration in CONFIGURATIONS]
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    """Registers a graph to check."""

    def register(build: Case) -> Case:
        assert name not in CASES
        CASES[name] = build
        return build

    return register


def weights(rng: Rng, *shape: int) -> Array:
    """Random weights, some of them zero, so that the codec's runs of zeros occur."""
    return rng.integers(-127, 128, shape) * (rng.random(shape) < 0.8)


def per_channel(rng: Rng, channels: int, largest: float) -> list[tuple[int, int]]:
    """A scale for each channel."""
    return [multiplier_shift(float(s)) for s in rng.uniform(largest / 20, largest, channels)]


def convolution(
    depth: int,
    out: int,
    kernel: tuple[int, int],
    size: tuple[int, int],
    *,
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    zero: int = -7,
) -> Case:
    """CONV2D with a bias and per-channel scales."""

    def build(graph: Graph, rng: Rng) -> Value:
        source = graph.input((1, *size, depth))
        sums = graph.conv(
            source,
            weights(rng, out, *kernel, depth),
            rng.integers(-20000, 20000, out),
            zero=zero,
            pad=pad,
            stride=stride,
            dilation=dilation,
        )
        spread = 3.0 / np.sqrt(depth * kernel[0] * kernel[1]) / 73
        return graph.rescale(sums, per_channel(rng, out, spread), zero_out=11)

    return build


def depthwise(
    depth: int,
    kernel: tuple[int, int],
    size: tuple[int, int],
    *,
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
) -> Case:
    """DEPTHWISE_CONV2D with a bias and per-channel scales."""

    def build(graph: Graph, rng: Rng) -> Value:
        source = graph.input((1, *size, depth))
        sums = graph.depthwise(
            source,
            weights(rng, *kernel, depth, 1),
            rng.integers(-9000, 9000, depth),
            zero=-128,
            pad=pad,
            stride=stride,
            dilation=dilation,
        )
        return graph.clamp(graph.rescale(sums, per_channel(rng, depth, 0.01), zero_out=-128), -128, 90)

    return build


CASES |= {
    "conv point": convolution(16, 24, (1, 1), (8, 9)),
    "conv 3x3 shallow": convolution(3, 16, (3, 3), (13, 11), pad=(1, 1, 1, 1)),
    "conv 3x3 odd depth": convolution(37, 21, (3, 3), (7, 6), pad=(1, 1, 1, 1)),
    "conv 3x3 stride 2": convolution(8, 16, (3, 3), (16, 14), pad=(0, 1, 1, 0), stride=(2, 2)),
    "conv stride 1x2": convolution(5, 9, (3, 3), (9, 11), pad=(1, 1, 1, 1), stride=(1, 2)),
    "conv stride 3": convolution(5, 9, (3, 3), (21, 18), stride=(3, 3)),
    "conv dilation 2": convolution(12, 9, (3, 3), (12, 11), pad=(2, 2, 2, 2), dilation=(2, 2)),
    "conv dilation 2x1": convolution(4, 9, (5, 3), (14, 11), pad=(4, 4, 1, 1), dilation=(2, 1)),
    "conv 9x9": convolution(4, 6, (9, 9), (14, 13), pad=(4, 4, 4, 4)),
    "conv 9x9 deep": convolution(40, 8, (9, 9), (10, 10)),
    "conv 1x7": convolution(6, 17, (1, 7), (9, 12), pad=(0, 0, 3, 3)),
    "conv 11x1": convolution(6, 17, (11, 1), (20, 5)),
    "conv zero point of padding": convolution(8, 8, (3, 3), (6, 6), pad=(1, 1, 1, 1), zero=127),
    "conv split in depth": convolution(128, 256, (3, 3), (5, 5), pad=(1, 1, 1, 1)),
    "conv as fully connected": convolution(300, 100, (1, 1), (1, 1)),
    "conv of one element": convolution(1, 1, (1, 1), (1, 1)),
    "depthwise 3x3": depthwise(24, (3, 3), (12, 13), pad=(1, 1, 1, 1)),
    "depthwise 5x5 stride 2": depthwise(17, (5, 5), (23, 21), pad=(2, 2, 2, 2), stride=(2, 2)),
    "depthwise dilation 2": depthwise(17, (3, 3), (14, 13), dilation=(2, 2)),
    "depthwise 9x9": depthwise(6, (9, 9), (14, 13), pad=(4, 4, 4, 4)),
    "depthwise deep": depthwise(130, (3, 3), (6, 6), pad=(1, 0, 1, 0), stride=(2, 2)),
}


@case("conv beyond 24 bits")
def _(graph: Graph, rng: Rng) -> Value:
    # sums reach 1600 * 127 * 255: not exact in float32
    source = graph.input((1, 2, 2, 1600))
    sums = graph.conv(source, np.full((3, 1, 1, 1600), 127), np.array([0, 1, -1]), zero=-128)
    return graph.rescale(sums, [(1 << 30, 48), (1 << 30, 49), (1340000001, 49)])


@case("conv with table")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.input((1, 6, 7, 8))
    sums = graph.conv(source, weights(rng, 16, 1, 1, 8), rng.integers(-999, 999, 16))
    return graph.table(graph.rescale(sums, per_channel(rng, 16, 0.02)), rng.integers(-128, 128, 256))


@case("conv with batch")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.input((2, 6, 7, 8))
    sums = graph.conv(source, weights(rng, 9, 3, 3, 8), rng.integers(-999, 999, 9), pad=(1, 1, 1, 1))
    return graph.rescale(sums, per_channel(rng, 9, 0.01))


@case("depthwise multiplier 2")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.input((1, 6, 7, 8))
    sums = graph.depthwise(source, weights(rng, 3, 3, 8, 2), rng.integers(-999, 999, 16), pad=(1, 1, 1, 1))
    return graph.rescale(sums, per_channel(rng, 16, 0.01))


@case("transposed conv")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.input((1, 7, 6, 9))
    sums = graph.transpose_conv(
        source, weights(rng, 8, 3, 3, 9), rng.integers(-999, 999, 8), zero=5, out_pad=(-1, 0, -1, 0)
    )
    return graph.rescale(sums, per_channel(rng, 8, 0.01), zero_out=-4)


@case("transposed conv 2x2")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.input((1, 5, 6, 4))
    sums = graph.transpose_conv(source, weights(rng, 8, 2, 2, 4), rng.integers(-999, 999, 8), zero=-128)
    return graph.rescale(sums, per_channel(rng, 8, 0.02))


def pool(kind: str, *arguments: Any, depth: int = 19, size: tuple[int, int] = (16, 15)) -> Case:
    """A pool."""

    def build(graph: Graph, rng: Rng) -> Value:
        source = graph.input((1, *size, depth))
        made: Value = getattr(graph, kind)(source, *arguments)
        return made

    return build


CASES |= {
    "max pool": pool("max_pool", (2, 2), (2, 2), size=(16, 14)),
    "max pool padded": pool("max_pool", (3, 3), (2, 2), (1, 0, 1, 1)),
    "max pool 5x1": pool("max_pool", (5, 1), (1, 1), (2, 2, 0, 0)),
    "average pool": pool("average_pool", (2, 2), (2, 2), (0, 0, 0, 0), -9, -9, size=(16, 14)),
    "average pool 3x3": pool("average_pool", (3, 3), (1, 1), (0, 0, 0, 0), 4, 4),
    "average pool padded": pool("average_pool", (3, 3), (1, 1), (1, 1, 1, 1), 4, 4),
    "average pool padded stride 2": pool("average_pool", (3, 3), (2, 2), (1, 0, 0, 0), -128, -128),
    "average pool whole": pool("average_pool", (7, 7), (1, 1), (0, 0, 0, 0), -128, -128, size=(7, 7), depth=33),
    "average pool new zero point": pool("average_pool", (2, 3), (2, 3), (0, 0, 0, 0), 3, -20),
}


@case("sum over channels")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.rescale(graph.input((1, 5, 6, 33)), 1.0, zero_in=12, dtype="int32")
    return graph.rescale(graph.reduce("SUM", source, 3), 1 / 33, zero_out=-5)


@case("mean")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.rescale(graph.input((1, 7, 6, 20)), 1.0, zero_in=-33, dtype="int32")
    return graph.rescale(graph.reduce("SUM", graph.reduce("SUM", source, 1), 2), 0.0371, zero_out=3)


@case("maximum over channels")
def _(graph: Graph, rng: Rng) -> Value:
    return graph.reduce("MAX", graph.input((1, 5, 6, 33)), 3)


def arithmetic(
    op: str,
    first: tuple[int, ...] = (1, 5, 6, 7),
    second: tuple[int, ...] = (1, 5, 6, 7),
    scales: tuple[float, float, float] = (0.31, 0.5, 0.91),
) -> Case:
    """ADD, SUB or MUL as ExecuTorch emits them: both inputs to int32, the operation, and back."""

    def build(graph: Graph, rng: Rng) -> Value:
        a, b = graph.input(first), graph.input(second)
        shift = 20 if op in ("ADD", "SUB") else 0
        wide = [
            graph.rescale(a, scales[0] * 2.0**shift if shift else 1.0, zero_in=-37, dtype="int32"),
            graph.rescale(b, scales[1] * 2.0**shift if shift else 1.0, zero_in=14, dtype="int32"),
        ]
        result = graph.binary(op, *wide)
        return graph.rescale(result, scales[2] / 2.0**shift if shift else 0.0123, zero_out=-28)

    return build


CASES |= {
    "add": arithmetic("ADD"),
    "add, second input scaled": arithmetic("ADD", scales=(0.5, 0.43, 0.51)),
    "add, both inputs scaled": arithmetic("ADD", scales=(0.3, 0.43, 0.91)),
    "add of a row": arithmetic("ADD", second=(1, 1, 6, 7)),
    "add of channels": arithmetic("ADD", second=(1, 1, 1, 7)),
    "add of one": arithmetic("ADD", second=(1, 1, 1, 1)),
    "add to one": arithmetic("ADD", first=(1, 1, 1, 1)),
    "add to one, other scale": arithmetic("ADD", first=(1, 1, 1, 1), scales=(0.5, 0.43, 0.51)),
    "sub": arithmetic("SUB"),
    "sub, second input scaled": arithmetic("SUB", scales=(0.5, 0.43, 0.51)),
    "sub, both inputs scaled": arithmetic("SUB", scales=(0.3, 0.43, 0.91)),
    "sub from channels": arithmetic("SUB", first=(1, 1, 1, 7)),
    "sub from channels, other scale": arithmetic("SUB", first=(1, 1, 1, 7), scales=(0.5, 0.43, 0.51)),
    "mul": arithmetic("MUL"),
    "mul by channels": arithmetic("MUL", second=(1, 1, 1, 7)),
    "mul by positions": arithmetic("MUL", second=(1, 5, 6, 1)),
}


def words(op: str, low: int, high: int, low2: int | None = None, high2: int | None = None) -> Case:
    """An operation on two int32 inputs."""

    def build(graph: Graph, rng: Rng) -> Value:
        return graph.binary(op, graph.input((1, 5, 6, 7), "int32"), graph.input((1, 5, 6, 7), "int32"))

    RANGES[build] = ((low, high), (low if low2 is None else low2, high if high2 is None else high2))
    return build


RANGES: dict[Case, tuple[tuple[int, int], ...]] = {}
CASES |= {
    "int32 add": words("ADD", -(2**30), 2**30),
    "int32 sub": words("SUB", -(2**30), 2**30),
    "int32 mul": words("MUL", -46000, 46000),
    "int32 min": words("MINIMUM", -(2**31), 2**31),
    "int32 max": words("MAXIMUM", -(2**31), 2**31),
    "int32 shift left": words("LOGICAL_LEFT_SHIFT", -3000, 3000, 0, 19),
    "int32 shift right, rounding": words("ARITHMETIC_RIGHT_SHIFT_ROUND", -300000, 300000, 1, 15),
}


def single(op: str, low: int, high: int) -> Case:
    """An operation on one int32 input."""

    def build(graph: Graph, rng: Rng) -> Value:
        return graph.unary(op, graph.input((1, 5, 6, 7), "int32"))

    RANGES[build] = ((low, high),)
    return build


CASES |= {
    "int32 abs": single("ABS", -(2**31) + 1, 2**31),
    "int32 count of leading zeros": single("CLZ", -(2**31), 2**31),
}


@case("int8 maximum")
def _(graph: Graph, rng: Rng) -> Value:
    wide = [graph.rescale(graph.input((1, 5, 6, 7)), 1.0, zero_in=3, dtype="int32") for _ in range(2)]
    return graph.rescale(graph.binary("MAXIMUM", *wide), 1.0, zero_out=3)


@case("int8 minimum")
def _(graph: Graph, rng: Rng) -> Value:
    wide = [graph.rescale(graph.input((1, 5, 6, 7)), 1.0, zero_in=3, dtype="int32") for _ in range(2)]
    return graph.rescale(graph.binary("MINIMUM", *wide), 1.0, zero_out=3)


@case("int8 abs")
def _(graph: Graph, rng: Rng) -> Value:
    wide = graph.rescale(graph.input((1, 5, 6, 7)), 1.0, zero_in=-17, dtype="int32")
    return graph.rescale(graph.unary("ABS", wide), 0.77, zero_out=-128)


@case("table")
def _(graph: Graph, rng: Rng) -> Value:
    return graph.table(graph.input((1, 5, 6, 19)), rng.integers(-128, 128, 256))


@case("int16 table")
def _(graph: Graph, rng: Rng) -> Value:
    wide = graph.rescale(graph.input((1, 5, 6, 9)), 250.0, zero_in=8, dtype="int16")
    entries = np.cumsum(rng.integers(-120, 121, 513)).clip(-32768, 32767)
    return graph.rescale(graph.table(wide, entries), 1 / 128 / 200)


@case("transpose")
def _(graph: Graph, rng: Rng) -> Value:
    return graph.transpose(graph.input((1, 5, 6, 19)), (0, 3, 1, 2))


@case("transpose back and forth in bricks")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.table(graph.input((1, 5, 6, 40)), rng.integers(-128, 128, 256))
    return graph.max_pool(graph.transpose(source, (0, 2, 1, 3)), (3, 3), pad=(1, 1, 1, 1))


@case("concat and slice")
def _(graph: Graph, rng: Rng) -> Value:
    parts = [graph.input((1, 5, 6, 5)), graph.input((1, 5, 6, 20))]
    return graph.slice(graph.concat(parts, 3), (0, 1, 0, 3), (1, 3, 6, 18))


@case("pad")
def _(graph: Graph, rng: Rng) -> Value:
    return graph.pad(graph.input((1, 5, 6, 9)), (0, 0, 1, 2, 0, 3, 0, 0), -77)


@case("conv, pool, residual in bricks")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.input((1, 12, 12, 8))
    first = graph.rescale(
        graph.conv(source, weights(rng, 24, 3, 3, 8), rng.integers(-99, 99, 24), pad=(1, 1, 1, 1)),
        per_channel(rng, 24, 0.01),
    )
    second = graph.rescale(
        graph.depthwise(first, weights(rng, 3, 3, 24, 1), rng.integers(-99, 99, 24), pad=(1, 1, 1, 1)),
        per_channel(rng, 24, 0.01),
    )
    wide = [graph.rescale(value, 2.0**20 * s, dtype="int32") for value, s in ((first, 1.0), (second, 0.5))]
    added = graph.rescale(graph.binary("ADD", *wide), 0.7 / 2**20)
    return graph.max_pool(added, (2, 2), (2, 2))


def example(value: Value, kind: str, rng: Rng, limits: tuple[int, int] | None) -> Array:
    """An input: random, or of extreme values only."""
    dtype = np.dtype(value.dtype)
    low, high = limits or (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1)
    if kind == "random":
        return rng.integers(low, high, value.shape).astype(dtype)
    return np.where(rng.random(value.shape) < 0.5, low, high - 1).astype(dtype)


def test_the_cases_reach_every_way_of_scaling_operands() -> None:
    """Which operand of ADD and SUB is scaled, in which order: a change in Vela must not quietly empty these cases."""
    ways = set()
    for name in CASES:
        if name.startswith(("add", "sub")):
            graph = Graph()
            tosa = graph.output(CASES[name](graph, np.random.default_rng(0))).serialize()
            for op in compile_graph(tosa, "ethos-u55-128").program().ops:
                if isinstance(op, Elementwise):
                    scaled = [operand.scale.multiplier != 1 << 19 for operand in op.operands].index(True)
                    order = op.ifms[0].bases[0] != op.accesses[0].begin
                    ways.add((op.mode.name, scaled, order))
    expected = {(mode, scaled, order) for mode in ("ADD", "SUB") for scaled in (0, 1) for order in (False, True)}
    assert expected <= ways


@pytest.mark.parametrize("npu", NPUS)
@pytest.mark.parametrize("name", CASES)
def test_operation_equals_the_reference(name: str, npu: str) -> None:
    rng = np.random.default_rng(list(CASES).index(name))
    graph = Graph()
    build = CASES[name]
    tosa = graph.output(build(graph, rng)).serialize()
    compiled = compile_graph(tosa, npu)
    for kind in ("random", "extremes"):
        limits = RANGES.get(build, (None,) * len(graph.inputs))
        inputs = [example(value, kind, rng, limit) for value, limit in zip(graph.inputs, limits, strict=True)]
        assert compiled.run(inputs)[0] == reference(tosa, inputs), kind


def test_a_sum_that_float32_cannot_hold() -> None:
    """2**24 + 1 and 2**24 round to different outputs here; float32 has no 2**24 + 1."""
    taps = np.full(1042, 127)
    taps[1040:] = 24, 9
    graph = Graph()
    sums = graph.conv(graph.input((1, 1, 1, 1042)), taps.reshape(1, 1, 1, 1042), np.zeros(1))
    multiplier = -(-(1 << 54) // ((1 << 24) + 1))
    tosa = graph.output(graph.rescale(sums, [(multiplier, 55)])).serialize()
    values = np.full((1, 1, 1, 1042), 127, np.int8)
    values[..., -1] = 1
    assert int(values.ravel().astype(int) @ taps) == (1 << 24) + 1
    outputs = compile_graph(tosa, "ethos-u55-128").run([values])[0]
    assert outputs == reference(tosa, [values]) == [b"\x01"]


def test_a_bias_that_cancels_a_large_sum() -> None:
    """Sum and bias times the multiplier exceed 53 bits each; their sum is one, a hair below half-way after scaling."""
    rng = np.random.default_rng(0)
    taps = rng.integers(80, 128, (64, 1, 1, 900))
    values = np.full((1, 1, 1, 900), 127, np.int8)
    bias = 1 - 127 * taps.reshape(64, 900).sum(axis=1)
    graph = Graph()
    sums = graph.conv(graph.input((1, 1, 1, 900)), taps, bias)
    tosa = graph.output(graph.rescale(sums, [((1 << 31) - 1, 32)] * 64)).serialize()
    assert compile_graph(tosa, "ethos-u55-128").run([values])[0] == reference(tosa, [values]) == [bytes(64)]


@pytest.mark.parametrize("npu", NPUS)
def test_vela_loads_tables_of_transposed_maps_beyond_a_small_shram(npu: str) -> None:
    """A defect of Vela 5.1 that is refused with a hint; when this test fails, the hint has become obsolete."""
    rng = np.random.default_rng(0)
    graph = Graph()
    transposed = graph.transpose(graph.input((1, 5, 6, 8)), (0, 3, 1, 2))
    tosa = graph.output(graph.table(transposed, rng.integers(-128, 128, 256))).serialize()
    compiled = compile_graph(tosa, npu)
    values = rng.integers(-128, 128, (1, 5, 6, 8)).astype(np.int8)
    if npu not in ("ethos-u55-32", "ethos-u55-64"):
        assert compiled.run([values])[0] == reference(tosa, [values])
        return
    with pytest.raises(Fault) as caught:
        compiled.program()
    assert (caught.value.kind, caught.value.register, caught.value.value) == ("bus", "DMA0_DST", 0x4000)
    assert "Vela" in (caught.value.hint or "")
