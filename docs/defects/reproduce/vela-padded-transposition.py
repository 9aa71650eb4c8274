"""A table between a transposition and a PAD: it is written with the rows of the map without padding."""

from itertools import pairwise

from tosa import Graph, report

graph = Graph()
looked_up = graph.table(graph.transpose(graph.input([1, 6, 10, 4]), [0, 2, 3, 1]))
pads = graph.shape([0, 0, 0, 0, 0, 2, 0, 0])
compiled = graph.compiled("ethos-u55-128", graph.op("PAD", [looked_up, pads, graph.const([5])], [1, 10, 6, 6]))
bases = [
    registers[0x4000 + 0x010] for name, registers in compiled.operations if name == "POOL" and registers[0x113] == 0
]
steps = {second - first for first, second in pairwise(bases)}
report(steps == {4 * 6}, f"POOLs, each of which writes a row, with OFM_BASE0 {steps} apart; a row has {6 * 6} bytes")
