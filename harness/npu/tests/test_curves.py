"""Protects tanh and sigmoid, which ExecuTorch's streams do not use: networks of TensorFlow Lite with LSTMs do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu.compute import output
from ethos_hil.harness.npu.isa.operations import Curve
from ethos_hil.harness.npu.tests.streams import U55, U85, compiled, patched
from ethos_hil.lowering.formats.npu_network import read_tflite
from ethos_hil.lowering.testing.tflite_graph import TfliteGraph, compile_tflite

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
