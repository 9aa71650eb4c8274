"""The bounds themselves, as numbers: one that is wider than it was lets a wrong answer pass, and no oracle sees it.

test_bounds.py shows that they are sound. Here a few elements of each operator's are recorded, to four digits.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.oracle.bounds import graph
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy
from ethos_hil.lowering.tests.one_operator import OPERATORS, Input, OneOperator

SHOWN = 10
ENDS = np.array([0.0, 1e-30, -1e-30, 3e38, -3e38, np.inf, -np.inf, 0.25, -0.5, 1.0], np.float32)
"""Zero, tiny, almost too large, infinite, and what has exact answers."""


def exact(variable: Input, rng: np.random.Generator) -> Bounded:
    return Bounded.exact(variable.draw(rng))


def uncertain(variable: Input, rng: np.random.Generator) -> Bounded:
    """Every other element has an error; integers have none."""
    array = variable.draw(rng)
    error = np.where(np.arange(array.size) % 2, 0.125, 0.0).reshape(array.shape)
    if variable.kind == "i":
        return Bounded.exact(array, scaled=False)
    return Bounded(array, np.ceil(error)) if variable.kind == "b" else Bounded(array.astype(float), error)


def extreme(variable: Input, rng: np.random.Generator) -> Bounded:
    if variable.kind != "f":
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
