"""Networks with state: UNIDIRECTIONAL_SEQUENCE_LSTM, as a converter writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from ethos_hil.lowering.testing.tflite_graph import TfliteTensor
from ethos_hil.suites.lab.prove.tflite.layers import Layers

_GATES = 4  # input, forget, cell, output
_GATE_SCALE = 2.0**-12  # of what enters tanh and sigmoid
_CELL_SCALE = 2.0**-11
_WEIGHT_SCALE = 0.006
_NEITHER = (None,) * 3


def lstm(
    layers: Layers, dtype: str = "int8", batch: int = 1, steps: int = 5, features: int = 10, units: int = 12,
    time_major: bool = False, zero: int = 3,
) -> TfliteTensor:  # fmt: skip
    """Return the outputs of all steps. `zero`: zero point of the hidden state, for int8."""
    shape = (steps, batch, features) if time_major else (batch, steps, features)
    x = layers.input(*shape, dtype=dtype)
    graph = layers.graph
    hidden_scale, hidden_zero = (1 / 128, zero) if dtype == "int8" else (1 / 32768, 0)
    hidden = graph.state((batch, units), dtype, hidden_scale, hidden_zero)
    cell = graph.state((batch, units), "int16", _CELL_SCALE)

    def weights(count: int) -> list[TfliteTensor]:
        draws = (layers.rng.normal(0, 50, (units, count)).round().clip(-127, 127) for _ in range(_GATES))
        return [graph.constant(values.astype(np.int8), _WEIGHT_SCALE) for values in draws]

    kind = np.int64 if dtype == "int16" else np.int32
    bias_scale = x.scale[0] * _WEIGHT_SCALE
    biases = [
        graph.constant((layers.rng.normal(0, 0.5, units) / bias_scale).astype(kind), bias_scale) for _ in range(_GATES)
    ]
    between = [graph.tensor((0,), "int16", _GATE_SCALE) for _ in range(_GATES)]
    between.append(graph.tensor((0,), dtype, hidden_scale, hidden_zero))
    sizes = (steps, batch, units) if time_major else (batch, steps, units)
    output = graph.tensor(sizes, dtype, hidden_scale, hidden_zero)
    graph.add(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [x, *weights(features), *weights(units), *_NEITHER, *biases, None, None, hidden, cell, None, *_NEITHER],
        [output],
        "UnidirectionalSequenceLSTMOptions",
        intermediates=between,
        fused_activation_function=4,  # tanh
        cell_clip=10.0,
        time_major=time_major,
    )
    return output


def _classifier(layers: Layers) -> TfliteTensor:
    """An LSTM whose last step is classified."""
    states = lstm(layers, steps=8, features=16, units=20)
    ends = (layers.numbers(0, 7, 0), layers.numbers(1, 8, 20), layers.numbers(1, 1, 1))
    last = layers.apply("STRIDED_SLICE", [states, *ends], 1, 20, options="StridedSliceOptions", shrink_axis_mask=2)
    return layers.dense(last, 6)


NETWORKS: Mapping[str, Callable[[Layers], TfliteTensor]] = {
    "lstm": lstm,
    "lstm int16": partial(lstm, dtype="int16"),
    "lstm batch 3": partial(lstm, batch=3),
    "lstm time-major": partial(lstm, time_major=True, batch=2),
    "network: lstm classifier": _classifier,
}
