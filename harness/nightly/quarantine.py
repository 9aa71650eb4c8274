"""The file of the quarantine. What it says of a test is in `ethos_hil.base.ending`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from importlib import resources
from pathlib import Path

from ethos_hil.base.checked_toml import read_checked
from ethos_hil.base.ending import Quarantined
from ethos_hil.base.errors import UsageError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.nightly.config import SEE

SCHEMA = "quarantine.schema.json"
LONGEST = 60
"""Days that a test may be in quarantine."""


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
