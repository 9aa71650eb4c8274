"""Convolutions as Vela encodes them: graphs with known weights, and the contents of their streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from ethosu import mlw_codec

from ethos_hil.harness.npu.compute.dma import DmaStep
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import INTERNAL, Convolution, Dma, Weights
from ethos_hil.harness.npu.weights import decompress
from ethos_hil.harness.npu.weights.decompress import Array, Compressed
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.testing.tosa_graph import Graph, Value


def mlw(values: np.ndarray) -> bytes:
    """A stream of weights, from Vela's own encoder."""
    return bytes(mlw_codec.encode(values.ravel().astype(int).tolist()))


Build = Callable[[Graph, np.random.Generator], tuple[Value, Array, Array]]


@dataclass(frozen=True)
class Encoded:
    """A convolution of a stream: its operation, the bytes of its streams, and the weights and biases of the graph."""

    at: Weights
    compressed: Compressed
    scales: tuple[np.ndarray, ...]

    @property
    def order(self) -> Any:
        """The weight order that the registers describe; each generation has its own fields."""
        return self.at.order

    def tensor(self) -> Array:
        """The weights."""
        return decompress.decode(self.compressed, self.at.order)

    def bias(self) -> Array:
        """The biases."""
        return decompress.decode_scales(self.scales, self.at.order.ofm_depth, self.at.layout)[0]


