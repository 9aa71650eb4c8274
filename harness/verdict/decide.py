"""The verdict: one function decides it, for a run from the command line and for a test of the suites alike.

Who runs something gathers evidence as far as it gets. The rules are in the order in which things happen: what could not
run, what stopped it, what was compiled, what was answered, and last what the declaration of a test says against it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.results.record import Failure
from ethos_hil.results.verdict import FailureKind, Verdict


@dataclass(frozen=True)
class Evidence:
    """What is known of a run at its end. What does not apply keeps its default.

    Attributes:
        missing: the capability of the target, or the package, without which it was not run.
        stopped: why there is no answer: the error that ended it.
        misplaced: what is wrong with where the operators were compiled to.
        compile_only: the user asked for no more than lowering.
        difference: what is wrong with the answer.
        compared: elements of the answer that were compared with a reference.
        unmapped: NPU operations that no operator of the model is known for.
        kernels_missing: operators that the firmware has no kernel for, as preflight found them.
        kernels_declared_missing: those that the test's declaration says it lacks; None without such a declaration.
        defect: the defect upstream that the test's declaration says it suffers from, with its link, or "".
    """

    missing: Failure | None = None
    stopped: Failure | None = None
    misplaced: str | None = None
    compile_only: bool = False
    difference: Failure | None = None
    compared: int = 0
    unmapped: tuple[str, ...] = ()
    kernels_missing: str = ""
    kernels_declared_missing: tuple[str, ...] | None = None
    defect: str = ""


@dataclass(frozen=True)
class Decision:
    """A verdict, and the failure that goes with it: None if verified or compiled-only."""

    verdict: Verdict
    failure: Failure | None = None


def decide(evidence: Evidence) -> Decision:
    """Decide how a run ended.

    Args:
        evidence: everything that is known of it.
    """
    # It could not run, and the reason is a capability that is missing.
    if evidence.missing is not None:
        return Decision(Verdict.SKIPPED, evidence.missing)
    declared = evidence.kernels_declared_missing
    if declared is not None and evidence.kernels_missing and evidence.kernels_missing == ", ".join(declared):
        text = f"the firmware has no kernel {evidence.kernels_missing}"
        return Decision(Verdict.SKIPPED, Failure(FailureKind.CAPABILITY, text, "docs/kernels.md lists those it has"))
    # It did not get as far as an answer.
    if evidence.stopped is not None:
        return Decision(Verdict.FAILED, evidence.stopped)
    if evidence.misplaced is not None:
        return _failed(FailureKind.DELEGATION, evidence.misplaced)
    if evidence.compile_only:
        return Decision(Verdict.COMPILED_ONLY)
    # There is an answer.
    if evidence.difference is not None:
        return Decision(Verdict.FAILED, evidence.difference)
    if not evidence.compared:
        return _failed(FailureKind.NO_REFERENCE, "nothing was compared with a reference")
    if evidence.unmapped:
        return _failed(FailureKind.UNMAPPED, f"no aten operator is known for {', '.join(evidence.unmapped)}")
    # The answer is right, and the declaration says that it cannot be.
    if declared is not None:
        text = f"it runs, though declared to need {', '.join(declared)}"
        return _failed(FailureKind.DECLARATION, text, "remove the declaration")
    if evidence.defect:
        text = f"it is right, though declared to suffer from a defect: {evidence.defect}"
        return _failed(FailureKind.DECLARATION, text, "remove the declaration")
    return Decision(Verdict.VERIFIED)


def _failed(kind: FailureKind, message: str, hint: str | None = None) -> Decision:
    return Decision(Verdict.FAILED, Failure(kind, message, hint))
