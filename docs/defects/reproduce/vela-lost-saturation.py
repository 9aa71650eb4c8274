"""Sums of 32 bits that become int8 and then int32 again: one operation, which never has 8 bits."""

from tosa import Graph, report

OFM_PRECISION = 0x114
graph = Graph()
sums = graph.op("ADD", [graph.input([1, 4, 4, 8], "int32"), graph.input([1, 4, 4, 8], "int32")], [1, 4, 4, 8], "int32")
narrow = graph.rescale(sums, [1 << 30], 30)
compiled = graph.compiled("ethos-u85-256", graph.rescale(narrow, [1 << 30], 26, dtype="int32", given="int8"))
bits = [8 << (registers[OFM_PRECISION] >> 1 & 3) for name, registers in compiled.operations]
report(8 not in bits, f"{len(bits)} operation, whose results have {bits} bits")
