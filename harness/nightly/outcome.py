"""How a night ended: one sentence, an exit status, and everything as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ethos_hil.results.gate.account import Account, Accounted

SCHEMA_VERSION = 1
PASSED, RED, INFRASTRUCTURE = 0, 1, 3
"""Exit statuses."""


@dataclass(frozen=True)
class NightOutcome:
    """How a night, a shard of one, or the shards of one together ended.

    Attributes:
        name: of the run.
        shard: "2/4", or "".
        folders: the run folders.
        resumed: whether it was begun before.
        account: what it says.
        files: what was written.
        seconds: how long each step took.
    """

    name: str
    shard: str
    folders: tuple[Path, ...]
    resumed: bool
    account: Account
    files: tuple[Path, ...]
    seconds: Mapping[str, float]

    @property
    def red(self) -> tuple[str, ...]:
        """Everything for which the status is 1, as sentences."""
        return self.account.red

    @property
    def status(self) -> int:
        """The exit status. Where a target could not be used, nobody knows how the night would have ended."""
        if self.account.down:
            return INFRASTRUCTURE
        return RED if self.red else PASSED

    @property
    def sentence(self) -> str:
        """How it ended."""
        return f"{self.name}{f', shard {self.shard}' if self.shard else ''}: {self.account.sentence}"

    def to_json(self) -> dict[str, Any]:
        """Return all of it ready for JSON (docs/nightly.md)."""
        account = self.account
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.name,
            "shard": self.shard,
            "sentence": self.sentence,
            "status": self.status,
            "whole": account.whole,
            "resumed": self.resumed,
            "folders": [str(folder) for folder in self.folders],
            "counts": {str(standing): count for standing, count in account.counts.items()},
            "red": list(self.red),
            "problems": [each.text for each in account.problems],
            "tests": [_plain(test) for test in account.tests],
            "down": dict(account.down),
            "notes": list(account.notes),
            "unstable": list(account.unstable),
            "comparison": account.comparison.to_json() if account.comparison is not None else None,
            "files": [str(path) for path in self.files],
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }


def _plain(test: Accounted) -> dict[str, Any]:
    entry = test.quarantine
    return {
        "part": test.part,
        "name": test.name,
        "npu": test.record.npu,
        "memory_mode": test.record.memory_mode,
        "target": test.record.target.name,
        "ending": str(test.standing),
        "letter": test.standing.letter,
        "red": test.red,
        "quarantine": {name: str(value) for name, value in asdict(entry).items()} if entry is not None else None,
    }
