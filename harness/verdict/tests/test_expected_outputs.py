"""What the user expects: integers for equality whatever the tolerance, floats within what the user says and no more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.record import Output
from ethos_hil.harness.link.outcome import Outcome, Run
from ethos_hil.harness.verdict.verify import ExpectedOutputs, FloatTolerance, compare, not_compared

NAN, INF = math.nan, math.inf


def outcome(*answers: np.ndarray, repeat: int = 1) -> Outcome:
    """Executions with one output each; the answers are in the order of the executions."""
    runs = tuple(Run(at // repeat, at % repeat, (answer,), ()) for at, answer in enumerate(answers))
    return Outcome(b"", b"", b"", 0, 0, {}, runs, (), {})


def compared(wanted: Any, values: Any, dtype: str, atol: float = 0.0, rtol: float = 0.0) -> tuple[Output, str | None]:
    expected = ExpectedOutputs("y.npz", ((np.array(wanted, dtype),),), tolerance=FloatTolerance(atol, rtol))
    result = compare(outcome(np.array(values, dtype)), expected, ("y",))
    (output,) = result.outputs
    return output, None if result.difference is None else result.difference.message


@pytest.mark.parametrize(
    ("wanted", "values", "dtype", "atol", "rtol", "mismatches"),
    [
        ([1.0, NAN, INF, -INF, 0.0], [1.0, NAN, INF, -INF, -0.0], "f4", 0, 0, 0),
        ([1.0], [np.nextafter(np.float32(1), np.float32(2))], "f4", 0, 0, 1),
        ([1.0, 2.0], [1.1, 2.2], "f4", 0.11, 0, 1),
        ([1.0, 2.0], [1.1, 2.2], "f4", 0, 0.11, 0),
        ([1.0], [NAN], "f4", 1e9, 1e9, 1),
        ([NAN], [1.0], "f4", 1e9, 1e9, 1),
        ([INF], [1e30], "f4", 1e9, 0.5, 1),
        ([INF], [-INF], "f4", 1e9, 0.5, 1),
        ([1.0], [1.25], "f2", 0.25, 0, 0),
        ([5, 6], [5, 7], "i1", 10, 10, 1),
        ([2**60], [2**60 + 1], "i8", 0, 0, 1),
        ([2**63], [2**63 + 1], "u8", 10, 0, 1),
        ([True, False], [True, True], "?", 10, 10, 1),
        ([], [], "f4", 0, 0, 0),
        (1.5, 1.5, "f4", 0, 0, 0),
        (1.5, 2.5, "f4", 0, 0, 1),
    ],
)
def test_values(wanted: Any, values: Any, dtype: str, atol: float, rtol: float, mismatches: int) -> None:
    output, problem = compared(wanted, values, dtype, atol, rtol)
    assert output.mismatches == mismatches
    assert (problem is not None) == bool(mismatches)
    assert output.reference == "y.npz"
    assert output.tolerance >= 0


def test_the_first_difference_is_named() -> None:
    output, problem = compared([[1, 2], [3, 4]], [[1, 2], [0, 9]], "i4")
    assert problem == (
        "y: 2 of 4 elements differ from y.npz, by at most 5; first at input set 0, repeat 0, index [1, 0]: "
        "expected 3, found 0"
    )
    assert output.max_abs_error == 5


def test_an_answer_for_each_set_or_for_each_execution() -> None:
    rows = [np.array([value], "f4") for value in (1, 2, 3, 4)]
    expected = ExpectedOutputs("y.npz", tuple((row,) for row in rows), repeat=2)
    assert compare(outcome(*rows, repeat=2), expected, ("y",)).difference is None
    first = ExpectedOutputs("y.npz", ((rows[0],), (rows[2],)))
    difference = compare(outcome(*rows, repeat=2), first, ("y",)).difference
    assert difference is not None
    assert "input set 0, repeat 1" in difference.message


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros(2, "f8"), "y: expected float32[2], found float64[2]"),
        (np.zeros(3, "f4"), "y: expected float32[2], found float32[3]"),
    ],
)
def test_another_type_or_shape_is_a_mismatch_of_every_element(array: np.ndarray, text: str) -> None:
    result = compare(outcome(array), ExpectedOutputs("y.npz", ((np.zeros(2, "f4"),),)), ("y",))
    (output,) = result.outputs
    assert (output.compared, output.mismatches, output.max_abs_error) == (array.size, array.size, INF)
    assert result.difference is not None
    assert result.difference.message == text


def test_executions_that_are_missing_are_a_mismatch() -> None:
    row = np.zeros(1, "f4")
    expected = ExpectedOutputs("y.npz", ((row,), (row,)))
    assert compare(outcome(row), expected, ("y",)).difference is not None
    assert compare(outcome(), expected, ("y",)).difference is not None


def test_nothing_compared_counts_nothing() -> None:
    comparison = not_compared(outcome(np.zeros((2, 3), "f4")), ("mask",))
    assert comparison.compared == 0
    assert comparison.outputs == (Output("mask", (2, 3), "float32", "", 0, 0, 0.0),)


def test_a_tolerance_is_told_and_none_is_not() -> None:
    """Who reads a record sees that equality was not asked for."""
    assert ExpectedOutputs("y.npz", ()).notes == ()
    for tolerance, text in (
        (FloatTolerance(0.5), "--atol 0.5, --rtol 0"),
        (FloatTolerance(relative=0.01), "--atol 0, --rtol 0.01"),
    ):
        note = f"floats may differ from y.npz as far as the command says: {text}"
        assert ExpectedOutputs("y.npz", (), tolerance=tolerance).notes == (note,)


def test_the_largest_error_and_the_tolerance_are_those_that_there_are() -> None:
    output, _ = compared([1.0, 2.0], [1.25, 2.0], "f4", 0.5)
    assert (output.max_abs_error, output.tolerance) == (0.25, 0.5)
    output, _ = compared([], [], "f4", 0.5)
    assert (output.max_abs_error, output.tolerance) == (0.0, 0.0)


def test_only_floats_have_a_remedy() -> None:
    for dtype, hint in (("i4", None), ("f4", "--atol and --rtol say how far a float may be from what is expected")):
        expected = ExpectedOutputs("y.npz", ((np.zeros(2, dtype),),))
        difference = compare(outcome(np.ones(2, dtype)), expected, ("y",)).difference
        assert difference is not None
        assert difference.hint == hint
    expected = ExpectedOutputs("y.npz", ((np.zeros(2, "i4"), np.zeros(2, "f4")),))
    both = Outcome(b"", b"", b"", 0, 0, {}, (Run(0, 0, (np.ones(2, "i4"), np.ones(2, "f4")), ()),), (), {})
    difference = compare(both, expected, ("a", "b")).difference
    assert difference is not None
    assert difference.hint is not None, "one of them is a float"
