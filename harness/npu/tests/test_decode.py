"""Protects the decoder: it reads a command stream as Vela's own disassembler does, and no stream does harm.

And what it makes of registers: whole programs as recorded, and what every bit of every register means. The conformance
run compares it with TOSA, and test_refusals.py has what is refused.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
import struct
from collections.abc import Iterator, Sequence

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.decode.decoder import decode
from ethos_hil.harness.npu.isa.operations import Convolution, Dma, Instruction, Pool, Upscale
from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.npu.tests.streams import LISTING, U55, U85, changed, compiled, dialect_of, operations_of, writes
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


# --- What it makes of registers. ---

U65 = "ethos-u65-512"
DECODED = [
    (U55, "conv with table"),
    (U55, "depthwise 5x5 stride 2"),
    (U55, "average pool padded"),
    (U55, "rescale int8 to int8 per channel"),
    (U55, "add, second input scaled"),
    (U55, "mul of a constant scalar"),
    (U55, "int32 mul"),
    (U65, "conv 3x3 stride 2"),
    (U85, "conv with table"),
    (U85, "conv int16 with table"),
    (U85, "conv, transpose 2 3 1, conv"),
    (U85, "int8 reverse axis 2"),
    (U85, "matmul"),
    (U85, "average pool padded"),
    (U85, "rescale int8 to int8 per channel"),
    (U85, "int8 argmax over axis 1"),
    (U85, "int8 resize bilinear by 2x2"),
    (U85, "sub from a constant scalar"),
    (U85, "add of row and column"),
    (U85, "int8 gather"),
    (U85, "int8 scatter"),
    (U85, "branch"),
]


@pytest.mark.parametrize(("npu", "name"), DECODED)
def test_programs_are_decoded_as_recorded(npu: str, name: str, recorded: Recorded) -> None:
    instructions = operations_of(compiled(name, npu))
    recorded.check("\n".join(line for instruction in instructions for line in lines_of(instruction)))


def lines_of(instruction: Instruction) -> Iterator[str]:
    """Yield an instruction and its fields, one a line."""
    yield f"{instruction.name} at {instruction.offset:#x}"
    for entry in dataclasses.fields(instruction):
        if entry.name not in ("name", "offset"):
            value = getattr(instruction, entry.name)
            yield from (
                [f"  {access!r}" for access in value] if entry.name == "accesses" else [f"  {entry.name}: {value!r}"]
            )


SWEPT = [
    (U55, "conv 3x3 stride 2"),
    (U55, "average pool padded"),
    (U55, "add, second input scaled"),
    (U55, "mul of a constant scalar"),
    (U55, "table"),
    (U85, "conv 3x3 stride 2"),
    (U85, "average pool padded"),
    (U85, "sub from a constant scalar"),
    (U85, "table"),
    (U85, "matmul"),
    (U85, "int8 gather"),
    (U85, "int8 resize bilinear by 2x2"),
    (U85, "int8 argmax over axis 1"),
]
PLAIN = re.compile(
    r"BASE|STRIDE_[XYC]|(HEIGHT|WIDTH)\d|BLK_|_IB_|AB_START|DMA0_(SRC|DST|IDX)$|(FM|FM2|WEIGHT|SCALE)_REGION"
)
"""Registers whose value is an address, a size or a number of a region; the recorded programs have them."""


@pytest.mark.parametrize(("npu", "name"), SWEPT)
def test_every_bit_of_a_register_means_what_is_recorded(npu: str, name: str, recorded: Recorded) -> None:
    """Each bit alone is turned: the fields of operations that change with it, or the fault.

    Bits that do the same are in one line, which has the values of the first.
    """
    graph = compiled(name, npu)
    before = flat(operations_of(graph))
    values = dict(writes(npu, graph.stream))
    wide = {register.name for register in dialect_of(npu).long.values()}
    lines = []
    for register, value in values.items():
        if PLAIN.search(register):
            continue
        bits = range(48 if register in wide else 16)
        outcomes = [outcome(before, npu, changed(graph, {register: value ^ 1 << bit})) for bit in bits]
        groups: dict[str, list[int]] = {}
        for bit, (kind, _) in zip(bits, outcomes, strict=True):
            groups.setdefault(kind, []).append(bit)
        lines += [f"{register} {span(places)}: {outcomes[places[0]][1]}" for places in groups.values()]
    recorded.check("\n".join(lines))


def outcome(before: dict[str, object], npu: str, stream: bytes) -> tuple[str, str]:
    """Return the kind of what a changed stream decodes to, and all of it."""
    try:
        after = flat(decode(stream, EthosU.parse(npu)))
    except Fault as fault:
        return re.sub(r"(0x[0-9a-f]+|\d+)", "#", str(fault)), str(fault)
    differ = [path for path in before | after if before.get(path) != after.get(path)]
    return " ".join(differ), ", ".join(f"{path}={after.get(path)}" for path in differ) or "nothing"


def flat(value: object, path: str = "") -> dict[str, object]:
    """Return the plain values in a structure by their paths, but accesses, which follow from the others."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    elif isinstance(value, tuple):
        pairs = [(str(number), entry) for number, entry in enumerate(value)]
    else:
        return {path: value}
    inner = [flat(entry, f"{path}.{name}".strip(".")) for name, entry in pairs if name not in ("accesses", "offset")]
    return dict(itertools.chain.from_iterable(entry.items() for entry in inner))


def span(bits: Sequence[int]) -> str:
    """Return numbers as ranges: "0-3,7"."""
    runs = [[bit for _, bit in run] for _, run in itertools.groupby(enumerate(bits), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
