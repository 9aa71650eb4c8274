"""An average pool with padding and a stride of 4, of two samples: the second's sums are behind the scratch memory."""

import tosa_serializer as ts
from tosa import Graph, report

graph = Graph()
inputs = [graph.input([2, 9, 9, 4]), graph.const([0]), graph.const([0])]
pool = graph.op("AVG_POOL2D", inputs, [2, 3, 3, 4], "int8", [3, 3], [4, 4], [1, 1, 1, 1], ts.DType.INT32)
compiled = graph.compiled("ethos-u85-256", pool, mode="Sram_Only")
bases = [registers[0x4010] for name, registers in compiled.operations if name == "POOL" and registers[0x11F] == 1]
report(
    any(base >= compiled.scratch for base in bases),
    f"POOLs with OFM_BASE0 = {bases} in the scratch memory of {compiled.scratch} bytes",
)
