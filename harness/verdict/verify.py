"""Compare a target's outcome with what is right.

With the reference it is compared for equality, bit by bit. There is no tolerance: delegates compute integers, and the
CPU kernels around them have one right answer (docs/decisions/0002). An output that is missing, has another shape or
another dtype is a mismatch too.

What the user says is right, of a file or the test cases of a bundled program, is compared for equality, too. Floats may
differ by as much as the user says (`--atol`, `--rtol`); integers and truth values may not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.errors import OracleError
from ethos_hil.base.record import Output
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.link.outcome import Outcome, Run
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.io_scale import IoScale, IoScales
from ethos_hil.lowering.oracle.reference import Reference, ReferenceRun

REFERENCE = "tosa_reference_model"
HOST = "the host's kernels"
"""The reference of a program without delegates, in which tosa_reference_model computes nothing."""

_NOTHING_KNOWN = (
    "say what is right with --expected Y.npz, or run the model it was made from (file.py:function or .pt2); "
    "--allow-unverified accepts it as it is"
)
_TOLERANCE_HINT = "--atol and --rtol say how far a float may be from what is expected"

Answers = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Comparison:
    """Every output of an outcome, compared, and what is wrong with the first that differs, or None."""

    outputs: tuple[Output, ...]
    difference: Failure | None = None

    @property
    def compared(self) -> int:
        """Number of elements that were compared with a reference."""
        return sum(output.compared for output in self.outputs)

    def then(self, other: Comparison) -> Comparison:
        """Return both comparisons; the first difference counts."""
        return Comparison((*self.outputs, *other.outputs), self.difference or other.difference)


def verify(
    outcome: Outcome, references: Sequence[ReferenceRun], *, with_delegates: bool = True, names: Sequence[str] = ()
) -> Comparison:
    """Compare every output and every delegate output of every execution.

    Args:
        outcome: the outcome of a complete plan.
        references: one per input set.
        with_delegates: False where the target does not send the delegates' own outputs; the program's are compared.
        names: the names of the program's outputs; by default "output 0" and so on.
    """
    called = {f"output {index}": name for index, name in enumerate(names)}
    outputs: dict[str, Output] = {}
    problem = _other_sets(outcome, len(references))
    for run in outcome.runs if problem is None else ():
        actual = _tensors(run.outputs, ((delegate.instruction, delegate.outputs) for delegate in run.delegates))
        right = references[run.input_set].of(run.repeat)
        expected = _tensors(right.outputs, right.delegate_outputs.items() if with_delegates else ())
        reference = REFERENCE if references[run.input_set].delegate_outputs else HOST
        if actual.keys() != expected.keys():
            sent = ", ".join(actual) or "nothing"
            problem = problem or f"input set {run.input_set}: expected {', '.join(expected)}; the target sent {sent}"
            continue
        for name, value in actual.items():
            output, difference = _compare(called.get(name, name), expected[name], value, run, reference)
            outputs[name] = merge(outputs.get(name), output)
            problem = problem or difference
    failure = None if problem is None else Failure(FailureKind.MISMATCH, problem)
    return Comparison(tuple(outputs.values()), failure)


def _other_sets(outcome: Outcome, asked: int) -> str | None:
    if {run.input_set for run in outcome.runs} == set(range(asked)):
        return None
    return f"{asked} input sets were asked for; the target ran {len(outcome.runs)} executions of others"


def _tensors(outputs: Answers, delegates: Iterable[tuple[int, Answers]]) -> dict[str, np.ndarray]:
    tensors = {f"output {index}": value for index, value in enumerate(outputs)}
    for instruction, values in delegates:
        tensors |= {f"delegate call {instruction} output {index}": value for index, value in enumerate(values)}
    return tensors


def _compare(name: str, expected: np.ndarray, array: np.ndarray, run: Run, reference: str) -> tuple[Output, str | None]:
    """Return the comparison, and a text about what is wrong, or None."""
    facts = (name, array.shape, str(array.dtype), reference, expected.size)
    if expected.shape != array.shape or expected.dtype != array.dtype:
        difference = (
            f"{name}: expected {expected.dtype}{list(expected.shape)}, the target sent {array.dtype}{list(array.shape)}"
        )
        return Output(*facts, expected.size, np.inf, difference), difference
    different = _bits(expected) != _bits(array)
    mismatches = int(np.count_nonzero(different))
    if mismatches == 0:
        return Output(*facts, 0, 0.0), None
    first_mismatch = _first(different, expected, array, run)
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, which the next line handles
        error = np.abs(expected[different].astype(np.float64) - array[different].astype(np.float64))
    largest = float(np.inf if np.isnan(error).any() else error.max())
    output = Output(*facts, mismatches, largest, first_mismatch)
    return output, f"{name}: {mismatches} of {array.size} elements differ from {reference}; first at {first_mismatch}"


def _first(different: np.ndarray, expected: np.ndarray, actual: np.ndarray, run: Run) -> str:
    first = tuple(int(axis[0]) for axis in np.nonzero(different)) if actual.ndim else ()
    return (
        f"input set {run.input_set}, repeat {run.repeat}, index {list(first)}: "
        f"expected {expected[first]}, found {actual[first]}"
    )


def same_bits(expected: np.ndarray, actual: np.ndarray) -> bool:
    """Return whether shape, dtype and every bit are equal."""
    alike = expected.shape == actual.shape and expected.dtype == actual.dtype
    return alike and not (_bits(expected) != _bits(actual)).any()


def _bits(array: np.ndarray) -> np.ndarray:
    """Return the elements as unsigned integers, so that NaNs compare by their bits and -0.0 is not 0.0.

    A NaN's sign does not count: an invalid operation gives a negative one on x86 processors, a positive one on Arm's.
    """
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.abs(array), array)
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def merge(first: Output | None, second: Output) -> Output:
    """Return one comparison for those of the same output in different executions."""
    if first is None:
        return second
    return replace(
        first,
        compared=first.compared + second.compared,
        mismatches=first.mismatches + second.mismatches,
        max_abs_error=max(first.max_abs_error, second.max_abs_error),
        first_mismatch=first.first_mismatch or second.first_mismatch,
        tolerance=max(first.tolerance, second.tolerance),
    )


def references_of(
    artifact: Artifact, input_sets: Sequence[InputSet], repeat: int, reporter: Reporter
) -> tuple[tuple[ReferenceRun, ...], Failure | None]:
    """Compute the right answer to each input set.

    Returns:
        The answers, and None; or no answers, and why there are none: of a program that was not lowered here, nothing
        says what is right.

    Raises:
        OracleError: there is no answer for a program that was lowered here.
        UsageError: the inputs do not fit the program.
    """
    reporter.stage("Computing the reference with tosa_reference_model")
    references = []
    try:
        reference = Reference(artifact)
        for index, input_set in enumerate(input_sets):
            references.append(reference.run(input_set, repeat))
            reporter.step(index + 1, len(input_sets))
    except OracleError as error:
        if not artifact.foreign:
            raise
        return (), Failure(FailureKind.NO_REFERENCE, error.message, _NOTHING_KNOWN)
    return tuple(references), None


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
        scales: of the program's outputs. An answer to one with a scale may be in real numbers.
    """

    source: str
    answers: tuple[Answers, ...]
    repeat: int = 1
    tolerance: FloatTolerance = field(default_factory=FloatTolerance)
    scales: IoScales = ()

    def of(self, run: Run) -> Answers:
        """Return the outputs expected of one execution."""
        return self.answers[run.input_set * self.repeat + (run.repeat if self.repeat > 1 else 0)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about how far answers may be away, other than not at all."""
        steps = {
            f"output {number}": scale.scale
            for number, (answer, scale) in enumerate(zip(self.answers[0], self.scales, strict=bool(self.scales)))
            if scale is not None and answer.dtype.kind == "f"
        }
        notes = [
            f"{name} is compared in real numbers, within a step of {step:.6g}: half of one for the program's rounding, "
            f"half for that of what is expected"
            for name, step in steps.items()
        ]
        if self.tolerance:
            notes.append(f"floats may differ from {self.source} as far as the command says: {self.tolerance}")
        return tuple(notes)


def compare(outcome: Outcome, expected: ExpectedOutputs, names: Sequence[str]) -> Comparison:
    """Compare every output of every execution with what is expected.

    Args:
        outcome: the outcome of a complete plan.
        expected: what is right, in the shapes and dtypes of the program's outputs.
        names: the outputs' names.
    """
    outputs: dict[str, Output] = {}
    problem = _other_sets(outcome, len(expected.answers) // expected.repeat)
    for run in outcome.runs if problem is None else ():
        scales = expected.scales or (None,) * len(names)
        for name, wanted, actual, scale in zip(names, expected.of(run), run.outputs, scales, strict=True):
            output, difference = _compare_within(name, wanted, actual, run, expected, scale)
            outputs[name] = merge(outputs.get(name), output)
            problem = problem or difference
    if problem is None:
        return Comparison(tuple(outputs.values()))
    floats = any(
        answer.dtype.kind == "f" and name in outputs and outputs[name].mismatches
        for name, answer in zip(names, expected.answers[0], strict=True)
    )
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


def with_real_numbers(
    outputs: Sequence[Output], outcome: Outcome, names: Sequence[str], scales: IoScales
) -> tuple[Output, ...]:
    """Return outputs with the real numbers that their integers stand for, where the program says it."""
    ends: dict[str, tuple[float, float]] = {}
    for number, (name, scale) in enumerate(zip(names, scales, strict=True)):
        values = [scale.real(run.outputs[number]) for run in outcome.runs] if scale is not None else []
        if values and values[0].size:
            ends[name] = min(float(value.min()) for value in values), max(float(value.max()) for value in values)
    return tuple(replace(output, real=ends.get(output.name)) for output in outputs)


def _compare_within(
    name: str, wanted: np.ndarray, actual: np.ndarray, run: Run, expected: ExpectedOutputs, scale: IoScale | None
) -> tuple[Output, str | None]:
    facts = (name, actual.shape, str(actual.dtype), expected.source, actual.size)
    step: float | np.ndarray = 0.0
    if scale is not None and wanted.dtype.kind == "f":
        # Rounding to the nearest element moves an answer by half a step at most, and so it did what is expected, if
        # that was integers once. Both may be products in float32, which are off by a part of 2^-24 each.
        actual, wanted = scale.real(actual), wanted.astype(np.float64)
        step = scale.scale + np.abs(wanted) * 2.0**-23
    if wanted.shape != actual.shape or wanted.dtype != actual.dtype:
        text = f"{name}: expected {wanted.dtype}{list(wanted.shape)}, found {actual.dtype}{list(actual.shape)}"
        return Output(*facts, actual.size, math.inf, text), text
    allowed = expected.tolerance.of(wanted) + step
    same = (wanted == actual) | ((wanted != wanted) & (actual != actual))
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, which is not within any tolerance
        error = np.where(same, 0.0, np.abs(wanted.astype(np.float64) - actual.astype(np.float64)))
        different = ~same & ~((allowed > 0) & np.isfinite(error) & (error <= allowed))
    largest = float(np.nan_to_num(error, nan=math.inf, posinf=math.inf).max(initial=0.0))
    finite = allowed[np.isfinite(allowed)]
    tolerance = float(finite.max(initial=0.0))
    count = int(np.count_nonzero(different))
    if not count:
        return Output(*facts, 0, largest, tolerance=tolerance), None
    place = _first(different, wanted, actual, run)
    text = (
        f"{name}: {count} of {actual.size} elements differ from {expected.source}, by at most {largest:.3g}; first at "
        f"{place}"
    )
    return Output(*facts, count, largest, place, tolerance), text
