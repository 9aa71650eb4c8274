"""The error analysis is sound and tight: tosa_reference_model stays within the bounds, and comes near them.

Programs of one operator are made without PyTorch. Whole programs that were lowered are in
suites/tests/test_verify_against_pytorch.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from ethos_hil.lowering.formats.tosa import TosaTensor
from ethos_hil.lowering.oracle import reference
from ethos_hil.lowering.oracle.bounds import elementwise, graph, sums
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy, TosaOperation, of_constant
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.tests.one_operator import OPERATORS, Input, OneOperator

IDS = [f"{operator.op}-{number}" for number, operator in enumerate(OPERATORS)]
SEEDS = range(3)
EXACT = RoundingPolicy()


def run(program: OneOperator, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the answer of tosa_reference_model."""
    (output,) = reference.evaluate(program.tosa, inputs, program.op)
    return output


def evaluate(program: OneOperator, inputs: Sequence[Bounded], rounding: RoundingPolicy = EXACT) -> Bounded:
    (output,) = graph.evaluate(program.tosa, inputs, rounding)
    return output


def generator(program: OneOperator, seed: int) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(f"{program.op}/{seed}".encode()))


def distance(result: np.ndarray, bounded: Bounded) -> np.ndarray:
    assert result.shape == bounded.value.shape
    return np.abs(result.astype(float) - bounded.value.astype(float))


def moved(variable: Input, array: np.ndarray, rng: np.random.Generator, size: float) -> tuple[Bounded, np.ndarray]:
    """Return an input with error bounds, and another one within these. Some elements have no error."""
    error = size * rng.random(array.shape) * (rng.random(array.shape) < 0.7)
    if variable.dtype == "int32":
        return Bounded.exact(array, scaled=False), array
    if variable.dtype == "bool":
        either = (error > 0).astype(float)
        return Bounded(array, either), array ^ (either * rng.random(array.shape) > 0.5)
    other = (array + error * rng.uniform(-1, 1, array.shape)).astype(np.float32)
    value = array.astype(float)
    return Bounded(value, np.where(error > 0, np.maximum(error, np.abs(other - value)), 0.0)), other


@pytest.mark.parametrize("error", [0, 1, 2, 255])
def test_a_table_may_answer_for_every_number_that_its_input_may_be(error: int) -> None:
    """The table of 256 entries: exactly as far as the farthest of those entries is, and no farther."""
    rng = np.random.default_rng(error)
    entries, numbers = rng.integers(-128, 128, 256), np.arange(-128, 128)
    program = Graph()
    program.output(program.table(program.input((1, 256)), entries))
    source = Bounded(numbers.reshape(1, 256), np.full((1, 256), float(error)))
    (bounded,) = graph.evaluate(program.serialize(), [source], EXACT)
    assert bounded.value.ravel().tolist() == entries.tolist()
    reached = [[abs(entries[other] - entries[code]) for other in range(256) if abs(other - code) <= error]
               for code in range(256)]  # fmt: skip
    assert bounded.error.ravel().tolist() == [max(errors) for errors in reached]


def test_the_programs_cover_every_rule_that_floats_have() -> None:
    integers = {"CLZ", "INTDIV", "RESCALE", "TABLE"}
    integers |= {f"{kind}_SHIFT" for kind in ("ARITHMETIC_RIGHT", "LOGICAL_LEFT", "LOGICAL_RIGHT")}
    integers |= {name for name in graph.RULES if name.startswith("BITWISE")}
    assert {operator.op for operator in OPERATORS} == graph.RULES.keys() - integers
    assert len(graph.RULES) == sum(map(len, (graph.ARRANGING, elementwise.RULES, sums.RULES)))


@pytest.mark.parametrize("program", OPERATORS, ids=IDS)
def test_the_reference_model_is_within_the_bound(program: OneOperator) -> None:
    for seed in SEEDS:
        rng = generator(program, seed)
        inputs = [variable.draw(rng) for variable in program.variables]
        bounded = evaluate(program, [Bounded.exact(array) for array in inputs])
        apart = distance(run(program, inputs), bounded)
        assert (apart <= bounded.error).all()
        if program.op in graph.ARRANGING:
            assert not bounded.error.any()


@pytest.mark.parametrize("size", [1e-3, 0.1], ids=["small", "large"])
@pytest.mark.parametrize("program", OPERATORS, ids=IDS)
def test_errors_of_the_inputs_are_passed_on(program: OneOperator, size: float) -> None:
    """Whatever inputs within the bounds are given, the reference model's answer is within those of the output."""
    for seed in SEEDS:
        rng = generator(program, seed)
        pairs = [moved(variable, variable.draw(rng), rng, size) for variable in program.variables]
        bounded = evaluate(program, [pair[0] for pair in pairs])
        apart = distance(run(program, [pair[1] for pair in pairs]), bounded)
        assert (apart <= bounded.error).all()


