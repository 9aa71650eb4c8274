"""A transposed convolution with a stride, cropped to one row and column: its input is not enlarged."""

import numpy as np
import tosa_serializer as ts
from tosa import Graph, report

graph = Graph()
zeros = [graph.const([0]), graph.const([0])]
inputs = [graph.input([1, 2, 2, 9]), graph.const(np.ones((8, 3, 3, 9))), graph.const(np.zeros(8), "int32"), *zeros]
sums = graph.op("TRANSPOSE_CONV2D", inputs, [1, 1, 1, 8], "int32", [-2] * 4, [2, 2], False, ts.DType.INT32)
compiled = graph.compiled("ethos-u55-128", graph.rescale(sums, [1 << 28], 33))
scales = [registers.get(0x107, 0) for name, registers in compiled.operations if name == "CONV"]
report(not any(scales), f"CONVs with IFM_UPSCALE = {scales}; a stride of 2 puts zeros between elements (2)")
