"""The largest of a row that a convolution to one channel makes: it is stored in bricks, and has no memory for them."""

import tosa_serializer as ts
from tosa import Graph, report

graph = Graph()
row = graph.reshape(graph.conv(graph.input([1, 1, 8, 4]), 1), [8])
most = graph.op("REDUCE_MAX", [row], [1], "int8", 0, ts.NanPropagationMode.PROPAGATE)
compiled = graph.compiled("ethos-u55-128", most)
(name, registers), *_ = compiled.operations
end = registers[0x4000 + 0x010] + (registers[0x112] + 1) * registers[0x4000 + 0x015]
report(end > compiled.scratch, f"a {name} whose output ends at 0x{end:x} of 0x{compiled.scratch:x} bytes")
