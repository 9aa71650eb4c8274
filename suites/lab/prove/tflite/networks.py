"""Small TensorFlow Lite networks: one for each operator that Vela takes, in the forms that matter, and whole ones."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.lowering.testing.tflite_graph import Array, TfliteGraph, TfliteTensor
from ethos_hil.suites.lab.prove.tflite.layers import NONE, RELU, RELU6, RELU_N1_TO_1, SAME, VALID, Layers

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


RECURRENT: Mapping[str, Callable[[Layers], TfliteTensor]] = {
    "lstm": lstm,
    "lstm int16": partial(lstm, dtype="int16"),
    "lstm batch 3": partial(lstm, batch=3),
    "lstm time-major": partial(lstm, time_major=True, batch=2),
    "network: lstm classifier": _classifier,
}


Build = Callable[[Layers], TfliteTensor | tuple[TfliteTensor, ...]]
SETS = 3
"""Inferences of a network; states go from one to the next."""


@dataclass(frozen=True)
class TfliteNetwork:
    """A network of the catalogue.

    Attributes:
        name: says what it is for.
        build: makes it; all randomness depends on the name.
        judge: makes the network that TensorFlow Lite Micro is asked where it cannot run this one: one of the same
            inputs and answers.
    """

    name: str
    build: Build = field(repr=False)
    judge: Build | None = field(default=None, repr=False)

    @cached_property
    def graph(self) -> TfliteGraph:
        """The complete network."""
        return self._made(self.build)

    @cached_property
    def tflite(self) -> bytes:
        """The flatbuffer."""
        return self.graph.serialize()

    @property
    def judged(self) -> bytes:
        """The flatbuffer that TensorFlow Lite Micro is given."""
        return self.tflite if self.judge is None else self._made(self.judge).serialize()

    def _made(self, build: Build) -> TfliteGraph:
        layers = Layers(self.name)
        outputs = build(layers)
        return layers.graph.output(*(outputs if isinstance(outputs, tuple) else (outputs,)))

    def input_sets(self) -> list[list[Array]]:
        """Return the inputs of each inference: random values, the two ends, and values around zero."""
        sets = []
        for number in range(SETS):
            rng = np.random.default_rng(zlib.crc32(f"{self.name}/{number}".encode()))
            inputs = self.graph.inputs
            sets.append([drawn(tensor.shape, tensor.dtype, tensor.zero_point, rng, number) for tensor in inputs])
        return sets


def drawn(shape: Sequence[int], dtype: str, zero: int, rng: np.random.Generator, number: int) -> Array:
    """Return an input of inference `number`: random values, then the two ends, then values around zero."""
    ends = np.iinfo(dtype)
    if number == 1:
        return np.where(rng.random(shape) < 0.5, ends.min, ends.max).astype(dtype)
    if number == 2:
        near = rng.normal(zero, (ends.max - ends.min) / 16, shape).round()
        return near.clip(ends.min, ends.max).astype(dtype)
    return rng.integers(ends.min, ends.max, shape, endpoint=True).astype(dtype)


def _both(build: Callable[..., TfliteTensor | tuple[TfliteTensor, ...]], name: str) -> dict[str, Build]:
    """Return a network for each type of activations, by name."""
    return {f"{name} {dtype}": partial(build, dtype=dtype) for dtype in ("int8", "int16")}


# --- layers with weights


def _conv(layers: Layers, dtype: str, **options: Any) -> TfliteTensor:
    kernel = (options.pop("kernel", 3),) * 2
    return layers.convolution(layers.input(1, 11, 13, 7, dtype=dtype), 20, kernel, **options)


def _depthwise(layers: Layers, dtype: str, depth: int = 19, **options: Any) -> TfliteTensor:
    return layers.depthwise(layers.input(1, 11, 13, depth, dtype=dtype), (3, 3), **options)


def _dense(layers: Layers, dtype: str, batch: int = 1, features: int = 75, **options: Any) -> TfliteTensor:
    return layers.dense(layers.input(batch, features, dtype=dtype), 33, **options)


def _transposed(layers: Layers, dtype: str, kernel: int, stride: int, padding: int) -> TfliteTensor:
    return layers.transposed(layers.input(1, 5, 6, 9, dtype=dtype), 11, kernel, stride, padding)


def _dead(layers: Layers) -> TfliteTensor:
    """Every other channel has no weights, and the smallest bias, as a converter writes it of a tiny scale."""
    x = layers.input(1, 6, 7, 5)
    weights: Array = layers.rng.integers(-127, 128, (8, 3, 3, 5)).astype(np.int8)
    bias: Array = layers.rng.integers(-9000, 9000, 8).astype(np.int32)
    weights[::2], bias[::2] = 0, np.iinfo(np.int32).min
    scales = np.tile(np.array([1e-9, 0.004], np.float32), 4)
    constants = (
        layers.graph.constant(weights, scales.tolist()),
        layers.graph.constant(bias, [x.scale[0] * scale for scale in scales.tolist()]),
    )
    return layers.apply(
        "CONV_2D", [x, *constants], 1, 6, 7, 8, options="Conv2DOptions", scale=x.scale[0] * 3, padding=SAME,
        stride_w=1, stride_h=1, dilation_w_factor=1, dilation_h_factor=1,
    )  # fmt: skip


_WEIGHTED: dict[str, Build] = {
    **_both(partial(_conv, padding=SAME), "conv 3x3"),
    **_both(partial(_conv, kernel=1), "conv 1x1"),
    **_both(partial(_conv, stride=2, padding=VALID, activation=RELU6), "conv stride 2, relu6"),
    **_both(partial(_conv, dilation=2, activation=RELU), "conv dilation 2, relu"),
    "conv without bias": partial(_conv, dtype="int8", bias=False),
    "conv relu -1 to 1": partial(_conv, dtype="int8", activation=RELU_N1_TO_1),
    **_both(_depthwise, "depthwise 3x3"),
    **_both(partial(_depthwise, stride=2, activation=RELU6), "depthwise stride 2, relu6"),
    "conv of dead channels": _dead,
    "depthwise multiplier": partial(_depthwise, dtype="int8", depth=1, multiplier=12),
    "depthwise dilation 2": partial(_depthwise, dtype="int8", dilation=2, padding=VALID),
    **_both(_dense, "fully connected"),
    "fully connected batch 4": partial(_dense, dtype="int8", batch=4),
    "fully connected relu": partial(_dense, dtype="int8", activation=RELU),
    "fully connected without bias": partial(_dense, dtype="int8", bias=False),
    **_both(partial(_transposed, kernel=3, stride=2, padding=SAME), "transpose conv 3x3"),
    "transpose conv 2x2": partial(_transposed, dtype="int8", kernel=2, stride=2, padding=VALID),
    "transpose conv 4x4": partial(_transposed, dtype="int8", kernel=4, stride=2, padding=SAME),
}


# --- pools, means, sizes


def _pool(
    layers: Layers, operator: str, dtype: str, kernel: tuple[int, int], stride: int, padding: int, act: int = NONE
) -> TfliteTensor:
    return layers.pool(operator, layers.input(1, 11, 13, 18, dtype=dtype), kernel, stride, padding, act)


def _mean(layers: Layers, operator: str, axes: tuple[int, ...], keep: bool, dtype: str) -> TfliteTensor:
    x = layers.input(1, 7, 6, 20, dtype=dtype)
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
    scale = x.scale[0] * (6.0 if operator == "SUM" else 0.5 if operator == "MEAN" else 1.0)
    inputs = [x, layers.numbers(*axes)]
    return layers.apply(operator, inputs, *sizes, options="ReducerOptions", scale=scale, keep_dims=keep)


def _resize(layers: Layers, operator: str, size: tuple[int, int], dtype: str = "int8", **options: bool) -> TfliteTensor:
    x = layers.input(1, 6, 5, 10, dtype=dtype)
    name = "ResizeBilinearOptions" if "BILINEAR" in operator else "ResizeNearestNeighborOptions"
    return layers.apply(operator, [x, layers.numbers(*size)], 1, *size, 10, options=name, **options)


_POOLS: dict[str, Build] = {}
for _operator, _word in (("MAX_POOL_2D", "max"), ("AVERAGE_POOL_2D", "average")):
    _POOLS |= _both(partial(_pool, operator=_operator, kernel=(3, 3), stride=2, padding=SAME), f"{_word} pool padded")
    _POOLS |= _both(partial(_pool, operator=_operator, kernel=(2, 2), stride=2, padding=VALID), f"{_word} pool")
    _POOLS[f"{_word} pool 11x13"] = partial(
        _pool, operator=_operator, dtype="int8", kernel=(11, 13), stride=1, padding=VALID
    )
    _POOLS[f"{_word} pool relu"] = partial(
        _pool, operator=_operator, dtype="int8", kernel=(2, 3), stride=1, padding=SAME, act=RELU
    )
_POOLS |= {
    **_both(partial(_mean, operator="MEAN", axes=(1, 2), keep=True), "mean of a map"),
    "mean without the axes": partial(_mean, operator="MEAN", axes=(1, 2), keep=False, dtype="int8"),
    "mean of columns": partial(_mean, operator="MEAN", axes=(2,), keep=True, dtype="int8"),
    "mean of channels": partial(_mean, operator="MEAN", axes=(3,), keep=True, dtype="int8"),
    "sum of channels": partial(_mean, operator="SUM", axes=(3,), keep=True, dtype="int8"),
    "maximum of a map": partial(_mean, operator="REDUCE_MAX", axes=(1, 2), keep=True, dtype="int8"),
    "resize bilinear by 2": partial(_resize, operator="RESIZE_BILINEAR", size=(12, 10)),
    "resize bilinear half-pixel": partial(_resize, operator="RESIZE_BILINEAR", size=(12, 10), half_pixel_centers=True),
    "resize bilinear corners": partial(_resize, operator="RESIZE_BILINEAR", size=(11, 9), align_corners=True),
    "resize nearest by 2": partial(_resize, operator="RESIZE_NEAREST_NEIGHBOR", size=(12, 10)),
    "resize nearest corners": partial(_resize, operator="RESIZE_NEAREST_NEIGHBOR", size=(11, 9), align_corners=True),
}


# --- element by element


def _two(
    layers: Layers, operator: str, dtype: str, second: tuple[int, ...] = (1, 6, 7, 12), same: bool = False, act: int = 0
) -> TfliteTensor:
    first = layers.input(1, 6, 7, 12, dtype=dtype)
    scale, zero = (first.scale[0], first.zero_point) if same else (None, None)
    return layers.binary(operator, first, layers.input(*second, dtype=dtype, scale=scale, zero=zero), activation=act)


def _with_constant(layers: Layers, operator: str, shape: tuple[int, ...]) -> TfliteTensor:
    x = layers.input(1, 6, 7, 12)
    return layers.binary(operator, x, layers.values(shape, x, scale=0.031))


def _larger(layers: Layers, operator: str, dtype: str) -> TfliteTensor:
    x = layers.input(1, 6, 7, 12, dtype=dtype)
    other = layers.input(1, 6, 7, 12, dtype=dtype, scale=x.scale[0], zero=x.zero_point)
    return layers.apply(operator, [x, other], options="MaximumMinimumOptions")


def _difference(layers: Layers) -> TfliteTensor:
    first, second = layers.input(1, 6, 7, 12), layers.input(1, 6, 7, 12)
    scale = (first.scale[0] + second.scale[0]) ** 2 * 60
    options = "SquaredDifferenceOptions"
    return layers.apply("SQUARED_DIFFERENCE", [first, second], options=options, scale=scale, zero=-128)


def _function(
    layers: Layers, operator: str, dtype: str, scale: float, zero: int = 0, given: float | None = None,
    options: str = "", **more: float,
) -> TfliteTensor:  # fmt: skip
    x = layers.input(1, 8, 8, 16, dtype=dtype, scale=given)
    return layers.apply(operator, x, options=options, scale=scale, zero=zero, **more)


def _relu6(layers: Layers) -> TfliteTensor:
    """TensorFlow Lite Micro's kernel does not requantise."""
    return layers.apply("RELU6", layers.input(1, 8, 8, 16))


