"""The right answers of a run, as far as they can be computed here."""

from __future__ import annotations

from collections.abc import Sequence

from ethos_hil.base.errors import OracleError
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.oracle.reference import Reference, ReferenceRun

_HINT = (
    "say what is right with --expected Y.npz, or run the model it was made from (file.py:function or .pt2); "
    "--allow-unverified accepts it as it is"
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
        return (), Failure(FailureKind.NO_REFERENCE, error.message, _HINT)
    return tuple(references), None
