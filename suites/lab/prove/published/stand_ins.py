"""Networks in the place of those that are not at hand: the same layers with random weights.

Cycles depend on shapes, and on how many bytes weights take when they are encoded. So the layers are the published
ones: multiplications and passes that Vela counts are equal (300,840,274 and 91 for MobileNetV2 on Ethos-U55; 18,877,952
and 81 for the wake word; 3,491,106,584 and 38 for wav2letter). Weights are drawn from a normal distribution, whose
width is chosen so that they take as many encoded bytes as the published ones, within 2 %. Where zeros are in pruned
weights is not known; they are drawn too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ethos_hil.lowering.testing.tflite_graph import Array, TfliteTensor
from ethos_hil.suites.lab.prove.tflite.layers import RELU6, SAME, VALID, Layers

_SCALE = 0.0235
"""Of all values between layers. No layer's rescaling is out of the NPU's range then."""
_MOST = 127
# Kernel, channels, repetitions and stride of MobileNetV2's blocks: expansion t, channels c, n blocks, stride s.
_MOBILE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
# The wake word's blocks: channels inside, channels of the output, stride, whether the input is added.
_WAKE = (
    (4, 4, 1, False), (8, 12, 2, False), (14, 16, 1, True), (28, 32, 2, False), (96, 28, 1, True), (96, 28, 1, True),
    (152, 44, 2, False), (268, 40, 1, True), (268, 52, 1, True), (268, 44, 1, True), (192, 68, 1, False),
    (172, 68, 1, True), (172, 48, 1, True), (288, 16, 2, False), (96, 16, 1, True), (96, 32, 1, True),
    (96, 32, 1, False),
)  # fmt: skip
_CHANNELS = 128
"""Of the single operations, in and out."""


class StandInLayers(Layers):
    """Layers whose weights take as many encoded bytes as a trained network's.

    Attributes:
        width: standard deviation of weights; 0: they are uniform.
        zeros: the part of weights that is zero.
    """

    def __init__(self, name: str, width: float, zeros: float = 0.0) -> None:
        super().__init__(name)
        self.width = width
        self.zeros = zeros

    def block(self, x: TfliteTensor, inside: int, depth: int, stride: int, *, expand: bool = True) -> TfliteTensor:
        """Add an inverted bottleneck without its addition."""
        y = self.convolution(x, inside, (1, 1), activation=RELU6) if expand else x
        return self.convolution(self.depthwise(y, (3, 3), stride, activation=RELU6), depth, (1, 1))

    def sum(self, x: TfliteTensor, y: TfliteTensor) -> TfliteTensor:
        """Add the sum of two tensors; the one with fewer channels is padded."""
        depth = max(x.shape[3], y.shape[3])
        return self.binary("ADD", self._padded(x, depth), self._padded(y, depth), scale=_SCALE)

    def _padded(self, x: TfliteTensor, depth: int) -> TfliteTensor:
        if x.shape[3] == depth:
            return x
        more = self.graph.constant(np.array([[0, 0], [0, 0], [0, 0], [0, depth - x.shape[3]]], np.int32))
        return self.apply("PAD", [x, more], *x.shape[:3], depth, options="PadOptions")

    def row(self, x: TfliteTensor, depth: int, taps: int, stride: int = 1) -> TfliteTensor:
        """Add a convolution of a map of one row, with no row of padding."""
        weights, biases = self._weights(x, (depth, 1, taps, x.shape[3]), 0, bias=True)
        return self.apply(
            "CONV_2D", [x, weights, biases], 1, 1, -(-x.shape[2] // stride), depth, options="Conv2DOptions",
            scale=_SCALE, padding=SAME, stride_w=stride, stride_h=stride, dilation_w_factor=1, dilation_h_factor=1,
        )  # fmt: skip

    def softmax(self, x: TfliteTensor) -> TfliteTensor:
        """Add what ends a classifier."""
        return self.apply("SOFTMAX", x, options="SoftmaxOptions", beta=1.0, scale=1 / 256, zero=-128)

    def flat(self, x: TfliteTensor) -> TfliteTensor:
        """Add a reshape to one row."""
        depth = x.shape[3]
        return self.apply(
            "RESHAPE", [x, self.numbers(1, depth)], 1, depth, options="ReshapeOptions", new_shape=(1, depth)
        )

    def _weights(
        self, x: TfliteTensor, shape: tuple[int, ...], axis: int, bias: bool, *, per_channel: bool = True
    ) -> tuple[TfliteTensor, TfliteTensor | None]:
        drawn = self.rng.normal(0, self.width, shape) if self.width else self.rng.uniform(-127.5, 127.5, shape)
        weights: Array = drawn.round().clip(-_MOST, _MOST)
        if self.zeros:
            weights *= self.rng.random(shape) >= self.zeros
        channels = shape[axis]
        scales = self.rng.uniform(0.002, 0.008, channels).astype(np.float32)
        biases: Array = self.rng.integers(-100_000, 100_000, channels).astype(np.int32)
        constant = self.graph.constant(weights.astype(np.int8), scales.tolist(), axis=axis)
        return constant, self.graph.constant(biases, (np.float32(x.scale[0]) * scales).astype(np.float32).tolist())

    @staticmethod
    def _scale(x: TfliteTensor, weights: TfliteTensor, products: int) -> float:
        return _SCALE


def mobilenet_v2() -> bytes:
    """Return MobileNetV2 1.0 for images of 224 x 224, with a softmax over 1,001 classes."""
    net = StandInLayers("mv2", 38.0)
    x = net.convolution(net.input(1, 224, 224, 3, scale=0.0078, zero=-1), 32, (3, 3), 2, activation=RELU6)
    for expansion, depth, count, stride in _MOBILE:
        for index in range(count):
            y = net.block(x, x.shape[3] * expansion, depth, stride if index == 0 else 1, expand=expansion > 1)
            x = net.sum(x, y) if index and x.shape[3] == depth else y
    x = net.pool("AVERAGE_POOL_2D", net.convolution(x, 1280, (1, 1), activation=RELU6), (7, 7), 1, VALID)
    return net.graph.output(net.softmax(net.flat(net.convolution(x, 1001, (1, 1))))).serialize()


def visual_wake_word() -> bytes:
    """Return a network like MLEK's vww4_128_128: a search found its channels; images are grey."""
    net = StandInLayers("vww", 51.0)
    x = net.convolution(net.input(1, 128, 128, 1, scale=0.0078, zero=-1), 8, (3, 3), 2, activation=RELU6)
    for inside, depth, stride, added in _WAKE:
        y = net.block(x, inside, depth, stride)
        x = net.sum(x, y) if added else y
    x = net.pool("AVERAGE_POOL_2D", net.convolution(x, 128, (1, 1), activation=RELU6), (4, 4), 1, VALID)
    return net.graph.output(net.flat(net.convolution(x, 2, (1, 1)))).serialize()


