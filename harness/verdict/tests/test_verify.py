"""Verification: equality of every bit, and any difference in number, shape or dtype is a failure."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.errors import TargetError, UsageError
from ethos_hil.base.program_info import ArtifactInfo
from ethos_hil.base.record import Output
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.link.outcome import DelegateRun, Outcome, Run
from ethos_hil.harness.verdict.artifact_info import defects_in, name_defects, naming_program, program_of
from ethos_hil.harness.verdict.verify import (
    Comparison,
    ExpectedOutputs,
    FloatTolerance,
    compare,
    merge,
    not_compared,
    same_bits,
    verify,
)
from ethos_hil.lowering.artifact import Artifact, Delegate
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


def flipped(index: int, bit: int) -> np.ndarray:
    """Return LOGITS with a bit of one element changed."""
    logits = LOGITS.copy()
    logits.view(np.uint32)[0, index] ^= 1 << bit
    return logits


FLAGS = np.array([True, False])
WRONG_DELEGATE = (np.array([[1, -128, 126]], np.int8),)
EQUAL: dict[str, tuple[tuple[Run, ...], ReferenceRun]] = {
    "NaN and infinity included": ((execution(), execution(repeat=1)), REFERENCE),
    "but for the sign of a NaN": ((execution(flipped(2, 31)),), REFERENCE),
    "without delegates": ((Run(0, 0, (LOGITS.copy(),), ()),), ReferenceRun((LOGITS,), {})),
    "truth values": ((Run(0, 0, (FLAGS.copy(),), ()),), ReferenceRun((FLAGS,), {})),
}
DIFFERENT: dict[str, tuple[tuple[Run, ...], tuple[ReferenceRun, ...]]] = {
    **{f"bit 0 of element {at}": ((execution(), execution(flipped(at, 0), repeat=1)), (REFERENCE,)) for at in range(4)},
    "sign of zero": ((execution(flipped(1, 31)),), (REFERENCE,)),
    "only the delegate's": ((execution(quantised=WRONG_DELEGATE),), (REFERENCE,)),
    "without delegates": ((Run(0, 0, (LOGITS + 1,), ()),), (ReferenceRun((LOGITS,), {}),)),
    "truth values": ((Run(0, 0, (~FLAGS,), ()),), (ReferenceRun((FLAGS,), {}),)),
    "rank": ((execution(LOGITS.reshape(4)),), (REFERENCE,)),
    "dtype": ((execution(LOGITS.astype(np.float64)),), (REFERENCE,)),
    "shape": ((execution(LOGITS[:, :3]),), (REFERENCE,)),
    "no delegate output": ((execution(quantised=()),), (REFERENCE,)),
    "nothing": ((Run(0, 0, (), ()),), (REFERENCE,)),
    "one too many": ((execution(quantised=(QUANTISED, QUANTISED)),), (REFERENCE,)),
    "no output": ((dataclasses.replace(execution(), outputs=()),), (REFERENCE,)),
    "two outputs": ((dataclasses.replace(execution(), outputs=(LOGITS, LOGITS)),), (REFERENCE,)),
    "another input set": ((execution(input_set=1),), (REFERENCE,)),
    "an input set that was never run": ((execution(),), (REFERENCE, REFERENCE)),
    "no execution": ((), (REFERENCE,)),
}


def test_equal_bits_are_verified_and_anything_that_differs_is_a_mismatch(recorded: Recorded) -> None:
    for what, (runs, reference) in EQUAL.items():
        comparison = verify(outcome(*runs), [reference])
        assert comparison.difference is None
        recorded.check(in_lines(comparison), f"equal {what}")
    for what, (runs, references) in DIFFERENT.items():
        comparison = verify(outcome(*runs), references)
        assert comparison.difference is not None
        assert comparison.difference.kind is FailureKind.MISMATCH
        recorded.check(in_lines(comparison), what)


def in_lines(comparison: Comparison) -> str:
    """Return all that a comparison says, line by line."""
    return "\n".join([str(comparison.difference), *map(str, comparison.outputs)])


def test_bits_are_those_of_one_type_and_shape() -> None:
    assert same_bits(LOGITS, LOGITS.copy())
    assert not same_bits(np.zeros(4, np.float32), np.zeros(4, np.int32))
    assert not same_bits(np.zeros(4, np.int8), np.zeros((1, 4), np.int8))


def test_executions_are_merged_to_the_sum_the_worst_and_the_first() -> None:
    first = Output("y", (2,), "float32", "file", 2, 0, 0.0, "", 0.5)
    second = Output("y", (2,), "float32", "file", 2, 1, 3.0, "there", 0.25)
    both = Output("y", (2,), "float32", "file", 4, 1, 3.0, "there", 0.5)
    assert merge(first, second) == merge(second, first) == both
    assert merge(dataclasses.replace(first, first_mismatch="here"), second).first_mismatch == "here"


def test_of_two_comparisons_the_first_difference_counts() -> None:
    right = Comparison((Output("a", (), "int8", "file", 1, 0, 0.0),))
    wrong, worse = (dataclasses.replace(right, difference=Failure(FailureKind.MISMATCH, message)) for message in "ab")
    assert right.then(right).difference is None
    assert right.then(wrong).difference == wrong.then(right).difference == wrong.then(worse).difference
    assert right.then(wrong).difference == wrong.difference
    assert len(right.then(wrong).outputs) == right.then(wrong).compared == 2


NAN, INF = math.nan, math.inf


def answered(*answers: np.ndarray, repeat: int = 1) -> Outcome:
    """Executions with one output each; the answers are in the order of the executions."""
    return outcome(*(Run(at // repeat, at % repeat, (answer,), ()) for at, answer in enumerate(answers)))


VALUES: list[tuple[Any, ...]] = [
    ([1.0, NAN, INF, -INF, 0.0], [1.0, NAN, INF, -INF, -0.0], "f4", 0, 0, 0),
    ([1.0], [np.nextafter(np.float32(1), np.float32(2))], "f4", 0, 0, 1),
    ([1.0, 2.0], [1.1, 2.2], "f4", 0.11, 0, 1),
    ([1.0, 2.0], [1.1, 2.2], "f4", 0, 0.11, 0),
    ([1.0], [NAN], "f4", 1e9, 1e9, 1),
    ([NAN], [1.0], "f4", 1e9, 1e9, 1),
    ([INF], [1e30], "f4", 1e9, 0.5, 1),
    ([INF], [-INF], "f4", 1e9, 0.5, 1),
    ([1.0], [1.25], "f2", 0.25, 0, 0),
    ([1.0, 2.0], [1.25, 2.0], "f4", 0.5, 0, 0),
    ([5, 6], [5, 7], "i1", 10, 10, 1),
    ([2**60], [2**60 + 1], "i8", 0, 0, 1),
    ([2**63], [2**63 + 1], "u8", 10, 0, 1),
    ([[1, 2], [3, 4]], [[1, 2], [0, 9]], "i4", 0, 0, 2),
    ([True, False], [True, True], "?", 10, 10, 1),
    ([], [], "f4", 0, 0, 0),
    ([], [], "f4", 0.5, 0, 0),
    (1.5, 1.5, "f4", 0, 0, 0),
    (1.5, 2.5, "f4", 0, 0, 1),
]


def test_values(recorded: Recorded) -> None:
    for wanted, values, dtype, atol, rtol, mismatches in VALUES:
        expected = ExpectedOutputs("y.npz", ((np.array(wanted, dtype),),), tolerance=FloatTolerance(atol, rtol))
        comparison = compare(answered(np.array(values, dtype)), expected, ("y",))
        assert [output.mismatches for output in comparison.outputs] == [mismatches]
        assert (comparison.difference is not None) == bool(mismatches)
        recorded.check(in_lines(comparison), f"{wanted} {values} {dtype} {atol} {rtol}")


ROW = np.zeros(1, "f4")
FORMS: dict[str, tuple[Outcome, ExpectedOutputs]] = {
    "another type": (answered(np.zeros(2, "f8")), ExpectedOutputs("y.npz", ((np.zeros(2, "f4"),),))),
    "another shape": (answered(np.zeros(3, "f4")), ExpectedOutputs("y.npz", ((np.zeros(2, "f4"),),))),
    "an execution that is missing": (answered(ROW), ExpectedOutputs("y.npz", ((ROW,), (ROW,)))),
    "no execution": (answered(), ExpectedOutputs("y.npz", ((ROW,), (ROW,)))),
    "integers and floats, of which only the latter have a remedy": (
        outcome(Run(0, 0, (np.ones(2, "i4"), np.ones(2, "f4")), ())),
        ExpectedOutputs("y.npz", ((np.zeros(2, "i4"), np.zeros(2, "f4")),)),
    ),
}


def test_another_form_is_a_mismatch(recorded: Recorded) -> None:
    for what, (ended, expected) in FORMS.items():
        comparison = compare(ended, expected, ("y", "z") if what.startswith("integers") else ("y",))
        assert comparison.difference is not None
        recorded.check(in_lines(comparison), what)


def test_nothing_compared_counts_nothing() -> None:
    comparison = not_compared(answered(np.zeros((2, 3), "f4")), ("mask",))
    assert comparison.compared == 0
    assert comparison.outputs == (Output("mask", (2, 3), "float32", "", 0, 0, 0.0),)


def test_an_answer_for_each_set_or_for_each_execution() -> None:
    rows = [np.array([value], "f4") for value in (1, 2, 3, 4)]
    expected = ExpectedOutputs("y.npz", tuple((row,) for row in rows), repeat=2)
    assert compare(answered(*rows, repeat=2), expected, ("y",)).difference is None
    first = ExpectedOutputs("y.npz", ((rows[0],), (rows[2],)))
    difference = compare(answered(*rows, repeat=2), first, ("y",)).difference
    assert difference is not None
    assert "input set 0, repeat 1" in difference.message


# --- A program that keeps Vela's known defects says so when it fails, and only then. ---

HINT = "leave out --as-upstream: they are repaired then"
KNOWN = "the program has known defects of Vela, left in by --as-upstream: one, two"


def artifact(*defects: tuple[str, ...], compiled: bytes | None = None) -> Artifact:
    delegates = tuple(
        dataclasses.replace(Delegate(at, at, b"", b"", ()), defects=names, compiled=compiled)
        for at, names in enumerate(defects)
    )
    return Artifact("key", "net", None, b"", delegates)


DEFECTIVE, MENDED = artifact(("one",), ("one", "two")), artifact(("one",), compiled=b"rewritten")


def test_a_failure_names_the_defects_of_programs_that_were_not_rewritten() -> None:
    assert defects_in(DEFECTIVE) == ("one", "two")
    assert defects_in(MENDED) == defects_in(artifact(())) == ()
    failure = Failure(FailureKind.MISMATCH, "it is wrong", "another hint")
    assert name_defects(failure, DEFECTIVE) == Failure(FailureKind.MISMATCH, f"it is wrong; {KNOWN}", HINT)
    assert name_defects(failure, MENDED) == failure


def test_an_error_of_the_run_names_them_too() -> None:
    """One that knows its program already: the artifacts here have no bytes to describe."""
    program = ArtifactInfo("1234", 0, 0, ())
    error, usage = TargetError("it stopped", kind=FailureKind.FAULT, hint="look"), UsageError("no such target")
    vars(error)["program"] = vars(usage)["program"] = program
    with pytest.raises(TargetError) as caught, naming_program(DEFECTIVE):
        raise error
    assert caught.value.failure == Failure(FailureKind.FAULT, f"it stopped; {KNOWN}", HINT)
    with pytest.raises(TargetError) as caught, naming_program(MENDED):
        raise error
    assert caught.value is error
    assert program_of(caught.value) == program
    with pytest.raises(UsageError, match=r"^no such target$"), naming_program(DEFECTIVE):
        raise usage
