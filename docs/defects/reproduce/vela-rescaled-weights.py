"""Weights that a RESCALE makes of a constant, on Ethos-U85: products of maps in place of one convolution."""

import numpy as np
from tosa import Graph, report


def operations(rescaled):
    graph = Graph()
    weights = graph.const(np.ones((5, 3, 3, 8)))
    if rescaled:
        weights = graph.rescale(weights, [1 << 30], 29, given="int8")
    return len(graph.compiled("ethos-u85-256", graph.conv(graph.input([1, 6, 6, 8]), 5, 3, weights=weights)).operations)


constant, rescaled = operations(rescaled=False), operations(rescaled=True)
report(rescaled > constant, f"with constant weights: {constant} operations; with weights from a RESCALE: {rescaled}")
