"""TOSA programs that meet a defect of Vela, and ones that almost do, by the treatment that has to tell them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.npu.u65 import U65
from ethos_hil.base.npu.u85 import U85
from ethos_hil.lowering.testing.programs.pieces import per_channel, weights
from ethos_hil.lowering.testing.tosa_graph import Graph, Pair, Value, multiplier_shift
from ethos_hil.lowering.testing.tosa_program import Build, Rng

CASES: list[tuple[str, str, Family, Build, list[str]]] = []


def case(treat: str, what: str, ops: Sequence[str], build: Build, family: Family = U55) -> None:
    """Add a program: which of its operators are found, in order; an empty list for a program that is left alone."""
    CASES.append((treat, what, family, build, list(ops)))


def small(graph: Graph, sums: Value) -> Value:
    """Sums of int32 as int8."""
    return graph.rescale(sums, 0.01)


def table(graph: Graph, rng: Rng, source: Value) -> Value:
    return graph.table(source, rng.integers(-128, 128, 256))


def looked_up(source: Callable[[Graph, Rng], Value], shape: Sequence[int] = ()) -> Build:
    """A table of something, perhaps reshaped before."""

    def build(graph: Graph, rng: Rng) -> Value:
        value = source(graph, rng)
        return table(graph, rng, graph.reshape(value, shape) if shape else value)

    return build


ADDED = (0, 0, 0, 0)

# --- average pools


def pool(batch: int, stride: Pair, pad: int, depth: int = 5) -> Callable[..., Value]:
    return lambda graph, *_: graph.average_pool(graph.input((batch, 9, 9, depth)), (3, 3), stride, (pad,) * 4)


AVERAGE = ["AVG_POOL2D"]
case("split_averages", "a batch", AVERAGE, pool(2, (4, 4), 1), U85)
case("split_averages", "a batch of one channel", AVERAGE, pool(2, (4, 4), 1, 1), U85)
case("split_averages", "a large stride along one axis", AVERAGE, pool(2, (1, 4), 1), U85)
case("split_averages", "a stride of 3", [], pool(2, (3, 3), 1), U85)
case("split_averages", "no padding", [], pool(2, (4, 4), 0), U85)
case("split_averages", "one sample", [], pool(1, (4, 4), 1), U85)
case("split_averages", "a part of a map", AVERAGE,
     lambda g, _: g.pad(g.reshape(pool(1, (4, 4), 1)(g), (1, 9, 1, 5)), (0, 0, 1, 0, 0, 0, 0, 0), 3), U85)  # fmt: skip
case("split_averages", "another pool in a batch", [],
     lambda g, _: g.max_pool(g.input((2, 9, 9, 5)), kernel=(3, 3), stride=(4, 4), pad=(1, 1, 1, 1)), U85)  # fmt: skip

# --- cropped transposed convolutions


def transposed(graph: Graph, rng: Rng, size: Pair, crop: Sequence[int], stride: Pair = (2, 2), batch: int = 1) -> Value:
    kernels = weights(rng, 4, 3, 3, 5)
    source = graph.input((batch, *size, 5))
    return graph.transpose_conv(source, kernels, rng.integers(-99, 99, 4), out_pad=crop, stride=stride)


CROPPED = ["TRANSPOSE_CONV2D"]
case("widen_crops", "one position", CROPPED, lambda g, r: small(g, transposed(g, r, (2, 2), (-2, -2, -2, -2))))
case("widen_crops", "one row", CROPPED, lambda g, r: small(g, transposed(g, r, (2, 3), (-2, -2, 0, 0))))
case("widen_crops", "one column", CROPPED, lambda g, r: small(g, transposed(g, r, (3, 2), (0, 0, -2, -2))))
case("widen_crops", "one row, its sums as they are", CROPPED, lambda g, r: transposed(g, r, (2, 3), (-2, -2, 0, 0)))
case("widen_crops", "one row that is added to", CROPPED,
     lambda g, r: g.binary("ADD", transposed(g, r, (2, 3), (-2, -2, 0, 0)), g.input((1, 1, 7, 4), "int32")),
)  # fmt: skip
case("widen_crops", "two rows", [], lambda g, r: small(g, transposed(g, r, (2, 2), (-2, -1, -2, -1))))
case("widen_crops", "nothing cropped", [], lambda g, r: small(g, transposed(g, r, (2, 2), (0, 0, 0, 0))))
case("widen_crops", "a row of one", [], lambda g, r: small(g, transposed(g, r, (1, 2), (-1, -1, 0, 0))))
case("widen_crops", "a stride of 1", [],
     lambda g, r: small(g, transposed(g, r, (3, 3), (-2, -2, -2, -2), stride=(1, 1))))  # fmt: skip
case("widen_crops", "a stride of 1 along the cropped axis", [],
     lambda g, r: small(g, transposed(g, r, (3, 2), (-2, -2, 0, 0), stride=(1, 2))))  # fmt: skip

# --- outputs that would be dropped


def rotated(axes: Sequence[int]) -> Build:
    """A rotation of the axes, and another one."""

    def build(graph: Graph, rng: Rng) -> list[Value]:
        first = graph.transpose(graph.input((4, 5, 6)), (1, 2, 0))
        return [first, table(graph, rng, graph.transpose(first, axes))]

    return build


def read_by(*names: str) -> Build:
    """An output that operators of these kinds read, one after the other."""

    def build(graph: Graph, rng: Rng) -> list[Value]:
        first = last = table(graph, rng, graph.input((1, 4, 5, 6)))
        for name in names:
            if name == "TABLE":
                last = table(graph, rng, last)
            else:
                shape = (1, *last.shape[2:0:-1], last.shape[3])
                last = graph.transpose(last, (0, 2, 1, 3)) if name == "TRANSPOSE" else graph.reshape(last, shape)
        return [first, last]

    return build


case("keep_outputs", "a rotation and another", ["TRANSPOSE"], rotated((1, 2, 0)))
case("keep_outputs", "a rotation and back", ["TRANSPOSE"], rotated((2, 0, 1)))
case("keep_outputs", "a transposition", ["TABLE"], read_by("TRANSPOSE"))
case("keep_outputs", "a transposition behind reshapes", ["TABLE"], read_by("RESHAPE", "RESHAPE", "TRANSPOSE"))
case("keep_outputs", "a reshape", [], read_by("RESHAPE", "TABLE"))
case("keep_outputs", "something else before the transposition", [], read_by("TABLE", "TRANSPOSE"))


# --- activations that are fused


def convolved(graph: Graph, rng: Rng, batch: int, kernel: int) -> Value:
    source, kernels = graph.input((batch, 4, 6, 5)), weights(rng, 16, kernel, kernel, 5)
    return small(graph, graph.conv(source, kernels, rng.integers(-99, 99, 16), pad=(kernel // 2,) * 4))


def plus(graph: Graph, shape: Sequence[int]) -> Value:
    wide = [graph.rescale(graph.input(shape), 1.0, dtype="int32") for _ in range(2)]
    return graph.rescale(graph.binary("ADD", *wide), 0.5)


TABLE = ["TABLE"]
SUMS, SEQUENCE = (2, 4, 6, 16), (48, 1, 1, 16)
case("fold_activations", "of an input", [], looked_up(lambda g, r: g.input((1, 4, 6, 16)), (2, 2, 6, 16)))
case("fold_activations", "one sample", [], looked_up(lambda g, r: convolved(g, r, 1, 3)))
case("fold_activations", "a batch of sums", [], looked_up(lambda g, r: plus(g, SUMS)))
case("fold_activations", "sums in the same four dimensions", [], looked_up(lambda g, r: plus(g, SUMS), (4, 2, 6, 16)))
case("fold_activations", "sums in others", TABLE, looked_up(lambda g, r: plus(g, SUMS), SEQUENCE))
case("fold_activations", "a clamp of sums in others", ["CLAMP"],
     lambda g, r: g.clamp(g.reshape(plus(g, SUMS), SEQUENCE), -50, 77))  # fmt: skip
case("fold_activations", "a batch of products", TABLE,
     looked_up(lambda g, r: small(g, g.matmul(g.input((2, 3, 4)), g.input((2, 4, 5)))), (2, 3, 1, 5)))  # fmt: skip
case("fold_activations", "a batch of a convolution", [], looked_up(lambda g, r: convolved(g, r, 2, 3)))
case("fold_activations", "a batch of a dense layer", TABLE, looked_up(lambda g, r: convolved(g, r, 2, 1)))
for what, ops, batch, kernel, shape in (
    ("a reshaped convolution", TABLE, 1, 3, (1, 2, 4, 3, 16)),
    ("a reshaped dense layer of one sample", TABLE, 1, 1, (24, 1, 1, 16)),
    ("a convolution reshaped to its own four dimensions", [], 1, 3, (2, 2, 6, 16)),
    ("a reshaped batch of a convolution", [], 2, 3, (2, 4, 3, 2, 16)),
):
    case("fold_activations", what, ops, looked_up(partial(convolved, batch=batch, kernel=kernel), shape))
enlarging = partial(transposed, size=(2, 2), crop=ADDED, batch=2)
case("fold_activations", "a reshaped batch of a transposed convolution", TABLE,
     looked_up(lambda g, r: small(g, enlarging(g, r)), (2, 5, 1, 5, 4)))  # fmt: skip

# --- activations before transpositions


def late(dtype: str, *, behind: str = "", twice: bool = False) -> Build:
    """An activation behind a transposition, and what comes behind it."""

    def build(graph: Graph, rng: Rng) -> list[Value]:
        moved = graph.transpose(graph.input((1, 4, 5, 6), dtype), (0, 2, 3, 1))
        result = table(graph, rng, moved) if dtype == "int8" else graph.clamp(moved, -500, 700)
        if behind == "PAD":
            result = graph.pad(graph.reshape(result, (1, 5, 24, 1)), (0, 0, 1, 0, 0, 0, 0, 0), 3)
        if behind == "CLAMP":
            result = graph.clamp(result, -50, 77)
        return [result, graph.clamp(moved, -7, 8)] if twice else [result]

    return build


case("free_tables", "a table", TABLE, late("int8"))
case("free_tables", "a table of what something else reads", [], late("int8", twice=True))
case("free_tables", "a clamp", [], late("int16"))
case("free_tables", "no transposition", [], lambda g, r: table(g, r, g.reshape(g.input((4, 6)), (1, 24))))
case("free_padded", "a table that is padded", TABLE, late("int8", behind="PAD"))
case("free_padded", "a clamp of int16 that is padded", ["CLAMP"], late("int16", behind="PAD"))
case("free_padded", "a table that is not padded", [], late("int8", behind="CLAMP"))
case("free_padded", "sums that are padded", [], lambda g, r: g.pad(plus(g, (1, 4, 5, 6)), (0, 0, 1, 0, 0, 0, 0, 0), 3))

# --- minima and maxima


def least(dtype: str, then: Callable[[Graph, Value], Value], name: str = "MIN") -> Build:
    return lambda graph, rng: then(graph, graph.reduce(name, graph.input((2, 4, 6), dtype), 2))


def flat(graph: Graph, value: Value) -> Value:
    return graph.reshape(value, (2, 4))


def joined(graph: Graph, value: Value) -> Value:
    return graph.concat([value, graph.input(value.shape, value.dtype)], 1)


case("keep_minima", "a minimum that is reshaped", ["REDUCE_MIN"], least("int8", flat))
case("keep_minima", "of int16", ["REDUCE_MIN"], least("int16", flat))
case("keep_minima", "transposed", ["REDUCE_MIN"], least("int8", lambda g, v: g.transpose(v, (1, 0, 2))))
case("keep_minima", "of int32", [], least("int32", flat))
case("keep_minima", "with its dimensions", [], least("int8", joined))
case("keep_minima", "a maximum", [], least("int8", flat, "MAX"))
case("keep_reductions", "a part of a map", ["REDUCE_MAX"], least("int8", joined, "MAX"))
case("keep_reductions", "a minimum of int16", ["REDUCE_MIN"], least("int16", joined))
case("keep_reductions", "a part in another shape", ["REDUCE_MIN"], least("int8", lambda g, v: joined(g, flat(g, v))))
case("keep_reductions", "not a part", [], least("int8", flat, "MAX"))
case("keep_reductions", "of int32", [], least("int32", joined, "MAX"))

# --- slices


def sliced(
    reader: Callable[[Graph, Rng, Value], Value], shape: Sequence[int], part: Sequence[int], dtype: str = "int8"
) -> Callable[[Graph, Rng], Value]:
    """A slice of the last part of a tensor, and what reads it."""
    start = [whole - some for whole, some in zip(shape, part, strict=True)]
    return lambda graph, rng: reader(graph, rng, graph.slice(graph.input(shape, dtype), start, part))


def window(pad: int = 1, stride: Pair = (1, 1), dilation: Pair = (1, 1)) -> Callable[[Graph, Rng, Value], Value]:
    def read(graph: Graph, rng: Rng, value: Value) -> Value:
        kernels, bias = weights(rng, 4, 3, 3, value.shape[3]), rng.integers(-99, 99, 4)
        return small(graph, graph.conv(value, kernels, bias, pad=(pad,) * 4, stride=stride, dilation=dilation))

    return read


SLICE, MAPS, MAP = ["SLICE"], ((3, 9, 9, 4), (2, 9, 9, 4)), ((1, 9, 9, 6), (1, 9, 9, 4))
case("keep_slices", "a batch of a padded convolution", SLICE, sliced(window(), *MAPS))
case(
    "keep_slices", "a batch of a padded pool", SLICE, sliced(lambda g, _, v: g.max_pool(v, (3, 3), pad=(1,) * 4), *MAPS)
)
case("keep_slices", "a batch without padding", [], sliced(window(0), *MAPS))
case("keep_slices", "one sample", [], sliced(window(), *MAP))


def solid(*kernel: int) -> Callable[[Graph, Rng, Value], Value]:
    return lambda g, r, v: small(g, g.conv3d(v, weights(r, 4, *kernel, v.shape[4]), r.integers(-99, 99, 4)))


SOLID = ((1, 4, 6, 6, 8), (1, 4, 6, 6, 4))
case("keep_slices", "a window of three axes", SLICE, sliced(solid(2, 1, 3), *SOLID))
case("keep_slices", "a window of two of three axes", SLICE, sliced(solid(1, 3, 3), *SOLID))
case("keep_slices", "a stride of 3", [], sliced(window(1, (3, 3)), *MAP))
case("keep_slices", "a stride of 4 along one axis", SLICE, sliced(window(1, (4, 1)), *MAP))
case("keep_slices", "a dilation of 2", [], sliced(window(2, (1, 1), (2, 2)), *MAP))
case("keep_slices", "a dilation of 3 along one axis", SLICE, sliced(window(2, (1, 1), (3, 1)), *MAP))
case("keep_slices", "a reduction", SLICE, sliced(lambda g, _, v: g.reduce("MAX", v, 3), *MAP))
case("keep_slices", "a reduction in another type", SLICE,
     sliced(lambda g, _, v: g.reduce("SUM", g.rescale(v, 1.0, dtype="int32"), 3), *MAP))  # fmt: skip
case("keep_slices", "a reduction of int32", [], sliced(lambda g, _, v: g.reduce("MAX", v, 3), *MAP, "int32"))
case("find_slices", "a reduction of int32", SLICE, sliced(lambda g, _, v: g.reduce("MAX", v, 3), *MAP, "int32"))
case("find_slices", "a reduction of int8", [], sliced(lambda g, _, v: g.reduce("MAX", v, 3), *MAP))
case("keep_slices", "the first factor", SLICE,
     sliced(lambda g, _, v: g.matmul(v, g.input((2, 4, 3))), (2, 5, 6), (2, 5, 4)))  # fmt: skip
case("keep_slices", "the second factor", [],
     sliced(lambda g, _, v: g.matmul(g.input((2, 3, 5)), v), (2, 5, 6), (2, 5, 4)))  # fmt: skip
case("keep_slices", "a table", [], sliced(lambda g, r, v: table(g, r, v), *MAP))
for what, ops, whole, part, view in (
    ("the first of five dimensions is dropped", SLICE, (3, 2, 4, 5, 6), (1, 2, 4, 5, 6), (2, 4, 5, 6)),
    ("one map is left", [], (3, 1, 4, 5, 6), (1, 1, 4, 5, 6), (1, 4, 5, 6)),
    ("the first of four dimensions is dropped", [], (3, 4, 5, 6), (1, 4, 5, 6), (4, 5, 6)),
    ("two of the first of five are left", [], (3, 2, 4, 5, 6), (2, 2, 4, 5, 6), (4, 4, 5, 6)),
    ("another reshape of five dimensions", [], (3, 2, 4, 5, 6), (1, 2, 4, 5, 6), (4, 2, 5, 6)),
):
    case("keep_slices", what, ops, looked_up(sliced(lambda g, r, v: v, whole, part), view))

# --- scales


def computed_weights(per_axis: bool = True, constant: bool = False, two: bool = False) -> Build:
    def build(graph: Graph, rng: Rng) -> Value | Sequence[Value]:
        held = graph.const(weights(rng, 1, 1, 4, 3), "int8") if constant else graph.input((1, 1, 4, 3))
        bias, source = rng.integers(-99, 99, 4), graph.input((1, 5, 5, 3))
        sums = graph.conv(source, graph.transpose(held, (2, 0, 1, 3)), bias)
        first = graph.rescale(sums, per_channel(rng, 4, 0.01) if per_axis else 0.01)
        return (first, graph.rescale(sums, 0.02)) if two else first

    return build


case("find_input_weights", "a scale for each channel", ["CONV2D"], computed_weights(), U85)
case("find_input_weights", "a second reader has one scale", ["CONV2D"], computed_weights(two=True), U85)
case("find_input_weights", "one scale", [], computed_weights(per_axis=False), U85)
case("find_input_weights", "constant weights", [], computed_weights(constant=True), U85)


def summed(first: float, second: float, dtype: str = "int16", name: str = "ADD") -> Build:
    def build(graph: Graph, rng: Rng) -> Value:
        wide = [graph.rescale(graph.input((1, 4, 6, 16), dtype), scale, dtype="int32") for scale in (first, second)]
        return graph.rescale(graph.binary(name, *wide), 1 / 4096, dtype=dtype)

    return build


case("bend_scales", "two powers", ["ADD"], summed(2048.0, 1024.0))
case("bend_scales", "two whole numbers", ["SUB"], summed(1904.0, 2048.0, name="SUB"))
case("bend_scales", "equal ones", [], summed(1024.0, 1024.0))
case("bend_scales", "one that is not whole", [], summed(1024.0, 1000.5))
case("bend_scales", "below 1", [], summed(0.5, 0.125))
case("bend_scales", "int8", [], summed(2048.0, 1024.0, "int8"))
case("bend_scales", "another operator", [], summed(2048.0, 1024.0, name="MAXIMUM"))
case("bend_scales", "operands without scales", [],
     lambda g, r: g.binary("ADD", g.input((4, 6), "int32"), g.input((4, 6), "int32")))  # fmt: skip
case("bend_scales", "larger than Vela fuses", [], summed(1024.0, 16384.0))

# --- biases


def twins(*biases: int, scales: Sequence[float] = (), other_weights: bool = False, name: str = "conv") -> Build:
    """Convolutions of one input with the same weights, by their biases; depthwise ones of int16, weights of int8."""

    def build(graph: Graph, rng: Rng) -> list[Value]:
        dtype, multiplier = ("int16", [multiplier_shift(0.01, 15)]) if name == "depthwise" else ("int8", 0.01)
        source, kernels, results = graph.input((1, 7, 8, 5), dtype), weights(rng, 5, 3, 3, 5), []
        for number, bias in enumerate(biases):
            held = kernels + (other_weights and number > 0)
            held = held[0][:, :, :, None] if name == "depthwise" else held
            sums = getattr(graph, name)(
                source, held, np.full(5, bias), pad=(1, 0, 2, 1), stride=(1, 2), dilation=(2, 1)
            )
            results.append(graph.rescale(sums, scales[number] if scales else multiplier, dtype=dtype))
        return results

    return build


CONV = "CONV2D"
case("part_biases", "two biases", [CONV], twins(3, 4))
case("part_biases", "three biases, one of them twice", [CONV, CONV, CONV], twins(3, 4, 5, 4), U85)
case("part_biases", "one bias", [], twins(3, 3))
case("part_biases", "other scales", [], twins(3, 4, scales=(0.01, 0.02)))
case("part_biases", "other weights", [], twins(3, 4, other_weights=True))
case("part_biases", "depthwise", ["DEPTHWISE_CONV2D"], twins(3, 4, name="depthwise"))


def filling(*pads: Sequence[int], biases: Sequence[int] = (3, 4, 5), out: Sequence[int] = (4, 4, 4)) -> Build:
    def build(graph: Graph, rng: Rng) -> list[Value]:
        results = []
        for number, pad in enumerate(pads):
            kernels, values = weights(rng, out[number], 3, 3, 5), np.full(out[number], biases[number])
            results.append(small(graph, graph.transpose_conv(graph.input((1, 4, 6, 5)), kernels, values, out_pad=pad)))
        return results

    return build


ADDS, CUTS = (0, 1, 0, 1), (-1, 0, -1, 0)
case("part_biases", "what two transposed convolutions add", CROPPED, filling(ADDS, ADDS))
case("part_biases", "one that adds and crops", CROPPED, filling(ADDS, (1, 0, -1, 2)), U65)
case("part_biases", "what two add, on an NPU that fills otherwise", [], filling(ADDS, ADDS), U85)
case("part_biases", "the second one adds nothing", [], filling(ADDS, CUTS))
case("part_biases", "the first one adds nothing", [], filling((0, 0, 0, 0), ADDS))
case("part_biases", "two that add with one bias", [], filling(ADDS, ADDS, biases=(3, 3)))
case("part_biases", "as many biases as channels", [], filling(ADDS, ADDS, out=(4, 6)))

# --- chains of operations


def wide(graph: Graph, value: Value, zero: int = 0) -> Value:
    return graph.rescale(value, 1.0, dtype="int32", zero_in=zero)


def sum_of(graph: Graph, first: Value, second: Value, name: str = "ADD") -> Value:
    return graph.rescale(graph.binary(name, wide(graph, first), wide(graph, second)), 0.5, dtype=first.dtype)


CURVES = [np.linspace(-32768, 32767, 513).round(), np.linspace(32767, -32768, 513).round()]


def curve(graph: Graph, source: Value, number: int) -> Value:
    """One of two tables of int16."""
    return graph.rescale(graph.table(source, CURVES[number]), 1 / 128, dtype="int16")


def curves(between: Callable[[Graph, Value], Value], first: int = 0, shape: Sequence[int] = (4, 16)) -> Build:
    """A sum, a table, something, and another table."""

    def build(graph: Graph, _: Rng) -> Value:
        before = sum_of(graph, graph.input(shape, "int16"), graph.input(shape, "int16"))
        return curve(graph, between(graph, curve(graph, before, first)), 1)

    return build


def with_another(graph: Graph, value: Value) -> Value:
    return sum_of(graph, value, graph.input(value.shape, value.dtype))


def plus_seven(graph: Graph, value: Value, times: int = 1) -> Value:
    """A value to which a number is added, perhaps several times."""
    for _ in range(times):
        value = sum_of(graph, value, graph.const(np.full((1,) * len(value.shape), 7), value.dtype))
    return value


def two_readers(graph: Graph, rng: Rng) -> list[Value]:
    first = curve(graph, graph.input((4, 16), "int16"), 0)
    return [curve(graph, with_another(graph, first), 1), first]


def bytes_between(graph: Graph, rng: Rng) -> Value:
    """A table of int16 that follows one of int8."""
    wider = wide(graph, table(graph, rng, graph.input((4, 16))))
    total = graph.binary("ADD", wider, graph.const([[99]], "int32"))
    return curve(graph, graph.rescale(total, 100.0, dtype="int16"), 1)


case("part_tables", "two tables and a sum", TABLE, curves(with_another), U85)
case("part_tables", "a clamp behind the sum in between", TABLE,
     curves(lambda g, v: plus_seven(g, g.clamp(plus_seven(g, v), -20000, 20000))), U85)  # fmt: skip
case("part_tables", "a reshape between them", TABLE,
     curves(lambda g, v: g.reshape(with_another(g, v), (64,))), U85)  # fmt: skip
case("part_tables", "as many sums as a chain holds", TABLE, curves(partial(plus_seven, times=3)), U85)
case("part_tables", "one table of int8", TABLE, bytes_between, U85)
case("part_tables", "more sums than a chain holds", [], curves(partial(plus_seven, times=4)), U85)
case("part_tables", "the same table twice", [], curves(with_another, 1), U85)
case("part_tables", "nothing between them", [], curves(lambda g, v: v), U85)
case("part_tables", "a clamp before the second", [],
     curves(lambda g, v: g.clamp(with_another(g, v), -20000, 20000)), U85)  # fmt: skip
case("part_tables", "a clamp behind the first", [],
     curves(lambda g, v: with_another(g, g.clamp(v, -20000, 20000))), U85)  # fmt: skip
case("part_tables", "what is between is no operation of elements", [],
     curves(lambda g, v: g.max_pool(v, (2, 2)), shape=(1, 4, 4, 16)), U85)  # fmt: skip
case("part_tables", "the first one is read twice", [], two_readers, U85)
case("part_tables", "tables of int8", [], lambda g, r: table(g, r, with_another(g, table(g, r, plus(g, (4, 16))))), U85)


def rows(
    shape: Sequence[int], name: str = "MAX", front: Callable[[Graph, Rng], Value] | None = None, axis: int = -1
) -> Build:
    """The largest along an axis of another shape of what a convolution to one channel makes, or something else."""

    def build(graph: Graph, rng: Rng) -> Value:
        value = graph.reshape((front or narrow(1))(graph, rng), shape)
        if name == "ARGMAX":
            return graph.argmax(value, axis % len(shape))
        return graph.reduce(name, value, axis % len(shape))

    return build


def gates(
    front: Callable[[Graph, Rng], Value], shape: Sequence[int], behind: Callable[[Graph, Value], Value] | None = None
) -> Build:
    """Two activations, each behind a reshape, that are added; or something else behind one of them."""

    def gate(graph: Graph, rng: Rng) -> Value:
        value = front(graph, rng)
        return table(graph, rng, graph.reshape(value, shape) if shape else value)

    def build(graph: Graph, rng: Rng) -> Value:
        first = gate(graph, rng)
        return behind(graph, first) if behind is not None else sum_of(graph, first, gate(graph, rng))

    return build


def narrow(channels: int, behind: str = "") -> Callable[[Graph, Rng], Value]:
    """A convolution with some channels."""

    def build(graph: Graph, rng: Rng) -> Value:
        kernels = weights(rng, channels, 1, 1, 3)
        value = small(graph, graph.conv(graph.input((1, 4, 8, 3)), kernels, rng.integers(-99, 99, channels)))
        return graph.clamp(value, -50, 77) if behind == "CLAMP" else value

    return build


def reduced(axis: int, zero: int = 0) -> Callable[[Graph, Rng], Value]:
    return lambda graph, _: small(graph, graph.reduce("SUM", wide(graph, graph.input((3, 5, 4)), zero), axis))


def clamped(graph: Graph, rng: Rng) -> Value:
    first, second = (graph.clamp(graph.reshape(narrow(3)(graph, rng), (96,)), -50, 77) for _ in range(2))
    return sum_of(graph, first, second)


GATES = ["TABLE", "TABLE"]
case("part_activations", "convolutions of one channel", GATES, gates(narrow(1), (32,)), U85)
case("part_activations", "clamps", ["CLAMP", "CLAMP"], clamped, U85)
case("part_activations", "a sum of the last axis", GATES, gates(reduced(2), (15,)), U85)
case("part_activations", "a sum of the last axis with a zero point", GATES, gates(reduced(2, 5), (15,)), U85)
case("part_activations", "a sum of another axis", GATES, gates(reduced(0), ()), U85)
case("part_activations", "sums of few channels", GATES, gates(lambda g, _: plus(g, (16, 3)), (3, 16)), U85)
case("part_activations", "a result and a constant, and then another result", ["TABLE"],
     gates(narrow(1), (32,), lambda g, v: sum_of(g, plus_seven(g, v), plus(g, (32,)))), U85)  # fmt: skip
case("part_activations", "bricks that are full", [], gates(narrow(16), (512,)), U85)
case("part_activations", "bricks that take as much", [], gates(narrow(12), (1, 8, 4, 12)), U85)
case("part_activations", "no reshape", [], gates(narrow(1), ()), U85)
case("part_activations", "of inputs", [], gates(lambda g, _: g.input((1, 4, 8, 1)), (32,)), U85)
case("part_activations", "another activation before the reshape", [], gates(narrow(1, "CLAMP"), (32,)), U85)
case("part_activations", "an input", [], gates(narrow(1), (32,), with_another), U85)
case("part_activations", "a constant", [],
     gates(narrow(1), (32,), lambda g, v: plus_seven(g, v)), U85)  # fmt: skip
case("part_activations", "no operation of elements behind it", [],
     gates(narrow(1), (1, 8, 4, 1), lambda g, v: g.max_pool(v, (2, 2))), U85)  # fmt: skip

# --- sums of 48 bits


def scaled(*results: tuple[int, str], name: str = "conv", dtype: str = "int16") -> Build:
    """A convolution whose sums get some scales: their shifts, and the types of the results."""

    def build(graph: Graph, rng: Rng) -> list[Value]:
        kernels = weights(rng, 5, 1, 1, 5)
        held = kernels[0][:, :, :, None] if name == "depthwise" else kernels
        sums = getattr(graph, name)(graph.input((1, 4, 6, 5), dtype), held, rng.integers(-99, 99, 5))
        scaled = [graph.rescale(sums, [(20000, shift)], dtype=to) for shift, to in results]
        wide = [value for value in scaled if value.dtype == "int32"]
        if len(wide) > 1:
            scaled = [*(value for value in scaled if value not in wide), graph.binary("ADD", wide[0], wide[1])]
        return scaled

    return build


TWO_SCALES = ((22, "int16"), (17, "int32"))
case("part_sums", "int16 and int32", [CONV], scaled(*TWO_SCALES))
case("part_sums", "two of int16", [CONV], scaled((22, "int16"), (23, "int16")), U65)
case("part_sums", "depthwise", ["DEPTHWISE_CONV2D"], scaled(*TWO_SCALES, name="depthwise"))
case("part_sums", "three, of which two are the same", [CONV], scaled(*TWO_SCALES, (17, "int32")))
case("part_sums", "one scale", [], scaled((22, "int16")))
case("part_sums", "int8", [], scaled(*TWO_SCALES, dtype="int8"))

# --- enlargements


def enlarged(
    scale: tuple[int, int, int, int], offset: Pair = (0, 0), border: Pair = (0, 0), mode: str = "NEAREST"
) -> Build:
    return lambda graph, rng: graph.resize(graph.input((2, 5, 6, 3)), mode, scale, offset, border)


RESIZE, HALF = ["RESIZE"], ((4, 2, 8, 2), (-1, -3), (1, 3))
case("repeat_elements", "two rows, four columns", RESIZE, enlarged(*HALF))
case("repeat_elements", "four rows, three columns", RESIZE, enlarged((8, 2, 6, 2), (-3, -2), (3, 2)))
case("find_uneven", "two rows, four columns", [], enlarged(*HALF))
for treat, ops in (("repeat_elements", []), ("find_uneven", RESIZE)):
    case(treat, "from corners", ops, enlarged((2, 1, 4, 1)))
    case(treat, "with another border", ops, enlarged((4, 2, 8, 2), (-1, -3), (1, 1)))
    case(treat, "with another offset", ops, enlarged((4, 2, 8, 2), (-1, -1), (1, 3)))
    case(treat, "by a half", ops, enlarged((5, 2, 8, 2), (-1, -3), (1, 3)))
for treat in ("repeat_elements", "find_uneven"):
    case(treat, "two rows, two columns", [], enlarged((4, 2, 4, 2), (-1, -1), (1, 1)))
    case(treat, "one row, two columns", [], enlarged((2, 2, 4, 2), (0, -1), (0, 1)))
    case(treat, "two rows, one column", [], enlarged((4, 2, 2, 2), (-1, 0), (1, 0)))
    case(treat, "bilinear", [], enlarged(*HALF, "BILINEAR"))

# --- constants


def rescaled_weights(
    dtype: str = "int8", scales: Sequence[Pair] = (), kind: str = "conv", *, moved: bool = False, twice: bool = False,
    **how: Any,
) -> Build:  # fmt: skip
    """A convolution with a scale for each channel, whose weights a RESCALE makes of a constant."""

    def build(graph: Graph, rng: Rng) -> Value:
        depthwise, most = kind == "depthwise", 2 ** (7 if dtype == "int8" else 15)
        shape = (3, 3, 5, 1) if depthwise else (4, 3, 3, 5)
        held = graph.const(rng.integers(-most, most, shape), dtype)
        pairs = scales or [multiplier_shift(1.3 * 128 / most)]
        held = graph.rescale(graph.transpose(held, (0, 2, 1, 3)) if moved else held, pairs, **how)
        held = graph.transpose(held, (0, 2, 1, 3)) if moved else held
        held = graph.rescale(held, 0.8, zero_in=2, zero_out=-3) if twice else held
        bias = rng.integers(-99, 99, 5 if depthwise else 4)
        sums = getattr(graph, kind)(graph.input((1, 6, 5, 5)), held, bias)
        return graph.rescale(sums, per_channel(rng, len(bias), 0.003))

    return build


FIVE = [multiplier_shift(factor) for factor in (0.3, 0.7, 1.0, 1.9, 2.6)]
for what, build in {
    "one scale": rescaled_weights(),
    "zero points": rescaled_weights(zero_in=-7, zero_out=5),
    "a scale for each channel": rescaled_weights(scales=FIVE),
    "of int16": rescaled_weights("int16", zero_in=0),
    "of int32": rescaled_weights("int32"),
    "half-way, rounded once": rescaled_weights(scales=[(1 << 30, 31)]),
    "rounded twice": rescaled_weights(scales=[(1 << 30, shift) for shift in (30, 31, 32, 33, 34)], double_round=True),
    "behind a transposition and before another": rescaled_weights(moved=True),
    "twice": rescaled_weights(twice=True),
    "transposed": rescaled_weights(kind="transpose_conv"),
    "depthwise": rescaled_weights(kind="depthwise"),
}.items():
    case("fold_weights", what, ["CONST"], build, U85)
case("fold_weights", "of an unsigned constant", [], rescaled_weights(unsigned=(True, False)), U85)
case("fold_weights", "of an input", [],
     lambda g, _: g.conv(g.input((1, 4, 4, 3)), g.rescale(g.input((4, 1, 1, 3)), 0.5), np.zeros(4)), U85)  # fmt: skip
case("fold_weights", "constant weights", [], computed_weights(constant=True), U85)


case("keep_maxima", "rescaled", ["RESCALE"], lambda g, _: g.rescale(g.reduce("MAX", g.input((3, 8)), 1), 0.3))
case("keep_maxima", "of int16, in another shape", ["RESCALE"],
     lambda g, _: g.rescale(g.reshape(g.reduce("MAX", g.input((3, 8), "int16"), 1), (3,)), 0.3,
                            dtype="int16"))  # fmt: skip
case("keep_maxima", "of windows", ["RESCALE"], lambda g, _: g.rescale(g.max_pool(g.input((1, 4, 4, 3)), (2, 2)), 0.3))
case("keep_maxima", "to int32", [],
     lambda g, _: g.rescale(g.reduce("MAX", g.input((3, 8)), 1), 2.0**8, dtype="int32"))  # fmt: skip
case("keep_maxima", "a minimum", [], lambda g, _: g.rescale(g.reduce("MIN", g.input((3, 8)), 1), 0.3))


def saturated(dtype: str = "int16", factor: float = 1.0, *, move: str = "", zero: int = 0, last: bool = False) -> Build:
    """Sums of int32 to fewer bits and back, perhaps with something in between."""

    def build(graph: Graph, _: Rng) -> Sequence[Value]:
        source = graph.rescale(graph.input((1, 5, 3, 4), "int16"), 2.0, dtype="int32")
        less = graph.rescale(graph.binary("ADD", source, source), factor, dtype=dtype, zero_out=zero)
        moved = {
            "reshape": lambda: graph.reshape(less, (1, 3, 5, 4)),
            "transpose": lambda: graph.transpose(less, (0, 2, 1, 3)),
        }.get(move, lambda: less)()
        wide = graph.rescale(moved, 512.0, zero_in=zero, dtype="int32")
        return [wide, less] if last else [wide]

    return build


case("keep_saturation", "int16", ["RESCALE"], saturated())
case("keep_saturation", "int8", ["RESCALE"], saturated("int8"))
case("keep_saturation", "in another shape", ["RESCALE"], saturated(move="reshape"))
case("keep_saturation", "in another order", [], saturated(move="transpose"))
case("keep_saturation", "another factor", [], saturated(factor=0.5))
case("keep_saturation", "a zero point", [], saturated("int8", zero=3))
case("keep_saturation", "an output, too", [], saturated(last=True))


case("fold_transposes", "of a constant", ["CONST"],
     lambda g, r: g.concat([g.input((3, 4)), g.transpose(g.const(weights(r, 4, 3), "int8"), (1, 0))], 0))  # fmt: skip
case("fold_transposes", "of an input", [], lambda g, r: g.transpose(g.input((4, 3)), (1, 0)))
case("fold_transposes", "another operator on a constant", [],
     lambda g, r: g.concat([g.input((3, 4)), g.reverse(g.const(weights(r, 3, 4), "int8"), 1)], 0))  # fmt: skip

case("reduce_rows", "all of a map, as a row", [], rows((32,)))
case("reduce_rows", "each row", ["REDUCE_MAX"], rows((4, 8)))
case("reduce_rows", "the least of each row", ["REDUCE_MIN"], rows((4, 8), "MIN"), U85)
case("reduce_rows", "the place of the largest of each row", ["ARGMAX"], rows((1, 4, 8), "ARGMAX"), U85)
case(
    "reduce_rows",
    "sums of a row",
    ["REDUCE_MAX"],
    rows((15,), front=lambda g, r: g.reshape(reduced(2)(g, r), (1, 1, 15, 1))),
)
case("reduce_rows", "each column", [], rows((4, 8), axis=0))
case("reduce_rows", "several channels", [], rows((32, 3), front=narrow(3)))
case("reduce_rows", "a row of one", [], rows((32, 1)))