@pytest.mark.parametrize("program", OPERATORS, ids=IDS)
def test_roundings_that_are_drawn_keep_within_the_bound(program: OneOperator) -> None:
    rng = generator(program, 0)
    inputs = [Bounded.exact(variable.draw(rng)) for variable in program.variables]
    worst = evaluate(program, inputs)
    for seed in SEEDS:
        drawn = evaluate(program, inputs, RoundingPolicy(random=np.random.default_rng(seed)))
        assert drawn.is_exact
        assert (np.abs(drawn.value.astype(float) - worst.value) <= worst.error * 1.0001).all()


ROUND = (
    "ADD", "AVG_POOL2D", "CONV2D", "CONV3D", "COS", "DEPTHWISE_CONV2D", "ERF", "EXP", "LOG", "MATMUL", "MUL", "POW",
    "RECIPROCAL", "REDUCE_PRODUCT", "REDUCE_SUM", "RSQRT", "SIGMOID", "SIN", "SUB", "TANH", "TRANSPOSE_CONV2D",
)  # fmt: skip
ROUNDING = [
    *(operator for operator in OPERATORS if operator.op in ROUND),
    next(operator for operator in OPERATORS if operator.op == "RESIZE"),
]


@pytest.mark.parametrize("program", ROUNDING, ids=lambda program: program.op)
def test_the_bound_is_not_far_from_what_is_seen(program: OneOperator) -> None:
    """A loose bound would hide mistakes. EXP and TANH have the loosest: 3 + 2|x| ulps, where the reference model has
    one.
    """
    bound, error = 0.0, 0.0
    for seed in range(8):
        rng = generator(program, seed)
        inputs = [variable.draw(rng) for variable in program.variables]
        bounded = evaluate(program, [Bounded.exact(array) for array in inputs])
        bound = max(bound, float(bounded.error.max()))
        error = max(error, float(distance(run(program, inputs), bounded).max()))
    assert error <= bound <= 150 * error
    if program.op in ("ADD", "SUB", "MUL"):
        assert bound <= 1.01 * error


@pytest.mark.parametrize("op", ["EXP", "MATMUL", "REDUCE_SUM", "ADD"])
def test_nothing_is_known_of_what_overflows_and_infinities_are_right(op: str) -> None:
    program = next(operator for operator in OPERATORS if operator.op == op)
    inputs = [np.full(variable.shape, 88.8 if op == "EXP" else 2e38, np.float32) for variable in program.variables]
    bounded = evaluate(program, [Bounded.exact(array) for array in inputs])
    assert np.isinf(bounded.error).all()
    assert np.isinf(run(program, inputs)).all()
    inputs = [np.full(variable.shape, np.inf, np.float32) for variable in program.variables]
    bounded = evaluate(program, [Bounded.exact(array) for array in inputs])
    np.testing.assert_array_equal(run(program, inputs), bounded.value)
    assert not bounded.error.any()


def test_nothing_is_known_beside_a_pole() -> None:
    program = next(operator for operator in OPERATORS if operator.op == "RECIPROCAL")
    x = np.full(program.shape, 1e-3)
    assert np.isinf(evaluate(program, [Bounded(x, np.full(x.shape, 2e-3))]).error).all()
    assert np.isfinite(evaluate(program, [Bounded(x, np.full(x.shape, 5e-4))]).error).all()


def test_a_number_that_was_written_is_exact_and_another_was_rounded() -> None:
    numbers = np.array([0.0, 0.5, -6.0, 3.25, 1024.0, 0.1, 1 / 3, np.inf], np.float32)
    error = of_constant(numbers, "FP32", EXACT).error
    assert not error[[0, 1, 2, 3, 4, 7]].any()
    assert error[5] >= abs(0.1 - float(np.float32(0.1)))
    assert error[6] >= abs(1 / 3 - float(np.float32(1 / 3)))


def test_an_operator_without_a_rule_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program = next(operator for operator in OPERATORS if operator.op == "ERF")
    monkeypatch.delitem(graph.RULES, "ERF")
    with pytest.raises(NoBound, match="TOSA operator ERF has no rule"):
        evaluate(program, [Bounded.exact(np.zeros(program.shape, np.float32))])


@pytest.mark.parametrize("op", ["GATHER", "BITWISE_AND"])
def test_integers_that_may_differ_are_an_error_where_they_decide(op: str) -> None:
    tensor = TosaTensor("x", (1, 2), "INT32")
    operation = TosaOperation(op, None, (tensor,), tensor)
    values, unsure = Bounded.exact(np.zeros((1, 2), np.int32)), Bounded(np.zeros((1, 2), np.int64), np.ones((1, 2)))
    with pytest.raises(NoBound, match="may differ"):
        graph.RULES[op](operation, values, unsure)


def test_a_point_of_quantisation_is_in_doubt_only_beside_a_boundary() -> None:
    tensor = TosaTensor("x", (4,), "INT8")
    operation = TosaOperation("RESCALE", None, (tensor,), tensor)
    real = np.array([1.2, 2.4999, 2.5, 300.0])
    point = operation.snap(np.array([1, 2, 3, 127]), real, np.full(4, 1e-3), 0)
    assert point.error.tolist() == [0, 1, 1, 0]
