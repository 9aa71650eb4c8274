"""How a test, model or point ends: by its verdict, by what is expected of it, and by the quarantine.

Command line, suites, nights, gate and report ask here what is green, and what someone has to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import RED, FailureKind, Standing, Verdict

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
    of_night = record.run is not None and bool(record.run.part)
    return of_night and record.kind in {*OF_THIS_PLACE, FailureKind.USAGE}


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
