"""Two tables of int16 with a sum between them: both are brought to the same place before either is read."""

import numpy as np
from tosa import Graph, report

graph = Graph()


def looked_up(source, entries):
    table = graph.op("TABLE", [source, graph.const(entries, "int16")], [8, 16], "int32")
    return graph.rescale(table, [1 << 30], 37, "int16")


def added(first, second):
    wide = [graph.rescale(value, [1 << 30], 30, "int32", "int16") for value in (first, second)]
    return graph.rescale(graph.op("ADD", wide, [8, 16], "int32"), [1 << 30], 31, "int16")


ramp = np.linspace(-32768, 32767, 513)
first, second = graph.input([8, 16], "int16"), graph.input([8, 16], "int16")
total = added(looked_up(added(first, second), ramp), second)
compiled = graph.compiled("ethos-u85-256", looked_up(total, ramp[::-1]))
lost, filled = [], []
for name, registers in compiled.operations:
    if name == "DMA_START" and registers[0x131] & 0x100:
        place = registers[0x4000 + 0x031]
        lost += [place for other in filled if other == place]
        filled.append(place)
    elif name != "DMA_START":
        filled = []
report(bool(lost), f"tables brought to {[hex(place) for place in lost]} over ones that nothing has read yet")
