"""Programs of matrix products of two inputs."""

from __future__ import annotations

import numpy as np

from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Build, ProgramCatalogue, Rng

PRODUCTS = ProgramCatalogue()


def product(batch: int, height: int, depth: int, width: int, dtype: str = "int8", target: str | None = None) -> Build:
    """MATMUL and its rescale."""

    def build(graph: Graph, rng: Rng) -> Value:
        first = graph.input((batch, height, depth), dtype)
        second = graph.input((batch, depth, width), dtype)
        sums = graph.matmul(first, second, (3, -4) if dtype == "int8" else (0, 0))
        if target == "int32":
            return sums
        largest = (3.0 / 73 if dtype == "int8" else 1.6e-4) / float(np.sqrt(depth))
        return graph.rescale(sums, largest, zero_out=2 if dtype == "int8" else 0, dtype=dtype)

    return build


for name, build in {
    "matmul": product(1, 5, 7, 9),
    "matmul with batch": product(3, 5, 7, 9),
    "matmul of attention": product(2, 17, 32, 17),
    "matmul deep": product(1, 6, 130, 33),
    "matmul wide": product(1, 33, 16, 70),
    "matmul of vectors": product(1, 1, 40, 1),
    "matmul to int32": product(2, 5, 7, 9, target="int32"),
    "matmul int16": product(2, 5, 7, 9, "int16"),
    "matmul int16 deep": product(1, 12, 100, 20, "int16"),
}.items():
    PRODUCTS.add(name, build)


@PRODUCTS.program("matmul of a transposed operand")
def _(graph: Graph, rng: Rng) -> Value:
    keys = graph.transpose(graph.input((2, 11, 24)), (0, 2, 1))
    return graph.rescale(graph.matmul(graph.input((2, 9, 24)), keys, (1, 2)), 0.008, zero_out=3)


@PRODUCTS.program("matmul by a constant")
def _(graph: Graph, rng: Rng) -> Value:
    constant = graph.const(rng.integers(-127, 128, (1, 24, 13)), "int8")
    return graph.rescale(graph.matmul(graph.input((1, 9, 24)), constant, (1, 0)), 0.008, zero_out=3)
