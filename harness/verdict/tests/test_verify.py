"""Verification: equality of every bit, and any difference in number, shape or dtype is a failure."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ethos_hil.base.record import Output
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.link.outcome import DelegateRun, Outcome, Run
from ethos_hil.harness.verdict.verify import Comparison, merge, same_bits, verify
from ethos_hil.lowering.oracle.reference import ReferenceRun

LOGITS = np.array([[0.5, -0.0, np.nan, np.inf]], np.float32)
QUANTISED = np.array([[1, -128, 127]], np.int8)
REFERENCE = ReferenceRun((LOGITS,), {1: (QUANTISED,)})


def outcome(*runs: Run) -> Outcome:
    return Outcome(b"", b"", b"", 0, 0, {}, runs, (), {})


def execution(
    logits: np.ndarray = LOGITS, quantised: tuple[np.ndarray, ...] = (QUANTISED,), input_set: int = 0, repeat: int = 0
) -> Run:
    return Run(input_set, repeat, (logits.copy(),), (DelegateRun(1, 0, 10, (), tuple(quantised)),))


def test_equal_bits_are_verified_nan_and_infinity_included() -> None:
    comparison = verify(outcome(execution(), execution(repeat=1)), [REFERENCE])
    assert comparison.difference is None
    assert comparison.compared == 14
    assert [(output.name, output.compared, output.mismatches) for output in comparison.outputs] == [
        ("output 0", 8, 0),
        ("delegate call 1 output 0", 6, 0),
    ]


def test_a_program_without_delegates_is_not_said_to_be_compared_with_the_tosa_reference_model() -> None:
    on_cpu = Run(0, 0, (LOGITS.copy(),), ())
    (output,) = verify(outcome(on_cpu), [ReferenceRun((LOGITS,), {})]).outputs
    assert output.reference == "the host's kernels"
    wrong = verify(outcome(Run(0, 0, (LOGITS + 1,), ())), [ReferenceRun((LOGITS,), {})])
    assert wrong.difference is not None
    assert "differ from the host's kernels" in wrong.difference.message
    assert {output.reference for output in verify(outcome(execution()), [REFERENCE]).outputs} == {
        "tosa_reference_model"
    }


@pytest.mark.parametrize("index", range(4))
def test_one_different_bit_in_an_output_is_a_mismatch(index: int) -> None:
    logits = LOGITS.copy()
    logits.view(np.uint32)[0, index] ^= 1
    comparison = verify(outcome(execution(), execution(logits, repeat=1)), [REFERENCE])
    assert comparison.difference is not None
    assert comparison.difference.kind is FailureKind.MISMATCH
    assert f"input set 0, repeat 1, index [0, {index}]" in comparison.difference.message
    assert comparison.outputs[0].mismatches == 1


def test_the_sign_of_zero_counts() -> None:
    logits = LOGITS.copy()
    logits[0, 1] = 0.0
    assert verify(outcome(execution(logits)), [REFERENCE]).difference is not None


def test_a_delegate_that_is_wrong_where_the_method_is_right_is_a_mismatch() -> None:
    wrong = QUANTISED.copy()
    wrong[0, 2] = 126
    comparison = verify(outcome(execution(quantised=(wrong,))), [REFERENCE])
    assert comparison.difference is not None
    (bad,) = [output for output in comparison.outputs if output.mismatches]
    assert (bad.name, bad.max_abs_error) == ("delegate call 1 output 0", 1)


@pytest.mark.parametrize(
    "run",
    [
        execution(LOGITS.reshape(4)),
        execution(LOGITS.astype(np.float64)),
        execution(LOGITS[:, :3]),
        execution(quantised=()),
        execution(quantised=(QUANTISED, QUANTISED)),
        dataclasses.replace(execution(), outputs=()),
        dataclasses.replace(execution(), outputs=(LOGITS, LOGITS)),
        execution(input_set=1),
    ],
    ids=["rank", "dtype", "shape", "no delegate output", "one too many", "no output", "two outputs", "input set"],
)
def test_anything_else_that_differs_is_a_mismatch(run: Run) -> None:
    comparison = verify(outcome(run), [REFERENCE])
    assert comparison.difference is not None


def test_what_came_is_said_beside_what_was_expected() -> None:
    expected = "expected output 0, delegate call 1 output 0; the target sent"
    for run, sent in ((execution(quantised=()), "output 0"), (Run(0, 0, (), ()), "nothing")):
        difference = verify(outcome(run), [REFERENCE]).difference
        assert difference is not None
        assert difference.message == f"input set 0: {expected} {sent}"


def test_the_sign_of_a_nan_does_not_count() -> None:
    logits = LOGITS.copy()
    logits.view(np.uint32)[0, 2] ^= 1 << 31
    assert verify(outcome(execution(logits)), [REFERENCE]).difference is None


def test_bits_are_those_of_one_type_and_shape() -> None:
    assert same_bits(LOGITS, LOGITS.copy())
    assert not same_bits(np.zeros(4, np.float32), np.zeros(4, np.int32))
    assert not same_bits(np.zeros(4, np.int8), np.zeros((1, 4), np.int8))


def test_truth_values_are_compared_too() -> None:
    flags = np.array([True, False])
    reference = ReferenceRun((flags,), {})
    assert verify(outcome(Run(0, 0, (flags.copy(),), ())), [reference]).difference is None
    assert verify(outcome(Run(0, 0, (~flags,), ())), [reference]).outputs[0].mismatches == 2


def test_executions_are_merged_to_the_sum_the_worst_and_the_first() -> None:
    first = Output("y", (2,), "float32", "file", 2, 0, 0.0, "", 0.5)
    second = Output("y", (2,), "float32", "file", 2, 1, 3.0, "there", 0.25)
    both = Output("y", (2,), "float32", "file", 4, 1, 3.0, "there", 0.5)
    assert merge(first, second) == merge(second, first) == both
    assert merge(dataclasses.replace(first, first_mismatch="here"), second).first_mismatch == "here"


def test_an_input_set_that_was_never_run_is_a_failure() -> None:
    assert verify(outcome(execution()), [REFERENCE, REFERENCE]).difference is not None
    assert verify(outcome(), [REFERENCE]).difference is not None


def test_of_two_comparisons_the_first_difference_counts() -> None:
    right = Comparison((Output("a", (), "int8", "file", 1, 0, 0.0),))
    wrong, worse = (dataclasses.replace(right, difference=Failure(FailureKind.MISMATCH, message)) for message in "ab")
    assert right.then(right).difference is None
    assert right.then(wrong).difference == wrong.then(right).difference == wrong.then(worse).difference
    assert right.then(wrong).difference == wrong.difference
    assert len(right.then(wrong).outputs) == right.then(wrong).compared == 2
