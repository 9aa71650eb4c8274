"""Compare a target's outcome with the reference, for equality, bit by bit.

There is no tolerance: delegates compute integers, and the CPU kernels around them have one right answer
(docs/decisions/0002). An output that is missing, has another shape or another dtype is a mismatch too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ethos_hil.base.record import Output
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.link.outcome import Outcome, Run
from ethos_hil.lowering.oracle.reference import ReferenceRun

REFERENCE = "tosa_reference_model"
HOST = "the host's kernels"
"""The reference of a program without delegates, in which tosa_reference_model computes nothing."""

BATCH_HINT = (
    "try a batch of 1: Vela 5.1 compiles some programs with larger batches wrongly "
    "(docs/decisions/0004-where-lowering-departs-from-upstream.md)"
)


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
    problem: str | None = None
    if {run.input_set for run in outcome.runs} != set(range(len(references))):
        problem = (
            f"{len(references)} input sets were asked for; the target ran {len(outcome.runs)} executions of others"
        )
    for run in outcome.runs if problem is None else ():
        found = _tensors_of_run(run)
        expected = _tensors_of_reference(references[run.input_set].of(run.repeat), with_delegates)
        reference = REFERENCE if references[run.input_set].delegate_outputs else HOST
        if found.keys() != expected.keys():
            sent = ", ".join(found) or "nothing"
            problem = problem or f"input set {run.input_set}: expected {', '.join(expected)}; the target sent {sent}"
            continue
        for name, value in found.items():
            output, difference = _compare(called.get(name, name), expected[name], value, run, reference)
            outputs[name] = output if name not in outputs else merged(outputs[name], output)
            problem = problem or difference
    failure = None if problem is None else Failure(FailureKind.MISMATCH, problem)
    return Comparison(tuple(outputs.values()), failure)


def _tensors_of_run(run: Run) -> dict[str, np.ndarray]:
    tensors = {f"output {index}": value for index, value in enumerate(run.outputs)}
    for delegate in run.delegates:
        for index, value in enumerate(delegate.outputs):
            tensors[_delegate_output(delegate.instruction, index)] = value
    return tensors


def _tensors_of_reference(reference: ReferenceRun, with_delegates: bool) -> dict[str, np.ndarray]:
    tensors = {f"output {index}": value for index, value in enumerate(reference.outputs)}
    for instruction, values in reference.delegate_outputs.items() if with_delegates else ():
        for index, value in enumerate(values):
            tensors[_delegate_output(instruction, index)] = value
    return tensors


def _delegate_output(instruction: int, index: int) -> str:
    return f"delegate call {instruction} output {index}"


def _compare(name: str, expected: np.ndarray, found: np.ndarray, run: Run, reference: str) -> tuple[Output, str | None]:
    """Return the comparison, and a text about what is wrong, or None."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        difference = (
            f"{name}: expected {expected.dtype}{list(expected.shape)}, the target sent {found.dtype}{list(found.shape)}"
        )
        output = Output(
            name, found.shape, str(found.dtype), reference, expected.size, expected.size, np.inf, difference
        )
        return output, difference
    different = _bits(expected) != _bits(found)
    mismatches = int(np.count_nonzero(different))
    if mismatches == 0:
        return Output(name, found.shape, str(found.dtype), reference, found.size, 0, 0.0), None
    first = tuple(int(axis[0]) for axis in np.nonzero(different)) if found.ndim else ()
    first_mismatch = (
        f"input set {run.input_set}, repeat {run.repeat}, index {list(first)}: "
        f"expected {expected[first]}, found {found[first]}"
    )
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, which the next line handles
        error = np.abs(expected[different].astype(np.float64) - found[different].astype(np.float64))
    largest = float(np.inf if np.isnan(error).any() else error.max())
    output = Output(name, found.shape, str(found.dtype), reference, found.size, mismatches, largest, first_mismatch)
    return output, f"{name}: {mismatches} of {found.size} elements differ from {reference}; first at {first_mismatch}"


def same_bits(expected: np.ndarray, found: np.ndarray) -> bool:
    """Return whether shape, dtype and every bit are equal."""
    alike = expected.shape == found.shape and expected.dtype == found.dtype
    return alike and not (_bits(expected) != _bits(found)).any()


def _bits(array: np.ndarray) -> np.ndarray:
    """Return the elements as unsigned integers, so that NaNs compare by their bits and -0.0 is not 0.0.

    A NaN's sign does not count: an invalid operation gives a negative one on x86 processors, a positive one on Arm's.
    """
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.abs(array), array)
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def merged(first: Output, second: Output) -> Output:
    """Return one comparison for two of the same output, in different executions."""
    return Output(
        first.name,
        first.shape,
        first.dtype,
        first.reference,
        first.compared + second.compared,
        first.mismatches + second.mismatches,
        max(first.max_abs_error, second.max_abs_error),
        first.first_mismatch or second.first_mismatch,
        max(first.tolerance, second.tolerance),
    )
