"""Protects the hazard checker: it finds one wait too few or one block dependency too many, and a network is clean.

test_conformance.py checks that all conformance programs are clean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.decode.waits import BLOCKDEP, find_waits
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, Layout
from ethos_hil.harness.npu.isa.operations import INTERNAL, Dma, Op
from ethos_hil.harness.npu.isa.registers import Opcode
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.npu.npu import NpuProgram
from ethos_hil.harness.npu.tests.streams import U55, U85, changed, short
from ethos_hil.harness.npu.tests.streams import compiled as compiled_program
from ethos_hil.harness.npu.timing.hazards import Hazard, Touch, _shared_byte, find
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.formats.npu_network import read_tflite
from ethos_hil.lowering.testing.tflite_graph import Generator, TfliteGraph, TfliteTensor, compile_tflite
from ethos_hil.lowering.testing.tosa_graph import Graph, Value, multiplier_shift

NPUS = ("ethos-u55-32", "ethos-u55-128", "ethos-u65-512", "ethos-u85-256", "ethos-u85-2048")
DEEPEST = {"u55": 3, "u65": 3, "u85": 7}  # the largest BLOCKDEP


def network(bias: int = 0) -> bytes:
    """Return a graph with weights large enough to come by DMA, two tables, a concatenation, an addition."""
    rng = np.random.default_rng(0)
    graph = Graph()

    def convolution(source: Value, depth: int, out: int, size: int = 1) -> Value:
        weights = rng.integers(-127, 128, (out, size, size, depth))
        pad = size // 2
        sums = graph.conv(source, weights, np.full(out, bias), pad=(pad, pad, pad, pad))
        return graph.rescale(sums, [multiplier_shift(0.4 / depth / size)] * out)

    source = graph.input((1, 16, 16, 32))
    first = graph.table(convolution(source, 32, 64, 3), rng.integers(-128, 128, 256))
    second = graph.table(convolution(first, 64, 64, 3), rng.integers(-128, 128, 256))
    both = convolution(graph.concat([first, second], 3), 128, 64)
    wide = [graph.rescale(value, 2.0**20 * s, dtype="int32") for value, s in ((both, 1.0), (second, 0.5))]
    return graph.output(graph.rescale(graph.binary("ADD", *wide), 0.7 / 2**20)).serialize()


@pytest.fixture(scope="module", params=NPUS)
def compiled(request: pytest.FixtureRequest) -> CompiledGraph:
    mode = "Dedicated_Sram_384KB" if "u65" in request.param else "Shared_Sram"
    return compile_graph(network(), request.param, mode=mode)


def programs(compiled: CompiledGraph, code: int) -> Iterator[tuple[int, NpuProgram]]:
    """Yield the program without each of its waits of that code in turn, with its place; for BLOCKDEP, with a larger
    value.
    """
    stream, deepest = compiled.stream, DEEPEST[compiled.npu.split("-")[1]]
    instead = short(code, deepest) if code == BLOCKDEP else b""
    for offset, command, parameter, payload in commands(stream):
        if payload is None and command == code and (code != BLOCKDEP or parameter != deepest):
            yield offset, NpuProgram(stream[:offset] + instead + stream[offset + 4 :], EthosU.parse(compiled.npu))


def following(program: NpuProgram, offset: int) -> Op:
    """Return the first operation from an offset on."""
    return next(op for op in program.ops if op.offset >= offset)


def preceding(program: NpuProgram, offset: int, kernels: bool) -> list[Op]:
    """Return the operations before an offset, the last one first: kernels or transfers."""
    return [op for op in reversed(program.ops) if op.offset < offset and isinstance(op, Dma) is not kernels]


def test_the_program_of_a_network_is_clean(compiled: CompiledGraph) -> None:
    assert compiled.program().hazards == ()


def found(compiled: CompiledGraph, code: Opcode) -> Iterator[tuple[int, NpuProgram, Hazard]]:
    """Yield the first hazard of the program without each of its waits of that code; there is one."""
    for offset, program in programs(compiled, code):
        hazards = [hazard for hazard in program.hazards if hazard.wait[0] == code.name]
        assert hazards, hex(offset)
        yield offset, program, hazards[0]


def test_a_missing_dma_wait_is_found(compiled: CompiledGraph) -> None:
    """Vela emits each one for a reason; the hazard names the two operations that it kept in order."""
    count = 0
    for offset, program, hazard in found(compiled, Opcode.DMA_WAIT):
        assert isinstance(hazard.first, Dma)
        assert hazard.first in preceding(program, offset, kernels=False)[:4]
        assert hazard.second is following(program, offset) or not isinstance(hazard.second, Dma)
        assert hazard.first_writes or hazard.second_writes
        count += 1
    assert count >= 2


def test_a_missing_kernel_wait_is_found(compiled: CompiledGraph) -> None:
    count = 0
    for offset, program, hazard in found(compiled, Opcode.KERNEL_WAIT):
        assert hazard.second is following(program, offset)
        assert hazard.first in preceding(program, offset, kernels=True)[:2]
        assert isinstance(hazard.second, Dma)
        count += 1
    # On the smallest a kernel destroys the tables: one must end before they are loaded.
    assert count >= 1 or compiled.npu != "ethos-u55-32"


def test_a_block_dependency_too_deep_is_found(compiled: CompiledGraph) -> None:
    hazards = []
    for _, program in programs(compiled, BLOCKDEP):
        for hazard in program.hazards:
            assert hazard.wait[0] == "BLOCKDEP"
            assert hazard.first in preceding(program, hazard.second.offset, kernels=True)
            assert hazard.wait[1] < DEEPEST[compiled.npu.split("-")[1]]
            hazards.append(hazard)
    assert any(hazard.first_writes and not hazard.second_writes for hazard in hazards)


def test_velas_block_dependencies_are_safe(compiled: CompiledGraph) -> None:
    """The depth that the checker calls safe is at least the one that Vela chose."""
    program = compiled.program()
    stream = changed(compiled, {"BLOCKDEP": DEEPEST[compiled.npu.split("-")[1]]})
    worst = {hazard.second.offset: hazard.wait[1] for hazard in find(program.ops, stream, program.configuration)}
    assert worst
    for op, waits in zip(program.ops, find_waits(compiled.stream, program.ops), strict=True):
        if op.offset in worst:
            assert waits.blocks <= worst[op.offset]


def test_a_table_is_lost_to_a_kernel_without_one() -> None:
    """Where all of SHRAM is accumulators, a kernel must not start while another still looks up."""
    compiled = compile_graph(network(), "ethos-u55-32")
    names = [
        (hazard.first.activation.table, hazard.second.activation.table)
        for _, program in programs(compiled, BLOCKDEP)
        for hazard in program.hazards
        if hazard.region == INTERNAL and not isinstance(hazard.first, Dma) and not isinstance(hazard.second, Dma)
    ]
    assert names
    assert all(first is not None and second is None for first, second in names)


def large_kernel(kind: str, kernel: tuple[int, int], size: tuple[int, int], *, padded: bool = False) -> bytes:
    """A convolution of 3x3, and a maximum or a depthwise convolution with a large kernel of what it makes."""
    graph, depth = TfliteGraph(), 8
    height, width = size

    def weights(*shape: int, axis: int = 0) -> tuple[TfliteTensor, TfliteTensor]:
        values = np.random.default_rng(0).integers(-100, 100, shape).astype(np.int8)
        bias = graph.constant(np.zeros(depth, np.int32), [0.0005] * depth)
        return graph.constant(values, [0.01] * depth, axis=axis), bias

    source, middle = graph.input((1, *size, 1), "int8", 0.05), graph.tensor((1, *size, depth), "int8", 0.05)
    strides: dict[str, Any] = {"stride_w": 1, "stride_h": 1}
    dilation: dict[str, Any] = {"dilation_w_factor": 1, "dilation_h_factor": 1}
    graph.add(
        "CONV_2D", [source, *weights(depth, 3, 3, 1)], [middle], "Conv2DOptions", padding=0, **strides, **dilation
    )
    rows, columns = kernel
    shape = size if padded else (height - rows + 1, width - columns + 1)
    result = graph.tensor((1, *shape, depth), "int8", 0.05)
    if kind == "depthwise":
        graph.add(
            "DEPTHWISE_CONV_2D", [middle, *weights(1, *kernel, depth, axis=3)], [result], "DepthwiseConv2DOptions",
            padding=int(not padded), depth_multiplier=1, **strides, **dilation,
        )  # fmt: skip
    else:
        sizes: dict[str, Any] = {"filter_height": rows, "filter_width": columns}
        graph.add("MAX_POOL_2D", [middle], [result], "Pool2DOptions", padding=int(not padded), **strides, **sizes)
    return graph.output(result).serialize()


@pytest.mark.parametrize(
    ("npu", "kind", "kernel", "size", "depth", "deepest"),
    [
        ("ethos-u55-128", "depthwise", (42, 42), (45, 45), 3, 3),
        ("ethos-u65-256", "depthwise", (40, 3), (44, 20), 1, 1),
        ("ethos-u55-256", "maximum", (100, 1), (120, 1), 2, 2),
        ("ethos-u55-256", "maximum", (1, 250), (4, 250), 2, 3),  # Vela counts columns of a block beyond the output
    ],
)
def test_the_first_jobs_read_a_part_of_a_large_kernels_window(
    npu: str, kind: str, kernel: tuple[int, int], size: tuple[int, int], depth: int, deepest: int
) -> None:
    """Vela's Python generator lets them start `depth` blocks before the rest of the window is written; more than
    `deepest` are a hazard.
    """
    data = compile_tflite(large_kernel(kind, kernel, size), EthosU.parse(npu), generator=Generator.PYTHON)
    (network,) = read_tflite(data, kind).networks
    program = NpuProgram(network.stream, network.npu)
    reader = program.ops[-1]
    assert program.waits[reader.offset].blocks == depth
    assert program.hazards == ()
    at, value = next((at, value) for at, code, value, _ in commands(network.stream) if code == BLOCKDEP and value)
    assert value == depth
    deeper = network.stream[:at] + short(BLOCKDEP, DEEPEST["u55"]) + network.stream[at + 4 :]
    hazards = NpuProgram(deeper, network.npu).hazards
    assert [(hazard.second, hazard.wait) for hazard in hazards] == [(reader, ("BLOCKDEP", deepest))] * (deepest < 3)


@pytest.mark.parametrize("kind", ["depthwise", "maximum"])
def test_the_parts_of_a_large_kernel_are_a_blocks_jobs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the first three jobs of a kernel of 3x33 are the first block's, and the next block's may read what is late."""
    tflite = large_kernel(kind, (3, 33), (33, 48), padded=True)
    data = compile_tflite(tflite, EthosU.parse("ethos-u65-256"), generator=Generator.PYTHON)
    (network,) = read_tflite(data, kind).networks
    program = NpuProgram(network.stream, network.npu)
    assert program.waits[program.ops[-1].offset].blocks == DEEPEST["u65"]
    assert program.hazards == ()
    monkeypatch.setattr("ethos_hil.harness.npu.timing.blocks._subkernels", lambda kernel: 1)
    assert NpuProgram(network.stream, network.npu).hazards


