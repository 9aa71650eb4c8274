"""What changed, grouped by its cause, with the commands that show it again and that accept it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import RED
from ethos_hil.base.wording import amount, change, counted
from ethos_hil.results.comparison import RowChange
from ethos_hil.results.gate.change import VERDICT, Cause, Change, Effect, RunComparison, Word
from ethos_hil.results.report.matrix import Moved
from ethos_hil.results.report.reproduce import accept, also_accepted, bundle, rerun
from ethos_hil.results.report.summary import SMALL, SPOKEN, moved_by
from ethos_hil.results.report.whose import ToldSince, of_cause, told
from ethos_hil.results.since import NumberNow, Since
from ethos_hil.results.subject import Names, Subject

_MOST_SUBJECTS = 150
"""Tests that are shown of a cause."""
_MOST_ROWS = 6
"""Operations that are shown of a test."""

TITLES: Mapping[Cause, str] = {
    Cause.QUESTION: "Edited models",
    Cause.INPUTS: "Edited inputs",
    Cause.NAME: "Another name",
    Cause.MEMORY_MODE: "Another memory mode",
    Cause.SYSTEM_CONFIG: "Another system configuration",
    Cause.NPU: "Another NPU",
    Cause.PLACE: "Another target",
    Cause.SCHEME: "Another quantisation",
    Cause.PROVENANCE: "Counted in another way",
    Cause.HOST: "Another machine",
    Cause.BOARD: "Another board or clock",
    Cause.TOSA: "Another TOSA program",
    Cause.WEIGHTS: "Other encoded weights",
    Cause.STREAM: "Another command stream",
    Cause.PROGRAM: "Another program around the delegates",
    Cause.TIMING_MODEL: "Another timing model",
    Cause.FIRMWARE: "Another firmware",
    Cause.TARGET: "The target",
    Cause.NONE: "No known cause",
}
_ONE_SIDED = {Word.NEW: "New tests", Word.MISSING: "Missing tests"}
_HARMLESS = (Word.EDITED, Word.IMPROVED, Word.CHANGED, Word.NEW, Word.ACCEPTED, Word.UNKNOWN)


@dataclass(frozen=True)
class MovedSubject:
    """A test or model with what moved in it.

    Attributes:
        label, place: its name, and where it ran.
        numbers: what moved.
        rows: the operations that moved, in words.
        commands: what shows it again.
        since: since when it is so; None where nothing is known of that.
    """

    label: str
    place: str
    numbers: tuple[Change, ...]
    rows: tuple[str, ...]
    commands: tuple[str, ...]
    since: ToldSince | None


@dataclass(frozen=True)
class CauseGroup:
    """All that changed for one cause, and is new tonight or is not.

    Attributes:
        title, detail: the cause, and what is known of it.
        whose: whose change that is.
        tally: how many tests became what: "41 changed, 3 regressed".
        fails: whether the gate fails for one of them.
        new: whether it was otherwise in the run before tonight's; None where that is not known.
        since: since when it is so.
        subjects: tests and models, the largest change first; `more` is how many are left out.
        small: those in which no number moved by more than `SMALL`.
        accept: the command that accepts them all, "" where there is nothing to accept.
        also: how many tests with another cause it accepts as well.
        more: see there.
    """

    title: str
    detail: str
    whose: str
    tally: str
    fails: bool
    new: bool | None
    since: ToldSince | None
    subjects: tuple[MovedSubject, ...]
    small: tuple[MovedSubject, ...]
    more: int
    accept: str
    also: int


@dataclass(frozen=True)
class FeedContext:
    """What the changes are shown with.

    Attributes:
        records: tonight's, by subject.
        names: what to call tests and models.
        run: the name of the run's folder, "" where there is none.
        baseline: the baseline that the run is compared with, "" for none: then there is nothing to accept into.
        since: since when numbers and failures are as they are.
        newest: the name of the last night before tonight's, "" for none.
    """

    records: Mapping[Subject, Record]
    names: Names
    run: str
    baseline: str
    since: Mapping[NumberNow | Subject, Since]
    newest: str = ""


def feed(comparison: RunComparison, context: FeedContext) -> tuple[CauseGroup, ...]:
    """Return what changed, by cause: what fails the gate first, then what is new, then the largest."""
    changed = {each.subject.label for each in comparison.changes}
    found: dict[tuple[str, str, Cause, bool | None], list[Change]] = {}
    for (cause, detail), changes in comparison.by_cause().items():
        new = _new(changes, comparison.before == context.newest, context)
        for each in changes:
            if _shown_as_failure(each, context):
                continue
            # What is on one side only has no cause: what is gone is told apart from what is new.
            title = _ONE_SIDED.get(each.word, TITLES[cause])
            found.setdefault((title, detail, cause, new[each.subject]), []).append(each)
    groups = [
        (_group(title, detail, cause, new, changes, changed, context), max(map(moved_by, changes)))
        for (title, detail, cause, new), changes in found.items()
    ]
    groups.sort(key=lambda each: (not each[0].fails, each[0].new is False, -each[1]))
    return tuple(group for group, _ in groups)


def _shown_as_failure(found: Change, context: FeedContext) -> bool:
    """Return whether a change says no more than that a test fails: it is among the failures, with all that is known."""
    record = context.records.get(found.subject)
    failing = record is not None and record.verdict in RED
    return failing and found.metric == VERDICT and found.word in (Word.REGRESSED, Word.UNSTABLE)


def numbers_now(comparison: RunComparison) -> Iterator[NumberNow]:
    """Yield the numbers that moved and are not small print."""
    for each in comparison.changes:
        if isinstance(each.after, int | float) and each.before is not None and moved_by(each) >= SMALL:
            yield _number_now(each)


def _number_now(found: Change) -> NumberNow:
    return NumberNow(found.subject, found.metric, found.provenance, float(found.after or 0))


def moved_cells(comparison: RunComparison) -> Moved:
    """Return what the matrix says of what changed: in words, and whether it is worse.

    The cycles of the NPU, or that the test is new, or else that something changed.
    """
    found: dict[Subject, tuple[str, bool]] = {}
    for each in comparison.changes:
        worse = each.effect is Effect.FAIL and each.word not in _HARMLESS
        if each.metric == "npu_cycles" and moved_by(each) >= SMALL:
            found[each.subject] = (change(each.ratio), worse)
        elif each.metric == VERDICT and each.word is not Word.CHANGED:
            found.setdefault(each.subject, (str(each.word), worse))
    return found


def _new(changes: Sequence[Change], since_newest: bool, context: FeedContext) -> Mapping[Subject, bool | None]:
    """Return for each subject whether what changed in it was otherwise in the run before.

    Args:
        changes: of one cause.
        since_newest: whether they are against that run.
        context: what is known.
    """
    if since_newest:
        return dict.fromkeys((each.subject for each in changes), True)
    known: dict[Subject, list[bool]] = {each.subject: [] for each in changes}
    for each in changes:
        since = _since(each, context)
        if each.word is Word.NEW:
            known[each.subject].append(True)
        elif since is not None:
            known[each.subject].append(since.new)
    told = [any(found) for found in known.values() if found]
    # What nothing is known of came with the others, for the same cause.
    rest = all(told) if told and changes[0].cause is not Cause.NONE else None
    return {subject: any(found) if found else rest for subject, found in known.items()}


def _since(found: Change, context: FeedContext) -> Since | None:
    if found.metric == VERDICT:
        return context.since.get(found.subject)
    return context.since.get(_number_now(found)) if isinstance(found.after, int | float) else None


def _group(
    title: str, detail: str, cause: Cause, new: bool | None, changes: Sequence[Change], changed: Set[str],
    context: FeedContext,
) -> CauseGroup:  # fmt: skip
    by_subject: dict[Subject, list[Change]] = {}
    for each in changes:
        by_subject.setdefault(each.subject, []).append(each)
    worst = sorted(by_subject.items(), key=lambda item: (min(map(_weight, item[1])), item[0]))
    large = [item for item in worst if max(map(moved_by, item[1])) >= SMALL]
    small = [item for item in worst if max(map(moved_by, item[1])) < SMALL]
    labels = [subject.label for subject, found in worst if any(each.after is not None for each in found)]
    acceptable = labels if context.run and context.baseline else []
    return CauseGroup(
        title=title,
        detail=_without_title(detail),
        whose="" if title in _ONE_SIDED.values() else str(of_cause(cause, detail)),
        tally=_tally(by_subject),
        fails=any(each.effect is Effect.FAIL for each in changes),
        new=new,
        since=told([_longest(found, context) for found in by_subject.values()]),
        subjects=tuple(_subject(subject, found, context) for subject, found in large[:_MOST_SUBJECTS]),
        small=tuple(_subject(subject, found, context) for subject, found in small[:_MOST_SUBJECTS]),
        more=max(0, len(large) - _MOST_SUBJECTS) + max(0, len(small) - _MOST_SUBJECTS),
        accept=accept(context.run, context.baseline, acceptable) if acceptable else "",
        also=len(also_accepted(acceptable, changed)) if acceptable else 0,
    )


def _longest(changes: Iterable[Change], context: FeedContext) -> Since | None:
    """Return since when the first of some changes of a test is there."""
    return max(filter(None, (_since(each, context) for each in changes)), key=lambda each: each.runs, default=None)


def _without_title(detail: str) -> str:
    """Return a cause's words without "another command stream: ", which is what the title says."""
    head, colon, rest = detail.partition(": ")
    return rest if colon and (head.startswith(("another ", "other ")) or head.endswith("was edited")) else detail


