"""The quarantine: tests that may fail for a while, each in one way, with an owner and an end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path

from ethos_hil.harness.checked_toml import read_checked
from ethos_hil.harness.nightly.config import SEE
from ethos_hil.lowering.errors import UsageError
from ethos_hil.results.record import Record
from ethos_hil.results.verdict import FailureKind, Verdict

SCHEMA = "quarantine.schema.json"
LONGEST = 60
"""Days that a test may be in quarantine."""


@dataclass(frozen=True)
class Quarantined:
    """A `[[test]]` of the file.

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

    def matches(self, name: str, npu: str, target: str) -> bool:
        """Return whether it is about a test or model at a place."""
        sides = ((name, self.id), (npu, self.npu), (target, self.target))
        return all(fnmatchcase(text, _pattern(pattern)) for text, pattern in sides)

    def objection(self, record: Record, today: date) -> str:
        """Return why a record is not what the quarantine allows, as a sentence without its name; "" where it is."""
        if record.verdict == Verdict.VERIFIED:
            return f"fixed: it is verified, and in quarantine until {self.expires} ({self.issue})"
        if record.failure is not None and record.verdict == Verdict.FAILED and record.failure.kind != self.kind:
            return f"fails with {record.failure.kind}, and is in quarantine for {self.kind} ({self.issue})"
        if today > self.expires:
            return f"its quarantine expired on {self.expires} (owner: {self.owner}, {self.issue})"
        return ""


def today() -> date:
    """Return the day, in UTC."""
    return datetime.now(UTC).date()


def read_quarantine(path: Path) -> tuple[Quarantined, ...]:
    """Read a quarantine file.

    Raises:
        UsageError: it cannot be used; the message names the place.
    """
    schema = resources.files(__package__).joinpath(SCHEMA)
    entries: Sequence[dict[str, str]] = read_checked(path, schema, SEE).data.get("test", ())
    return tuple(_entry(path, number, entry) for number, entry in enumerate(entries, 1))


def _entry(path: Path, number: int, entry: dict[str, str]) -> Quarantined:
    where = f"{path}: test[{number}]"
    try:
        kind = FailureKind(entry["kind"])
    except ValueError:
        raise UsageError(
            f"{where}.kind: no failure is called {entry['kind']!r}", hint="docs/formats.md lists the kinds"
        ) from None
    try:
        expires = date.fromisoformat(entry["expires"])
    except ValueError as error:
        raise UsageError(f"{where}.expires: {entry['expires']} is no day: {error}", hint="as in 2027-01-31") from None
    ahead = (expires - today()).days
    if ahead > LONGEST:
        raise UsageError(
            f"{where}.expires: {expires} is {ahead} days from now", hint=f"let it be {LONGEST} days at most"
        )
    return Quarantined(**{**entry, "kind": kind, "expires": expires})  # type: ignore[arg-type]


def _pattern(text: str) -> str:
    """Return a pattern in which a [ is just that: ids of parametrised tests have them."""
    return text.replace("[", "[[]")
