"""RESIZE NEAREST by 2 in y and 4 in x: the second step doubles rows, too, and writes every other one."""

from itertools import pairwise

import tosa_serializer as ts
from tosa import Graph, report

graph = Graph()
inputs = [graph.input([1, 5, 6, 8]), graph.shape([4, 2, 8, 2]), graph.shape([-1, -3]), graph.shape([1, 3])]
compiled = graph.compiled("ethos-u55-128", graph.op("RESIZE", inputs, [1, 10, 24, 8], "int8", ts.ResizeMode.NEAREST))
steps = [
    (registers[0x112] + 1, registers[0x111] + 1, registers[0x107])
    for name, registers in compiled.operations
    if name != "DMA_START"
]
report(
    any(after[2] and before[0] * 2 != after[0] for before, after in pairwise(steps)),
    f"operations with (OFM_HEIGHT, OFM_WIDTH, IFM_UPSCALE) = {steps}: one that enlarges gives as many rows as it reads",
)