def some(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Array:
    """Return weights (..., input channels) of a kind that makes Vela choose a certain coding."""
    if kind == "few":
        return rng.choice([-3, 0, 1, 50], shape)
    if kind == "sixteen":
        return rng.choice(np.arange(-96, 112, 13), shape)
    values = rng.integers(-127, 128, shape)
    if kind == "zeros":
        values *= rng.random(shape) < 0.2
    if kind == "sparse":  # two zeros in every four input channels
        values.reshape(-1, 4)[:, ::2] = 0
    return values


def conv(
    inputs: int,
    outputs: int,
    kernel: tuple[int, int] = (1, 1),
    size: tuple[int, int] = (12, 12),
    *,
    dtype: str = "int8",
    kind: str = "full",
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    zero: int = 0,
) -> Build:
    """Add a CONV2D; `zero` is the weights' zero point, which Vela subtracts from them."""

    def build(graph: Graph, rng: np.random.Generator) -> tuple[Value, Array, Array]:
        values = some(rng, (outputs, *kernel, inputs), kind)
        bias = rng.integers(-100000, 100000, outputs)
        source = graph.input((1, *size, inputs), dtype)
        result = graph.conv(source, values, bias, stride=stride, dilation=dilation, weight_zero=zero)
        return result, values - zero, bias

    return build


def depthwise(
    channels: int,
    kernel: tuple[int, int] = (3, 3),
    size: tuple[int, int] = (12, 12),
    *,
    dtype: str = "int8",
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
) -> Build:
    def build(graph: Graph, rng: np.random.Generator) -> tuple[Value, Array, Array]:
        values = some(rng, (*kernel, channels, 1), "full")
        bias = rng.integers(-100000, 100000, channels)
        source = graph.input((1, *size, channels), dtype)
        result = graph.depthwise(source, values, bias, stride=stride, dilation=dilation)
        return result, values.transpose(2, 0, 1, 3), bias

    return build


CASES: dict[str, Build] = {
    "point": conv(64, 48),
    "point, odd depths": conv(37, 21),
    "point, deep": conv(200, 150, size=(4, 4)),
    "point, many blocks": conv(150, 300, size=(8, 8)),
    "one output": conv(64, 1),
    "one input": conv(1, 17, (3, 3)),
    "linear": conv(300, 100, size=(1, 1)),
    "3x3": conv(32, 24, (3, 3)),
    "3x3, few inputs": conv(3, 24, (3, 3)),
    "3x3, odd depths": conv(19, 70, (3, 3)),
    "3x3, many blocks": conv(70, 300, (3, 3), (8, 8)),
    "3x3, split in depth": conv(128, 512, (3, 3), (20, 20)),
    "9x9": conv(5, 12, (9, 9)),
    "9x10": conv(40, 20, (9, 10), (12, 14)),
    "17x3": conv(7, 9, (17, 3), (20, 9)),
    "strided": conv(16, 20, (3, 3), (13, 13), stride=(2, 2)),
    "strided 3, 2": conv(16, 20, (5, 4), (14, 14), stride=(3, 2)),
    "strided, few inputs": conv(3, 20, (7, 7), (15, 15), stride=(2, 2)),
    "dilated": conv(16, 20, (3, 3), dilation=(2, 2)),
    "dilated, large": conv(12, 10, (5, 5), (16, 16), dilation=(2, 1)),
    "depthwise": depthwise(24),
    "depthwise, wide": depthwise(300),
    "depthwise 1x9": depthwise(33, (1, 9)),
    "depthwise 9x9": depthwise(19, (9, 9)),
    "depthwise, strided": depthwise(37, (5, 5), (13, 13), stride=(2, 2)),
    "depthwise, dilated": depthwise(40, dilation=(2, 2)),
    "depthwise, one channel": depthwise(1),
    "16 bit, point": conv(40, 24, dtype="int16"),
    "16 bit, point, deep": conv(200, 48, size=(1, 3), dtype="int16"),
    "16 bit, linear": conv(77, 33, size=(1, 1), dtype="int16"),
    "16 bit, 3x3": conv(20, 24, (3, 3), dtype="int16"),
    "16 bit, 3x3, few inputs": conv(3, 24, (3, 3), dtype="int16"),
    "16 bit, 3x3, many blocks": conv(37, 170, (3, 3), dtype="int16"),
    "16 bit, strided": conv(24, 33, (3, 3), (13, 13), dtype="int16", stride=(2, 2)),
    "16 bit, depthwise": depthwise(70, (5, 5), (13, 13), dtype="int16", stride=(2, 2)),
    "9 bits": conv(40, 24, (3, 3), zero=100),
    "9 bits, depth first": conv(100, 24, zero=-100),
    "16 bit, 9 bits": conv(37, 70, (3, 3), dtype="int16", zero=60),
    "few values": conv(64, 48, kind="few"),
    "few values, 3x3": conv(40, 48, (3, 3), kind="few"),
    "sixteen values": conv(64, 48, kind="sixteen"),
    "mostly zeros": conv(64, 48, (3, 3), kind="zeros"),
    "sparse": conv(128, 48, kind="sparse"),
    "sparse, many blocks": conv(300, 300, size=(8, 8), kind="sparse"),
    "sparse, 3x3": conv(72, 200, (3, 3), (8, 8), kind="sparse"),
    "sparse, 16 bit": conv(64, 40, (3, 3), kind="sparse", dtype="int16"),
    "sparse, 16 bit, point": conv(200, 16, size=(5, 3), kind="sparse", dtype="int16"),
}


@cache
def compiled(name: str, npu: str, *flags: str) -> tuple[CompiledGraph, Array, Array]:
    """Return a case for a configuration, with its weights (output, height, width, input) and biases."""
    graph = Graph()
    result, values, bias = CASES[name](graph, np.random.default_rng(len(name)))
    dtype = "int16" if result.dtype == "int48" else "int8"
    graph.output(graph.rescale(result, 0.001, dtype=dtype))
    return compile_graph(graph.serialize(), npu, *flags), values, bias


def encoded(program: CompiledGraph) -> Iterator[Encoded]:
    """Return a program's convolutions, with the bytes at the places that their registers name."""
    memory = RegionMemory({**program.memory([]), INTERNAL: np.zeros(1 << 16, np.uint8)})
    for op in program.program().ops:
        if isinstance(op, Dma):
            DmaStep(op).run(memory)
        elif isinstance(op, Convolution):
            streams, scales = (
                [memory[at.region][at.base : at.base + at.length].copy() for at in places]
                for places in (op.weights.streams, op.weights.scales)
            )
            yield Encoded(op.weights, tuple(stream.tobytes() for stream in streams), tuple(scales))


def check(name: str, npu: str, *flags: str) -> list[Encoded]:
    """Compare all weights and biases of a case with those of its graph. Return its convolutions."""
    case = (name, npu, *flags)
    program, values, bias = compiled(*case)
    layers = list(encoded(program))
    decoded = np.concatenate([layer.tensor() for layer in layers])
    assert decoded.shape == values.shape, case
    assert np.array_equal(decoded, values), case
    assert np.array_equal(np.concatenate([layer.bias() for layer in layers]), bias), case
    return layers
