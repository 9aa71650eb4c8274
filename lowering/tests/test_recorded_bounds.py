"""The bounds themselves, as numbers: one that is wider than it was lets a wrong answer pass, and no oracle sees it.

test_bounds.py shows that they are sound. Here a few elements of each operator's are recorded, to four digits.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.oracle.bounds import graph
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.tests.one_operator import OPERATORS, Input, OneOperator

SHOWN = 10
SHAPE = (1, 4, 4, 3)
_RNG = np.random.default_rng(7)
_BYTES = _RNG.integers(-128, 128, (4, 3, 3, 3))
_JUMPS = np.where(np.arange(-256, 257) < 40, 0, 9000) + (np.arange(-256, 257) ** 2 // 16)
INTEGERS: dict[str, tuple[str, Callable[[Graph, Value], Value]]] = {
    "rescale once": ("int32", lambda g, x: g.rescale(x, 0.0173, zero_out=5)),
    "rescale twice": ("int32", lambda g, x: g.rescale(x, [(1 << 30, 35)], zero_out=-3, double_round=True)),
    "rescale channels": ("int8", lambda g, x: g.rescale(x, [(1 << 30, 30), (3 << 28, 29), (1 << 30, 33)], zero_in=-7)),
    "rescale to int16": ("int32", lambda g, x: g.rescale(x, 1.7, dtype="int16")),
    "rescale to int32": ("int8", lambda g, x: g.rescale(x, 2.0**12, zero_in=3, dtype="int32")),
    "table of bytes": ("int8", lambda g, x: g.table(x, np.arange(-128, 128)[::-1])),
    "table with jumps": ("int16", lambda g, x: g.table(x, _JUMPS)),
    "convolution": ("int8", lambda g, x: g.conv(x, _BYTES, np.arange(4), zero=11, pad=(1, 1, 1, 1))),
    "convolution of int16": ("int16", lambda g, x: g.conv(x, _BYTES, np.arange(4))),
    "average": ("int8", lambda g, x: g.average_pool(x, (3, 2), zero_in=4, zero_out=-2)),
    "largest": ("int8", lambda g, x: g.max_pool(x, (2, 2))),
    "clamp": ("int8", lambda g, x: g.clamp(x, -50, 70)),
    "sum": ("int32", lambda g, x: g.reduce("SUM", x, 2)),
    "product": ("int8", lambda g, x: g.binary("MUL", x, x)),
    "product of int32": ("int32", lambda g, x: g.binary("MUL", x, x, shift=4)),
    "difference": ("int32", lambda g, x: g.binary("SUB", g.reverse(x, 1), x)),
    "shift": ("int32", lambda g, x: g.binary("ARITHMETIC_RIGHT_SHIFT_ROUND", x, g.const(np.full(SHAPE, 2), "int32"))),
    "comparison": ("int32", lambda g, x: g.binary("GREATER", g.reverse(x, 1), x)),
    "argmax": ("int8", lambda g, x: g.argmax(x, 3)),
    "negation": ("int8", lambda g, x: g.negate(x, (3, -5))),
    "cast": ("int8", lambda g, x: g.cast(x, "int32")),
    "truth": ("int8", lambda g, x: g.cast(x, "bool")),
    "quotient": ("int32", lambda g, x: g.binary("INTDIV", x, g.const(np.full(SHAPE, -3), "int32"))),
}
"""Integer programs of one input, and its type."""
ENDS = np.array([0.0, 1e-30, -1e-30, 3e38, -3e38, np.inf, -np.inf, 0.25, -0.5, 1.0], np.float32)
"""Zero, tiny, almost too large, infinite, and what has exact answers."""


def exact(variable: Input, rng: np.random.Generator) -> Bounded:
    return Bounded.exact(variable.draw(rng))


def uncertain(variable: Input, rng: np.random.Generator) -> Bounded:
    """Every other element has an error; integers have none."""
    array = variable.draw(rng)
    error = np.where(np.arange(array.size) % 2, 0.125, 0.0).reshape(array.shape)
    if variable.dtype == "int32":
        return Bounded.exact(array, scaled=False)
    return Bounded(array, np.ceil(error)) if variable.dtype == "bool" else Bounded(array.astype(float), error)


def extreme(variable: Input, rng: np.random.Generator) -> Bounded:
    if variable.dtype != "float32":
        return exact(variable, rng)
    return Bounded.exact(np.resize(np.roll(ENDS, -rng.integers(2)), variable.shape))


def spread(array: np.ndarray) -> str:
    """Return a few of the elements, from all over the array."""
    places = np.linspace(0, array.size - 1, SHOWN).astype(int)
    return " ".join(f"{float(element):.4g}" for element in array.ravel()[places])


@pytest.mark.parametrize("program", OPERATORS, ids=[f"{one.op}-{number}" for number, one in enumerate(OPERATORS)])
def test_the_bounds_are_those_recorded(program: OneOperator, recorded: Recorded) -> None:
    lines = []
    for name, inputs_of, sides in (("exact", exact, 1), ("uncertain", uncertain, 2), ("extreme", extreme, 2)):
        rng = np.random.default_rng(zlib.crc32(program.op.encode()))
        inputs = [inputs_of(variable, rng) for variable in program.variables]
        try:
            (bounded,) = graph.evaluate(program.tosa, inputs, RoundingPolicy(sides))
        except NoBound as error:
            lines.append(f"{name}: {error}")
            continue
        lines += [
            f"{name}, of {sides}: scaled {bounded.scaled}",
            f"  {spread(bounded.value)}",
            f"  {spread(bounded.error)}",
        ]
    recorded.check("\n".join(lines))


@pytest.mark.parametrize("error", [0, 1, 40])
@pytest.mark.parametrize("name", INTEGERS)
def test_the_bounds_of_integers_are_those_recorded(name: str, error: int, recorded: Recorded) -> None:
    dtype, build = INTEGERS[name]
    program, rng = Graph(), np.random.default_rng(3)
    program.output(build(program, program.input(SHAPE, dtype)))
    most = {"int8": 128, "int16": 1 << 15, "int32": 1 << 12}[dtype]
    x = Bounded(rng.integers(-most, most, SHAPE), np.where(rng.random(SHAPE) < 0.5, float(error), 0.0))
    try:
        (bounded,) = graph.evaluate(program.serialize(), [x], RoundingPolicy())
    except NoBound as refusal:
        recorded.check(str(refusal))
    else:
        recorded.check(f"scaled {bounded.scaled}\n{spread(bounded.value)}\n{spread(bounded.error)}")
