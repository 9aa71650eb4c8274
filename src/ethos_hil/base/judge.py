"""The judge: `judge` makes every record, and `decide` chooses every verdict.

The caller gathers facts and evidence first, as much as it can. The rules follow the order of events: why it could not
run, what stopped it, what was compiled, what the answer was, and last what the test's declaration expects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from ethos_hil.base.record import Decision, Record, RunFacts
from ethos_hil.base.verdict import Failure, FailureKind, Verdict


@dataclass(frozen=True)
class Evidence:
    """The facts about a run at its end. A fact that does not apply keeps its default.

    Attributes:
        missing: the capability of the target, or the package, that the run lacked; it did not run.
        stopped: the error that ended it before an answer.
        misplaced: what is wrong with the device (NPU or CPU) that the operators were compiled for.
        compile_only: the user requested only lowering.
        difference: what is wrong with the answer, compared with the reference of what was compiled.
        unlike: what is wrong with it, compared with PyTorch.
        compared: elements of the answer that were compared with a reference.
        lacking: why there is no reference, for a program that was not lowered here; None where there must be one.
        unmapped: NPU operations without a known operator of the model.
        kernels_missing: operators without a kernel in the firmware, as preflight reports them.
        kernels_declared_missing: operators that the test's declaration lists as missing; None without such a
            declaration.
        defect: the upstream defect in the test's declaration, with its link, or "".
    """

    missing: Failure | None = None
    stopped: Failure | None = None
    misplaced: str | None = None
    compile_only: bool = False
    difference: Failure | None = None
    unlike: Failure | None = None
    compared: int = 0
    lacking: Failure | None = None
    unmapped: tuple[str, ...] = ()
    kernels_missing: str = ""
    kernels_declared_missing: tuple[str, ...] | None = None
    defect: str = ""


@dataclass(frozen=True)
class Findings:
    """What is known of a run before it is judged."""

    facts: RunFacts
    evidence: Evidence

    @cached_property
    def record(self) -> Record:
        """The record, which is made when it is asked for."""
        return judge(self)

    def with_facts(self, **changes: Any) -> Self:
        """Return it with other facts. Arguments are fields of `RunFacts`."""
        return replace(self, facts=replace(self.facts, **changes))


def judge(findings: Findings) -> Record:
    """Return the record of a run. Nothing else makes one, and nothing amends it afterwards."""
    return Record(**vars(decide(findings.evidence)), **vars(findings.facts))


def decide(evidence: Evidence) -> Decision:
    """Decide the verdict on a run.

    Args:
        evidence: all known facts about the run.
    """
    # It could not run: a capability is missing.
    if evidence.missing is not None:
        return Decision(Verdict.SKIPPED, evidence.missing)
    declared = evidence.kernels_declared_missing
    if declared is not None and evidence.kernels_missing and evidence.kernels_missing == ", ".join(declared):
        text = f"the firmware has no kernel {evidence.kernels_missing}"
        return Decision(Verdict.SKIPPED, Failure(FailureKind.CAPABILITY, text, "docs/kernels.md lists those it has"))
    # It ended before an answer.
    if evidence.stopped is not None:
        return Decision(Verdict.FAILED, evidence.stopped)
    if evidence.misplaced is not None:
        return _fail(FailureKind.DELEGATION, evidence.misplaced)
    if evidence.compile_only:
        return Decision(Verdict.COMPILED_ONLY)
    # There is an answer.
    if evidence.difference is not None:
        return Decision(Verdict.FAILED, evidence.difference)
    if not evidence.compared and evidence.lacking is not None:
        return Decision(Verdict.UNVERIFIED, evidence.lacking)
    if not evidence.compared:
        return _fail(FailureKind.NO_REFERENCE, "nothing was compared with a reference")
    if evidence.unlike is not None:
        return Decision(Verdict.FAILED, evidence.unlike)
    if evidence.unmapped:
        return _fail(FailureKind.UNMAPPED, f"no aten operator is known for {', '.join(evidence.unmapped)}")
    # The answer is right, but the declaration says that it must be wrong.
    if declared is not None:
        text = f"it runs, though declared to need {', '.join(declared)}"
        return _fail(FailureKind.DECLARATION, text, "remove the declaration")
    if evidence.defect:
        text = f"it is right, though declared to suffer from a defect: {evidence.defect}"
        return _fail(FailureKind.DECLARATION, text, "remove the declaration")
    return Decision(Verdict.VERIFIED)


def _fail(kind: FailureKind, message: str, hint: str | None = None) -> Decision:
    return Decision(Verdict.FAILED, Failure(kind, message, hint))
