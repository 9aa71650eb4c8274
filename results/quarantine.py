"""The quarantine: tests that may fail for a while, each in one way, with an owner and an end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind, Verdict


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
        return (
            record.verdict == Verdict.FAILED
            and record.failure is not None
            and record.failure.kind == self.kind
            and today <= self.expires
        )

    def objection(self, record: Record, today: date) -> str:
        """Return why a record is not what the quarantine allows, without its name; "" where it is."""
        if self.allows(record, today):
            return ""
        kind = record.failure.kind if record.failure is not None else None
        if record.verdict == Verdict.VERIFIED:
            return f"fixed: it is verified, and in quarantine until {self.expires} ({self.issue})"
        if record.verdict == Verdict.FAILED and kind == self.kind:
            return f"its quarantine expired on {self.expires} (owner: {self.owner}, {self.issue})"
        how = f"fails with {kind}" if record.verdict == Verdict.FAILED else f"is {record.verdict}"
        return f"{how}, and is in quarantine for {self.kind} ({self.issue})"

    def __str__(self) -> str:
        """Return what it says of a failure that it allows."""
        return f"{self.reason} ({self.issue}, until {self.expires})"


def _pattern(text: str) -> str:
    """Return a pattern in which a [ is just that: ids of parametrised tests have them."""
    return text.replace("[", "[[]")
