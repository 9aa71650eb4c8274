"""A padded convolution of a slice, with a batch of two: it is compiled without the padding."""

from tosa import Graph, report

graph = Graph()
source = graph.input([2, 8, 8, 8])
part = graph.op("SLICE", [source, graph.shape([0, 0, 0, 4]), graph.shape([2, 8, 8, 4])], [2, 8, 8, 4])
compiled = graph.compiled("ethos-u55-128", graph.conv(part, 5, kernel=3, pad=1))
pads = [registers[0x100] for name, registers in compiled.operations if name == "CONV"]
report(1 not in pads, f"CONVs with IFM_PAD_TOP = {pads}; expected 1 at the top of each sample")
