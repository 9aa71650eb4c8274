"""What a comparison of two runs finds. docs/compare.md explains its words; a word is added, never changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from ethos_hil.base.dataclasses import asdict, dataclass, field
from ethos_hil.base.record import json_number
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.comparison import RowDifference
from ethos_hil.results.subject import Subject


class Word(StrEnum):
    """What became of a series, or of a subject as a whole."""

    UNCHANGED = "unchanged"
    """Nothing that is compared is different."""
    IMPROVED = "improved"
    """The number is better, by the direction that the policy gives it."""
    REGRESSED = "regressed"
    """The number is worse, or a verdict is (`verdict.rank`)."""
    CHANGED = "changed"
    """Something is different that is neither better nor worse: a digest, a name, a number without a direction."""
    NEW = "new"
    """It was not there before."""
    MISSING = "missing"
    """It is not there any more."""
    EDITED = "edited"
    """The model, its example inputs or how it is lowered was edited, and the number moved with it."""
    INCOMPARABLE = "incomparable"
    """Both are there, and were found at different places or in different ways; the cause says what differs."""
    UNSTABLE = "unstable"
    """An exact number is another one, and nothing that decides it is."""
    UNKNOWN = "unknown"
    """A noisy number: there are too few samples to tell."""
    ACCEPTED = "accepted"
    """It is different from before, and the baseline has it as it is now."""


class Cause(StrEnum):
    """The first thing that differs, in the order in which one follows from another."""

    QUESTION = "question"
    """What was asked: the model, its example inputs, how it is quantised, what is left to the CPU."""
    INPUTS = "inputs"
    """The input sets that ran."""
    NAME = "name"
    """A test or model has another name, and is the same question."""
    MEMORY_MODE = "memory-mode"
    SYSTEM_CONFIG = "system-config"
    NPU = "npu"
    SCHEME = "scheme"
    """How a model is quantised: "a8w8" became "a16w8"."""
    PLACE = "place"
    """Another target, SoC or runner."""
    PROVENANCE = "provenance"
    """The number was found in another way."""
    HOST = "host"
    """Another machine; of wall times."""
    BOARD = "board"
    """Another board, clock, or an FVP that was run without its timing; of measured numbers and those of FVPs."""
    TOSA = "tosa"
    """The TOSA program: torch, ExecuTorch, or our lowering."""
    WEIGHTS = "weights"
    """The encoded weights: the compiler."""
    STREAM = "stream"
    """The command stream: the compiler, or its options."""
    PROGRAM = "program"
    """The .pte outside the delegates."""
    TIMING_MODEL = "timing-model"
    """Our model of time; of modelled numbers."""
    FIRMWARE = "firmware"
    TARGET = "target"
    """The FVP's build, its timing adapters, or the rules of the strict board."""
    NONE = ""
    """No cause is known, or none is looked for."""


SCHEMA_VERSION = 1
VERDICT = "verdict"
"""The metric of a change that is about a subject as a whole; its values are verdicts, or "failed: mismatch"."""


class Effect(StrEnum):
    """What a change does to the gate."""

    FAIL = "fail"
    """The comparison does not pass."""
    ACCEPT = "accept"
    """The comparison does not pass until the baseline has it as it is now. Only a policy says so: a change has `FAIL`
    in its place."""
    WARN = "warn"
    """It is shown, and passes."""
    IGNORE = "ignore"
    """It is counted, and not shown."""


