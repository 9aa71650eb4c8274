"""What changed, grouped by its cause, with the commands that show it again and that accept it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.judge import standing_of
from ethos_hil.base.plain_text import amount, count_of
from ethos_hil.base.plain_text import change as change_text
from ethos_hil.base.record import Record
from ethos_hil.results.comparison import RowChange
from ethos_hil.results.gate.change import VERDICT, Cause, Change, Effect, RunComparison, Word
from ethos_hil.results.report.failures import ToldSince, tell_since
from ethos_hil.results.report.matrix import Moved
from ethos_hil.results.report.reproduce import accept, also_accepted, bundle, rerun
from ethos_hil.results.report.summary import SMALL, SPOKEN, move_of
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
    changed = {change.subject.label for change in comparison.changes}
    by_title: dict[tuple[str, str, Cause, bool | None], list[Change]] = {}
    for (cause, detail), changes in comparison.by_cause().items():
        new = _new(changes, comparison.before == context.newest, context)
        for change in changes:
            if _is_shown_as_failure(change, context):
                continue
            # What is on one side only has no cause: what is gone is told apart from what is new.
            title = _ONE_SIDED.get(change.word, TITLES[cause])
            by_title.setdefault((title, detail, cause, new[change.subject]), []).append(change)
    groups = [
        (_group(title, detail, cause, new, changes, changed, context), max(map(move_of, changes)))
        for (title, detail, cause, new), changes in by_title.items()
    ]
    groups.sort(key=lambda group: (not group[0].fails, group[0].new is False, -group[1]))
    return tuple(group for group, _ in groups)


def _is_shown_as_failure(change: Change, context: FeedContext) -> bool:
    """Return whether a change says no more than that a test fails: it is among the failures, with all that is known."""
    record = context.records.get(change.subject)
    failing = record is not None and standing_of(record).red
    return failing and change.metric == VERDICT and change.word in (Word.REGRESSED, Word.UNSTABLE)


def numbers_now(comparison: RunComparison) -> Iterator[NumberNow]:
    """Yield the numbers that moved and are not small print."""
    for change in comparison.changes:
        if isinstance(change.after, int | float) and change.before is not None and move_of(change) >= SMALL:
            yield _number_now(change)


def _number_now(change: Change) -> NumberNow:
    return NumberNow(change.subject, change.metric, change.provenance, float(change.after or 0))


def moved_cells(comparison: RunComparison) -> Moved:
    """Return what the matrix says of what changed: in words, and whether it is worse.

    The cycles of the NPU, or that the test is new, or else that something changed.
    """
    cells: dict[Subject, tuple[str, bool]] = {}
    for change in comparison.changes:
        worse = change.effect is Effect.FAIL and change.word not in _HARMLESS
        if change.metric == "npu_cycles" and move_of(change) >= SMALL:
            cells[change.subject] = (change_text(change.ratio), worse)
        elif change.metric == VERDICT and change.word is not Word.CHANGED:
            cells.setdefault(change.subject, (str(change.word), worse))
    return cells


def _new(changes: Sequence[Change], since_newest: bool, context: FeedContext) -> Mapping[Subject, bool | None]:
    """Return for each subject of one cause's changes whether what changed was otherwise in the run before."""
    if since_newest:
        return dict.fromkeys((change.subject for change in changes), True)
    answers: dict[Subject, list[bool]] = {change.subject: [] for change in changes}
    for change in changes:
        since = _since(change, context)
        if change.word is Word.NEW:
            answers[change.subject].append(True)
        elif since is not None:
            answers[change.subject].append(since.new)
    news = [any(flags) for flags in answers.values() if flags]
    # What nothing is known of came with the others, for the same cause.
    rest = all(news) if news and changes[0].cause is not Cause.NONE else None
    return {subject: any(flags) if flags else rest for subject, flags in answers.items()}


def _since(change: Change, context: FeedContext) -> Since | None:
    if change.metric == VERDICT:
        return context.since.get(change.subject)
    return context.since.get(_number_now(change)) if isinstance(change.after, int | float) else None