@pytest.mark.parametrize("npu", [U55, U85])
@pytest.mark.parametrize("program", ["max pool", "table"])
def test_each_operation_of_a_long_stream_costs_the_same(
    npu: str, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segmentation's ARGMAX is 65,793 pools on an Ethos-U55: the search compares with what is outstanding only."""
    compared = 0

    def counted(touch: Touch, other: Touch) -> int | None:
        nonlocal compared
        compared += 1
        return _shared_byte(touch, other)

    monkeypatch.setattr("ethos_hil.harness.npu.timing.hazards._shared_byte", counted)
    graph, costs = compiled_program(program, npu), []
    for times in (100, 200, 300):
        compared = 0
        stream = changed(graph, {"BLOCKDEP": DEEPEST[npu.split("-")[1]]}, repeat=times)
        ops = NpuProgram(stream, EthosU.parse(npu)).ops
        assert len(ops) >= times
        find(ops, stream, EthosU.parse(npu))
        costs.append(compared)
    assert costs[2] - costs[1] == costs[1] - costs[0] > 0


def test_a_strict_npu_refuses_and_a_lenient_one_runs(compiled: CompiledGraph) -> None:
    configuration = EthosU.parse(compiled.npu)
    _, program = next(programs(compiled, Opcode.DMA_WAIT))
    memory = compiled.memory([])
    Npu(configuration).run(program, memory)
    with pytest.raises(Fault) as caught:
        Npu(configuration, strict=True).run(program, memory)
    fault, hazard = caught.value, program.hazards[0]
    assert (fault.kind, fault.offset, fault.op) == ("hazard", hazard.second.offset, hazard.second.name)
    assert fault.register == "DMA_WAIT"
    assert hazard.first.name in fault.message
    assert hex(hazard.first.offset) in fault.message


@pytest.mark.parametrize(
    ("begin", "end", "byte"),
    [(0x60, 0x200, None), (0x04, 0x40, None), (0x44, 0x80, None), (0x20, 0x41, 0x40), (0x43, 0x44, 0x43), (0, 1, 0)],
)
def test_unused_lanes_of_bricks_are_no_hazard(begin: int, end: int, byte: int | None) -> None:
    """Two positions of one channel, of which each brick holds one number of 32 bits and 15 unused lanes."""
    bricks = FeatureMap(0, 1, 2, 1, Layout.BRICKS, 32, True, 0, (0, 0, 0, 0), 128, 64, 128, (2, 1, 1))
    reads = Touch(0, *bricks.extent(whole_bricks=True), write=False, source=bricks)
    assert reads.end == 0x80
    writes = Touch(0, begin, end, write=True)
    assert _shared_byte(reads, writes) == _shared_byte(writes, reads) == byte
