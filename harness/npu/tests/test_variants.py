"""Protects features that ExecuTorch's streams for U55 rarely or never use.

Each stream here is a compiled one with a few registers replaced; its result follows from the original, or from a
definition written out here. Networks of TensorFlow Lite with LSTMs use tanh and sigmoid.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.compute import output
from ethos_hil.harness.npu.isa.operations import Convolution, Curve
from ethos_hil.harness.npu.tests.streams import U55, U85, compiled, patched
from ethos_hil.harness.testing.compiled_graph import CompiledGraph
from ethos_hil.harness.verdict.run_delegate import POISON
from ethos_hil.lowering.formats.npu_network import read_tflite
from ethos_hil.lowering.formats.vela_blob import VelaIo
from ethos_hil.lowering.testing.tflite_graph import TfliteGraph, compile_tflite


def int8(graph: CompiledGraph, values: np.ndarray) -> np.ndarray:
    """The only output of a run."""
    return np.frombuffer(graph.run([values])[0][0], np.int8)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("conv point", 1),
        ("depthwise 9x9", 1),
        ("max pool padded", 1),
        ("average pool padded", 1),
        ("conv point", 2),
        ("depthwise 9x9", 2),
    ],
)
def test_upscaling_is_the_same_as_a_larger_input(name: str, mode: int) -> None:
    """Mode 1 repeats elements, mode 2 puts zeros between them."""
    graph = compiled(name, U55)
    ifm = next(op for op in graph.program().ops if op.name != "DMA").ifm  # type: ignore[union-attr]
    rng = np.random.default_rng(4)
    small = np.full((1, *ifm.shape), POISON, np.int8)  # the upscaling program reads its upper left quarter
    height, width = -(-ifm.height // 2), -(-ifm.width // 2)
    small[:, :height, :width] = rng.integers(-128, 128, (1, height, width, ifm.depth))
    if mode == 1:
        large = small[:, :height, :width].repeat(2, axis=1).repeat(2, axis=2)[:, : ifm.height, : ifm.width]
    else:
        large = np.full((1, *ifm.shape), ifm.zero_point, np.int8)
        large[:, ::2, ::2] = small[:, :height, :width]
    assert np.array_equal(int8(patched(graph, IFM_UPSCALE=mode), small), int8(graph, large))


def test_leaky_relu_scales_negative_values_only() -> None:
    graph = compiled("int8 abs", U55)
    op = graph.program().ops[0]
    scaled = op.scale  # type: ignore[union-attr]
    assert scaled is not None
    leaky = patched(graph, ELEMENTWISE=5, OFM_ZERO_POINT=0xFFFB)
    values = np.arange(-128, 82, dtype=np.int8).reshape(1, 5, 6, 7)
    expected = []
    for value in values.ravel().tolist():
        result = value + 17
        if result < 0:
            result = (result * scaled.multiplier + (1 << scaled.shift - 1)) >> scaled.shift
        expected.append(max(-128, min(127, result - 5)))
    assert int8(leaky, values).tolist() == expected


def test_products_of_words_ignore_the_multiplier() -> None:
    """Only shift and rounding apply to 32-bit times 32-bit."""
    graph = compiled("int32 mul", U55)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-30000, 30000, (1, 5, 6, 7)).astype(np.int32) for _ in range(2)]
    other = patched(graph, OFM_SCALE=4 << 32 | 12345, OFM_PRECISION=0x8105)
    product = inputs[0].astype(np.int64) * inputs[1]
    assert np.array_equal(np.frombuffer(other.run(inputs)[0][0], "<i4"), (product.ravel() + 8) >> 4)


def test_maps_in_four_tiles_are_put_together() -> None:
    graph = compiled("max pool padded", U55)
    values = np.random.default_rng(0).integers(-128, 128, (1, 16, 15, 19)).astype(np.int8)
    memory = graph.memory([values])
    start = graph.inputs[0].offset
    stride_y, stride_x = 15 * 19, 19
    # columns from 6 on, rows from 10 (left) or 3 (right) on, each tile in its own part of a larger memory
    pieces = [values[0, :10, :6], values[0, :3, 6:], values[0, 10:, :6], values[0, 3:, 6:]]
    bases = [start, *(graph.scratch_bytes + i * 16 * stride_y for i in range(3))]
    memory[1] = np.concatenate([memory[1], np.full(64 * stride_y, POISON, np.uint8)])
    for base, piece in zip(bases, pieces, strict=True):
        for y in range(piece.shape[0]):
            row = piece[y].tobytes()
            memory[1][base + y * stride_y : base + y * stride_y + len(row)] = np.frombuffer(row, np.uint8)
    assert stride_x * 15 == stride_y
    places = {f"IFM_BASE{i}": base for i, base in enumerate(bases)}
    tiled = patched(graph, IFM_WIDTH0_M1=5, IFM_HEIGHT0_M1=9, IFM_HEIGHT1_M1=2, **places)
    expected = graph.run([values])[0][0]
    tiled_run = replace(tiled, scratch_bytes=memory[1].size)
    Npu(EthosU.parse(U55)).run(tiled_run.program(), memory)
    (place,) = graph.outputs
    assert place.of(memory[1]).tobytes() == expected


def test_tables_of_words() -> None:
    """int8 to int32, as TensorFlow Lite's softmax looks up exponentials: 256 words, index from -128 on."""
    graph = compiled("table", U55)
    (dma, op) = graph.program().ops
    words = np.random.default_rng(0).integers(-(2**31), 2**31, 256).astype("<i4")
    wide = patched(
        replace(graph, weights=np.frombuffer(words.tobytes(), np.uint8), scratch_bytes=8192),
        DMA0_LEN=1024,
        ACTIVATION=0x3010,  # table 0, clipped to int8
        OFM_PRECISION=0x8105,  # int32
        OFM_BASE0=4096,
        OFM_STRIDE_X=19 * 4,
        OFM_STRIDE_Y=6 * 19 * 4,
    )
    wide = replace(wide, outputs=(VelaIo((1, 1, 1, 5, 6, 19), 4, 4096, 1),))
    values = np.random.default_rng(1).integers(-128, 128, (1, 5, 6, 19)).astype(np.int8)
    assert op.ofm.stride_x == 19  # type: ignore[union-attr]
    assert dma.length == 256  # type: ignore[union-attr]
    result = np.frombuffer(wide.run([values])[0][0], "<i4")
    assert np.array_equal(result, words[values.astype(int).ravel() + 128])


