"""A table behind a convolution and a reshape to five dimensions: the convolution is padded beyond its window."""

from tosa import Graph, report

graph = Graph()
source = graph.conv(graph.input([1, 4, 6, 20]), 16)
compiled = graph.compiled("ethos-u55-128", graph.table(graph.reshape(source, [1, 4, 6, 2, 8])))
registers = next(registers for name, registers in compiled.operations if name == "CONV")
pads = [registers.get(code, 0) for code in range(0x100, 0x104)]
report(
    max(pads) > 0,
    f"CONV with a kernel of 1x1 has IFM_PAD top, left, right, bottom = {pads} and OFM_HEIGHT = "
    f"{registers[0x112] + 1}; expected no padding and 4 rows",
)
