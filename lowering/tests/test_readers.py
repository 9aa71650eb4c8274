"""Reading .pte files and Vela's .tflite files: complete, without ExecuTorch, and safe on any bytes."""

from __future__ import annotations

import contextlib
import random
import struct
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.formats.flatbuffer import FlatbufferError, Schema
from ethos_hil.lowering.formats.npu_network import MOST_BYTES, NpuNetwork, read_tflite, short_shape
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.testing.tflite_graph import Generator, TfliteGraph, compile_tflite
from ethos_hil.lowering.tests.conftest import DATA, refusals


@pytest.fixture(scope="module", params=["add.pte", "segments.pte"])
def pte(request: pytest.FixtureRequest) -> bytes:
    return (DATA / request.param).read_bytes()


def test_a_program_is_read_completely(pte: bytes, recorded: Recorded) -> None:
    """One with its delegate inside, and one with segments, constants and lists."""
    plan = Program.parse(pte).plan()
    (delegate,) = plan.delegates
    assert delegate.data == pte[delegate.file_offset :][: len(delegate.data)]
    assert VelaBlob.parse(delegate.data).inputs
    short = replace(delegate, data=delegate.data[:16])
    parts = (plan.name, *plan.values, plan.inputs, plan.outputs, *plan.instructions, plan.operators, short)
    recorded.check("\n".join(map(repr, (*parts, plan.planned_sizes))))


def test_tensors_are_laid_out_in_their_dimension_order() -> None:
    tensor = Tensor("CHAR", (1, 2, 3, 4), (0, 2, 3, 1), 0, 0, None)
    array = np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)
    memory = tensor.to_bytes(array)
    assert list(memory[:4]) == [0, 12, 1, 13]
    assert np.array_equal(tensor.from_bytes(memory), array)
    scalar = Tensor("FLOAT", (), (), 0, 0, None)
    assert scalar.from_bytes(scalar.to_bytes(np.array(1.5, np.float32))) == np.float32(1.5)
    with pytest.raises(ValueError, match="expected int8"):
        tensor.to_bytes(array.astype(np.int16))


def test_what_is_no_program_is_named(recorded: Recorded) -> None:
    data = (b"", b"ET12", bytes(64), b"\x08\0\0\0ET12", b"PK\x03\x04" + bytes(100))
    backward = partial(Program.parse((DATA / "add.pte").read_bytes()).plan, "backward")
    recorded.check(refusals(*(partial(Program.parse, each, "some.pte") for each in data), backward))


def test_every_truncation_is_an_error_and_damaged_programs_never_crash_the_reader(pte: bytes) -> None:
    whole, rng = Program.parse(pte), random.Random(2)
    for length in range(0, len(pte), 7):
        with contextlib.suppress(UsageError):  # only alignment padding at the very end may be missing without loss
            assert Program.parse(pte[:length]) == whole
    used = Program.parse(pte).plan().delegates[0]
    blob = range(used.file_offset, used.file_offset + len(used.data))
    structure = [at for at in range(len(pte)) if at not in blob]
    rejected = 0
    for _ in range(1500):
        damaged = bytearray(pte)
        for _ in range(rng.choice((1, 1, 2, 8, 64))):
            damaged[rng.choice(structure)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            Program.parse(bytes(damaged))
        except UsageError:
            rejected += 1
    assert rejected > 500


# --- The schema reader, and the reader it drives.

TEXT = """
// A comment with table Nothing { a: int; }
namespace test;
enum Colour : byte { RED = 3, GREEN, BLUE = 9, }
table Leaf { value: long; name: string; }
table Other {}
union Kind { Leaf, Other, }
table Root { colour: Colour = GREEN; kind: Kind; bytes: [ubyte] (force_align: 16);
  leaves: [Leaf]; shorts: [short]; flag: bool; }
root_type Root;
"""


def build() -> bytes:
    """A Root with a Leaf in its union, laid out by hand."""
    data = bytearray(120)
    struct.pack_into("<I", data, 0, 24)  # root table
    struct.pack_into("<8H", data, 4, 16, 20, 0, 4, 8, 12, 0, 0)  # vtable: kind type at 4, kind at 8, bytes at 12
    struct.pack_into("<i", data, 24, 20)  # root: vtable 20 bytes before
    data[28] = 1  # union member 1, Leaf
    struct.pack_into("<I", data, 32, 16)  # union value at 48
    struct.pack_into("<I", data, 36, 44)  # bytes at 80
    struct.pack_into("<4H", data, 40, 8, 16, 4, 12)  # Leaf's vtable
    struct.pack_into("<i", data, 48, 8)
    struct.pack_into("<q", data, 52, -5)
    struct.pack_into("<I", data, 60, 8)  # name at 68
    struct.pack_into("<I2s", data, 68, 2, b"hi")
    struct.pack_into("<I4s", data, 80, 4, b"\x01\x02\x03\x04")
    return bytes(data)


def test_reads_unions_strings_bytes_and_defaults() -> None:
    record = Schema.parse(TEXT).read("Root", build())
    union = ("Leaf", {"value": -5, "name": "hi"})
    assert {name: record[name] for name in ("colour", "kind", "leaves", "flag")} == {
        "colour": 4, "kind": union, "leaves": None, "flag": 0,
    }  # fmt: skip
    assert bytes(record["bytes"]) == b"\x01\x02\x03\x04"


def test_sharing_that_multiplies_is_cut_short() -> None:
    # Each level refers twice to the next one: 2**40 tables in a few hundred bytes.
    schema = Schema.parse("table Node { children: [Node]; }")
    levels, data = 40, bytearray(struct.pack("<2I", 8, 0))
    for level in range(levels):
        # A table, its vtable, and a vector of two references to the next table.
        last = level == levels - 1
        data += struct.pack("<iI3H2x3I", -8, 12, 6, 8, 0 if last else 4, 2, 28 - 20, 28 - 24)
    with pytest.raises(FlatbufferError, match="again and again"):
        schema.read("Node", bytes(data))


def test_unknown_constructs_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot read the declaration"):
        Schema.parse("table T { a: [int:4]; }")


# --- What Vela writes: a file that was damaged, or written by someone else, is one clear line.

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
        *(replace(network, origin=origin) for origin in (-16, MOST_BYTES + 1)),
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


def test_a_result_that_none_could_read_is_refused(tflite: bytes) -> None:
    """An operator may leave its result in the arena for another; here none follows. One of the lists of one number in
    the file has its outputs.
    """
    said = set()
    for at in range(0, len(tflite), 4):
        if tflite[at : at + 4] == b"\1\0\0\0":
            try:
                read_tflite(tflite[:at] + bytes(4) + tflite[at + 4 :], "net.tflite")
            except UsageError as error:
                said.add(error.message)
    assert any("operator 0 has no output, and no other of the NPU follows" in message for message in said)


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
