"""Random graphs. Each is determined by its seed.

Forms that Vela 5.1 compiles wrongly are not drawn. Each place names the defect, and test_random_graphs shows it.
Weights that are an input are not drawn either: with per-channel scales, on Ethos-U85, all channels get the first scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ethos_hil.lowering.testing.programs.pieces import (
    ADD_SHIFT,
    added,
    depthwise_layer,
    layer,
    per_channel,
    requantized,
    spread,
    weights,
)
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Limits, Rng, TosaProgram

# --- what is drawn from


T = TypeVar("T")

WIDTHS = ("int8", "int16", "int32")


class Dice:
    """The draws that graphs need.

    Attributes:
        rng: the source of all of them, also for weights and tables.
    """

    def __init__(self, rng: Rng) -> None:
        self.rng = rng

    def between(self, low: int, high: int) -> int:
        """Draw an integer, both ends included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def pick(self, *options: T) -> T:
        """Draw one of the options. An option that is given twice is twice as likely."""
        return options[self.between(0, len(options) - 1)]

    def chance(self, probability: float) -> bool:
        """Draw whether something happens."""
        return bool(self.rng.random() < probability)

    def extent(self, low: int, high: int) -> int:
        """Draw a dimension, often a small one: there edges and partial blocks meet."""
        return self.pick(self.between(low, high), low, self.between(low, min(high, low + 4)))

    def pair(self, *options: int) -> tuple[int, int]:
        """Draw one of the options for y and one for x."""
        return self.pick(*options), self.pick(*options)

    def shape(self, largest: int, ranks: tuple[int, ...] = (1, 2, 3, 4, 5)) -> list[int]:
        """Draw a shape whose dimensions are `largest` at most."""
        return [self.between(1, largest) for _ in range(self.pick(*ranks))]

    def some_ones(self, shape: list[int], probability: float) -> list[int]:
        """Return a shape that broadcasts to the given one: some of its dimensions are 1."""
        return [1 if self.chance(probability) else extent for extent in shape]

    def batch(self) -> int:
        """Draw a batch size, mostly 1."""
        return self.pick(1, 1, 1, 2, 3)

    def activation(self) -> str:
        """Draw the type of quantised activations."""
        return self.pick("int8", "int8", "int16")

    def zero(self, dtype: str) -> int:
        """Draw a zero point. Only int8 has others than 0."""
        return self.between(-128, 127) if dtype == "int8" else 0


Form = Callable[[Dice, Graph], Value]


# --- elementwise operators; shapes broadcast


INT16_SHIFT = 12  # how far ExecuTorch 1.4.1 shifts int16 operands of ADD and SUB to the left
RANKS = (1, 2, 3, 4, 4, 4, 5)


def _shapes(dice: Dice) -> tuple[list[int], list[int]]:
    """Two shapes that broadcast to a third; no axis is broadcast in both."""
    full = dice.shape(9, RANKS)
    first = dice.some_ones(full, 0.25)
    second = [1 if size != 1 and dice.chance(0.25) else extent for size, extent in zip(first, full, strict=True)]
    return first, second


def arithmetic(dice: Dice, graph: Graph) -> Value:
    """One quantised operator of two operands, the second at times constant, the order at times swapped."""
    dtype, (first, second) = dice.activation(), _shapes(dice)
    name = dice.pick("ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM")
    values = [graph.input(first, dtype)]
    constant = dice.chance(0.3)
    values.append(graph.const(dice.rng.integers(-128, 128, second), dtype) if constant else graph.input(second, dtype))
    left = 2.0 ** dice.pick(ADD_SHIFT if dtype == "int8" else INT16_SHIFT, 0)
    scales = [1.0 if name == "MUL" else dice.pick(0.3, 0.5, 0.77, 1.0) * left for _ in values]
    wide = [
        graph.rescale(value, scale, zero_in=dice.zero(dtype), dtype="int32")
        for value, scale in zip(values, scales, strict=True)
    ]
    if dice.chance(0.3):
        wide.reverse()
    factor = dice.pick(0.3, 0.5, 0.77, 1.0) / left
    if name == "MUL":
        factor = 0.013 if dtype == "int8" else 3e-5
    result = graph.rescale(graph.binary(name, *wide), factor, zero_out=dice.zero(dtype), dtype=dtype)
    if dtype == "int8" and dice.chance(0.2):
        return graph.table(result, dice.rng.integers(-128, 128, 256))
    return result


