"""A table behind a transposition, for a small Ethos-U55: it is loaded at 0x4000 of 16 KB of SHRAM."""

from tosa import Graph, report

graph = Graph()
compiled = graph.compiled("ethos-u55-64", graph.table(graph.transpose(graph.input([1, 6, 10, 4]), [0, 2, 3, 1])))
ends = [
    registers[0x4000 + 0x031] + registers[0x4000 + 0x032]
    for name, registers in compiled.operations
    if name == "DMA_START" and registers[0x131] & 0x100
]
report(max(ends, default=0) > 0x4000, f"transfers to SHRAM end at {[hex(end) for end in ends]}; it has 0x4000 bytes")