def wav2letter() -> bytes:
    """Return wav2letter for 296 frames of 39 features, half of its weights pruned."""
    net = StandInLayers("w2l", 36.5, zeros=0.5)
    x = net.input(1, 1, 296, 39, scale=_SCALE, zero=-1)
    for depth, taps, stride in ((250, 48, 2), *((250, 7, 1),) * 7, (2000, 32, 1), (2000, 1, 1)):
        x = net.apply(
            "LEAKY_RELU", net.row(x, depth, taps, stride), options="LeakyReluOptions", scale=_SCALE, alpha=0.2
        )
    return net.graph.output(net.softmax(net.row(x, 29, 1))).serialize()


def operation(name: str) -> bytes:
    """Return a single operation with 128 channels, or wav2letter's row of 250: "conv3x3-16x16", "conv1x7-1x148"."""
    kind, _, shape = name.partition("-")
    height, width = map(int, shape.split("x"))
    if kind == "conv1x7":
        net = StandInLayers("w2lop", 36.5, zeros=0.5)
        return net.graph.output(net.row(net.input(1, height, width, 250, scale=0.162, zero=-57), 250, 7)).serialize()
    net = StandInLayers(f"{kind}{shape}", 0.0)
    x = net.input(1, height, width, _CHANNELS, scale=0.00784, zero=-1)
    layers: Mapping[str, Callable[[], TfliteTensor]] = {
        "conv1x1": lambda: net.convolution(x, _CHANNELS, (1, 1)),
        "conv3x3": lambda: net.convolution(x, _CHANNELS, (3, 3)),
        "dw3x3": lambda: net.depthwise(x, (3, 3)),
    }
    return net.graph.output(layers[kind]()).serialize()


WHOLE: Mapping[str, Callable[[], bytes]] = {"mv2": mobilenet_v2, "vww": visual_wake_word, "w2l": wav2letter}
"""Whole networks, by their short names."""


def stand_in(network: str) -> bytes | None:
    """Return what stands for a network as a TensorFlow Lite file, or None if nothing does."""
    if network in WHOLE:
        return WHOLE[network]()
    return operation(network) if "-" in network else None