def _softmax(layers: Layers, shape: tuple[int, ...], dtype: str) -> TfliteTensor:
    x = layers.input(*shape, dtype=dtype, scale=0.1 if dtype == "int8" else 6.0 / 32768)
    scale, zero = (1 / 256, -128) if dtype == "int8" else (1 / 32768, 0)
    return layers.apply("SOFTMAX", x, options="SoftmaxOptions", scale=scale, zero=zero, beta=1.0)


def _requantised(layers: Layers, dtype: str, to: str, scale: float, zero: int) -> TfliteTensor:
    x = layers.input(1, 6, 7, 12, dtype=dtype)
    output = layers.graph.tensor(x.shape, to, scale, zero)
    layers.graph.add("QUANTIZE", [x], [output], "QuantizeOptions")
    return output


_ELEMENTWISE: dict[str, Build] = {}
for _operator in ("ADD", "SUB", "MUL"):
    _word = _operator.lower()
    _ELEMENTWISE |= _both(partial(_two, operator=_operator), _word)
    _ELEMENTWISE |= _both(partial(_two, operator=_operator, same=True), f"{_word}, equal scales")
    _ELEMENTWISE[f"{_word} of channels"] = partial(_two, operator=_operator, dtype="int8", second=(1, 1, 1, 12))
    _ELEMENTWISE[f"{_word} with a number"] = partial(_with_constant, operator=_operator, shape=())
    _ELEMENTWISE[f"{_word} with constants"] = partial(_with_constant, operator=_operator, shape=(1, 1, 1, 12))
    _ELEMENTWISE[f"{_word}, relu"] = partial(_two, operator=_operator, dtype="int8", act=RELU)
