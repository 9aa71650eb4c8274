"""How a night ended: one sentence, an exit status, and everything as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ethos_hil.harness.nightly.aftermath import Aftermath
from ethos_hil.harness.nightly.judgement import JudgedTest, Judgement

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
        judgement: what its records say.
        aftermath: what came of them; None for one shard of several.
        problems: what is wrong with the shards, as sentences.
        seconds: how long each step took.
    """

    name: str
    shard: str
    folders: tuple[Path, ...]
    resumed: bool
    judgement: Judgement
    aftermath: Aftermath | None
    problems: tuple[str, ...]
    seconds: Mapping[str, float]

    @property
    def red(self) -> tuple[str, ...]:
        """Everything for which the status is 1, as sentences."""
        return tuple(self._red())

    @property
    def status(self) -> int:
        """The exit status. Where a target could not be used, nobody knows how the night would have ended."""
        if self.judgement.down:
            return INFRASTRUCTURE
        return RED if self.red else PASSED

    @property
    def sentence(self) -> str:
        """How it ended."""
        counts = self.judgement.counts
        stands = ", ".join(f"{count:,} {ending}" for ending, count in counts.most_common()) or "nothing ran"
        what = f"{self.name}{f', shard {self.shard}' if self.shard else ''}: {stands}"
        if self.judgement.down:
            what += f"; not run, because of their target: {', '.join(self.judgement.down)}"
        if self.aftermath is not None and self.aftermath.comparison is not None:
            failing = len({change.subject for change in self.aftermath.failing})
            gate = f"the gate fails for {failing:,}" if failing else "the gate passes"
            what += f"; {gate} against {self.aftermath.comparison.before}"
        return f"{what}; {self._end()}"

    def to_json(self) -> dict[str, Any]:
        """Return all of it ready for JSON (docs/nightly.md)."""
        aftermath = self.aftermath
        comparison = aftermath.comparison if aftermath is not None else None
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.name,
            "shard": self.shard,
            "sentence": self.sentence,
            "status": self.status,
            "resumed": self.resumed,
            "folders": [str(folder) for folder in self.folders],
            "counts": dict(self.judgement.counts),
            "red": list(self.red),
            "tests": [_plain(test) for test in self.judgement.tests],
            "down": dict(self.judgement.down),
            "notes": list(self.judgement.notes),
            "unstable": list(aftermath.unstable) if aftermath is not None else [],
            "comparison": comparison.to_json() if comparison is not None else None,
            "files": [str(path) for path in aftermath.files] if aftermath is not None else [],
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }

    def _end(self) -> str:
        if self.status == INFRASTRUCTURE:
            return "infrastructure"
        return f"red: {len(self.red):,}" if self.red else "green"

    def _red(self) -> Iterator[str]:
        yield from self.problems
        yield from self.judgement.problems
        for test in self.judgement.red:
            yield f"{test.letter} {test.name} on {test.target}{f' {test.npu}' if test.npu else ''}: {test.red}"
        if self.aftermath is not None:
            for change in self.aftermath.failing:
                numbers = f"{change.metric} {change.before} became {change.after}"
                yield f"{change.word}: {change.subject.label} {change.subject.npu}: {numbers}: {change.detail}".rstrip(
                    ": "
                )
            yield from (f"unstable: {each}" for each in self.aftermath.unstable)


def _plain(test: JudgedTest) -> dict[str, Any]:
    found = {**asdict(test), "letter": test.letter}
    if test.quarantine is not None:
        found["quarantine"] = {name: str(value) for name, value in asdict(test.quarantine).items()}
    return found
