"""The error analysis computes integers as tosa_reference_model does, on every program of the NPU's conformance run."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.oracle.bounds import graph
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.testing.programs.catalogue import OPERATORS

NAMES = tuple(OPERATORS)
UNKNOWN = {
    "TOSA operator COND_IF has no rule for its error",
    "TOSA operator WHILE_LOOP has no rule for its error",
    "RESCALE of unsigned integers has no error bound",
    "ARITHMETIC_RIGHT_SHIFT of integers that may differ has no error bound",
    "is of a type that is not read here",  # weights of 4 bits
}
"""A program of profile BI has none of these."""


@pytest.mark.parametrize("part", range(4))
def test_integers_are_the_reference_models_own(part: int) -> None:
    compared, unknown = 0, set()
    for name in NAMES[part::4]:
        program = OPERATORS[name]
        arrays = program.input_sets()[0][1]
        inputs = [Bounded.exact(array) for array in arrays]
        try:
            bounded = graph.evaluate(program.tosa, inputs, RoundingPolicy())
        except NoBound as error:
            (reason,) = (text for text in UNKNOWN if text in error.message)
            unknown.add(reason)
            continue
        for expected, bound in zip(evaluate(program.tosa, arrays, name), bounded, strict=True):
            np.testing.assert_array_equal(bound.value, expected, name)
            compared += 1
        drawn = graph.evaluate(program.tosa, inputs, RoundingPolicy(random=np.random.default_rng(0)))
        for bound, other in zip(bounded, drawn, strict=True):
            assert (np.abs(other.value.astype(float) - bound.value) <= bound.error * (1 + 1e-6)).all(), name
    assert compared > 100


def test_every_operator_of_the_integer_profile_was_met() -> None:
    met = {operator.op for program in OPERATORS.values() for operator in TosaGraph.parse(program.tosa).operators}
    floats = {"CEIL", "COS", "ERF", "EXP", "FLOOR", "LOG", "POW", "RECIPROCAL", "REDUCE_PRODUCT", "RSQRT", "SIGMOID"}
    assert graph.RULES.keys() - met == floats | {"SIN", "TANH"}