_ELEMENTWISE |= {
    **_both(partial(_larger, operator="MAXIMUM"), "maximum"),
    **_both(partial(_larger, operator="MINIMUM"), "minimum"),
    "squared difference": _difference,
    "logistic int8": partial(_function, operator="LOGISTIC", dtype="int8", scale=1 / 256, zero=-128),
    "logistic int16": partial(_function, operator="LOGISTIC", dtype="int16", scale=1 / 32768),
    "logistic int16 power of two": partial(
        _function, operator="LOGISTIC", dtype="int16", scale=1 / 32768, given=1 / 4096
    ),
    "tanh int8": partial(_function, operator="TANH", dtype="int8", scale=1 / 128),
    "tanh int16": partial(_function, operator="TANH", dtype="int16", scale=1 / 32768),
    "tanh int16 power of two": partial(_function, operator="TANH", dtype="int16", scale=1 / 32768, given=1 / 2048),
    "hard swish": partial(_function, operator="HARD_SWISH", dtype="int8", scale=0.05, zero=-100),
    "relu": partial(_function, operator="RELU", dtype="int8", scale=0.04, zero=-128),
    "relu6": _relu6,
    "abs": partial(_function, operator="ABS", dtype="int8", scale=0.05, zero=-60),
    **_both(partial(_function, operator="LEAKY_RELU", scale=0.03, options="LeakyReluOptions", alpha=0.1), "leaky relu"),
    "leaky relu alpha 1.3": partial(
        _function, operator="LEAKY_RELU", dtype="int8", scale=0.05, options="LeakyReluOptions", alpha=1.3
    ),
    **_both(partial(_softmax, shape=(1, 10)), "softmax"),
    # For int16, sums that read entry 294 of the table of 1/(1+x) differ: 20815 in Vela, 20816 in TensorFlow Lite Micro.
    **_both(partial(_softmax, shape=(1, 4, 3, 19)), "softmax of channels"),
    "quantize int8 to int8": partial(_requantised, dtype="int8", to="int8", scale=0.071, zero=-9),
    "quantize int16 to int8": partial(_requantised, dtype="int16", to="int8", scale=0.071, zero=-9),
    "quantize int8 to int16": partial(_requantised, dtype="int8", to="int16", scale=3e-4, zero=0),
}


