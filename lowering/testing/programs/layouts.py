"""Programs that move elements: transpositions, slices, concatenations, paddings, repeats, gathering, resizing."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from ethos_hil.lowering.testing.programs.pieces import layer, single
from ethos_hil.lowering.testing.tosa_graph import Array, Graph, Value
from ethos_hil.lowering.testing.tosa_program import Build, ProgramCatalogue, Rng

LAYOUTS = ProgramCatalogue()
SHAPE = (1, 5, 6, 19)


for axes in permutations((1, 2, 3)):
    LAYOUTS.add(f"transpose {' '.join(map(str, axes))}", single("transpose", SHAPE, "int8", (0, *axes)))
for axes in ((2, 1, 3), (3, 1, 2), (3, 2, 1)):
    for dtype in ("int16", "int32", "bool"):
        name = f"transpose {' '.join(map(str, axes))} {dtype}"
        LAYOUTS.add(name, single("transpose", (1, 4, 5, 9), dtype, (0, *axes)))
LAYOUTS.add_all({
    "transpose with batch": single("transpose", (3, 4, 5, 9), "int8", (0, 3, 1, 2)),
    "transpose of the batch": single("transpose", (3, 4, 5, 9), "int8", (2, 1, 0, 3)),
    "transpose of a matrix": single("transpose", (37, 50), "int8", (1, 0)),
    "transpose of an image": single("transpose", (1, 96, 96, 3), "int8", (0, 3, 1, 2)),
    "transpose to an image": single("transpose", (1, 3, 96, 96), "int8", (0, 2, 3, 1)),
    "transpose of five axes": single("transpose", (2, 3, 4, 5, 6), "int8", (0, 1, 4, 2, 3)),
})  # fmt: skip


@LAYOUTS.program("transpose back and forth in bricks")
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.table(graph.input((1, 5, 6, 40)), rng.integers(-128, 128, 256))
    return graph.max_pool(graph.transpose(source, (0, 2, 1, 3)), (3, 3), pad=(1, 1, 1, 1))


def turned(axes: tuple[int, ...]) -> Build:
    """A transposition between two convolutions, which may be written that way by the first."""
    return lambda graph, rng: layer(
        graph, rng, graph.transpose(layer(graph, rng, graph.input((1, 9, 10, 8)), 20), (0, *axes)), 18
    )


for axes in ((2, 1, 3), (3, 1, 2), (2, 3, 1), (3, 2, 1), (1, 3, 2)):
    LAYOUTS.add(f"conv, transpose {' '.join(map(str, axes))}, conv", turned(axes))
for dtype in ("int8", "int16", "int32", "bool"):
    for axis in (1, 2, 3):
        LAYOUTS.add(f"{dtype} reverse axis {axis}", single("reverse", (1, 5, 6, 9), dtype, axis))


def joined(dtype: str, axis: int) -> Build:
    """CONCAT of three pieces of different extent."""
    shapes = [[extent if at == axis else size for at, size in enumerate((1, 5, 6, 9))] for extent in (5, 20, 3)]
    return lambda graph, rng: graph.concat([graph.input(shape, dtype) for shape in shapes], axis)


for dtype in ("int8", "int16", "int32", "bool"):
    for axis in (1, 3):
        LAYOUTS.add(f"{dtype} concat along axis {axis}", joined(dtype, axis))
    pads, value = (0, 0, 1, 2, 0, 3, 2, 1), 1 if dtype == "bool" else -77
    LAYOUTS.add(f"{dtype} slice", single("slice", (1, 7, 8, 40), dtype, (0, 2, 1, 17), (1, 4, 6, 20)))
    LAYOUTS.add(f"{dtype} pad", single("pad", (1, 5, 6, 9), dtype, pads, value))
    LAYOUTS.add(f"{dtype} tile", single("tile", (1, 3, 4, 5), dtype, (1, 2, 3, 2)))
    LAYOUTS.add(f"{dtype} reshape", single("reshape", SHAPE, dtype, (5, 1, 38, 3)))


def joined_and_cut(graph: Graph, rng: Rng) -> Value:
    parts = [graph.input((1, 5, 6, 5)), graph.input((1, 5, 6, 20))]
    return graph.slice(graph.concat(parts, 3), (0, 1, 0, 3), (1, 3, 6, 18))


def joined_convolutions(graph: Graph, rng: Rng) -> Value:
    source = graph.input((1, 8, 8, 8))
    return layer(graph, rng, graph.concat([layer(graph, rng, source, out, 1) for out in (16, 7, 16)], 3), 16)


def cut_convolution(graph: Graph, rng: Rng) -> Value:
    wide = layer(graph, rng, graph.input((1, 8, 8, 8)), 40)
    return layer(graph, rng, graph.slice(wide, (0, 1, 2, 5), (1, 6, 5, 19)), 8)


LAYOUTS.add_all({
    "int8 concat along axis 2": joined("int8", 2),
    "int8 tile of batch": single("tile", (2, 3, 4, 5), "int8", (2, 1, 1, 1)),
    "concat and slice": joined_and_cut,
    "concat of convs at odd channels": joined_convolutions,
    "slice of a conv at odd channels": cut_convolution,
    "pad before conv":
        lambda g, r: layer(g, r, g.pad(g.input((1, 6, 7, 16)), (0, 0, 3, 2, 1, 4, 0, 0), -128), 8),
    "reshape between convs":
        lambda g, r: layer(g, r, g.reshape(layer(g, r, g.input((1, 6, 8, 16)), 20), (1, 12, 8, 10)), 8),
})  # fmt: skip


def rows(count: int, *shape: int) -> Array:
    """Different row numbers for each batch, as SCATTER demands."""
    rng = np.random.default_rng(count)
    return np.stack([rng.permutation(count)[: shape[1]] for _ in range(shape[0])]).astype(np.int32)


def gathered(dtype: str, indices: Array | None) -> Build:
    """GATHER of rows by constant indices or by an input."""

    def build(graph: Graph, rng: Rng) -> Value:
        values = graph.input((2, 9, 13), dtype)
        return graph.gather(values, graph.input((2, 17), "int32") if indices is None else graph.const(indices, "int32"))

    return build


def scattered(dtype: str) -> Build:
    """SCATTER of rows to constant places."""
    return lambda graph, rng: graph.scatter(
        graph.input((2, 9, 13), dtype), graph.const(rows(9, 2, 4), "int32"), graph.input((2, 4, 13), dtype)
    )


for dtype in ("int8", "int16", "int32"):
    LAYOUTS.add(f"{dtype} gather", gathered(dtype, None), None, (0, 8))
    LAYOUTS.add(f"{dtype} gather constant rows", gathered(dtype, np.array([[3, 0, 8, 8, 1], [0, 1, 2, 3, 8]])))
    LAYOUTS.add(f"{dtype} scatter", scattered(dtype))


def places(rng: Rng) -> list[Array]:
    """A map, rows of it, and what is to be there."""
    first = rng.integers(-128, 128, (2, 9, 13)).astype(np.int8)
    return [first, rows(9, 2, 4), rng.integers(-128, 128, (2, 4, 13)).astype(np.int8)]


LAYOUTS.add(
    "int8 scatter to rows given",
    lambda g, r: g.scatter(g.input((2, 9, 13)), g.input((2, 4), "int32"), g.input((2, 4, 13))),
    given=[places] * 2,
    kinds=(),
)


def resized(mode: str, dtype: str, times: tuple[int, int], size: tuple[int, int], style: str) -> Build:
    """RESIZE by integers in PyTorch's half-pixel or align-corners style."""

    def build(graph: Graph, rng: Rng) -> Value:
        source, (rows, columns) = graph.input((1, *size, 7), dtype), times
        if style == "half pixel":
            scale = (2 * rows, 2, 2 * columns, 2)
            image = graph.resize(source, mode, scale, (1 - rows, 1 - columns), (rows - 1, columns - 1))
        else:  # corners: the last output lies on the last input
            scale = (rows * size[0] - 1, size[0] - 1, columns * size[1] - 1, size[1] - 1)
            image = graph.resize(source, mode, scale)
        return image if mode == "NEAREST" else graph.rescale(image, 1.0 / (scale[0] * scale[2]), dtype=dtype)

    return build


