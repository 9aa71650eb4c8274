"""y = transpose(conv(x)); return y, conv(transpose back(y)): the compiled program has one output of two."""

from tosa import Graph, report

graph = Graph()
first = graph.transpose(graph.conv(graph.input([1, 8, 8, 4]), 6), [0, 3, 1, 2])
second = graph.conv(graph.transpose(first, [0, 2, 3, 1]), 5)
compiled = graph.compiled("ethos-u55-128", first, second)
report(len(compiled.outputs) != 2, f"outputs {compiled.outputs}, expected [1, 6, 8, 8] and [1, 8, 8, 5]")
