"""A maximum behind which a RESCALE is: its operation has the scale, which no maximum of these NPUs is known to have."""

import tosa_serializer as ts
from tosa import Graph, report

OFM_SCALE = 0x4000 + 0x024
graph = Graph()
most = graph.op("REDUCE_MAX", [graph.input([2, 8])], [2, 1], "int8", 1, ts.NanPropagationMode.PROPAGATE)
compiled = graph.compiled("ethos-u55-128", graph.rescale(most, [0x4000_0000], 32, given="int8"))
scales = [registers.get(OFM_SCALE, 0) for name, registers in compiled.operations]
report(len(scales) == 1 and scales != [1], f"{len(scales)} operation, with OFM_SCALE {scales[-1]:#x}")
