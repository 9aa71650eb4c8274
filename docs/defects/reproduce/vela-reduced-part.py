"""A maximum over channels that is concatenated: the pool gets the whole's height, and is padded beyond its window."""

import tosa_serializer as ts
from tosa import Graph, report

graph = Graph()
most = graph.op("REDUCE_MAX", [graph.input([1, 4, 6, 16])], [1, 4, 6, 1], "int8", 3, ts.NanPropagationMode.PROPAGATE)
whole = graph.op("CONCAT", [most, graph.input([1, 3, 6, 1])], [1, 7, 6, 1], "int8", 1)
compiled = graph.compiled("ethos-u55-128", whole)
pads = [registers[0x103] for name, registers in compiled.operations if name == "POOL"]
report(max(pads) > 0, f"POOLs with IFM_PAD_BOTTOM = {pads}; expected no padding")
