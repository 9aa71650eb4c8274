"""Random graphs of elementwise operators; shapes broadcast."""

from __future__ import annotations

from ethos_hil.lowering.testing.programs.pieces import ADD_SHIFT, per_channel
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.suites.lab.prove.conformance.random_graphs.dice import WIDTHS, Dice

INT16_SHIFT = 12  # how far ExecuTorch 1.4.1 shifts int16 operands of ADD and SUB to the left
RANKS = (1, 2, 3, 4, 4, 4, 5)


def _shapes(dice: Dice) -> tuple[list[int], list[int]]:
    """Two shapes that broadcast to a third; no axis is broadcast in both."""
    full = dice.shape(9, RANKS)
    first = dice.some_ones(full, 0.25)
    second = [1 if size != 1 and dice.chance(0.25) else extent for size, extent in zip(first, full, strict=True)]
    return first, second


def arithmetic(dice: Dice, graph: Graph) -> Value:
    """One quantised operator of two operands, the second at times constant, the order at times swapped."""
    dtype, (first, second) = dice.activation(), _shapes(dice)
    name = dice.pick("ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM")
    values = [graph.input(first, dtype)]
    constant = dice.chance(0.3)
    values.append(graph.const(dice.rng.integers(-128, 128, second), dtype) if constant else graph.input(second, dtype))
    left = 2.0 ** dice.pick(ADD_SHIFT if dtype == "int8" else INT16_SHIFT, 0)
    scales = [1.0 if name == "MUL" else dice.pick(0.3, 0.5, 0.77, 1.0) * left for _ in values]
    wide = [
        graph.rescale(value, scale, zero_in=dice.zero(dtype), dtype="int32")
        for value, scale in zip(values, scales, strict=True)
    ]
    if dice.chance(0.3):
        wide.reverse()
    factor = dice.pick(0.3, 0.5, 0.77, 1.0) / left
    if name == "MUL":
        factor = 0.013 if dtype == "int8" else 3e-5
    result = graph.rescale(graph.binary(name, *wide), factor, zero_out=dice.zero(dtype), dtype=dtype)
    if dtype == "int8" and dice.chance(0.2):
        return graph.table(result, dice.rng.integers(-128, 128, 256))
    return result


def comparison(dice: Dice, graph: Graph) -> Value:
    """EQUAL, GREATER or GREATER_EQUAL of int32."""
    first, second = _shapes(dice)
    name = dice.pick("EQUAL", "GREATER", "GREATER_EQUAL")
    return graph.binary(name, graph.input(first, "int32"), graph.input(second, "int32"))


def bitwise(dice: Dice, graph: Graph) -> Value:
    """BITWISE_AND, _OR or _XOR."""
    (first, second), dtype = _shapes(dice), dice.pick(*WIDTHS)
    name = dice.pick("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR")
    return graph.binary(name, graph.input(first, dtype), graph.input(second, dtype))


def selection(dice: Dice, graph: Graph) -> Value:
    """SELECT, choices broadcast at times."""
    shape, dtype = dice.shape(9, (1, 2, 3, 4)), dice.pick(*WIDTHS)
    choices = [graph.input(dice.some_ones(shape, 0.2), dtype) for _ in range(2)]
    return graph.select(graph.input(shape, "bool"), *choices)


def table(dice: Dice, graph: Graph) -> Value:
    """TABLE of int8."""
    return graph.table(graph.input(dice.shape(9)), dice.rng.integers(-128, 128, 256))


def rescaling(dice: Dice, graph: Graph) -> Value:
    """RESCALE between activations, by one factor or per channel, rounding once or twice."""
    dtype_in, dtype_out = dice.pick("int8", "int16"), dice.pick("int8", "int16")
    largest = {"int8": {"int8": 1.0, "int16": 200.0}, "int16": {"int8": 0.004, "int16": 1.0}}[dtype_in][dtype_out]
    zero_in, zero_out = dice.pick(0, dice.zero(dtype_in)), dice.between(-50, 50) if dtype_out == "int8" else 0
    return _rescaled(
        dice, graph, graph.input(dice.shape(12, (1, 2, 3, 4)), dtype_in), largest, dtype_out, zero_in, zero_out
    )


def rescaling_of_int32(dice: Dice, graph: Graph) -> Value:
    """RESCALE of int32."""
    dtype = dice.pick(*WIDTHS)
    largest = {"int8": 1e-7, "int16": 3e-5, "int32": 0.7}[dtype]
    return _rescaled(dice, graph, graph.input(dice.shape(12, (1, 2, 3, 4)), "int32"), largest, dtype, 0, 0)


def _rescaled(
    dice: Dice, graph: Graph, source: Value, largest: float, dtype: str, zero_in: int, zero_out: int
) -> Value:
    channels = source.shape[-1]
    if channels > 1 and dice.chance(0.5):
        scale = per_channel(dice.rng, channels, largest)
        return graph.rescale(
            source, scale, zero_in=zero_in, zero_out=zero_out, dtype=dtype, double_round=dice.chance(0.4)
        )
    factor = float(dice.rng.uniform(0.01, 1) * largest)
    return graph.rescale(source, factor, zero_in=zero_in, zero_out=zero_out, dtype=dtype, double_round=dice.chance(0.4))
