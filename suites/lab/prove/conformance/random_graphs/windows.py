"""Random graphs of operators with windows.

Forms that Vela 5.1 compiles wrongly are not drawn. Each place names the defect, and test_random_graphs shows it.
Weights that are an input are not drawn either: with per-channel scales, on Ethos-U85, all channels get the first scale.
"""

from __future__ import annotations

from ethos_hil.lowering.testing.programs.pieces import requantized, spread, weights
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.suites.lab.prove.conformance.random_graphs.dice import Dice

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
