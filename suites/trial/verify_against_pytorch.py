"""The test where no NPU is involved: tosa_reference_model's answer against PyTorch's, within a derived bound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import OracleError
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.record import Output, RunFacts, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.verdict.against_pytorch import NOT_THE_MODEL, accuracies, reference_name
from ethos_hil.harness.verdict.artifact_info import info, versions_of
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import fitting
from ethos_hil.lowering.oracle.bounds.tolerance import Tolerance, tolerances
from ethos_hil.lowering.oracle.reference import Reference, ReferenceRun

QUANTISED = "PyTorch, quantised"


def findings_on_host(label: str, artifact: Artifact, answer: ReferenceRun | None = None) -> Findings:
    """Compare the reference model's answer to the example inputs with PyTorch's, for each element of each output.

    A float program is compared with the float module, a quantised program with the quantised module.
    `ethos_hil.lowering.oracle.bounds` derives the allowed difference. For a quantised program the distance from the
    float module is reported, too.

    Args:
        label: the model's name in the record.
        artifact: lowered here; TOSA is enough.
        answer: the reference model's answer, if it was computed already.

    Raises:
        OracleError: there is no valid answer, or PyTorch's is unknown, or no bound on their difference. A difference is
            not raised; it is among the findings.
    """
    quantised = artifact.scheme is not None
    expected = artifact.quantised if quantised else artifact.floating
    if not expected:
        raise OracleError(f"{label}: what PyTorch answers is not known", hint="lower the model again")
    answer = answer if answer is not None else Reference(artifact).run(artifact.example_inputs)
    if len(answer.outputs) != len(expected):
        counts = f"{len(answer.outputs)} outputs, PyTorch has {len(expected)}"
        return _findings(label, artifact, answer, (), _unlike(counts))
    names = fitting(artifact.output_names, len(expected))
    references = [QUANTISED if quantised else reference_name(array) for array in expected]
    pairs = [_Pair(*row) for row in zip(names, references, expected, answer.outputs, strict=True)]
    for pair in pairs:
        if pair.difference is not None:
            return _findings(label, artifact, answer, (pair.unlike(),), pair.difference)
    in_double = quantised or any(array.dtype == np.float64 for array in expected)
    allowed = tolerances(artifact, artifact.example_inputs, expected, sides=1 if in_double else 2)
    outputs = tuple(pair.compare(tolerance) for pair, tolerance in zip(pairs, allowed, strict=True))
    bad = next((output for output in outputs if output.mismatches), None)
    if bad is None:
        for pair, tolerance in zip(pairs, allowed, strict=True):
            pair.check_reference(tolerance)
        return _findings(label, artifact, answer, outputs, None, _notes(names, allowed))
    text = (
        f"{bad.name}: {bad.mismatches} of {bad.compared} elements are too far from {bad.reference}; "
        f"first at {bad.first_mismatch}"
    )
    return _findings(label, artifact, answer, outputs, _unlike(text), _notes(names, allowed))


def _unlike(message: str, kind: FailureKind = FailureKind.ACCURACY) -> Failure:
    """Return the failure of a program that is not PyTorch's model: of the kind that it has on an NPU, too."""
    return Failure(kind, message, NOT_THE_MODEL)


def _notes(names: Sequence[str], tolerances: Sequence[Tolerance]) -> tuple[str, ...]:
    """Return notes on the quality of a tolerance, where it is not the worst case of every element."""
    notes = []
    for name, tolerance in zip(names, tolerances, strict=True):
        unknown = int(np.count_nonzero(np.isinf(tolerance.allowed)))
        if unknown:
            notes.append(f"{name}: of {unknown} of {tolerance.allowed.size} elements it is not known what they may be")
        if tolerance.note:
            notes.append(f"{name}: its tolerance is {tolerance.note}")
    return tuple(notes)


@dataclass(frozen=True)
class _Pair:
    """An output in PyTorch and in the reference model; `reference` is the program that computed `wanted`."""

    name: str
    reference: str
    wanted: np.ndarray
    found: np.ndarray

    @property
    def difference(self) -> Failure | None:
        """Return the difference of shapes and types; a float may have another width."""
        wanted, actual = self.wanted, self.found
        same_type = wanted.dtype == actual.dtype or (wanted.dtype.kind, actual.dtype.kind) == ("f", "f")
        if wanted.shape == actual.shape and same_type:
            return None
        there = f"{self.reference} has {wanted.dtype}{list(wanted.shape)}"
        kind = FailureKind.DTYPE if wanted.shape == actual.shape else FailureKind.ACCURACY
        return _unlike(f"{self.name}: {actual.dtype}{list(actual.shape)}, {there}", kind)

    def unlike(self) -> Output:
        """Return the comparison where shapes or types differ."""
        where = None if self.difference is None else self.difference.message
        return self._output(self.found.size, np.inf, 0.0, where)

    def compare(self, tolerance: Tolerance) -> Output:
        """Return the comparison of all elements."""
        centre = self.found if tolerance.centre is None else tolerance.centre
        error, bad = _apart(self.wanted, centre, tolerance.allowed)
        shifted, _ = _apart(centre, self.found, tolerance.allowed)
        where = None
        if bad.any():
            first = tuple(int(axis[0]) for axis in np.nonzero(bad)) if bad.ndim else ()
            where = (
                f"index {list(first)}: {float(self.found[first]):.9g} for {float(self.wanted[first]):.9g}, "
                f"{error[first]:.3g} apart where {tolerance.allowed[first]:.3g} is allowed"
            )
        largest, _ = _apart(self.wanted, self.found, tolerance.allowed)
        permitted = float(np.max(shifted + tolerance.allowed, initial=0.0))
        return self._output(int(np.count_nonzero(bad)), float(np.max(largest, initial=0.0)), permitted, where)

    def check_reference(self, tolerance: Tolerance) -> None:
        """Raise OracleError if the reference model's answer is outside the bounds of the program's result."""
        _, astray = _apart(tolerance.value, self.found, tolerance.around)
        if astray.any():
            raise OracleError(
                f"{self.name}: tosa_reference_model and the analysis of its errors differ in "
                f"{int(np.count_nonzero(astray))} of {self.found.size} elements",
                hint="one of the rules in lowering/oracle/bounds computes something else",
            )

    def _output(self, mismatches: int, largest: float, permitted: float, where: str | None) -> Output:
        array = self.found
        return Output(
            self.name, array.shape, str(array.dtype), self.reference, array.size, mismatches, largest, where, permitted
        )


def _apart(wanted: np.ndarray, actual: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distance of each pair, and whether it is too large. Equal infinities are 0 apart, and so are NaNs."""
    a, b = wanted.astype(np.float64), actual.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(a - b))
    error = np.where(np.isnan(error), np.inf, error)
    return error, (error > allowed) & ~np.isinf(allowed)


def _findings(
    label: str,
    artifact: Artifact,
    answer: ReferenceRun,
    outputs: tuple[Output, ...],
    difference: Failure | None,
    notes: tuple[str, ...] = (),
) -> Findings:
    quantised = artifact.scheme is not None
    facts = RunFacts(
        model=label,
        npu="",
        target=TargetInfo("tosa_reference_model", "host", ""),
        outputs=outputs,
        accuracy=accuracies(artifact, artifact.example_inputs, answer.outputs) if quantised else (),
        artifact=info(artifact),
        versions=versions_of(artifact),
        executions=1,
        notes=(*artifact.notes, *notes),
        created=environment.now(),
    )
    return Findings(facts, Evidence(difference=difference, compared=sum(output.compared for output in outputs)))
