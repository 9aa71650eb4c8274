"""Protects what is not established: a stream or a register that says something else is refused with its place.

Each case changes a program that runs. The fault is recorded whole: its kind, place, operation, register and reason.
Then what the fuzzer found: each of these streams once ended in neither a result nor a named fault.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.compute import output
from ethos_hil.harness.npu.effort_budget import BASE, PER_MOVED_BYTE, EffortBudget
from ethos_hil.harness.npu.isa.feature_map import RegionMemory, chain
from ethos_hil.harness.npu.isa.operations import INTERNAL, Activation
from ethos_hil.harness.npu.isa.registers import Opcode
from ethos_hil.harness.npu.isa.registers_u85 import BRANCH
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.npu.tests.streams import U55, U85, changed, compiled, fault_of, long, short, writes
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.tosa_program import reference

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
    "unsigned table for signed bytes": (U85, "table", {"ACTIVATION": 1, "ACTIVATION_MIN": 0}),
    "signed table for unsigned bytes": (U85, "table", {"OFM_PRECISION": 0x100}),
    "function 5": (U85, "table", {"ACTIVATION": 5}),
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


# --- What the fuzzer found. ---


def test_repeated_operations_are_too_much_work() -> None:
    graph = compiled("add", U55)
    fault = fault_of(graph, changed(graph, {}, repeat=4_000))
    assert (fault.kind, fault.register) == ("unsupported", "milliseconds")


def test_a_network_may_be_deep() -> None:
    """MediaPipe's palm detection exceeded a budget of its memory and stream alone."""
    (op,) = compiled(CONV, U55).program().ops
    cost = PER_MOVED_BYTE * sum(access.size for access in op.accesses)

    def work(distance: int) -> None:
        budget = EffortBudget(0, 0)
        for number in range(2 * BASE // cost):
            budget.spend(replace(op, offset=number * distance), cost)

    work(8)
    with pytest.raises(Fault, match="milliseconds"):
        work(4)  # nothing between them


def test_a_branch_to_the_end_changes_nothing_of_what_runs_before_it() -> None:
    program = PROGRAMS["chain of additions"]
    graph = compiled("chain of additions", U85)
    jump = graph.stream[:-4] + long(BRANCH, len(graph.stream) + 4) + graph.stream[-4:]
    assert Npu(EthosU.parse(graph.npu)).decode(jump).has_branches
    _, inputs = program.input_sets()[0]
    arrays = [np.ascontiguousarray(array) for array in inputs]
    assert replace(graph, stream=jump).run(arrays)[0] == graph.run(arrays)[0] == reference(program.tosa, arrays)


def test_an_endless_loop_is_ended() -> None:
    graph = compiled("chain of additions", U85)
    fault = fault_of(graph, graph.stream[:-4] + long(BRANCH, 0) + graph.stream[-4:])
    assert fault.kind == "unsupported"
    assert fault.register in ("milliseconds", "BRANCH")


@pytest.mark.parametrize("register", ["IFM_STRIDE_X", "IFM_STRIDE_Y"])
def test_a_map_may_repeat_one_row_or_column(register: str) -> None:
    graph = compiled("conv 11x1", "ethos-u65-256")
    (shape,) = {value.shape for value in PROGRAMS["conv 11x1"].graph.inputs}
    values = np.random.default_rng(1).integers(-128, 128, shape, np.int8)
    values[...] = values[:, :, :1] if register == "IFM_STRIDE_X" else values[:, :1]
    assert replace(graph, stream=changed(graph, {register: 0})).run([values])[0] == graph.run([values])[0]


def test_table_indices_of_every_width_are_clamped() -> None:
    ofm, activation = chain(0, (1, 1, 4), 32, True, 0), Activation(-128, 127, table=0)
    memory = RegionMemory({INTERNAL: np.arange(256, dtype="<i4").view(np.uint8)})
    values = np.array([-(1 << 30), -129, 128, 1 << 30], np.int32).reshape(1, 1, 4)
    assert output.finish(values, ofm, activation, memory).ravel().tolist() == [0, 0, 255, 255]


def test_weights_that_end_beyond_a_large_memory_are_not_copied() -> None:
    """A board's memory is a region too. A gigabyte of it was once copied before it was found to be too short."""
    graph = compiled("conv 3x3 stride 2", U85)
    npu, memory = Npu(EthosU.parse(graph.npu)), graph.memory([])
    memory[0] = np.zeros(1 << 30, np.uint8)
    program = npu.decode(changed(graph, {"WEIGHT_LENGTH": 0x7FFFFFF0}))
    tracemalloc.start()
    try:
        with pytest.raises(Fault) as caught:
            npu.run(program, memory)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.kind == "bus"
    assert peak < 16 << 20
