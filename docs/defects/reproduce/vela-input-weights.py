"""Weights that are an input, with a scale for each channel, on Ethos-U85: one scale for all is set."""

from tosa import Graph, report

graph = Graph()
output = graph.conv(graph.input([1, 6, 6, 8]), 5, weights=graph.input([5, 1, 1, 8]), channels=True)
compiled = graph.compiled("ethos-u85-256", output)
globals_ = [registers[0x114] >> 8 & 1 for name, registers in compiled.operations if name == "CONV"]
report(all(globals_), f"CONVs whose OFM_PRECISION says that one scale is for all channels: {globals_}; expected 0")
