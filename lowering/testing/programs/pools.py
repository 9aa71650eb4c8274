"""Programs of pools and reductions: mean, maximum, minimum, sum, index of the maximum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ethos_hil.lowering.testing.programs.pieces import single
from ethos_hil.lowering.testing.tosa_graph import Array, Graph, Value
from ethos_hil.lowering.testing.tosa_program import Build, ProgramCatalogue, Rng

POOLS = ProgramCatalogue()
FLAT = (0, 0, 0, 0)


def pool(
    kind: str, *arguments: Any, depth: int = 19, size: tuple[int, int] = (16, 15), dtype: str = "int8", batch: int = 1
) -> Build:
    return single(kind, (batch, *size, depth), dtype, *arguments)


def part_pooled(graph: Graph) -> Value:
    return graph.average_pool(graph.input((1, 8, 9, 20)), (2, 3), (2, 3), FLAT, (3, 3))


def largest(graph: Graph) -> Value:
    return graph.max_pool(graph.input((1, 8, 9, 20)), (2, 3), (2, 3))


def reduced(
    shape: Sequence[int], axes: Sequence[int], scale: float, zero_in: int, zero_out: int, dtype: str = "int8"
) -> Build:
    """A sum over some axes, as ExecuTorch emits it."""

    def build(graph: Graph, rng: Rng) -> Value:
        total = graph.rescale(graph.input(shape, dtype), 1.0, zero_in=zero_in, dtype="int32")
        for axis in axes:
            total = graph.reduce("SUM", total, axis)
        return graph.rescale(total, scale, zero_out=zero_out, dtype=dtype)

    return build


POOLS.add_all({
    "max pool": pool("max_pool", (2, 2), (2, 2), size=(16, 14)),
    "max pool padded": pool("max_pool", (3, 3), (2, 2), (1, 0, 1, 1)),
    "max pool 5x1": pool("max_pool", (5, 1), (1, 1), (2, 2, 0, 0)),
    "max pool stride 3": pool("max_pool", (3, 2), (3, 3), size=(15, 14)),
    "max pool 12x14": pool("max_pool", (12, 14), (1, 1)),
    "max pool with batch": pool("max_pool", (2, 2), (2, 2), size=(6, 8), batch=3),
    "max pool int16": pool("max_pool", (3, 3), (2, 2), (1, 0, 1, 1), dtype="int16"),
    "average pool": pool("average_pool", (2, 2), (2, 2), FLAT, (-9, -9), size=(16, 14)),
    "average pool 3x3": pool("average_pool", (3, 3), (1, 1), FLAT, (4, 4)),
    "average pool padded": pool("average_pool", (3, 3), (1, 1), (1, 1, 1, 1), (4, 4)),
    "average pool padded 2x2": pool("average_pool", (2, 2), (1, 1), (1, 1, 1, 1), (0, 0)),
    "average pool padded 7x5": pool("average_pool", (7, 5), (1, 1), (3, 3, 2, 2), (0, 0)),
    "average pool padded stride 2": pool("average_pool", (3, 3), (2, 2), (1, 0, 0, 0), (-128, -128)),
    "average pool whole": pool("average_pool", (7, 7), (1, 1), FLAT, (-128, -128), size=(7, 7), depth=33),
    "average pool 16x15": pool("average_pool", (16, 15), (1, 1), FLAT, (0, 0)),
    "average pool stride 3": pool("average_pool", (3, 3), (3, 3), FLAT, (0, 0), size=(15, 15)),
    "average pool new zero point": pool("average_pool", (2, 3), (2, 3), FLAT, (3, -20)),
    "average pool padded, new zero point": pool("average_pool", (3, 3), (1, 1), (1, 1, 1, 1), (3, -20)),
    "average pool with batch": pool("average_pool", (2, 2), (2, 2), FLAT, (-9, -9), size=(6, 8), batch=2),
    "average pool int16": pool("average_pool", (2, 2), (2, 2), FLAT, (0, 0), size=(16, 14), dtype="int16"),
    "average pool int16 3x3": pool("average_pool", (3, 3), (1, 1), FLAT, (0, 0), dtype="int16"),
    "average pool int16 padded": pool("average_pool", (3, 3), (1, 1), (1, 1, 1, 1), (0, 0), dtype="int16"),
    "average pool with table": lambda g, r: g.table(part_pooled(g), r.integers(-128, 128, 256)),
    "average pool with rescale": lambda g, r: g.rescale(part_pooled(g), 0.83, zero_in=3, zero_out=-11),
    "max pool with rescale": lambda g, r: g.rescale(largest(g), 0.83, zero_in=3, zero_out=-11),
    "max pool, clamped": lambda g, r: g.clamp(largest(g), -50, 60),
    "sum over channels": reduced((1, 5, 6, 33), (3,), 1 / 33, 12, -5),
    "mean": reduced((1, 7, 6, 20), (1, 2), 0.0371, -33, 3),
    "mean int16": reduced((1, 7, 6, 20), (1, 2), 1 / 42, 0, 0, "int16"),
    "mean of a large map": reduced((1, 70, 65, 9), (1, 2), 1 / 4550, -33, 3),
})  # fmt: skip


def consecutive(rng: Rng) -> list[Array]:
    """Two rows of int8 whose column sums are every number from -256 to 254 and all ties of their mean."""
    sums = np.arange(-256, 255)
    upper = (sums // 2).clip(-128, 127)
    return [np.stack([upper, sums - upper]).reshape(1, 2, 511, 1).astype(np.int8)]


POOLS.add("average pool, every sum", pool("average_pool", (2, 1), depth=1, size=(2, 511)), given=[consecutive])


for axis in range(4):
    name = f"int32 sum over axis {axis}"
    POOLS.add(name, single("reduce", (2, 5, 6, 33), "int32", axis, before=["SUM"]), (-(2**25), 2**25))
for axis in (1, 2, 3):
    for dtype in ("int8", "int16", "int32"):
        for operation in ("MAX", "MIN"):
            name = f"{dtype} reduce {operation.lower()} over axis {axis}"
            POOLS.add(name, single("reduce", (1, 5, 6, 33), dtype, axis, before=[operation]))
    for dtype in ("int8", "int16"):
        POOLS.add(f"{dtype} argmax over axis {axis}", single("argmax", (1, 5, 6, 33), dtype, axis))
    for operation in ("ALL", "ANY"):
        name = f"bool reduce {operation.lower()} over axis {axis}"
        POOLS.add(name, single("reduce", (1, 5, 6, 9), "bool", axis, before=[operation]))
POOLS.add("int8 argmax, ties", single("argmax", (1, 9, 9, 40), "int8", 3), (-2, 2))
POOLS.add("int8 argmax of 127 classes", single("argmax", (1, 1, 1, 127), "int8", 3))
