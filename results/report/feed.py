"""What changed, grouped by its cause, with the commands that show it again and that accept it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.results.account import Accounted
from ethos_hil.results.comparison import RowChange
from ethos_hil.results.gate.change import VERDICT, Change, Effect, RunComparison, Subject
from ethos_hil.results.gate.word import Cause, Word
from ethos_hil.results.record import Record
from ethos_hil.results.report.reproduce import accept, also_accepted, bundle, rerun
from ethos_hil.results.report.wording import amount, change, counted

_MOST_SUBJECTS = 150
"""Subjects that are shown of a cause."""
_MOST_ROWS = 6
"""Operations that are shown of a subject."""

TITLES: Mapping[Cause, str] = {
    Cause.QUESTION: "Another question",
    Cause.INPUTS: "Other inputs",
    Cause.NAME: "Another name",
    Cause.MEMORY_MODE: "Another memory mode",
    Cause.SYSTEM_CONFIG: "Another system configuration",
    Cause.NPU: "Another NPU",
    Cause.PLACE: "Another target",
    Cause.PROVENANCE: "Counted in another way",
    Cause.HOST: "Another machine",
    Cause.BOARD: "Another board or clock",
    Cause.TOSA: "The TOSA program",
    Cause.WEIGHTS: "The encoded weights",
    Cause.STREAM: "The command stream",
    Cause.PROGRAM: "The program outside the delegates",
    Cause.TIMING_MODEL: "The timing model",
    Cause.FIRMWARE: "The firmware",
    Cause.TARGET: "The target",
    Cause.NONE: "No known cause",
}
_ONE_SIDED = {Word.NEW: "New", Word.MISSING: "Missing"}
_HARMLESS = (Word.IMPROVED, Word.CHANGED, Word.NEW, Word.ACCEPTED, Word.UNKNOWN)


@dataclass(frozen=True)
class MovedNumber:
    """A number of a subject: its name, both sides, and the difference.

    Attributes:
        word: what became of it.
        fails: whether the gate fails for it.
        metric, before, after, difference, allowed: as text.
    """

    word: Word
    fails: bool
    metric: str
    before: str
    after: str
    difference: str
    allowed: str


@dataclass(frozen=True)
class MovedSubject:
    """A subject with what moved in it.

    Attributes:
        label, place: its name, and where it ran.
        numbers: what moved.
        rows: the operations that moved, in words.
        commands: what shows it again.
    """

    label: str
    place: str
    numbers: tuple[MovedNumber, ...]
    rows: tuple[str, ...]
    commands: tuple[str, ...]


@dataclass(frozen=True)
class CauseGroup:
    """All that changed for one cause.

    Attributes:
        title, detail: the cause, and what is known of it.
        tally: how many subjects became what: "41 changed, 3 regressed".
        fails: whether the gate fails for one of them.
        subjects: these, the worst first; `more` is how many are left out.
        accept: the command that accepts them all, "" where there is nothing to accept.
        also: how many tests with another cause it accepts as well.
        more: see there.
    """

    title: str
    detail: str
    tally: str
    fails: bool
    subjects: tuple[MovedSubject, ...]
    more: int
    accept: str
    also: int


def feed(
    comparison: RunComparison, asked: Sequence[Accounted], run: Path | None, baseline: str
) -> tuple[CauseGroup, ...]:
    """Return what changed, by cause; causes for which the gate fails come first."""
    records = {(each.label, each.record.npu, each.record.memory_mode): each.record for each in asked}
    changed = {each.subject.label for each in comparison.changes}
    groups = []
    for (cause, detail), changes in comparison.by_cause().items():
        # What is on one side only has no cause: what is gone is told apart from what is new.
        by_title: dict[str, list[Change]] = {}
        for each in changes:
            by_title.setdefault(_ONE_SIDED.get(each.word, TITLES[cause]), []).append(each)
        for title, found in by_title.items():
            groups.append(_group(title, detail, found, records, _Acceptance(run, baseline, changed)))
    return tuple(sorted(groups, key=lambda group: not group.fails))


_Records = Mapping[tuple[str, str, str], Record]


@dataclass(frozen=True)
class _Acceptance:
    """What a command that accepts changes needs: run, baseline, and the labels of all that changed."""

    run: Path | None
    baseline: str
    changed: Set[str]


def _group(title: str, detail: str, changes: Sequence[Change], records: _Records, given: _Acceptance) -> CauseGroup:
    by_subject: dict[Subject, list[Change]] = {}
    for each in changes:
        by_subject.setdefault(each.subject, []).append(each)
    worst = sorted(by_subject.items(), key=lambda item: (min(map(_weight, item[1])), item[0]))
    acceptable = [subject.label for subject, found in worst if any(each.after is not None for each in found)]
    return CauseGroup(
        title=title,
        detail=_without_title(detail),
        tally=_tally(by_subject),
        fails=any(each.effect is Effect.FAIL for each in changes),
        subjects=tuple(_subject(subject, found, records, given.run) for subject, found in worst[:_MOST_SUBJECTS]),
        more=max(0, len(worst) - _MOST_SUBJECTS),
        accept=accept(given.run, given.baseline, acceptable) if given.run is not None and acceptable else "",
        also=len(also_accepted(acceptable, given.changed)) if acceptable else 0,
    )


def _without_title(detail: str) -> str:
    """Return a cause's words without "another command stream: ", which is what the title says."""
    head, colon, rest = detail.partition(": ")
    return rest if colon and head.startswith(("another ", "other ")) else detail


