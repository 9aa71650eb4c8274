"""Random graphs of several layers: cascades, fusions and memory that several maps use in turn."""

from __future__ import annotations

from ethos_hil.lowering.testing.programs.pieces import ADD_SHIFT, added, depthwise_layer, layer
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.suites.lab.prove.conformance.random_graphs.dice import Dice

LARGEST = 300  # positions of a map that a network still enlarges
LAYERS = ("3x3", "1x1", "depthwise", "max", "average", "add", "concat", "table", "axes", "larger", "cut", "pad")


def chain(dice: Dice, graph: Graph) -> Value:
    """Elementwise operators, each on the last result and any earlier one."""
    shape = (1, dice.extent(1, 20), dice.extent(1, 20), dice.extent(1, 40))
    values = [graph.input(shape if dice.chance(0.8) else (1, 1, 1, shape[3])) for _ in range(3)]
    values.append(graph.input(shape))
    result = values[-1]
    for _ in range(dice.between(2, 6)):
        name = dice.pick("ADD", "SUB", "MUL", "MAXIMUM", "TABLE", "CLAMP")
        if name == "TABLE":
            result = graph.table(result, dice.rng.integers(-128, 128, 256))
        elif name == "CLAMP":
            result = graph.clamp(result, -20, 100)
        else:
            result = _combined(dice, graph, name, result, dice.pick(*values))
        if dice.chance(0.3):
            values.append(result)
    for value in values[:4]:  # so that no input is without use
        wide = [graph.rescale(operand, 1.0, dtype="int32") for operand in (result, value)]
        result = graph.rescale(graph.binary("MAXIMUM", *wide), 1.0)
    return result


def _combined(dice: Dice, graph: Graph, name: str, first: Value, second: Value) -> Value:
    operands = [second, first] if dice.chance(0.4) else [first, second]
    wide = [
        graph.rescale(
            operand,
            1.0 if name == "MUL" else dice.pick(0.5, 1.0, 0.31) * 2.0**ADD_SHIFT,
            zero_in=dice.pick(0, 3),
            dtype="int32",
        )
        for operand in operands
    ]
    factor = 0.02 if name == "MUL" else 0.8 / 2**ADD_SHIFT
    return graph.rescale(graph.binary(name, *wide), factor, zero_out=dice.pick(0, -5))


def network(dice: Dice, graph: Graph) -> Value:
    """Layers of all kinds with additions and concatenations of what came before."""
    result = graph.input((1, dice.extent(6, 24), dice.extent(6, 24), dice.extent(1, 20)))
    kept, last = [result], ""
    for _ in range(dice.between(2, 6)):
        name = dice.pick(*LAYERS)
        # Vela 5.1 on Ethos-U55 and U65: a table of a transposed map ignores the strides of what it is padded or
        # concatenated to.
        if (last, name) == ("axes", "table"):
            continue
        output = _next(dice, graph, name, result, [value for value in kept if value.shape == result.shape])
        if output is not result:
            result, last = output, name
        kept.append(result)
    return result


def _next(dice: Dice, graph: Graph, name: str, source: Value, alike: list[Value]) -> Value:
    """Add one more layer. Return the source itself where the layer does not fit."""
    match name:
        case "3x3":
            return layer(graph, dice.rng, source, dice.extent(4, 50), 3, dice.pick(1, 1, 2), dice.pick(0, -128))
        case "1x1":
            return layer(graph, dice.rng, source, dice.extent(4, 80), 1, 1, dice.pick(0, -128))
        case "depthwise":
            return depthwise_layer(graph, dice.rng, source, dice.pick(3, 5), dice.pick(1, 1, 2))
        case "max":
            return graph.max_pool(source, (3, 3), (1, 1), (1, 1, 1, 1))
        case "average":
            return graph.average_pool(source, (3, 3), (1, 1), (1, 1, 1, 1))
        case "add":
            return added(graph, source, dice.pick(*alike))
        case "concat":
            return graph.concat([source, dice.pick(*alike)], 3)
        case "table":
            return graph.table(source, dice.rng.integers(-128, 128, 256))
        case "axes":
            return graph.transpose(source, (0, *(1 + int(axis) for axis in dice.rng.permutation(3))))
        case "larger" if source.shape[1] * source.shape[2] < LARGEST:
            return graph.resize(source, "NEAREST", (4, 2, 4, 2), (-1, -1), (1, 1))
        case "cut" if min(source.shape[1:]) > 2:
            return graph.slice(source, (0, 1, 0, 1), (1, *(extent - 1 for extent in source.shape[1:])))
        case "pad":
            return graph.pad(source, (0, 0, 1, 0, 0, 2, 0, 1), 5)
    return source
