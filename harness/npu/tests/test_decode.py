"""Protects the decoder: it reads a command stream as Vela's own disassembler does, and refuses nonsense."""

from __future__ import annotations

import random
import re
import struct
from dataclasses import dataclass

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.decode.decoder import decode
from ethos_hil.harness.npu.decode.fields_u55 import REVERSED
from ethos_hil.harness.npu.isa.feature_map import FeatureMap
from ethos_hil.harness.npu.isa.operations import Convolution, Dma, Elementwise, Pool, Upscale
from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER, Opcode
from ethos_hil.harness.npu.isa.registers_u55 import LONG, SHORT
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.testing.programs.catalogue import OPERATORS
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.testing.tosa_program import reference

U55_128 = EthosU.parse("ethos-u55-128")
COMMAND = re.compile(r"^0x([0-9a-f]{6}): (?:([0-9a-f]{8})| {8}) ([0-9a-f]{4}) ([0-9a-f]{4}) - NPU_(OP|SET)_(\w+)")
KERNEL = re.compile(
    r"^// \w+ .*size=(\d+),(\d+) stride=(\d+),(\d+), dilation=(\d+),(\d+) "
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


@dataclass(frozen=True)
class Listed:
    """One line of Vela's disassembly."""

    offset: int
    code: int
    parameter: int
    payload: int | None
    is_operation: bool
    name: str


def build(name: str, npu: str, *flags: str) -> CompiledGraph:
    """Compiles a conformance program."""
    return compile_graph(OPERATORS[name].tosa, npu, *flags)


def listing(compiled: CompiledGraph) -> list[Listed]:
    """Vela's disassembly of a stream."""
    lines = []
    for line in compiled.listing.splitlines():
        match = COMMAND.match(line)
        if match:
            offset, payload, parameter, code, kind, name = match.groups()
            lines.append(
                Listed(
                    int(offset, 16),
                    int(code, 16) & 0x3FF,
                    int(parameter, 16),
                    None if payload is None else int(payload, 16),
                    kind == "OP",
                    name,
                )
            )
    assert len(lines) > 20
    return lines


@pytest.fixture(scope="module", params=DISASSEMBLED)
def disassembled(request: pytest.FixtureRequest) -> CompiledGraph:
    return build(request.param, "ethos-u55-128", "--verbose-register-command-stream")


def test_commands_are_those_of_the_disassembly(disassembled: CompiledGraph) -> None:
    ours = []
    for offset, code, parameter, payload in commands(disassembled.stream):
        is_operation = payload is None and code < FIRST_REGISTER
        registers = SHORT if payload is None else LONG
        name = Opcode(code).name if is_operation else registers[code].name
        ours.append(Listed(offset, code, parameter, payload, is_operation, name))
    assert ours == listing(disassembled)


def test_every_kernel_and_dma_command_becomes_an_operation(disassembled: CompiledGraph) -> None:
    passive = {"STOP", "IRQ", "DMA_WAIT", "KERNEL_WAIT"}
    expected = [line.offset for line in listing(disassembled) if line.is_operation and line.name not in passive]
    assert [op.offset for op in decode(disassembled.stream, U55_128)] == expected


def test_kernels_are_those_of_the_disassembly(disassembled: CompiledGraph) -> None:
    comments = [match.groups() for match in map(KERNEL.match, disassembled.listing.splitlines()) if match]
    kernels = [op for op in disassembled.program().ops if not isinstance(op, Dma)]
    assert len(comments) == len(kernels)
    for comment, op in zip(comments, kernels, strict=True):
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


def last_values(compiled: CompiledGraph, offset: int) -> dict[str, int]:
    """Register values at an offset, from the disassembly alone."""
    values = {}
    for line in listing(compiled):
        if line.offset > offset:
            break
        if not line.is_operation:
            values[line.name] = line.parameter if line.payload is None else line.parameter << 32 | line.payload
    return values


def test_operations_hold_the_register_values_at_their_command(disassembled: CompiledGraph) -> None:
    for op in disassembled.program().ops:
        values = last_values(disassembled, op.offset)
        if isinstance(op, Dma):
            assert (op.source.base, op.destination.base, op.length) == tuple(
                values[f"DMA0_{name}"] for name in ("SRC", "DST", "LEN")
            )
            continue
        second_first = isinstance(op, Elementwise) and len(op.ifms) == 2 and values["IFM2_BROADCAST"] & REVERSED
        ifms = op.ifms[:: -1 if second_first else 1] if isinstance(op, Elementwise) else (op.ifm,)
        check_map("IFM", ifms[0], values)
        check_map("OFM", op.ofm, values)
        assert op.ofm.shape == tuple(values[f"OFM_{axis}_M1"] + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH"))
        if isinstance(op, Convolution):
            for name, (at,) in (("WEIGHT", op.weights.streams), ("SCALE", op.weights.scales)):
                expected = tuple(values[f"{name}_{what}"] for what in ("REGION", "BASE", "LENGTH"))
                assert (at.region, at.base, at.length) == expected
        if isinstance(op, Pool) and not op.hardware_divide:
            assert op.scale.shift << 32 | op.scale.multiplier == values["OFM_SCALE"]
        if len(ifms) == 2:
            check_map("IFM2", ifms[1], values)


def check_map(name: str, feature_map: FeatureMap, values: dict[str, int]) -> None:
    """Compare a feature map's place with its registers."""
    assert feature_map.region == values[f"{name}_REGION"]
    assert feature_map.bases[0] == values[f"{name}_BASE0"]
    assert (feature_map.stride_y, feature_map.stride_x) == (values[f"{name}_STRIDE_Y"], values[f"{name}_STRIDE_X"])
    assert feature_map.zero_point & 0xFFFF == values[f"{name}_ZERO_POINT"]
    assert feature_map.layout == values[f"{name}_PRECISION"] >> 6 & 3


# --- wrong streams


def word(code: int, parameter: int = 0) -> bytes:
    """A short command."""
    return struct.pack("<I", parameter << 16 | code)


def long(code: int, payload: int, parameter: int = 0) -> bytes:
    """A long command."""
    return struct.pack("<II", parameter << 16 | 1 << 14 | code, payload)


STOP = word(Opcode.STOP, 0xFFFF)


def refused(stream: bytes) -> Fault:
    """Return the fault of decoding a stream."""
    with pytest.raises(Fault) as caught:
        Npu(U55_128).decode(stream)
    return caught.value


def replaced(compiled: CompiledGraph, name: str, value: int, at: int = 0) -> bytes:
    """The stream with another value in (occurrence `at` of) a register."""
    stream = bytearray(compiled.stream)
    line = [line for line in listing(compiled) if line.name == name][at]
    struct.pack_into("<H", stream, line.offset + 2, value >> 32 if line.payload is not None else value)
    if line.payload is not None:
        struct.pack_into("<I", stream, line.offset + 4, value & 0xFFFFFFFF)
    return bytes(stream)


@pytest.fixture(scope="module")
def conv() -> CompiledGraph:
    return build("conv 3x3 stride 2", "ethos-u55-128", "--verbose-register-command-stream")


@pytest.fixture(scope="module")
def pooled() -> CompiledGraph:
    return build("average pool", "ethos-u55-128", "--verbose-register-command-stream")


@pytest.fixture(scope="module")
def added() -> CompiledGraph:
    return build("add", "ethos-u55-128", "--verbose-register-command-stream")


def test_an_unknown_opcode_is_named() -> None:
    fault = refused(word(0x00A) + STOP)
    assert (fault.kind, fault.offset, fault.register, fault.value) == ("parse", 0, "opcode", 0x00A)


@pytest.mark.parametrize("command", [word(0x1FF, 3), long(0x0FF, 3)], ids=["short", "long"])
def test_an_unknown_register_is_named(command: bytes) -> None:
    fault = refused(word(0x100) + command + STOP)
    assert (fault.kind, fault.offset, fault.register) == ("parse", 4, "opcode")
    assert fault.value in (0x1FF, 0x0FF)


@pytest.mark.parametrize("cut", [1, 4, 6, 20])
def test_a_truncated_stream_is_refused(conv: CompiledGraph, cut: int) -> None:
    assert refused(conv.stream[:-cut]).kind == "parse"


def test_a_stream_cut_before_a_payload_is_refused() -> None:
    fault = refused(word(0x100) + long(0x000, 5)[:4])
    assert (fault.kind, fault.offset) == ("parse", 4)


def test_an_empty_stream_is_refused() -> None:
    assert "STOP" in refused(b"").message


def test_zeros_alone_are_not_a_program() -> None:
    assert Npu(U55_128).decode(bytes(64)).ops == ()


def test_bytes_after_stop_are_not_read(conv: CompiledGraph) -> None:
    npu = Npu(U55_128)
    assert npu.decode(conv.stream + b"\xff" * 8).ops == npu.decode(conv.stream).ops


def test_a_register_that_was_never_written_is_named(conv: CompiledGraph) -> None:
    line = next(line for line in listing(conv) if line.name == "OFM_STRIDE_Y")
    fault = refused(conv.stream[: line.offset] + conv.stream[line.offset + 8 :])
    assert (fault.kind, fault.op, fault.register) == ("parse", "CONV", "OFM_STRIDE_Y")
    assert "never written" in fault.message


BAD_VALUES = [
    ("conv", "IFM_PRECISION", 0x0009, "unsupported"),  # 32 bits
    ("conv", "IFM_PRECISION", 0x0081, "parse"),  # format 2
    ("conv", "IFM_PRECISION", 0x0411, "parse"),  # an unnamed bit
    ("conv", "IFM_UPSCALE", 3, "parse"),
    ("conv", "OFM_PRECISION", 0xC001, "parse"),  # rounding 3
    ("conv", "KERNEL_STRIDE", 0x27, "unsupported"),  # decomposition
    ("conv", "ACTIVATION", 3, "unsupported"),  # tanh
    ("conv", "ACTIVATION", 0x7000, "unsupported"),  # clip range
    ("conv", "ACTIVATION", 24, "unsupported"),  # ninth table
    ("conv", "ACTIVATION_MIN", 0x7FFF, "parse"),  # above the maximum
    ("conv", "SCALE_LENGTH", 8, "parse"),
    ("conv", "ACC_FORMAT", 2, "unsupported"),
    ("conv", "IFM_REGION", 9, "parse"),
    ("pooled", "OFM_DEPTH_M1", 5, "unsupported"),
    ("pooled", "OFM_PRECISION", 0x8001, "parse"),  # scales per channel
    ("pooled", "KERNEL_STRIDE", 0x1B, "parse"),  # dilation that does not divide the kernel
    ("pooled", "IFM_UPSCALE", 2, "unsupported"),  # zeros
    ("pooled", "IFM_PAD_TOP", 0x7000, "parse"),
    ("pooled", "IFM_PAD_TOP", 2, "unsupported"),  # a window of padding alone
    ("added", "IFM_PRECISION", 0x8301, "parse"),  # operand scaling 3
    ("added", "IFM2_PRECISION", 0x0009, "unsupported"),  # 32 bits with 8
    ("added", "OFM_PRECISION", 0x8001, "unsupported"),  # no global scale
    ("added", "IFM2_BROADCAST", 0x08, "parse"),
    ("added", "IFM_UPSCALE", 1, "unsupported"),
]


@pytest.mark.parametrize(("program", "register", "value", "kind"), BAD_VALUES)
def test_a_value_without_established_meaning_is_refused(
    program: str, register: str, value: int, kind: str, request: pytest.FixtureRequest
) -> None:
    compiled = request.getfixturevalue(program)
    fault = refused(replaced(compiled, register, value))
    assert fault.kind == kind
    assert fault.op
    assert hex(fault.offset) in fault.message
    assert fault.register in fault.message


@pytest.mark.parametrize("mode", [3, 0xFFFF])
def test_an_unknown_pool_mode_is_refused(pooled: CompiledGraph, mode: int) -> None:
    fault = refused(replaced(pooled, "POOL", mode))
    assert (fault.register, fault.value) == ("POOL", mode)


def test_an_unknown_elementwise_mode_is_refused(added: CompiledGraph) -> None:
    assert refused(replaced(added, "ELEMENTWISE", 10)).register == "ELEMENTWISE"


@pytest.mark.parametrize("npu", EthosU.names())
def test_a_rescale_per_channel_is_a_pool_with_scales(npu: str) -> None:
    graph = Graph()
    wide = graph.rescale(graph.input((1, 5, 6, 3)), 1.0, dtype="int32")
    tosa = graph.output(graph.rescale(wide, [(1 << 30, 30), (1 << 30, 31), (1 << 30, 32)])).serialize()
    compiled = compile_graph(tosa, npu)
    (op,) = compiled.program().ops
    assert isinstance(op, Pool)
    assert op.channel_scales is not None
    values = np.arange(-45, 45, dtype=np.int8).reshape(1, 5, 6, 3)
    assert compiled.run([values])[0] == reference(tosa, [values])


@pytest.mark.parametrize("configuration", EthosU.all(), ids=str)
def test_random_words_end_in_a_fault(configuration: EthosU) -> None:
    generator = random.Random(configuration.macs)
    for length in (1, 4, 40, 4000):
        with pytest.raises(Fault):
            Npu(configuration).decode(generator.randbytes(length | 1))
        stream = struct.pack("<I", 0x3FFF) + generator.randbytes(4 * length)
        with pytest.raises(Fault):
            Npu(configuration).decode(stream)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_streams_end_in_a_fault_or_a_result(seed: int) -> None:
    """A damaged stream gives nothing but a Fault, soon, and touches no memory outside of its regions."""
    generator = random.Random(seed)
    programs = [build(generator.choice(DISASSEMBLED), generator.choice(EthosU.names())) for _ in range(4)]
    outcomes = set()
    for _ in range(120):
        compiled = generator.choice(programs)
        words = list(struct.unpack(f"<{len(compiled.stream) // 4}I", compiled.stream))
        for _ in range(generator.choice([1, 1, 3])):
            at = generator.randrange(len(words))
            words[at] = generator.choice(
                [words[at] ^ 1 << generator.randrange(32), generator.getrandbits(32), generator.choice(words)]
            )
        npu = Npu(EthosU.parse(compiled.npu))
        try:
            npu.run(npu.decode(struct.pack(f"<{len(words)}I", *words)), compiled.memory([]))
            outcomes.add("ran")
        except Fault as fault:
            outcomes.add(fault.kind)
    assert {"ran", "parse"} <= outcomes