def _weight(found: Change) -> tuple[bool, bool, float]:
    """Return what sorts changes, the worst first: failing ones, then by how far the number moved."""
    ratio = found.ratio
    return (found.effect is not Effect.FAIL, found.word in _HARMLESS, -abs((ratio or 1) - 1))


def _tally(by_subject: Mapping[Subject, Sequence[Change]]) -> str:
    words: dict[Word, set[Subject]] = {}
    for subject, found in by_subject.items():
        for each in found:
            words.setdefault(each.word, set()).add(subject)
    told = ", ".join(f"{len(words[word]):,} {word}" for word in Word if word in words)
    return f"{counted(len(by_subject), 'subject')}: {told}"


def _subject(subject: Subject, found: Sequence[Change], records: _Records, run: Path | None) -> MovedSubject:
    record = records.get((subject.label, subject.npu, subject.memory_mode))
    commands: list[str] = []
    if record is not None:
        commands = [rerun(record), *([bundle(run, record)] if run is not None else [])]
    target = subject.target if subject.target != "none" else ""
    where = (subject.npu, subject.memory_mode, target, f"runner {subject.runner}" if subject.runner else "")
    return MovedSubject(
        label=subject.label,
        place=", ".join(name for name in where if name),
        numbers=tuple(_number(each) for each in sorted(found, key=_weight)),
        rows=tuple(_rows(found)),
        commands=tuple(commands),
    )


def _number(found: Change) -> MovedNumber:
    metric = "verdict" if found.metric == VERDICT else f"{found.metric} ({found.provenance})"
    digests = found.metric == VERDICT and found.word is Word.CHANGED
    before, after = (str(side)[:12] if digests and side is not None else amount(side)
                     for side in (found.before, found.after))  # fmt: skip
    return MovedNumber(
        word=found.word,
        fails=found.effect is Effect.FAIL,
        metric=metric,
        before=before or "—",
        after=after or "—",
        difference=change(found.ratio),
        allowed=found.allowed,
    )


def _rows(found: Sequence[Change]) -> Iterator[str]:
    """Yield the operations that moved most, each once."""
    rows = {row: None for each in found for row in each.rows if row.change is not RowChange.UNCHANGED}
    most = sorted(rows, key=lambda row: -abs(row.delta))
    for row in most[:_MOST_ROWS]:
        place = " in ".join(name for name in (row.source, row.module) if name)
        yield f"{row.name}{f' at {place}' if place else ''}: {row.old:,} → {row.new:,} ({row.delta:+,}, {row.change})"
    if len(most) > _MOST_ROWS:
        rest = most[_MOST_ROWS:]
        yield f"and {counted(len(rest), 'other operation')} ({sum(row.delta for row in rest):+,})"
