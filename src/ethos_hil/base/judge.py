"""The judge: `judge` makes every record, `decide` chooses every verdict, and `ending_of` says how it ends.

The caller gathers facts and evidence first, as much as it can. The rules follow the order of events: why it could not
run, what stopped it, what was compiled, what the answer was, and last what the test's declaration expects. All that
show results ask here what is green, and what someone has to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Self

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.record import Decision, Record, RunFacts
from ethos_hil.base.verdict import RED, Failure, FailureKind, Standing, Verdict


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


OF_THIS_PLACE = frozenset({FailureKind.NOT_AVAILABLE, FailureKind.LICENCE})
"""What a point lacks that could not be made because of where it was asked: a tool, a target, a licence."""
_REFUSALS = OF_THIS_PLACE | {
    FailureKind.USAGE, FailureKind.COMPILE, FailureKind.DELEGATION, FailureKind.CAPABILITY, FailureKind.OUT_OF_MEMORY,
    FailureKind.UNSUPPORTED, FailureKind.NPU_MISMATCH,
}  # fmt: skip
"""What a point that could not be made lacks. Any other failure is one of a point that was made."""


@dataclass(frozen=True)
class Quarantined:
    """A `[[test]]` of a quarantine file.

    Attributes:
        id, npu, target: which tests or models it is about, as a shell's patterns.
        kind: how they fail.
        reason, issue, owner: why, where that is followed up, and by whom.
        expires: the last day.
    """

    id: str
    kind: FailureKind
    reason: str
    issue: str
    owner: str
    expires: date
    npu: str = "*"
    target: str = "*"

    def matches(self, names: Sequence[str], npu: str, target: str) -> bool:
        """Return whether it is about a test or model, by one of its names, at a place."""
        return (
            any(fnmatchcase(name, _pattern(self.id)) for name in names)
            and fnmatchcase(npu, _pattern(self.npu))
            and fnmatchcase(target, _pattern(self.target))
        )

    def allows(self, record: Record, today: date) -> bool:
        """Return whether a record fails as it may: in this way, and still."""
        return record.verdict == Verdict.FAILED and record.kind == self.kind and today <= self.expires

    def objection(self, record: Record, today: date) -> str:
        """Return why a record is not what the quarantine allows, without its name; "" where it is."""
        if self.allows(record, today):
            return ""
        if record.verdict == Verdict.VERIFIED:
            return f"fixed: it is verified, and in quarantine until {self.expires} ({self.issue})"
        if record.verdict == Verdict.FAILED and record.kind == self.kind:
            return f"its quarantine expired on {self.expires} (owner: {self.owner}, {self.issue})"
        how = f"fails with {record.kind}" if record.verdict == Verdict.FAILED else f"is {record.verdict}"
        return f"{how}, and is in quarantine for {self.kind} ({self.issue})"

    def __str__(self) -> str:
        """Return what it says of a failure that it allows."""
        return f"{self.reason} ({self.issue}, until {self.expires})"


def _pattern(text: str) -> str:
    """Return a pattern in which a [ is just that: ids of parametrised tests have them."""
    return text.replace("[", "[[]")


@dataclass(frozen=True)
class Ending:
    """How a record ends.

    Attributes:
        standing: how it stands.
        red: why someone has to look at it, or "".
        reason: of a known defect or of a quarantine: what is known of it.
        quarantine: the entry that it is in, or None.
    """

    standing: Standing
    red: str = ""
    reason: str = ""
    quarantine: Quarantined | None = None

    @property
    def green(self) -> bool:
        """Whether its answers are right, or no one has to say that they are."""
        return not self.red and self.standing in (Standing.VERIFIED, Standing.UNVERIFIED)


def ending_of(
    record: Record,
    entries: Sequence[Quarantined] = (),
    today: date = date.min,
    *,
    missing: bool = False,
    allow_unverified: bool = False,
) -> Ending:
    """Return how a record ends.

    Args:
        record: the record.
        entries: those of the quarantine that are about it.
        today: the day, for the quarantine.
        missing: whether it only says that there is none.
        allow_unverified: whether nothing has to say what is right.
    """
    standing = Standing.MISSING if missing else standing_of(record)
    if entries and not missing:
        entry = next((entry for entry in entries if entry.allows(record, today)), entries[0])
        objection = entry.objection(record, today)
        if not objection:
            return Ending(Standing.QUARANTINED, reason=str(entry), quarantine=entry)
        return Ending(standing, objection, quarantine=entry)
    reason = record.test.defect if standing is Standing.DEFECT and record.test is not None else ""
    red = standing.red or (standing is Standing.REFUSED and _not_of_the_point(record))
    if standing is Standing.UNVERIFIED and allow_unverified:
        red = False
    return Ending(standing, record.why if red else "", reason, (*entries, None)[0])


def _not_of_the_point(record: Record) -> bool:
    """Return whether a night's point was refused for something that is not news of the point: a tool, a wrong name."""
    return bool(record.within.part) and record.kind in {*OF_THIS_PLACE, FailureKind.USAGE}


def is_refusal(record: Record) -> bool:
    """Return whether a record is of a benchmark's point that was not made."""
    failed = record.verdict == Verdict.FAILED and record.kind in _REFUSALS
    return record.bench is not None and record.failure is not None and (failed or record.verdict == Verdict.SKIPPED)


def standing_of(record: Record) -> Standing:
    """Return how a record stands, without a quarantine."""
    if is_refusal(record):
        return Standing.REFUSED
    defect = record.verdict in RED and record.test is not None and record.test.defect
    return Standing.DEFECT if defect else Standing(record.verdict)


def is_settled(record: Record, *, compile_only: bool = False) -> bool:
    """Return whether there is no reason to run it a second time: it ended as it should.

    Args:
        record: the record.
        compile_only: whether nothing more was asked for than to compile it.
    """
    standing = standing_of(record)
    return standing in (Standing.VERIFIED, Standing.DEFECT) or (compile_only and standing is Standing.COMPILED_ONLY)