def comparison(dice: Dice, graph: Graph) -> Value:
    """EQUAL, GREATER or GREATER_EQUAL of int32."""
    first, second = _shapes(dice)
    name = dice.pick("EQUAL", "GREATER", "GREATER_EQUAL")
    return graph.binary(name, graph.input(first, "int32"), graph.input(second, "int32"))


def bitwise(dice: Dice, graph: Graph) -> Value:
    """BITWISE_AND, _OR or _XOR."""
    (first, second), dtype = _shapes(dice), dice.pick(*WIDTHS)
    name = dice.pick("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR")
    return graph.binary(name, graph.input(first, dtype), graph.input(second, dtype))


def selection(dice: Dice, graph: Graph) -> Value:
    """SELECT, choices broadcast at times."""
    shape, dtype = dice.shape(9, (1, 2, 3, 4)), dice.pick(*WIDTHS)
    choices = [graph.input(dice.some_ones(shape, 0.2), dtype) for _ in range(2)]
    return graph.select(graph.input(shape, "bool"), *choices)


def table(dice: Dice, graph: Graph) -> Value:
    """TABLE of int8."""
    return graph.table(graph.input(dice.shape(9)), dice.rng.integers(-128, 128, 256))


def rescaling(dice: Dice, graph: Graph) -> Value:
    """RESCALE between activations, by one factor or per channel, rounding once or twice."""
    dtype_in, dtype_out = dice.pick("int8", "int16"), dice.pick("int8", "int16")
    largest = {"int8": {"int8": 1.0, "int16": 200.0}, "int16": {"int8": 0.004, "int16": 1.0}}[dtype_in][dtype_out]
    zero_in, zero_out = dice.pick(0, dice.zero(dtype_in)), dice.between(-50, 50) if dtype_out == "int8" else 0
    return _rescaled(
        dice, graph, graph.input(dice.shape(12, (1, 2, 3, 4)), dtype_in), largest, dtype_out, zero_in, zero_out
    )


def rescaling_of_int32(dice: Dice, graph: Graph) -> Value:
    """RESCALE of int32."""
    dtype = dice.pick(*WIDTHS)
    largest = {"int8": 1e-7, "int16": 3e-5, "int32": 0.7}[dtype]
    return _rescaled(dice, graph, graph.input(dice.shape(12, (1, 2, 3, 4)), "int32"), largest, dtype, 0, 0)


def _rescaled(
    dice: Dice, graph: Graph, source: Value, largest: float, dtype: str, zero_in: int, zero_out: int
) -> Value:
    channels = source.shape[-1]
    if channels > 1 and dice.chance(0.5):
        scale = per_channel(dice.rng, channels, largest)
        return graph.rescale(
            source, scale, zero_in=zero_in, zero_out=zero_out, dtype=dtype, double_round=dice.chance(0.4)
        )
    factor = float(dice.rng.uniform(0.01, 1) * largest)
    return graph.rescale(source, factor, zero_in=zero_in, zero_out=zero_out, dtype=dtype, double_round=dice.chance(0.4))


# --- operators that move or reduce elements


def transposition(dice: Dice, graph: Graph) -> Value:
    """TRANSPOSE, up to six axes."""
    shape = dice.shape(9, (2, 3, 4, 4, 5, 6))
    axes = [int(axis) for axis in dice.rng.permutation(len(shape))]
    return graph.transpose(graph.input(shape, dice.pick(*WIDTHS)), axes)


def reduction(dice: Dice, graph: Graph) -> Value:
    """A REDUCE of any kind along any axis; sums are of quantised activations, at times averaged."""
    shape, name = dice.shape(12), dice.pick("SUM", "MAX", "MIN", "ALL", "ANY")
    axis = dice.between(0, len(shape) - 1)
    if name != "SUM":
        dtype = "bool" if name in ("ALL", "ANY") else dice.pick(*WIDTHS)
        return graph.reduce(name, graph.input(shape, dtype), axis)
    dtype = dice.activation()
    sums = graph.reduce(name, graph.rescale(graph.input(shape, dtype), 1.0, dtype="int32"), axis)
    return graph.rescale(sums, 1 / shape[axis], dtype=dtype) if dice.chance(0.6) else sums