for mode in ("NEAREST", "BILINEAR"):
    for dtype in ("int8", "int16"):
        for times in ((2, 2), (4, 4), (3, 3), (1, 2)):
            name = f"{dtype} resize {mode.lower()} by {times[0]}x{times[1]}"
            LAYOUTS.add(name, resized(mode, dtype, times, (5, 6), "half pixel"))
        LAYOUTS.add(f"{dtype} resize {mode.lower()}, corners", resized(mode, dtype, (2, 2), (5, 6), "corners"))
    LAYOUTS.add(f"int8 resize {mode.lower()} by 8x8", resized(mode, "int8", (8, 8), (4, 3), "half pixel"))


def doubled(graph: Graph, source: Value, mode: str = "BILINEAR") -> Value:
    return graph.resize(source, mode, (4, 2, 4, 2), (-1, -1), (1, 1))


LAYOUTS.add_all({
    "int8 resize nearest to two thirds": single("resize", (1, 7, 10, 7), "int8", "NEAREST", (2, 3, 2, 3)),
    "int8 resize bilinear to int32": lambda g, r: doubled(g, g.input((1, 5, 6, 7))),
    "int8 resize bilinear, power of two rescale":
        lambda g, r: g.rescale(doubled(g, g.input((1, 5, 6, 7))), [(1 << 30, 34)]),
    "conv, resize nearest, conv":
        lambda g, r: layer(g, r, doubled(g, layer(g, r, g.input((1, 6, 7, 8)), 20), "NEAREST"), 12),
})  # fmt: skip
