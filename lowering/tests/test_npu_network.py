"""Protects the reading of what Vela writes: a file that was damaged, or written by someone else, is one clear line."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.formats.npu_network import MOST_BYTES, NpuNetwork, read_tflite, short_shape
from ethos_hil.lowering.testing.tflite_graph import Generator, TfliteGraph, compile_tflite
from ethos_hil.lowering.tests.conftest import refusals

NPU = EthosU.parse("ethos-u55-128")


def pool() -> bytes:
    """A padded average of an int8 map."""
    graph = TfliteGraph()
    source, result = graph.input((1, 9, 9, 8), "int8", 0.1, 3), graph.tensor((1, 5, 5, 8), "int8", 0.1, 3)
    graph.add(
        "AVERAGE_POOL_2D", [source], [result], "Pool2DOptions",
        padding=0, stride_w=2, stride_h=2, filter_width=3, filter_height=3,
    )  # fmt: skip
    return graph.output(result).serialize()


@pytest.fixture(scope="module", params=Generator)
def tflite(request: pytest.FixtureRequest) -> bytes:
    return compile_tflite(pool(), NPU, generator=request.param)


def test_a_tflite_of_either_generator_is_read(tflite: bytes) -> None:
    file = read_tflite(tflite, "net.tflite")
    (network,) = file.networks
    assert (file.others, network.npu, network.memory[1]) == (0, NPU, 864)
    tensors = [(tensor.shape, str(tensor.dtype), tensor.zero) for tensor in (*network.inputs, *network.outputs)]
    assert tensors == [((1, 9, 9, 8), "int8", 3), ((1, 5, 5, 8), "int8", 3)]
    assert [tensor.name for tensor in network.inputs] == ["tensor0"]


def moved(network: NpuNetwork, **fields: object) -> NpuNetwork:
    """The network with another place of its input."""
    return replace(network, inputs=(replace(network.inputs[0], **fields),))  # type: ignore[arg-type]


def test_a_network_that_contradicts_itself_is_refused(tflite: bytes, recorded: Recorded) -> None:
    (network,) = read_tflite(tflite, "net.tflite").networks
    moved(network, offset=216).check("net.tflite")
    edited = [
        replace(network, payload=bytes(8)),
        replace(network, payload=b"COP1"),
        *(replace(network, memory={1: size}) for size in (100, MOST_BYTES + 1)),
        *(moved(network, offset=offset) for offset in (-4, 217)),
        moved(network, region=3),
    ]
    recorded.check(refusals(*(partial(other.check, "net.tflite") for other in edited)))


def test_a_tflite_cut_or_changed_anywhere_is_read_or_refused(tflite: bytes) -> None:
    """A damaged file ends in networks whose parts fit, or in one error."""
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        data = bytearray(tflite)
        for at in rng.integers(0, len(data), 3):
            data[at] = rng.integers(0, 256)
        try:
            for network in read_tflite(bytes(data), "net.tflite").networks:
                network.check("")
        except UsageError:
            refused += 1
    assert refused > 20
    for length in range(0, len(tflite), 7):
        with pytest.raises(UsageError):
            read_tflite(tflite[:length], "net.tflite")


def test_a_tflite_without_places_is_refused(tflite: bytes) -> None:
    with pytest.raises(UsageError, match="no metadata OfflineMemoryAllocation, which say where"):
        read_tflite(tflite.replace(b"OfflineMemory", b"onlineMemory_"), "net.tflite")


def test_shapes_lose_the_ones_that_fill_them_up() -> None:
    shapes = {(1, 1, 1, 5, 6, 7): (1, 5, 6, 7), (1, 2, 1, 5, 6, 7): (1, 2, 1, 5, 6, 7), (3, 4): (3, 4)}
    assert {shape: short_shape(shape) for shape in shapes} == shapes


def test_an_input_that_the_npu_never_reads_has_no_place() -> None:
    """The size of a transposed convolution's output, where it is an input; Vela 5.1 leaves it among the operator's."""
    graph = TfliteGraph()
    sizes, source = graph.input((4,), "int32"), graph.input((1, 4, 5, 8), "int8", 0.1, 3)
    weights = graph.constant(np.ones((8, 2, 2, 8), np.int8), [0.01] * 8)
    bias = graph.constant(np.zeros(8, np.int32), [0.001] * 8)
    result = graph.tensor((1, 8, 10, 8), "int8", 0.1, 3)
    options = "TransposeConvOptions"
    graph.add("TRANSPOSE_CONV", [sizes, weights, source, bias], [result], options, padding=0, stride_w=2, stride_h=2)
    data = compile_tflite(graph.output(result).serialize(), EthosU.parse("ethos-u85-256"))
    file = read_tflite(data, "net.tflite")
    assert [[tensor.name for tensor in network.inputs] for network in file.networks] == [["tensor1"]]
