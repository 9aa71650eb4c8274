"""A sum of int16 whose operands have the scales 2048 and 1024: OPB_SCALE has a value that the NPU does not look at."""

from tosa import Graph, report

graph = Graph()
wide = [graph.rescale(graph.input([1, 4, 6, 16], "int16"), [1 << 30], shift, "int32", "int16") for shift in (19, 20)]
total = graph.op("ADD", wide, [1, 4, 6, 16], "int32")
compiled = graph.compiled("ethos-u55-128", graph.rescale(total, [1 << 30], 43, "int16"))
values = [registers.get(0x4026, 0) & 0xFFFF for name, registers in compiled.operations if name == "ELEMENTWISE"]
report(
    any(value not in (0, 1 << 14) for value in values),
    f"ELEMENTWISEs with OPB_SCALE = {[hex(value) for value in values]}; the other operand is always shifted by 14",
)