@dataclass(frozen=True)
class Change:
    """What became of one number of a subject, or of the subject itself.

    Attributes:
        word: what became of it.
        subject: as it is now; as it was, for what is missing.
        metric: the number's name, or `VERDICT`.
        provenance, unit: of the number; "" for `VERDICT`.
        before, after: both sides: numbers, or text for `VERDICT` and digests; None for a side that is not there.
        cause: the first thing that differs.
        detail: the cause in words, with both sides: "ethos-u-vela 5.1.0 became 5.2.0".
        effect: what it does to the gate.
        rows: the operations that moved, with their lines; empty where they are not known.
        allowed: how far from `before` it may be, as the policy has it: "" for not at all, or "0.5 %".
    """

    word: Word
    subject: Subject
    metric: str
    provenance: str
    unit: str
    before: float | str | None
    after: float | str | None
    cause: Cause
    detail: str
    effect: Effect
    rows: tuple[RowDifference, ...] = ()
    allowed: str = ""

    @property
    def ratio(self) -> float | None:
        """Return after / before for two numbers, None elsewhere."""
        if isinstance(self.before, int | float) and isinstance(self.after, int | float) and self.before:
            return self.after / self.before
        return None

    @property
    def percent(self) -> str:
        """Return how far a number moved, with its sign: "-65.2 %"; "" where that is not known."""
        ratio = self.ratio
        if ratio is None or not math.isfinite(ratio):
            return ""
        percent = (ratio - 1) * 100
        return f"{percent:+.1f} %" if abs(percent) >= 0.1 or not percent else f"{percent:+.1g} %"

    @property
    def sentence(self) -> str:
        """Return both sides in words: "npu_cycles 37,912 became 13,188 (-65.2 %)"."""
        name = self.metric
        words = {str(side).partition(":")[0] for side in (self.before, self.after)}
        if self.metric == VERDICT and words.isdisjoint(Verdict):
            name = str(self.cause)  # of a digest or a name
        before, after = text_of(self.before), text_of(self.after)
        if self.before is None:
            return f"{name} {after} is new"
        if self.after is None:
            return f"{name} {before} is missing"
        if self.before == self.after:
            return f"{name} {after} as before"
        return f"{name} {before} became {after}{f' ({self.percent})' if self.percent else ''}"


@dataclass(frozen=True)
class RunComparison:
    """What is different between two runs, or between a run and a baseline.

    Attributes:
        before, after: names of the two sides.
        changes: all but those that are unchanged, worst first: failing ones, then by cause, subject and metric.
        counts: series with each word, unchanged ones too.
        subjects: how many subjects are on both sides.
        notes: what is different of the two runs as a whole: versions, firmware, machine.
        gaps: what the second run chose and has no answer for, or says of itself and cannot be read, as sentences.
    """

    before: str
    after: str
    changes: tuple[Change, ...]
    counts: Mapping[Word, int]
    subjects: int
    notes: tuple[str, ...] = field(default=())
    gaps: tuple[str, ...] = ()

    @property
    def failing(self) -> tuple[Change, ...]:
        """The changes for which the gate fails."""
        return tuple(change for change in self.changes if change.effect is Effect.FAIL)

    @property
    def passed(self) -> bool:
        """Whether no change fails the gate, and nothing of the second run is missing."""
        return not self.failing and not self.gaps

    def to_json(self) -> dict[str, Any]:
        """Return the comparison ready for JSON (docs/compare.md)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "passed": self.passed,
            "before": self.before,
            "after": self.after,
            "subjects": self.subjects,
            "counts": {str(word): self.counts.get(word, 0) for word in Word},
            "notes": list(self.notes),
            "gaps": list(self.gaps),
            "changes": [_plain(change) for change in self.changes],
        }

    def by_cause(self) -> dict[tuple[Cause, str], list[Change]]:
        """Return the changes grouped by cause and its words, so that 400 moved numbers are one sentence; in the order
        of the first of each.
        """
        groups: dict[tuple[Cause, str], list[Change]] = {}
        for change in self.changes:
            groups.setdefault((change.cause, change.detail), []).append(change)
        return groups


def text_of(value: float | str | None) -> str:
    """Return a side of a change as text for people: "16,141", "0.5", "failed: mismatch"; "none" if it is not there."""
    if value is None or isinstance(value, str):
        return value or "none"
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,}"


def _plain(change: Change) -> dict[str, Any]:
    values = asdict(change)
    return {name: json_number(value) for name, value in values.items()}
