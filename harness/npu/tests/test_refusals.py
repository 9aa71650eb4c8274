"""Protects what is not established: a stream or a register that says something else is refused with its place.

Each case changes a program that runs. The fault is recorded whole: its kind, place, operation, register and reason.
"""

from __future__ import annotations

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.isa.registers import Opcode
from ethos_hil.harness.npu.isa.registers_u85 import BRANCH
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.npu.tests.streams import U55, U85, changed, compiled, fault_of, long, short, writes

STOP = short(Opcode.STOP, 0xFFFF)
CONV, POOLED, ADDED = "conv 3x3 stride 2", "average pool", "add"
REFUSED: dict[str, tuple[str, str, dict[str, int]]] = {
    "upscaling 3": (U55, CONV, {"IFM_UPSCALE": 3}),
    "tanh to 8 bits": (U55, CONV, {"ACTIVATION": 3}),
    "clip range 7": (U55, CONV, {"ACTIVATION": 0x7000}),
    "ninth table": (U55, CONV, {"ACTIVATION": 24}),
    "last table, int32": (U55, "table", {"ACTIVATION": 0x3017, "OFM_PRECISION": 0x8105}),
    "minimum above the maximum": (U55, CONV, {"ACTIVATION_MIN": 0x7FFF}),
    "scales for no channel": (U55, CONV, {"SCALE_LENGTH": 8}),
    "scales a byte short": (U55, CONV, {"SCALE_LENGTH": 159}),
    "region 9": (U55, CONV, {"IFM_REGION": 9}),
    "too many weights": (U55, CONV, {"IFM_DEPTH_M1": 0xFFFF, "OFM_DEPTH_M1": 63, "SCALE_LENGTH": 1 << 16}),
    "a map too large": (U55, ADDED, {"OFM_HEIGHT_M1": 0xFFFF, "OFM_WIDTH_M1": 0xFF}),
    "a map beyond its region": (U55, ADDED, {"OFM_HEIGHT_M1": 0xFFFF}),
    "depthwise of fewer channels": (U55, "depthwise 5x5 stride 2", {"IFM_DEPTH_M1": 4}),
    "a window too large": (U55, POOLED, {"KERNEL_HEIGHT_M1": 0xFFFF, "KERNEL_WIDTH_M1": 3}),
    "fewer channels out than in": (U55, POOLED, {"OFM_DEPTH_M1": 5}),
    "scales per channel that are not there": (U55, POOLED, {"OFM_PRECISION": 0x8001}),
    "dilation that does not divide the kernel": (U55, POOLED, {"KERNEL_STRIDE": 0x1B}),
    "dilated pool": (U55, "average pool 3x3", {"KERNEL_STRIDE": 0x18}),
    "padding beyond the input": (U55, POOLED, {"IFM_PAD_TOP": 0x7000}),
    "a window of padding alone": (U55, POOLED, {"IFM_PAD_TOP": 2}),
    "a window of padding alone, in x": (U55, POOLED, {"IFM_PAD_RIGHT": 2}),
    "pool of mode 3": (U55, POOLED, {"POOL": 3}),
    "pool of mode 65535": (U55, POOLED, {"POOL": 0xFFFF}),
    "sum over channels of windows": (U55, POOLED, {"POOL": 2, "OFM_DEPTH_M1": 0}),
    "padded average with a scale": (U55, "average pool padded", {"OFM_SCALE": 2}),
    "scaled maximum": (U55, "max pool", {"OFM_SCALE": 1 << 32 | 1}),
    "operand scaling 3": (U55, ADDED, {"IFM_PRECISION": 0x8301}),
    "no scale for a sum": (U55, ADDED, {"OFM_PRECISION": 0x8001}),
    "unknown broadcast": (U55, ADDED, {"IFM2_BROADCAST": 8}),
    "another shift of the operand": (U55, ADDED, {"OPB_SCALE": 5}),
    "elementwise 10": (U55, ADDED, {"ELEMENTWISE": 10}),
    "shift right that truncates": (U55, "int32 shift right", {"OFM_PRECISION": 0x4005}),
    "tanh to int8": (U55, "rescale int8 to int8", {"ACTIVATION": 3}),
    "sigmoid to int8": (U55, "rescale int8 to int8", {"ACTIVATION": 4}),
    "zero point behind tanh": (U55, "int16 maximum", {"ACTIVATION": 3, "OFM_ZERO_POINT": 1}),
    "a block for one of two cores": ("ethos-u65-512", CONV, {"OFM_BLK_DEPTH_M1": 0}),
    "strides of zero for a large map": (
        U55,
        ADDED,
        {f"{name}_STRIDE_{axis}": 0 for name in ("IFM", "IFM2", "OFM") for axis in "XY"}
        | {f"{name}_{what}_M1": 1023 for name in ("OFM", "IFM", "IFM2") for what in ("HEIGHT0", "HEIGHT1", "WIDTH0")}
        | {"OFM_HEIGHT_M1": 1023, "OFM_WIDTH_M1": 1023},
    ),
    "tanh to int8, U85": (U85, "rescale int8 to int8", {"ACTIVATION": 10}),
    "sigmoid to int8, U85": (U85, "rescale int8 to int8", {"ACTIVATION": 11}),
    "curve with a table": (U85, "int16 maximum", {"ACTIVATION": 1 << 5 | 10}),
    "function 1": (U85, "table", {"ACTIVATION": 1}),
    "table of words for bytes": (U85, "table", {"ACTIVATION": 7}),
    "table beyond its memory": (U85, "conv int16 with table", {"ACTIVATION": 7 << 5 | 8}),
    "a transfer of nothing": (U85, "int8 gather", {"DMA0_LEN": 0}),
    "a transfer too large": (U85, "int8 gather", {"DMA0_LEN": 1 << 25}),
    "two indices": (U85, "int8 gather", {"DMA0_DST_REGION": 0x801}),
    "average, half of its scale": (U85, "average pool padded", {"OFM_SCALE": 1 << 45 | 33 << 32 | 0x71C71C73}),
    "average, another scale": (U85, "average pool padded", {"OFM_SCALE": 1 << 45 | 34 << 32 | 0x71C71C90}),
    "average, scaled by 1/2": (U85, "average pool padded", {"OFM_SCALE": 1 << 45 | 31 << 32 | 1 << 30}),
    "average, scaled by 0": (U85, "average pool padded", {"OFM_SCALE": 1 << 45}),
    "rounding 2": (U85, ADDED, {"OFM_SCALE": 2 << 45 | 1}),
    "rounding of operands 3": (U85, ADDED, {"IFM_SCALE": 3 << 45 | 1}),
    "early rounding at no bit": (U85, ADDED, {"IFM_SCALE": 31 << 38 | 1}),
    "accumulators that hold nothing": (U85, CONV, {"ACC_FORMAT": 0x310}),
    "accumulators that are stored, too": (U85, CONV, {"ACC_FORMAT": 0x340}),
    "unknown micro-block": (U85, CONV, {"ACC_FORMAT": 0x700}),
    "accumulator format 2": (U85, CONV, {"ACC_FORMAT": 0x302}),
    "sums of 48 bits and scales of 32": (U85, CONV, {"ACC_FORMAT": 0x301, "OFM_SCALE": 1 << 15}),
    "operands beyond 64 bits": (U85, "int32 mul", dict.fromkeys(("IFM_SCALE", "IFM2_SCALE"), 1 << 45 | 0xFFFFFFFF)),
    "weights of another size": (U85, "matmul", {"IFM2_PRECISION": 0x45}),
    "product with a kernel": (U85, "matmul", {"KERNEL_WIDTH_M1": 1}),
    "product of enlarged maps": (U85, "matmul", {"IFM_UPSCALE": 1}),
    "resizing of mode 1": (U85, "int8 resize bilinear by 2x2", {"RESIZE": 1}),
    "resizing, more channels": (U85, "int8 resize bilinear by 2x2", {"IFM_DEPTH_M1": 7}),
    "resizing, enlarged": (U85, "int8 resize bilinear by 2x2", {"IFM_UPSCALE": 1}),
    "resizing by too large a step": (U85, "int8 resize bilinear by 2x2", {"RESIZE_Y_STEP": 0x7FF}),
    "positions along y": (U85, "int8 argmax over axis 1", {"POOL": 7}),
    "positions in padding": (U85, "int8 argmax over axis 1", {"IFM_PAD_LEFT": 1}),
    "positions of another type": (U85, "int8 argmax over axis 1", {"OFM_PRECISION": 0x101}),
    "numbers alone": (U85, "sub from a constant scalar", {"IFM2_BROADCAST": 8, "IFM2_PRECISION": 0xC001}),
    "a number that is stored": (U85, ADDED, {"IFM2_BROADCAST": 8}),
    "widths that differ": (U85, ADDED, {"IFM2_PRECISION": 5}),
    "bits with a zero point": (U85, "int8 bitwise and", {"IFM2_ZERO_POINT": 3}),
    "no global scale": (U85, ADDED, {"OFM_PRECISION": 1}),
    "clamped words": (U85, "int32 add", {"ACTIVATION": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_established_is_refused(name: str, recorded: Recorded) -> None:
    npu, program, values = REFUSED[name]
    graph = compiled(program, npu)
    assert values.keys() <= dict(writes(npu, graph.stream)).keys()
    recorded.check(description(fault_of(graph, changed(graph, values))))


def description(fault: Fault) -> str:
    """Return all that a fault says."""
    assert hex(fault.offset) in str(fault)
    hint = f"\nhint: {fault.hint}" if fault.hint else ""
    return f"{fault}\nregister {fault.register}, value {fault.value:#x}, region {fault.region}{hint}"


def cut(stream: bytes, register: str) -> bytes:
    """Return a stream of an Ethos-U55 without its writes to a register."""
    parts = zip(commands(stream), writes(U55, stream), strict=True)
    kept = [(at.offset, 4 if at.payload is None else 8) for at, (name, _) in parts if name != register]
    return b"".join(stream[begin : begin + size] for begin, size in kept)


def streams() -> dict[str, tuple[str, bytes]]:
    """Return streams that are no program, by what is wrong, with the NPU that gets them."""
    conv, chain = compiled(CONV, U55).stream, compiled("chain of additions", U85).stream
    assert conv.endswith(STOP), chain.endswith(STOP)
    *_, last = (
        at.offset for at in commands(chain) if at.payload is None and Opcode.CONV <= at.code <= Opcode.DMA_START
    )
    return {
        "unknown opcode": (U55, short(0x00A) + STOP),
        "unknown short register": (U55, short(0x100) + short(0x1FF, 3) + STOP),
        "unknown long register": (U55, short(0x100) + long(0x0FF, 3) + STOP),
        "an operation of another NPU": (U55, short(Opcode.RESIZE) + STOP),
        "a branch of another NPU": (U55, long(BRANCH, 0) + STOP),
        "nothing": (U55, b""),
        "cut in its last word": (U55, conv[:-1]),
        "cut before its end": (U55, conv[:-4]),
        "cut in a payload": (U55, short(0x100) + long(0x000, 5)[:6]),
        "cut before a payload": (U55, short(0x100) + long(0x000, 5)[:4]),
        "a register that was never written": (U55, cut(conv, "OFM_STRIDE_Y")),
        "a branch that depends on 2": (U85, chain[:-4] + long(BRANCH, 2 << 32) + STOP),
        "a branch beyond the end": (U85, chain[:-4] + long(BRANCH, len(chain) + 8) + STOP),
        "more than any real program has": (U55, changed(compiled(ADDED, U55), {}, repeat=10_000)),
        "a branch behind registers": (U85, chain[:-4] + long(BRANCH, last) + STOP),
    }  # fmt: skip


@pytest.mark.parametrize("name", streams())
def test_streams_that_are_no_program_are_refused(name: str, recorded: Recorded) -> None:
    npu, stream = streams()[name]
    with pytest.raises(Fault) as caught:
        Npu(EthosU.parse(npu)).decode(stream)
    recorded.check(description(caught.value))


def test_zeros_alone_are_not_a_program() -> None:
    assert Npu(EthosU.parse(U55)).decode(bytes(64)).ops == ()
