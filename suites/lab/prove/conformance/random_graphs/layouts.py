"""Random graphs of operators that move, select or reduce elements along axes."""

from __future__ import annotations

from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.suites.lab.prove.conformance.random_graphs.dice import WIDTHS, Dice


def transposition(dice: Dice, graph: Graph) -> Value:
    """TRANSPOSE, up to six axes."""
    shape = dice.shape(9, (2, 3, 4, 4, 5, 6))
    axes = [int(axis) for axis in dice.rng.permutation(len(shape))]
    return graph.transpose(graph.input(shape, dice.pick(*WIDTHS)), axes)


def reduction(dice: Dice, graph: Graph) -> Value:
    """A REDUCE of any kind along any axis; sums are of quantised activations, at times averaged."""
    shape, name = dice.shape(12), dice.pick("SUM", "MAX", "MIN", "ALL", "ANY")
    axis = dice.between(0, len(shape) - 1)
    if name != "SUM":
        dtype = "bool" if name in ("ALL", "ANY") else dice.pick(*WIDTHS)
        return graph.reduce(name, graph.input(shape, dtype), axis)
    dtype = dice.activation()
    sums = graph.reduce(name, graph.rescale(graph.input(shape, dtype), 1.0, dtype="int32"), axis)
    return graph.rescale(sums, 1 / shape[axis], dtype=dtype) if dice.chance(0.6) else sums


def index_of_maximum(dice: Dice, graph: Graph) -> Value:
    """ARGMAX along any axis."""
    shape = dice.shape(20, (1, 2, 3, 4))
    return graph.argmax(graph.input(shape, dice.activation()), dice.between(0, len(shape) - 1))


def concatenation(dice: Dice, graph: Graph) -> Value:
    """CONCAT of two to five inputs along any axis."""
    shape, dtype = dice.shape(9), dice.pick(*WIDTHS, "bool")
    axis = dice.between(0, len(shape) - 1)
    parts = []
    for _ in range(dice.between(2, 5)):
        shape[axis] = dice.between(1, 20)
        parts.append(graph.input(shape, dtype))
    return graph.concat(parts, axis)


def part(dice: Dice, graph: Graph) -> Value:
    """SLICE."""
    shape = dice.shape(20)
    start = [dice.between(0, extent - 1) for extent in shape]
    size = [dice.between(1, extent - first) for extent, first in zip(shape, start, strict=True)]
    return graph.slice(graph.input(shape, dice.pick(*WIDTHS, "bool")), start, size)


def padding(dice: Dice, graph: Graph) -> Value:
    """PAD with any value on every side."""
    shape = dice.shape(9)
    amounts = [dice.between(0, 4) for _ in range(2 * len(shape))]
    return graph.pad(graph.input(shape, dice.pick(*WIDTHS)), amounts, dice.between(-100, 100))


def repetition(dice: Dice, graph: Graph) -> Value:
    """TILE."""
    shape = dice.shape(7)
    return graph.tile(graph.input(shape, dice.pick(*WIDTHS)), [dice.between(1, 3) for _ in shape])


def reversal(dice: Dice, graph: Graph) -> Value:
    """REVERSE along any axis."""
    shape = dice.shape(9)
    return graph.reverse(graph.input(shape, dice.pick(*WIDTHS)), dice.between(0, len(shape) - 1))


def gathering(dice: Dice, graph: Graph) -> Value:
    """GATHER at constant indices."""
    batch, rows, depth, taken = dice.between(1, 3), dice.between(1, 30), dice.between(1, 70), dice.between(1, 30)
    indices = graph.const(dice.rng.integers(0, rows, (batch, taken)), "int32")
    return graph.gather(graph.input((batch, rows, depth), dice.pick(*WIDTHS)), indices)
