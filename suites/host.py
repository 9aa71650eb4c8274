"""What is tested where no NPU is: tosa_reference_model's answer against PyTorch's, within a bound that is derived."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.accuracy import accuracies, reference_name
from harness.run import info
from lowering.artifact import Artifact
from lowering.bounds.tolerance import DEVIATIONS, Tolerance, tolerances
from lowering.errors import OracleError
from lowering.reference import Reference, ReferenceRun
from results import environment
from results.record import Failure, Output, Record, TargetInfo

QUANTISED = "PyTorch, quantised"


def verify_on_host(label: str, artifact: Artifact, answer: ReferenceRun | None = None) -> Record:
    """Compares the reference model's answer to the example inputs with PyTorch's, for each element of each output.

    A float program's with the float module's, a quantised program's with the quantised module's; how far they may be
    apart is derived by `lowering.bounds`. Of a quantised program the distance from the float module is reported, too.

    Args:
        label: what the record calls the model.
        artifact: lowered here; TOSA is enough.
        answer: the reference model's, if it has answered already.

    Raises:
        OracleError: there is no valid answer, or PyTorch's is not known, or no bound on how far they may be apart. A
            difference is not raised; it is the record's verdict.
    """
    quantised = artifact.scheme is not None
    expected = artifact.quantised if quantised else artifact.floating
    if not expected:
        raise OracleError(f"{label}: what PyTorch answers is not known", hint="lower the model again")
    answer = answer if answer is not None else Reference(artifact).run(artifact.example_inputs)
    if len(answer.outputs) != len(expected):
        counts = f"{len(answer.outputs)} outputs, PyTorch has {len(expected)}"
        return _record(label, artifact, answer, (), Failure("mismatch", counts))
    names = [QUANTISED if quantised else reference_name(array) for array in expected]
    in_double = quantised or any(array.dtype == np.float64 for array in expected)
    allowed = tolerances(artifact, artifact.example_inputs, sides=1 if in_double else 2)
    outputs: list[Output] = []
    problems: list[str] = []
    for index, (wanted, found, tolerance) in enumerate(zip(expected, answer.outputs, allowed, strict=True)):
        output, problem = _compare(f"output {index}", names[index], wanted, found, tolerance)
        outputs.append(output)
        problems += [problem] if problem is not None else []
    failure = Failure("mismatch", problems[0]) if problems else None
    return _record(label, artifact, answer, tuple(outputs), failure, _notes(allowed))


def _notes(tolerances: Sequence[Tolerance]) -> tuple[str, ...]:
    """What a tolerance is worth, where it is not the worst case of every element."""
    notes = []
    for index, one in enumerate(tolerances):
        unknown = int(np.count_nonzero(np.isinf(one.allowed)))
        if unknown:
            notes.append(
                f"output {index}: of {unknown} of {one.allowed.size} elements it is not known what they may be"
            )
        if one.drawn:
            notes.append(f"output {index}: its tolerance is {DEVIATIONS} deviations of roundings drawn at random")
    return tuple(notes)


def _compare(
    name: str, reference: str, wanted: np.ndarray, found: np.ndarray, tolerance: Tolerance
) -> tuple[Output, str | None]:
    """The comparison, and in words what is wrong, or None."""
    same_type = wanted.dtype == found.dtype or (wanted.dtype.kind, found.dtype.kind) == ("f", "f")
    if wanted.shape != found.shape or not same_type:
        problem = f"{name}: {found.dtype}{list(found.shape)}, {reference} has {wanted.dtype}{list(wanted.shape)}"
        return Output(name, found.shape, str(found.dtype), reference, found.size, found.size, np.inf, problem), problem
    error, bad = _apart(wanted, found, tolerance.allowed)
    mismatches, largest = int(np.count_nonzero(bad)), float(np.max(error, initial=0.0))
    permitted = float(np.max(tolerance.allowed, initial=0.0))
    made = (name, found.shape, str(found.dtype), reference, found.size, mismatches, largest)
    if mismatches:
        first = tuple(int(axis[0]) for axis in np.nonzero(bad)) if found.ndim else ()
        where = (
            f"index {list(first)}: {found[first]:.9g} for {wanted[first]:.9g}, "
            f"{error[first]:.3g} apart where {tolerance.allowed[first]:.3g} is allowed"
        )
        text = f"{name}: {mismatches} of {found.size} elements are too far from {reference}; first at {where}"
        return Output(*made, where, permitted), text
    _, astray = _apart(tolerance.value, found, tolerance.around)
    if astray.any():
        raise OracleError(
            f"{name}: tosa_reference_model and the analysis of its errors differ in {int(np.count_nonzero(astray))} of "
            f"{found.size} elements",
            hint="one of the rules in lowering/bounds computes something else",
        )
    return Output(*made, tolerance=permitted), None


def _apart(wanted: np.ndarray, found: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far apart each pair is, and whether that is too far. Equal infinities are 0 apart, and so are NaNs."""
    a, b = wanted.astype(np.float64), found.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(a - b))
    error = np.where(np.isnan(error), np.inf, error)
    return error, (error > allowed) & ~np.isinf(allowed)


def _record(
    label: str,
    artifact: Artifact,
    answer: ReferenceRun,
    outputs: tuple[Output, ...],
    failure: Failure | None,
    notes: tuple[str, ...] = (),
) -> Record:
    quantised = artifact.scheme is not None
    return Record(
        verdict="verified" if failure is None else "failed",
        model=label,
        npu="",
        target=TargetInfo("tosa_reference_model", "host", ""),
        failure=failure,
        outputs=outputs,
        accuracy=accuracies(artifact, artifact.example_inputs, answer.outputs) if quantised else (),
        artifact=info(artifact),
        versions=environment.versions(),
        executions=1,
        notes=(*artifact.notes, *notes),
    )