def index_of_maximum(dice: Dice, graph: Graph) -> Value:
    """ARGMAX along any axis."""
    shape = dice.shape(20, (1, 2, 3, 4))
    return graph.argmax(graph.input(shape, dice.activation()), dice.between(0, len(shape) - 1))


def concatenation(dice: Dice, graph: Graph) -> Value:
    """CONCAT of two to five inputs along any axis."""
    shape, dtype = dice.shape(9), dice.pick(*WIDTHS, "bool")
    axis = dice.between(0, len(shape) - 1)
    parts = []
    for _ in range(dice.between(2, 5)):
        shape[axis] = dice.between(1, 20)
        parts.append(graph.input(shape, dtype))
    return graph.concat(parts, axis)


def part(dice: Dice, graph: Graph) -> Value:
    """SLICE."""
    shape = dice.shape(20)
    start = [dice.between(0, extent - 1) for extent in shape]
    size = [dice.between(1, extent - first) for extent, first in zip(shape, start, strict=True)]
    return graph.slice(graph.input(shape, dice.pick(*WIDTHS, "bool")), start, size)


def padding(dice: Dice, graph: Graph) -> Value:
    """PAD with any value on every side."""
    shape = dice.shape(9)
    amounts = [dice.between(0, 4) for _ in range(2 * len(shape))]
    return graph.pad(graph.input(shape, dice.pick(*WIDTHS)), amounts, dice.between(-100, 100))


def repetition(dice: Dice, graph: Graph) -> Value:
    """TILE."""
    shape = dice.shape(7)
    return graph.tile(graph.input(shape, dice.pick(*WIDTHS)), [dice.between(1, 3) for _ in shape])


def reversal(dice: Dice, graph: Graph) -> Value:
    """REVERSE along any axis."""
    shape = dice.shape(9)
    return graph.reverse(graph.input(shape, dice.pick(*WIDTHS)), dice.between(0, len(shape) - 1))


def gathering(dice: Dice, graph: Graph) -> Value:
    """GATHER at constant indices."""
    batch, rows, depth, taken = dice.between(1, 3), dice.between(1, 30), dice.between(1, 70), dice.between(1, 30)
    indices = graph.const(dice.rng.integers(0, rows, (batch, taken)), "int32")
    return graph.gather(graph.input((batch, rows, depth), dice.pick(*WIDTHS)), indices)


# --- operators with windows or products


INT16_SUMS = 1 / 250  # the scale of products of two int16 relative to that of two int8, so that results fit


def _padding(dice: Dice, extents: list[int], kernel: tuple[int, int]) -> tuple[list[int], tuple[int, int]]:
    """Paddings (top, bottom, left, right) and the size of the input that make up windows with these extents."""
    pads: list[int] = []
    for extent, taps in zip(extents, kernel, strict=True):
        before = dice.between(0, min(taps - 1, extent - 1))
        pads += [before, dice.between(0, min(taps - 1, extent - 1 - before))]
    return pads, (extents[0] - pads[0] - pads[1], extents[1] - pads[2] - pads[3])


def convolution(dice: Dice, graph: Graph) -> Value:
    """CONV2D."""
    return _convolution(dice, graph, depthwise=False)


def depthwise(dice: Dice, graph: Graph) -> Value:
    """DEPTHWISE_CONV2D."""
    return _convolution(dice, graph, depthwise=True)


