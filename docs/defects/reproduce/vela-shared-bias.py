"""Two convolutions that differ in their bias: both read the same stream of scales and biases."""

import numpy as np
import tosa_serializer as ts
from tosa import Graph, report

graph = Graph()
source, weights = graph.input([1, 8, 8, 4]), graph.const(np.arange(24).reshape(6, 1, 1, 4))
outputs = []
for bias in (5, 77):
    inputs = [source, weights, graph.const(np.full(6, bias), "int32"), graph.const([0]), graph.const([0])]
    sums = graph.op("CONV2D", inputs, [1, 8, 8, 6], "int32", [0] * 4, [1, 1], [1, 1], False, ts.DType.INT32)
    outputs.append(graph.rescale(sums, [1 << 28], 33))
compiled = graph.compiled("ethos-u55-128", *outputs, mode="Sram_Only")
scales = [registers.get(0x4022) for name, registers in compiled.operations if name == "CONV"]
report(len(set(scales)) < 2, f"SCALE_BASE of the two CONVs is {scales}; they have different biases")