def _group(
    title: str, detail: str, cause: Cause, new: bool | None, changes: Sequence[Change], changed: Set[str],
    context: FeedContext,
) -> CauseGroup:  # fmt: skip
    by_subject: dict[Subject, list[Change]] = {}
    for change in changes:
        by_subject.setdefault(change.subject, []).append(change)
    worst = sorted(by_subject.items(), key=lambda item: (min(map(_weight, item[1])), item[0]))
    large = [item for item in worst if max(map(move_of, item[1])) >= SMALL]
    small = [item for item in worst if max(map(move_of, item[1])) < SMALL]
    labels = [subject.label for subject, own in worst if any(change.after is not None for change in own)]
    acceptable = labels if context.run and context.baseline else []
    return CauseGroup(
        title=title,
        detail=_without_title(detail),
        tally=_tally(by_subject),
        fails=any(change.effect is Effect.FAIL for change in changes),
        new=new,
        since=tell_since([_longest(own, context) for own in by_subject.values()]),
        subjects=tuple(_subject(subject, own, context) for subject, own in large[:_MOST_SUBJECTS]),
        small=tuple(_subject(subject, own, context) for subject, own in small[:_MOST_SUBJECTS]),
        more=max(0, len(large) - _MOST_SUBJECTS) + max(0, len(small) - _MOST_SUBJECTS),
        accept=accept(context.run, context.baseline, acceptable) if acceptable else "",
        also=len(also_accepted(acceptable, changed)) if acceptable else 0,
    )


def _longest(changes: Iterable[Change], context: FeedContext) -> Since | None:
    """Return since when the first of some changes of a test is there."""
    stretches = filter(None, (_since(change, context) for change in changes))
    return max(stretches, key=lambda since: since.runs, default=None)


def _without_title(detail: str) -> str:
    """Return a cause's words without "another command stream: ", which is what the title says."""
    head, colon, rest = detail.partition(": ")
    return rest if colon and (head.startswith(("another ", "other ")) or head.endswith("was edited")) else detail


def _weight(change: Change) -> tuple[bool, bool, float]:
    """Return what sorts changes, the worst first: failing ones, then by how far the number moved."""
    return (change.effect is not Effect.FAIL, change.word in _HARMLESS, -move_of(change))


def _tally(by_subject: Mapping[Subject, Sequence[Change]]) -> str:
    words: dict[Word, set[Subject]] = {}
    for subject, changes in by_subject.items():
        for change in changes:
            words.setdefault(change.word, set()).add(subject)
    what = ", ".join(f"{len(words[word]):,} {SPOKEN.get(word, word)}" for word in Word if word in words)
    return f"{count_of(len(by_subject), 'test')}: {what}"


def _subject(subject: Subject, changes: Sequence[Change], context: FeedContext) -> MovedSubject:
    record = context.records.get(subject)
    commands = [rerun(record), bundle(context.run, record)] if record is not None else []
    target = subject.target if subject.target != "none" else ""
    where = (subject.npu, subject.memory_mode, target, f"runner {subject.runner}" if subject.runner else "")
    return MovedSubject(
        label=context.names.name(subject),
        place=", ".join(name for name in where if name),
        numbers=tuple(change for change in sorted(changes, key=_weight) if not _says_nothing(change, changes)),
        rows=tuple(_rows(changes)),
        commands=tuple(filter(None, commands)),
        since=tell_since([_longest(changes, context)]),
    )


def _says_nothing(change: Change, beside: Sequence[Change]) -> bool:
    """Return whether a change is that of a verdict that is as before, beside numbers that are not."""
    return change.metric == VERDICT and change.before == change.after and len(beside) > 1


def sides(change: Change) -> tuple[str, str]:
    """Return what was before and what is after, as text."""
    digests = change.metric == VERDICT and change.word is Word.CHANGED
    before, after = (str(side)[:12] if digests and side is not None else amount(side)
                     for side in (change.before, change.after))  # fmt: skip
    return before or "—", after or "—"


def _rows(changes: Sequence[Change]) -> Iterator[str]:
    """Yield the operations that moved most, each once."""
    rows = {row: None for change in changes for row in change.rows if row.change is not RowChange.UNCHANGED}
    most = sorted(rows, key=lambda row: -abs(row.delta))
    for row in most[:_MOST_ROWS]:
        place = " in ".join(name for name in (row.source, row.module) if name)
        yield f"{row.name}{f' at {place}' if place else ''}: {row.old:,} → {row.new:,} ({row.delta:+,}, {row.change})"
    if len(most) > _MOST_ROWS:
        rest = most[_MOST_ROWS:]
        yield f"and {count_of(len(rest), 'other operation')} ({sum(row.delta for row in rest):+,})"