@pytest.mark.parametrize(
    ("name", "registers", "values", "message"),
    [
        ("int32 shift left", {}, (1, 32), r"0\.\.31"),
        ("int32 shift right, rounding", {"OFM_PRECISION": 0x0005}, (-3, 1), "half-way"),
    ],
    ids=["shift of 32", "negative tie"],
)
def test_values_without_established_result_are_refused(
    name: str, registers: dict[str, int], values: tuple[int, int], message: str
) -> None:
    with pytest.raises(Fault, match=message) as caught:
        patched(compiled(name, U55), **registers).run([np.full((1, 5, 6, 7), value, np.int32) for value in values])
    assert caught.value.kind == "unsupported"


@pytest.mark.parametrize("bits", [32, 40, 48])
@pytest.mark.parametrize("sign", [1, -1], ids=["above", "below"])
def test_accumulators_take_the_numbers_of_their_width_and_no_other(bits: int, sign: int) -> None:
    """The one number more below zero belongs to them; how a sum that is one too far wraps is not established."""
    convolution = compiled("conv point", U55).program().ops[0]
    assert isinstance(convolution, Convolution)
    op = replace(convolution, accumulator_bits=bits)
    last = (1 << bits - 1) - 1 if sign > 0 else -1 << bits - 1
    output.check_accumulators(op, np.array([0, last]))
    with pytest.raises(Fault, match=rf"a sum of {last + sign} does not fit") as caught:
        output.check_accumulators(op, np.array([last + sign, 0]))
    assert (caught.value.register, caught.value.value) == ("ACC_FORMAT", bits)