# --- unsigned elements


def _unsigned(
    layers: Layers, operator: str, scale: float, zero: int, signed: bool = False, options: str = "", **more: float
) -> TfliteTensor:
    """Return a function of unsigned elements; `signed`: of signed ones, requantised before and after.

    These are off by 128, which no rounding is in the way of. TensorFlow Lite Micro has kernels for signed ones only.
    """
    x = layers.input(1, 8, 8, 16, dtype="uint8")
    if not signed:
        return layers.apply(operator, x, options=options, scale=scale, zero=zero + 128, **more)
    inside = layers.graph.tensor(x.shape, "int8", x.scale[0], x.zero_point - 128)
    layers.graph.add("QUANTIZE", [x], [inside], "QuantizeOptions")
    answer = layers.apply(operator, inside, options=options, scale=scale, zero=zero, **more)
    output = layers.graph.tensor(x.shape, "uint8", scale, zero + 128)
    layers.graph.add("QUANTIZE", [answer], [output], "QuantizeOptions")
    return output


_UNSIGNED: Mapping[str, Callable[..., TfliteTensor]] = {
    "logistic uint8": partial(_unsigned, operator="LOGISTIC", scale=1 / 256, zero=-128),
    "tanh uint8": partial(_unsigned, operator="TANH", scale=1 / 128, zero=0),
    "hard swish uint8": partial(_unsigned, operator="HARD_SWISH", scale=0.05, zero=-100),
    "leaky relu uint8": partial(
        _unsigned, operator="LEAKY_RELU", scale=0.03, zero=-28, options="LeakyReluOptions", alpha=0.1
    ),
    "softmax uint8": partial(
        _unsigned, operator="SOFTMAX", scale=1 / 256, zero=-128, options="SoftmaxOptions", beta=1.0
    ),
}