def _convolution(dice: Dice, graph: Graph, *, depthwise: bool) -> Value:
    dtype, batch, depth = dice.activation(), dice.batch(), dice.extent(1, 140)
    stride, dilation = dice.pair(1, 1, 2, 3), (1, 1)
    if stride == (1, 1):
        dilation = dice.pick(1, 1, 1, 2, 3), dice.pick(1, 1, 1, 2)
    kernel = dice.pick(1, 1, 2, 3, 3, 5, 7), dice.pick(1, 1, 2, 3, 3, 5, 8)
    output = (dice.extent(1, 14), dice.extent(1, 14))
    extents = [(output[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 for i in (0, 1)]
    pad, size = _padding(dice, extents, kernel)
    source, zero, taps = graph.input((batch, *size, depth), dtype), dice.zero(dtype), kernel[0] * kernel[1]
    if depthwise:
        multiplier = dice.pick(1, 1, 1, 2, 3)
        out = depth * multiplier
        held, bias = weights(dice.rng, *kernel, depth, multiplier), dice.rng.integers(-9999, 9999, out)
        sums = graph.depthwise(source, held, bias, zero=zero, pad=pad, stride=stride, dilation=dilation)
    else:
        out, taps = dice.extent(1, 140), taps * depth
        held, bias = weights(dice.rng, out, *kernel, depth), dice.rng.integers(-9999, 9999, out)
        sums = graph.conv(source, held, bias, zero=zero, pad=pad, stride=stride, dilation=dilation)
    result = requantized(graph, dice.rng, sums, spread(taps) * dice.pick(1, 0.1, 3), dice.pick(dtype, dtype, "int8"))
    # Vela 5.1: a table or clamp after a point convolution makes it fold batches into the OFM unlike into the IFM.
    if batch > 1 and kernel == (1, 1) and not depthwise:
        return result
    if result.dtype == "int8" and dice.chance(0.3):
        return graph.table(result, dice.rng.integers(-128, 128, 256))
    return graph.clamp(result, -50, 77) if dice.chance(0.3) else result


def convolution_3d(dice: Dice, graph: Graph) -> Value:
    """CONV3D."""
    dtype, depth, out = dice.activation(), dice.extent(1, 20), dice.extent(1, 20)
    kernel = tuple(dice.between(1, 3) for _ in range(3))
    size = [dice.extent(3, largest) for largest in (6, 7, 7)]
    sums = graph.conv3d(
        graph.input((dice.batch(), *size, depth), dtype),
        weights(dice.rng, out, *kernel, depth),
        dice.rng.integers(-99, 99, out),
        zero=dice.zero(dtype),
        pad=[dice.pick(0, taps // 2) for taps in kernel for _ in range(2)],
    )
    return requantized(graph, dice.rng, sums, spread(depth * kernel[0] * kernel[1] * kernel[2]), dtype)


def transposed_convolution(dice: Dice, graph: Graph) -> Value:
    """TRANSPOSE_CONV2D, often cropped."""
    dtype, depth, out = dice.activation(), dice.extent(1, 40), dice.extent(1, 40)
    kernel, size = dice.pair(1, 2, 3, 4, 5), (dice.extent(2, 9), dice.extent(2, 9))
    stride = dice.pick((1, 1), (2, 2), (2, 2), (1, 2), (2, 1), (3, 3))
    crops: list[int] = []
    for axis in (0, 1):
        # Vela 5.1: cropped to one row or column it forgets the stride along that axis.
        spare = (size[axis] - 1) * stride[axis] + kernel[axis] - (1 if stride[axis] == 1 else 2)
        for _ in range(2):
            crop = dice.pick(0, dice.between(0, min(kernel[axis] - 1, spare)))
            spare -= crop
            crops.append(-crop)
    sums = graph.transpose_conv(
        graph.input((dice.batch(), *size, depth), dtype),
        weights(dice.rng, out, *kernel, depth),
        dice.rng.integers(-99, 99, out),
        zero=dice.zero(dtype),
        out_pad=crops,
        stride=stride,
    )
    return requantized(graph, dice.rng, sums, spread(depth * kernel[0] * kernel[1]), dtype)


def pool(dice: Dice, graph: Graph) -> Value:
    """MAX_POOL2D or AVG_POOL2D, the latter at times with two zero points."""
    dtype, stride, kernel = dice.activation(), dice.pair(1, 2, 3), (dice.between(1, 8), dice.between(1, 8))
    extents = [(dice.extent(1, 9) - 1) * stride[i] + kernel[i] for i in (0, 1)]
    pad, size = _padding(dice, extents, kernel) if dice.chance(0.5) else ([0] * 4, (extents[0], extents[1]))
    source = graph.input((dice.batch(), *size, dice.extent(1, 70)), dtype)
    if dice.chance(0.5):
        return graph.max_pool(source, kernel, stride, pad)
    zero = dice.zero(dtype)
    return graph.average_pool(source, kernel, stride, pad, zero, dice.pick(zero, zero, dice.zero(dtype)))


def matrix_product(dice: Dice, graph: Graph) -> Value:
    """MATMUL of two inputs."""
    dtype, batch = dice.activation(), dice.pick(1, 1, 2, 4)
    rows, depth, columns = dice.extent(1, 40), dice.extent(1, 140), dice.extent(1, 60)
    zeros = (dice.between(-9, 9), dice.between(-9, 9)) if dtype == "int8" else (0, 0)
    first, second = graph.input((batch, rows, depth), dtype), graph.input((batch, depth, columns), dtype)
    factor = spread(depth) * (1 if dtype == "int8" else INT16_SUMS)
    return graph.rescale(graph.matmul(first, second, zeros), float(factor), dtype=dtype)


def resize(dice: Dice, graph: Graph) -> Value:
    """RESIZE with half-pixel centres, aligned corners or neither."""
    mode, dtype = dice.pick("NEAREST", "BILINEAR"), dice.activation()
    height, width = dice.extent(1, 9), dice.extent(1, 9)
    # Vela 5.1 on Ethos-U55 and U65: NEAREST with different factors in y and x doubles both axes where one is to be.
    y = dice.between(1, 6)
    x = y if mode == "NEAREST" else dice.between(1, 6)
    way = dice.pick("half", "corners", "neither")
    if way == "half":
        scale, offset, border = (2 * y, 2, 2 * x, 2), (1 - y, 1 - x), (y - 1, x - 1)
    elif way == "corners" and min(height, width) > 1:
        scale, offset, border = (y * height - 1, height - 1, x * width - 1, width - 1), (0, 0), (0, 0)
    else:
        scale, offset, border = (y, 1, x, 1), (0, 0), (y - 1, x - 1)
    source = graph.input((dice.batch(), height, width, dice.extent(1, 40)), dtype)
    result = graph.resize(source, mode, scale, offset, border)
    return result if mode == "NEAREST" else graph.rescale(result, 1 / (scale[0] * scale[2]), dtype=dtype)


# --- graphs of several operators


LARGEST = 300  # positions of a map that a network still enlarges
LAYERS = ("3x3", "1x1", "depthwise", "max", "average", "add", "concat", "table", "axes", "larger", "cut", "pad")


def chain(dice: Dice, graph: Graph) -> Value:
    """Elementwise operators, each on the last result and any earlier one."""
    shape = (1, dice.extent(1, 20), dice.extent(1, 20), dice.extent(1, 40))
    values = [graph.input(shape if dice.chance(0.8) else (1, 1, 1, shape[3])) for _ in range(3)]
    values.append(graph.input(shape))
    result = values[-1]
    for _ in range(dice.between(2, 6)):
        name = dice.pick("ADD", "SUB", "MUL", "MAXIMUM", "TABLE", "CLAMP")
        if name == "TABLE":
            result = graph.table(result, dice.rng.integers(-128, 128, 256))
        elif name == "CLAMP":
            result = graph.clamp(result, -20, 100)
        else:
            result = _combined(dice, graph, name, result, dice.pick(*values))
        if dice.chance(0.3):
            values.append(result)
    for value in values[:4]:  # so that no input is without use
        wide = [graph.rescale(operand, 1.0, dtype="int32") for operand in (result, value)]
        result = graph.rescale(graph.binary("MAXIMUM", *wide), 1.0)
    return result


def _combined(dice: Dice, graph: Graph, name: str, first: Value, second: Value) -> Value:
    operands = [second, first] if dice.chance(0.4) else [first, second]
    wide = [
        graph.rescale(
            operand,
            1.0 if name == "MUL" else dice.pick(0.5, 1.0, 0.31) * 2.0**ADD_SHIFT,
            zero_in=dice.pick(0, 3),
            dtype="int32",
        )
        for operand in operands
    ]
    factor = 0.02 if name == "MUL" else 0.8 / 2**ADD_SHIFT
    return graph.rescale(graph.binary(name, *wide), factor, zero_out=dice.pick(0, -5))


def network(dice: Dice, graph: Graph) -> Value:
    """Layers of all kinds with additions and concatenations of what came before."""
    result = graph.input((1, dice.extent(6, 24), dice.extent(6, 24), dice.extent(1, 20)))
    kept, last = [result], ""
    for _ in range(dice.between(2, 6)):
        name = dice.pick(*LAYERS)
        # Vela 5.1 on Ethos-U55 and U65: a table of a transposed map ignores the strides of what it is padded or
        # concatenated to.
        if (last, name) == ("axes", "table"):
            continue
        output = _next(dice, graph, name, result, [value for value in kept if value.shape == result.shape])
        if output is not result:
            result, last = output, name
        kept.append(result)
    return result


def _next(dice: Dice, graph: Graph, name: str, source: Value, alike: list[Value]) -> Value:
    """Add one more layer. Return the source itself where the layer does not fit."""
    match name:
        case "3x3":
            return layer(graph, dice.rng, source, dice.extent(4, 50), 3, dice.pick(1, 1, 2), dice.pick(0, -128))
        case "1x1":
            return layer(graph, dice.rng, source, dice.extent(4, 80), 1, 1, dice.pick(0, -128))
        case "depthwise":
            return depthwise_layer(graph, dice.rng, source, dice.pick(3, 5), dice.pick(1, 1, 2))
        case "max":
            return graph.max_pool(source, (3, 3), (1, 1), (1, 1, 1, 1))
        case "average":
            return graph.average_pool(source, (3, 3), (1, 1), (1, 1, 1, 1))
        case "add":
            return added(graph, source, dice.pick(*alike))
        case "concat":
            return graph.concat([source, dice.pick(*alike)], 3)
        case "table":
            return graph.table(source, dice.rng.integers(-128, 128, 256))
        case "axes":
            return graph.transpose(source, (0, *(1 + int(axis) for axis in dice.rng.permutation(3))))
        case "larger" if source.shape[1] * source.shape[2] < LARGEST:
            return graph.resize(source, "NEAREST", (4, 2, 4, 2), (-1, -1), (1, 1))
        case "cut" if min(source.shape[1:]) > 2:
            return graph.slice(source, (0, 1, 0, 1), (1, *(extent - 1 for extent in source.shape[1:])))
        case "pad":
            return graph.pad(source, (0, 0, 1, 0, 0, 2, 0, 1), 5)
    return source


# --- the programs


# Consecutive seeds take these in turn, so that a run of as many seeds has them all.
FORMS: tuple[Form, ...] = (
    convolution,
    arithmetic,
    depthwise,
    network,
    pool,
    transposition,
    transposed_convolution,
    rescaling,
    convolution,
    reduction,
    matrix_product,
    chain,
    resize,
    arithmetic,
    convolution_3d,
    concatenation,
    table,
    part,
    rescaling_of_int32,
    padding,
    selection,
    index_of_maximum,
    comparison,
    repetition,
    bitwise,
    gathering,
    reversal,
)
# What TOSA defines of RESCALE to int32: with a factor below one the shift is at least 31, and values need a bit less.
LIMITS: dict[Form, tuple[Limits, ...]] = {rescaling_of_int32: ((-(2**30) + 1, 2**30 - 1),)}
FLAGS = ((), (), ("--optimise=Size",), *((f"--arena-cache-size={size}",) for size in (8000, 20000, 60000)))


def program(seed: int) -> TosaProgram:
    """Return the random program of a seed: always the same one, and a different one for every seed."""
    form = FORMS[seed % len(FORMS)]

    def build(graph: Graph, rng: Rng) -> Value:
        return form(Dice(rng), graph)

    flags = Dice(np.random.default_rng(seed)).pick(*FLAGS)
    return TosaProgram(f"seed {seed}, {form.__name__.replace('_', ' ')}", build, LIMITS.get(form, ()), flags=flags)


def seed_of(name: str) -> int:
    """Return the seed of a program from its name."""
    return int(name.removeprefix("seed ").partition(",")[0])


def named(name: str) -> TosaProgram:
    """Return the program of a name."""
    return program(seed_of(name))