def _weight(found: Change) -> tuple[bool, bool, float]:
    """Return what sorts changes, the worst first: failing ones, then by how far the number moved."""
    return (found.effect is not Effect.FAIL, found.word in _HARMLESS, -moved_by(found))


def _tally(by_subject: Mapping[Subject, Sequence[Change]]) -> str:
    words: dict[Word, set[Subject]] = {}
    for subject, found in by_subject.items():
        for each in found:
            words.setdefault(each.word, set()).add(subject)
    what = ", ".join(f"{len(words[word]):,} {SPOKEN.get(word, word)}" for word in Word if word in words)
    return f"{counted(len(by_subject), 'test')}: {what}"


def _subject(subject: Subject, found: Sequence[Change], context: FeedContext) -> MovedSubject:
    record = context.records.get(subject)
    commands = [rerun(record), bundle(context.run, record)] if record is not None else []
    target = subject.target if subject.target != "none" else ""
    where = (subject.npu, subject.memory_mode, target, f"runner {subject.runner}" if subject.runner else "")
    return MovedSubject(
        label=context.names.name(subject),
        place=", ".join(name for name in where if name),
        numbers=tuple(each for each in sorted(found, key=_weight) if not _says_nothing(each, found)),
        rows=tuple(_rows(found)),
        commands=tuple(filter(None, commands)),
        since=told([_longest(found, context)]),
    )


def _says_nothing(found: Change, beside: Sequence[Change]) -> bool:
    """Return whether a change is that of a verdict that is as before, beside numbers that are not."""
    return found.metric == VERDICT and found.before == found.after and len(beside) > 1


def sides(found: Change) -> tuple[str, str]:
    """Return what was before and what is after, as text."""
    digests = found.metric == VERDICT and found.word is Word.CHANGED
    before, after = (str(side)[:12] if digests and side is not None else amount(side)
                     for side in (found.before, found.after))  # fmt: skip
    return before or "—", after or "—"


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