# --- places


def _concatenated(layers: Layers, dtype: str, axis: int) -> TfliteTensor:
    x = layers.input(1, 6, 7, 12, dtype=dtype)
    y = layers.input(1, 6, 7, 12, dtype=dtype, scale=x.scale[0], zero=x.zero_point)
    sizes = [24 if number == axis else size for number, size in enumerate(x.shape)]
    sizes[axis] = 2 * x.shape[axis]
    return layers.apply("CONCATENATION", [x, y], *sizes, options="ConcatenationOptions", axis=axis)


def _split(layers: Layers, dtype: str) -> tuple[TfliteTensor, ...]:
    x = layers.input(1, 6, 7, 12, dtype=dtype)
    parts = tuple(layers.like(x, 1, 6, 7, 4) for _ in range(3))
    layers.graph.add("SPLIT", [layers.graph.constant(np.array(3, np.int32)), x], parts, "SplitOptions", num_splits=3)
    return parts


def _strided(layers: Layers, dtype: str) -> TfliteTensor:
    x = layers.input(1, 9, 10, 12, dtype=dtype)
    ends = (layers.numbers(0, 1, 2, 3), layers.numbers(1, 8, 9, 11), layers.numbers(1, 1, 1, 1))
    return layers.apply("STRIDED_SLICE", [x, *ends], 1, 7, 7, 8, options="StridedSliceOptions")


def _sliced(layers: Layers, dtype: str) -> TfliteTensor:
    x = layers.input(1, 9, 10, 12, dtype=dtype)
    ends = (layers.numbers(0, 1, 2, 3), layers.numbers(1, 4, 5, 6))
    return layers.apply("SLICE", [x, *ends], 1, 4, 5, 6, options="SliceOptions")


def _padded(layers: Layers, dtype: str, edges: tuple[tuple[int, int], ...]) -> TfliteTensor:
    x = layers.input(1, 6, 7, 12, dtype=dtype)
    sizes = [size + before + after for size, (before, after) in zip(x.shape, edges, strict=True)]
    widths = layers.graph.constant(np.array(edges, np.int32))
    return layers.apply("PAD", [x, widths], *sizes, options="PadOptions")


def _transpose(layers: Layers, order: tuple[int, ...]) -> TfliteTensor:
    x = layers.input(1, 6, 7, 12)
    sizes = [x.shape[axis] for axis in order]
    return layers.apply("TRANSPOSE", [x, layers.numbers(*order)], *sizes, options="TransposeOptions")


def _product(layers: Layers, dtype: str) -> TfliteTensor:
    first, second = layers.input(3, 7, 20, dtype=dtype), layers.input(3, 20, 9, dtype=dtype)
    spread = 74.0 if dtype == "int8" else 9000.0
    scale = first.scale[0] * second.scale[0] * spread * 5
    return layers.apply("BATCH_MATMUL", [first, second], 3, 7, 9, options="BatchMatMulOptions", scale=scale)


