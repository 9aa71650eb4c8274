"""A convolution of int16 whose sums get two scales: Vela refuses it, and compiles it with one of them."""

import numpy as np
import tosa_serializer as ts
from tosa import TYPES, Graph, report

TYPES["int48"] = ts.DType.INT48


def compiled(*shifts):
    graph = Graph()
    graph.made.addConst([4], ts.DType.INT48, np.zeros(4, np.int64), name="bias")
    zeros = [graph.const([0], "int16"), graph.const([0])]
    inputs = [graph.input([1, 4, 6, 8], "int16"), graph.const(np.ones((4, 1, 1, 8))), "bias", *zeros]
    sums = graph.op("CONV2D", inputs, [1, 4, 6, 4], "int48", [0] * 4, [1, 1], [1, 1], False, ts.DType.INT48)
    outputs = []
    for shift in shifts:
        zero = f"zero{shift}"
        graph.made.addConst([1], ts.DType.INT48, np.zeros(1, np.int64), name=zero)
        scale = [graph.const([20000], "int16"), graph.const([shift]), zero, graph.const([0], "int16")]
        single = ts.RoundingMode.SINGLE_ROUND
        outputs.append(graph.op("RESCALE", [sums, *scale], [1, 4, 6, 4], "int16", False, single, False, False, False))
    try:
        graph.compiled("ethos-u55-128", *outputs)
    except RuntimeError as error:
        return " ".join(str(error).split())
    return ""


one, two = compiled(22), compiled(22, 23)
report(bool(two) and not one, f"with one scale: {one or 'compiled'}; with two: {two or 'compiled'}")
