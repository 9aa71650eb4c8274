"""Protects the reading of what Vela writes: a file that was damaged, or written by someone else, is one clear line."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.formats.npu_network import MOST_BYTES, NpuNetwork, read_npz, read_tflite, short_shape
from ethos_hil.lowering.testing.tflite_graph import Generator, TfliteGraph, compile_tflite

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
def npz(request: pytest.FixtureRequest) -> bytes:
    return compile_tflite(pool(), NPU, generator=request.param)


@pytest.fixture(scope="module", params=Generator)
def tflite(request: pytest.FixtureRequest) -> bytes:
    return compile_tflite(pool(), NPU, generator=request.param, raw=False)


def shapes_of(network: NpuNetwork) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of the inputs and outputs."""
    return [(tensor.shape, str(tensor.dtype)) for tensor in (*network.inputs, *network.outputs)]


def test_an_npz_of_either_generator_is_read(npz: bytes) -> None:
    network = read_npz(npz, "net.npz")
    assert network.npu == NPU
    assert shapes_of(network) == [((1, 9, 9, 8), "int8"), ((1, 5, 5, 8), "int8")]
    assert network.memory == {1: 864}


def test_a_tflite_of_either_generator_is_read(tflite: bytes) -> None:
    file = read_tflite(tflite, "net.tflite")
    (network,) = file.networks
    assert file.others == 0
    assert network.npu == NPU
    assert shapes_of(network) == [((1, 9, 9, 8), "int8"), ((1, 5, 5, 8), "int8")]
    assert [tensor.zero for tensor in network.inputs] == [3]
    assert [tensor.name for tensor in network.inputs] == ["tensor0"]


def edited(npz: bytes, **arrays: np.ndarray | None) -> bytes:
    """The archive with other arrays, or without some."""
    with np.load(io.BytesIO(npz), allow_pickle=False) as archive:
        changed = {name: archive[name] for name in archive.files if not name.endswith("_quantization")}
    changed |= {name: array for name, array in arrays.items() if array is not None}
    for name, array in arrays.items():
        if array is None:
            del changed[name]
    packed = io.BytesIO()
    np.savez(packed, **changed)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"cmd_data": None}, "it has no array cmd_data"),
        ({"cmd_data": np.zeros(8, np.uint8)}, "expected b'COP1'"),
        ({"cmd_data": np.frombuffer(b"COP1", np.uint8)}, "no command stream"),
        ({"scratch_size": np.array([1, 2])}, "one number was expected, found int64[2]"),
        ({"scratch_size": np.array(100)}, "of region 1, which has 100"),
        ({"scratch_size": np.array(MOST_BYTES + 1)}, "more than any Ethos-U has"),
        ({"input_offset": np.array([-4])}, "648 bytes at -4 of region 1"),
        ({"input_offset": np.array([1, 2])}, "the arrays of inputs have different lengths"),
        ({"input_elem_size": np.array([3])}, "input 0 has 3-byte elements"),
        ({"input_shape": np.array([[0, 1, 1, 1]])}, "in the shape [0, 1, 1, 1]"),
        ({"output_region": np.array([0])}, "region 0, which is not there"),
    ],
)
def test_an_npz_that_contradicts_itself_is_refused(npz: bytes, arrays: dict[str, np.ndarray], message: str) -> None:
    if "scratch_size" in arrays and arrays["scratch_size"].size == 1:
        arrays = {**arrays, "scratch_fast_size": arrays["scratch_size"]}
    with pytest.raises(UsageError) as caught:
        read_npz(edited(npz, **arrays), "net.npz")
    assert message in caught.value.message
    assert caught.value.message.startswith("net.npz is not a usable output of Vela: ")


def test_separate_regions_of_inputs_and_outputs_are_there(npz: bytes) -> None:
    network = read_npz(edited(npz, input_region=np.array([3]), input_offset=np.array([16])), "net.npz")
    assert network.memory == {1: 864, 3: 16 + 648}


def test_an_object_is_not_unpickled(npz: bytes) -> None:
    packed = io.BytesIO()
    np.savez(packed, cmd_data=np.array([print], object))
    with pytest.raises(UsageError, match="objects"):
        read_npz(packed.getvalue(), "net.npz")


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


def without(tflite: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new)
    return tflite.replace(old, new)


def test_a_tflite_without_places_is_refused(tflite: bytes) -> None:
    with pytest.raises(UsageError, match="no metadata OfflineMemoryAllocation, which say where"):
        read_tflite(without(tflite, b"OfflineMemory", b"onlineMemory_"), "net.tflite")


def test_a_network_that_needs_too_much_is_refused(npz: bytes) -> None:
    network = read_npz(npz, "net.npz")
    with pytest.raises(UsageError, match="more than any Ethos-U has"):
        replace(network, memory={1: MOST_BYTES + 1}).check("net.npz")


def test_shapes_lose_the_ones_that_fill_them_up() -> None:
    assert short_shape((1, 1, 1, 5, 6, 7)) == (1, 5, 6, 7)
    assert short_shape((1, 2, 1, 5, 6, 7)) == (1, 2, 1, 5, 6, 7)
    assert short_shape((3, 4)) == (3, 4)


def test_an_input_that_the_npu_never_reads_has_no_place() -> None:
    """The size of a transposed convolution's output, where it is an input; Vela 5.1 leaves it among the operator's."""
    graph = TfliteGraph()
    sizes, source = graph.input((4,), "int32"), graph.input((1, 4, 5, 8), "int8", 0.1, 3)
    weights = graph.constant(np.ones((8, 2, 2, 8), np.int8), [0.01] * 8)
    bias = graph.constant(np.zeros(8, np.int32), [0.001] * 8)
    result = graph.tensor((1, 8, 10, 8), "int8", 0.1, 3)
    options = "TransposeConvOptions"
    graph.add("TRANSPOSE_CONV", [sizes, weights, source, bias], [result], options, padding=0, stride_w=2, stride_h=2)
    data = compile_tflite(graph.output(result).serialize(), EthosU.parse("ethos-u85-256"), raw=False)
    file = read_tflite(data, "net.tflite")
    assert [[tensor.name for tensor in network.inputs] for network in file.networks] == [["tensor1"]]