_SIDES = ((0, 0), (1, 2), (3, 1), (0, 0))
_PLACES: dict[str, Build] = {
    **_both(partial(_concatenated, axis=3), "concat of channels"),
    "concat of rows": partial(_concatenated, dtype="int8", axis=1),
    **_both(_split, "split"),
    **_both(_strided, "strided slice"),
    "slice": partial(_sliced, dtype="int8"),
    **_both(partial(_padded, edges=_SIDES), "pad"),
    "pad of channels": partial(_padded, dtype="int8", edges=((0, 0), (0, 0), (0, 0), (2, 3))),
    "transpose": partial(_transpose, order=(0, 2, 1, 3)),
    **_both(_product, "batch matmul"),
}


# --- whole networks


def _mobile(layers: Layers) -> TfliteTensor:
    """Inverted residuals, as in MobileNetV2, to a softmax."""
    x = layers.convolution(layers.input(1, 32, 32, 3), 16, stride=2, activation=RELU6)
    for stride, depth in ((1, 16), (2, 24), (1, 24)):
        wide = layers.convolution(x, 48, (1, 1), activation=RELU6)
        wide = layers.depthwise(wide, stride=stride, activation=RELU6)
        narrow = layers.convolution(wide, depth, (1, 1))
        x = layers.binary("ADD", x, narrow) if stride == 1 and depth == x.shape[3] else narrow
    x = layers.pool("AVERAGE_POOL_2D", x, (8, 8), 1, VALID)
    x = layers.apply("RESHAPE", [x, layers.numbers(1, 24)], 1, 24, options="ReshapeOptions")
    x = layers.dense(x, 10)
    return layers.apply("SOFTMAX", x, options="SoftmaxOptions", scale=1 / 256, zero=-128, beta=1.0)


def _keywords(layers: Layers) -> TfliteTensor:
    """A depthwise separable network on a spectrogram, in int16."""
    x = layers.convolution(layers.input(1, 25, 10, 1, dtype="int16"), 24, (5, 3), 2, activation=RELU)
    for _ in range(2):
        x = layers.convolution(layers.depthwise(x, activation=RELU), 24, (1, 1), activation=RELU)
    x = layers.apply(
        "MEAN", [x, layers.numbers(1, 2)], 1, 24, options="ReducerOptions", scale=x.scale[0] / 3, keep_dims=False
    )
    return layers.dense(x, 12)


def _hourglass(layers: Layers) -> TfliteTensor:
    """Down, up and across, as a U-Net, with a resize, a transposed convolution and concatenations."""
    x = layers.convolution(layers.input(1, 16, 16, 4), 8, activation=RELU)
    down = layers.convolution(layers.pool("MAX_POOL_2D", x, (2, 2), 2, VALID), 16, activation=RELU)
    deep = layers.convolution(layers.pool("MAX_POOL_2D", down, (2, 2), 2, VALID), 16, activation=RELU)
    up = layers.apply("RESIZE_BILINEAR", [deep, layers.numbers(8, 8)], 1, 8, 8, 16, options="ResizeBilinearOptions",
                      half_pixel_centers=True)  # fmt: skip
    up = layers.apply("QUANTIZE", up, options="QuantizeOptions", scale=down.scale[0], zero=down.zero_point)
    x2 = layers.apply("CONCATENATION", [up, down], 1, 8, 8, 32, options="ConcatenationOptions", axis=3)
    return layers.apply("LOGISTIC", layers.transposed(x2, 3, 2, 2, VALID), scale=1 / 256, zero=-128)


NETWORKS: Mapping[str, TfliteNetwork] = {
    name: TfliteNetwork(name, build, partial(_UNSIGNED[name], signed=True) if name in _UNSIGNED else None)
    for name, build in {
        **_WEIGHTED,
        **_POOLS,
        **_ELEMENTWISE,
        **_UNSIGNED,
        **_PLACES,
        **RECURRENT,
        "network: inverted residuals": _mobile,
        "network: keywords int16": _keywords,
        "network: hourglass": _hourglass,
    }.items()
}
