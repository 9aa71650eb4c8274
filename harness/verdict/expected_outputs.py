"""The outputs that the user says are right: of a file, or the test cases of a bundled program.

They are compared for equality. Floats may differ by as much as the user says (`--atol`, `--rtol`); integers and truth
values may not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ethos_hil.base.record import Output
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.link.outcome import Outcome, Run
from ethos_hil.harness.verdict.verify import Comparison, merged

Answers = tuple[np.ndarray, ...]

_TOLERANCE_HINT = "--atol and --rtol say how far a float may be from what is expected"


@dataclass(frozen=True)
class FloatTolerance:
    """How far a float may be from what is expected: `absolute` + `relative` times the expected value's size."""

    absolute: float = 0.0
    relative: float = 0.0

    def __bool__(self) -> bool:
        return self != FloatTolerance()

    def __str__(self) -> str:
        return f"--atol {self.absolute:g}, --rtol {self.relative:g}"

    def of(self, expected: np.ndarray) -> np.ndarray:
        """Return the largest difference allowed for each element; 0 for integers and truth values."""
        if expected.dtype.kind != "f":
            return np.zeros(expected.shape)
        with np.errstate(invalid="ignore"):  # nothing is within 0 times infinity of infinity
            return self.absolute + self.relative * np.abs(expected.astype(np.float64))


@dataclass(frozen=True)
class ExpectedOutputs:
    """The outputs expected.

    Attributes:
        source: what says so, for the record.
        answers: one for each input set; or one for each execution, in order.
        repeat: executions of each input set, if there is an answer for each; else 1.
        tolerance: how far floats may be away.
    """

    source: str
    answers: tuple[Answers, ...]
    repeat: int = 1
    tolerance: FloatTolerance = field(default_factory=FloatTolerance)

    def of(self, run: Run) -> Answers:
        """Return the outputs expected of one execution."""
        return self.answers[run.input_set * self.repeat + (run.repeat if self.repeat > 1 else 0)]

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about the tolerance, if there is one."""
        if not self.tolerance:
            return ()
        return (f"floats may differ from {self.source} as far as the command says: {self.tolerance}",)


def compare(outcome: Outcome, expected: ExpectedOutputs, names: Sequence[str]) -> Comparison:
    """Compare every output of every execution with what is expected.

    Args:
        outcome: the outcome of a complete plan.
        expected: what is right, in the shapes and dtypes of the program's outputs.
        names: the outputs' names.
    """
    outputs: dict[str, Output] = {}
    problem: str | None = None
    asked = len(expected.answers) // expected.repeat
    if {run.input_set for run in outcome.runs} != set(range(asked)):
        text = f"{asked} input sets were asked for; the target ran {len(outcome.runs)} executions of others"
        return Comparison((), Failure(FailureKind.MISMATCH, text))
    for run in outcome.runs:
        for name, wanted, found in zip(names, expected.of(run), run.outputs, strict=True):
            output, difference = _compare(name, wanted, found, run, expected)
            outputs[name] = output if name not in outputs else merged(outputs[name], output)
            problem = problem or difference
    if problem is None:
        return Comparison(tuple(outputs.values()))
    floats = any(np.dtype(output.dtype).kind == "f" and output.mismatches for output in outputs.values())
    return Comparison(
        tuple(outputs.values()), Failure(FailureKind.MISMATCH, problem, _TOLERANCE_HINT if floats else None)
    )


def not_compared(outcome: Outcome, names: Sequence[str]) -> Comparison:
    """Return the outputs of a program for which nothing says what is right."""
    first = outcome.runs[0].outputs if outcome.runs else ()
    return Comparison(
        tuple(
            Output(name, array.shape, str(array.dtype), "", 0, 0, 0.0) for name, array in zip(names, first, strict=True)
        )
    )


def _compare(
    name: str, wanted: np.ndarray, found: np.ndarray, run: Run, expected: ExpectedOutputs
) -> tuple[Output, str | None]:
    """Return the comparison of one output, and a text about what is wrong, or None."""
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        text = f"{name}: expected {wanted.dtype}{list(wanted.shape)}, found {found.dtype}{list(found.shape)}"
        return Output(
            name, found.shape, str(found.dtype), expected.source, found.size, found.size, math.inf, text
        ), text
    allowed = expected.tolerance.of(wanted)
    same = (wanted == found) | ((wanted != wanted) & (found != found))
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, which is not within any tolerance
        error = np.where(same, 0.0, np.abs(wanted.astype(np.float64) - found.astype(np.float64)))
        different = ~same & ~((allowed > 0) & np.isfinite(error) & (error <= allowed))
    largest = float(np.nan_to_num(error, nan=math.inf, posinf=math.inf).max(initial=0.0))
    finite = allowed[np.isfinite(allowed)]
    facts = (name, found.shape, str(found.dtype), expected.source, found.size)
    tolerance = float(finite.max(initial=0.0))
    count = int(np.count_nonzero(different))
    if not count:
        return Output(*facts, 0, largest, tolerance=tolerance), None
    first = tuple(int(axis[0]) for axis in np.nonzero(different)) if found.ndim else ()
    place = (
        f"input set {run.input_set}, repeat {run.repeat}, index {list(first)}: "
        f"expected {wanted[first]}, found {found[first]}"
    )
    text = (
        f"{name}: {count} of {found.size} elements differ from {expected.source}, by at most {largest:.3g}; first at "
        f"{place}"
    )
    return Output(*facts, count, largest, place, tolerance), text
