"""Protects the decoder: it reads a command stream as Vela's own disassembler does, and no stream does harm.

test_decoded.py has what it makes of each register, and test_refusals.py what it refuses.
"""

from __future__ import annotations

import random
import re
import struct

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.decode.decoder import decode
from ethos_hil.harness.npu.isa.operations import Convolution, Dma, Pool, Upscale
from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.npu.tests.streams import LISTING, U55, compiled, writes
from ethos_hil.harness.testing.compiled_graph import CompiledGraph

COMMAND = re.compile(r"(?m)^0x([0-9a-f]{6}): (?:([0-9a-f]{8})| {8}) ([0-9a-f]{4}) ([0-9a-f]{4}) - NPU_(?:OP|SET)_(\w+)")
KERNEL = re.compile(
    r"(?m)^// \w+ .*size=(\d+),(\d+) stride=(\d+),(\d+), dilation=(\d+),(\d+) "
    r"padding=\[t:(\d+),l:(\d+),b:(\d+),r:(\d+).*OFM Block=\[1, (\d+), (\d+), (\d+)\].*Traversal=(\w+)"
)
DISASSEMBLED = (
    "conv 1x7",
    "conv 11x1",
    "conv dilation 2x1",
    "conv stride 1x2",
    "conv 3x3 stride 2",
    "conv with table",
    "transposed conv 3x3 stride 2x2, cropped",
    "depthwise 5x5 stride 2",
    "depthwise dilation 2",
    "max pool padded",
    "average pool padded",
    "sum over channels",
    "add, second input scaled",
    "sub from channels",
    "mul by channels",
    "int32 count of leading zeros",
    "transpose 3 1 2",
    "conv, pool, residual in bricks",
)
PASSIVE = ("STOP", "IRQ", "DMA_WAIT", "KERNEL_WAIT")
Listed = tuple[int, int, str, int]


def listing(graph: CompiledGraph) -> list[Listed]:
    """Return Vela's disassembly of a stream: offset, code, name and value of each command."""
    return [
        (int(offset, 16), int(code, 16) & 0x3FF, name, int(parameter + (payload or ""), 16))
        for offset, payload, parameter, code, name in COMMAND.findall(graph.listing)
    ]


@pytest.fixture(scope="module", params=DISASSEMBLED)
def disassembled(request: pytest.FixtureRequest) -> CompiledGraph:
    return compiled(request.param, U55, LISTING)


def test_commands_and_operations_are_those_of_the_disassembly(disassembled: CompiledGraph) -> None:
    places = commands(disassembled.stream)
    ours = [(at.offset, at.code, *pair) for at, pair in zip(places, writes(U55, disassembled.stream), strict=True)]
    theirs = listing(disassembled)
    assert len(theirs) > 20
    assert ours == theirs
    short = {at.offset for at in commands(disassembled.stream) if at.payload is None}
    expected = [at for at, code, name, _ in theirs if at in short and code < FIRST_REGISTER and name not in PASSIVE]
    assert [op.offset for op in disassembled.program().ops] == expected


def test_kernels_are_those_of_the_disassembly(disassembled: CompiledGraph) -> None:
    kernels = [op for op in disassembled.program().ops if not isinstance(op, Dma)]
    for comment, op in zip(KERNEL.findall(disassembled.listing), kernels, strict=True):
        numbers = [int(number) for number in comment[:-1]]
        assert [op.block.height, op.block.width, op.block.depth] == numbers[10:]
        if not isinstance(op, Convolution | Pool):
            continue
        kernel = op.kernel
        taps = [kernel.width, kernel.height, kernel.stride_x, kernel.stride_y, kernel.dilation_x, kernel.dilation_y]
        assert taps == numbers[:6]
        if op.upscale is Upscale.NONE:
            assert [kernel.top, kernel.left, kernel.bottom, kernel.right] == numbers[6:10]
        if isinstance(op, Convolution) and not op.depthwise:
            assert op.weights.order.part_kernel == (comment[-1] == "PartKernel")


def test_bytes_after_stop_are_not_read() -> None:
    stream, npu = compiled("conv 3x3 stride 2", U55).stream, Npu(EthosU.parse(U55))
    program = npu.decode(stream + b"\xff" * 8)
    assert (program.ops, program.hazards) == (npu.decode(stream).ops, ())


@pytest.mark.parametrize("configuration", EthosU.all(), ids=str)
def test_random_words_end_in_a_fault(configuration: EthosU) -> None:
    generator = random.Random(configuration.macs)
    for length in (1, 4, 40, 4000):
        for stream in (generator.randbytes(length | 1), struct.pack("<I", 0x3FFF) + generator.randbytes(4 * length)):
            with pytest.raises(Fault):
                decode(stream, configuration)
