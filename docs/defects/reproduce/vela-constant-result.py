"""A map and a transposed constant are concatenated: the transposition writes to region 0, where the constants are."""

import numpy as np
from tosa import Graph, report

graph = Graph()
constant = graph.transpose(graph.const(np.arange(168).reshape(1, 14, 3, 4) % 99), [0, 2, 3, 1])
output = graph.op("CONCAT", [graph.input([1, 3, 4, 14]), constant], [2, 3, 4, 14], "int8", 0)
compiled = graph.compiled("ethos-u55-128", output)
regions = [registers.get(0x11F, 0) & 7 for name, registers in compiled.operations if name != "DMA_START"]
report(0 in regions, f"operations with OFM_REGION = {regions}; 0 has the constants")
