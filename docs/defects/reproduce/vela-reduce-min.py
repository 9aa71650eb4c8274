"""A minimum that is reshaped: the last subtraction broadcasts an operand that has the output's shape."""

import tosa_serializer as ts
from tosa import Graph, report

graph = Graph()
least = graph.op("REDUCE_MIN", [graph.input([4, 6])], [4, 1], "int8", 1, ts.NanPropagationMode.PROPAGATE)
compiled = graph.compiled("ethos-u55-128", graph.reshape(least, [1, 4]))
name, registers = compiled.operations[-1]
report(
    bool(registers.get(0x180, 0) & 7),
    f"the last {name} has IFM2_BROADCAST = {registers.get(0x180, 0):#x}; its second operand has all 4 minima",
)
