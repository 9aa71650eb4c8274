"""A sum of two tables, each behind a reshape of a sum: one is stored in bricks, and has no memory for them."""

import tosa_serializer as ts
from tosa import Graph, report

graph = Graph()


def wide(source, zero):
    scale = [graph.const([1 << 30], "int32"), graph.const([30]), graph.const([zero]), graph.const([0], "int32")]
    rounding = ts.RoundingMode.SINGLE_ROUND
    return graph.op("RESCALE", [source, *scale], graph.shapes[source], "int32", True, rounding, False, False, False)


def gate():
    total = graph.op("REDUCE_SUM", [wide(graph.input([8, 8]), 5)], [8, 1], "int32", 1)
    return wide(graph.table(graph.reshape(graph.rescale(total, [1 << 30], 33), [8])), 0)


result = graph.rescale(graph.op("ADD", [gate(), gate()], [8], "int32"), [1 << 30], 31)
compiled = graph.compiled("ethos-u85-256", result, mode="Sram_Only")
ends = [
    registers[0x4000 + 0x010] + (registers[0x112] + 1) * registers[0x4000 + 0x015]
    for name, registers in compiled.operations
    if name == "ELEMENTWISE" and registers[0x114] >> 14 != 2  # its result goes to memory
]
report(
    max(ends) > compiled.scratch,
    f"ELEMENTWISEs whose outputs end at {[hex(end) for end in ends]} of 0x{compiled.scratch:x} bytes",
)