@pytest.mark.parametrize(
    ("bias", "register"), [((1 << 31) - 1, None), (1 << 31, "ACC_FORMAT"), (-1 << 31, None), (~(1 << 31), "ACC_FORMAT")]
)
def test_a_channel_of_a_bias_alone_reaches_the_ends_of_the_accumulator(bias: int, register: str | None) -> None:
    """Trained networks have dead channels: no weights, and the smallest bias of 32 bits. Biases have 40 bits."""
    graph = compiled("conv point", U55)
    op = graph.program().ops[0]
    damaged = graph.weights.copy()
    base = op.weights.scales[0].base  # type: ignore[union-attr]
    damaged[base : base + 5] = np.frombuffer((bias & (1 << 40) - 1).to_bytes(5, "little"), np.uint8)
    zero = np.full((1, 8, 9, 16), op.ifm.zero_point, np.int8)  # type: ignore[union-attr]
    changed = replace(graph, weights=damaged)
    if register is None:
        changed.run([zero])
        return
    with pytest.raises(Fault, match=rf"a sum of {bias} ") as caught:
        changed.run([zero])
    assert caught.value.register == register


# --- tanh and sigmoid


ONE = 12288
NAMES = {Curve.TANH: "TANH", Curve.SIGMOID: "LOGISTIC"}
FUNCTIONS = {Curve.TANH: math.tanh, Curve.SIGMOID: lambda x: 1 / (1 + math.exp(-x))}


def table_of(curve: Curve) -> np.ndarray:
    """The table that Vela loads for an Ethos-U85."""
    graph = TfliteGraph()
    source, result = graph.input((1, 4, 4, 16), "int16", 2**-12), graph.tensor((1, 4, 4, 16), "int16", 2**-15)
    graph.add(NAMES[curve], [source], [result])
    data = compile_tflite(graph.output(result).serialize(), EthosU.parse(U85))
    (network,) = read_tflite(data, "curve").networks
    return np.frombuffer(network.weights[:2048], "<i2").reshape(-1, 2)


@pytest.mark.parametrize("curve", Curve, ids=lambda curve: curve.name)
def test_the_table_that_is_built_in_is_the_one_that_vela_loads(curve: Curve) -> None:
    assert np.array_equal(output.curve_table(curve), table_of(curve))


@pytest.mark.parametrize("curve", Curve, ids=lambda curve: curve.name)
def test_values_are_those_of_the_function(curve: Curve) -> None:
    """A table of steps of 1/24 or 1/48 is off by a few units in the last place, ends by less than one unit in 200."""
    values = np.arange(-(1 << 18), 1 << 18, 37)
    results = output.apply_curve(values, curve, output.curve_table(curve))
    exact = np.array([FUNCTIONS[curve](value / ONE) * 32768 for value in values.tolist()])
    near = np.abs(values) < 4 * ONE
    assert results.dtype == np.int16
    assert np.abs(results - exact)[near].max() < 4
    assert np.abs(results - exact).max() < 8


# Half-way between -341 and -342: away from zero below 0, and above.
TANH = {0: 0, ONE: 24956, -ONE: -24956, -128: -342, 128: 342, 1 << 40: 32767, -(1 << 40): -32767}
SIGMOID = {0: 16384, ONE: 23956, 1 << 40: 32767, -(1 << 40): 1}


@pytest.mark.parametrize(("curve", "points"), [(Curve.TANH, TANH), (Curve.SIGMOID, SIGMOID)])
def test_single_values(curve: Curve, points: dict[int, int]) -> None:
    results = output.apply_curve(np.array(list(points)), curve, output.curve_table(curve))
    assert results.tolist() == list(points.values())


def test_the_result_is_clamped_not_the_input() -> None:
    """As Vela's Python generator does for sigmoid in an LSTM: to what it is at -8 and 8."""
    graph = compiled("int16 maximum", U55)
    zero_points = {"OFM_ZERO_POINT": 0, "IFM_ZERO_POINT": 0, "IFM2_ZERO_POINT": 0}
    clamped = patched(graph, ACTIVATION=4, ACTIVATION_MIN=3000, ACTIVATION_MAX=30000, **zero_points)
    for value, expected in ((-32768, 3000), (0, 16384), (32767, 30000)):
        values = [np.full((1, place.size // 2), value, np.int16) for place in graph.inputs]
        result = np.frombuffer(clamped.run(values)[0][0], np.int16)
        assert set(result.tolist()) == {expected}
