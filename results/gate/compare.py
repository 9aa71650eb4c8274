"""Compares two runs, or a run with a baseline: what changed, by which cause, and whether that passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.base.verdict import Verdict, rank
from ethos_hil.results.gate.change import VERDICT, Cause, Change, Effect, RunComparison, Word
from ethos_hil.results.gate.numbers import compare_numbers, moved_numbers, words
from ethos_hil.results.gate.observation import FACTS, Observation
from ethos_hil.results.gate.pairing import Pairing, pair, place_cause
from ethos_hil.results.gate.policy import DEFAULT, Policy
from ethos_hil.results.subject import Subject

_EVENTS = (Cause.TOSA, Cause.WEIGHTS, Cause.STREAM)
"""Facts whose change is told even where no number moved."""
_MESSAGE = 300
"""Characters of a failure's message that name a cause."""
_SERIOUS = {effect: number for number, effect in enumerate((Effect.FAIL, Effect.WARN, Effect.IGNORE))}


def compare_runs(
    before: Sequence[Observation],
    after: Sequence[Observation],
    *,
    policy: Policy = DEFAULT,
    names: tuple[str, str] = ("before", "after"),
    baseline: Sequence[Observation] | None = None,
    partial: bool = False,
) -> RunComparison:
    """Compare two runs.

    Args:
        before, after: what they say (`observations`, `History`, or a baseline).
        policy: what is allowed.
        names: what to call them.
        baseline: what was accepted: a change after which a subject is as it is in there is `accepted`.
        partial: whether `after` is a part of what was asked, so that nothing is missing in it.
    """
    pairing = pair(before, after, policy.aliases)
    changes = list(_changes(pairing, policy))
    if baseline is not None:
        accepted = _changes(pair(baseline, after, policy.aliases), policy)
        changes = _accept(changes, list(accepted), policy)
    if partial:
        changes = [change for change in changes if change.word is not Word.MISSING or change.metric != VERDICT]
    waiting = sum(change.effect is Effect.ACCEPT for change in changes)
    changes = [replace(change, effect=Effect.FAIL) if change.effect is Effect.ACCEPT else change for change in changes]
    counts = Counter(change.word for change in changes)
    shown = [change for change in changes if change.word is not Word.UNCHANGED and change.effect is not Effect.IGNORE]
    shown.sort(key=_order)
    notes = [*_notes(before, after), *_to_accept(waiting)]
    if not partial:
        notes += policy.unfitting((*before, *after))
    return RunComparison(*names, tuple(shown), dict(counts), len(pairing.same), tuple(notes))


def _order(change: Change) -> tuple[object, ...]:
    return (_SERIOUS[change.effect], list(Cause).index(change.cause), change.detail, change.subject,
            change.metric != VERDICT, change.metric, change.provenance)  # fmt: skip


def _changes(pairing: Pairing, policy: Policy) -> Iterator[Change]:
    for old, new in pairing.same:
        yield from _compare(old, new, policy)
    for old, new in pairing.renamed:
        detail = "another name for the same question"
        yield _whole(Word.CHANGED, new, policy, old.subject.label, new.subject.label, Cause.NAME, detail)
        yield from (change for change in _compare(old, new, policy) if change.metric != VERDICT
                    or change.word is not Word.UNCHANGED)  # fmt: skip
    for old, new in pairing.moved:
        cause, detail = place_cause(old.subject, new.subject)
        yield _whole(Word.INCOMPARABLE, new, policy, old.verdict, new.verdict, cause, detail)
        if _with_numbers(old) and _with_numbers(new):
            yield from moved_numbers(old, new, policy, Word.INCOMPARABLE, cause, detail)
    for observation in pairing.missing:
        yield _whole(Word.MISSING, observation, policy, observation.verdict, None, Cause.NONE, "")
    for observation in pairing.unclear:
        detail = "it failed before it knew its place, and may be any of several that are new"
        change = _whole(Word.MISSING, observation, policy, observation.verdict, None, Cause.NONE, detail)
        yield change if change.effect is Effect.IGNORE else replace(change, effect=Effect.WARN)
    for observation in pairing.new:
        yield _whole(Word.NEW, observation, policy, None, observation.verdict, Cause.NONE, "")


def _compare(before: Observation, after: Observation, policy: Policy) -> Iterator[Change]:
    """Yield what became of a subject that is on both sides: its verdict, then its numbers."""
    if (VERDICT, "") in after.unstable:
        detail = "the verdict differs between two executions of one run"
        yield _whole(Word.UNSTABLE, after, policy, before.verdict, after.verdict, Cause.NONE, detail)
        return
    edit = _edit(before, after)
    if before.verdict != after.verdict:
        cause, detail = edit or _verdict_cause(before, after)
        yield _whole(_verdict_word(before, after), after, policy, before.verdict, after.verdict, cause, detail)
        return
    if edit is not None:
        yield _whole(Word.EDITED, after, policy, before.verdict, after.verdict, *edit)
        if _with_numbers(after):
            yield from moved_numbers(before, after, policy, Word.EDITED, *edit)
        return
    numbers = list(compare_numbers(before, after, policy)) if _with_numbers(after) else []
    moved = {change.cause for change in numbers if change.word is not Word.UNCHANGED}
    fact = next((cause for cause in _EVENTS if _differs(cause, before, after)), None)
    if fact is not None and fact not in moved:
        detail = words(fact, before, after)
        yield _whole(Word.CHANGED, after, policy, before.facts[fact], after.facts[fact], fact, detail)
    else:
        yield _whole(Word.UNCHANGED, after, policy, before.verdict, after.verdict, Cause.NONE, "")
    yield from numbers


def _with_numbers(observation: Observation) -> bool:
    """Return whether its numbers count: those of a wrong answer say nothing."""
    return observation.verdict in (Verdict.VERIFIED, Verdict.COMPILED_ONLY)


def _edit(before: Observation, after: Observation) -> tuple[Cause, str] | None:
    """Return what was edited, in words; None where the question is the same, or one of both is not known."""
    if before.question and after.question and before.question != after.question:
        return Cause.QUESTION, "the model was edited: its code, weights, example inputs or how it is lowered"
    if before.inputs and after.inputs and before.inputs != after.inputs:
        return Cause.INPUTS, "the inputs were edited: other input sets ran"
    return None


def _differs(cause: Cause, before: Observation, after: Observation) -> bool:
    old, new = before.facts.get(cause, ""), after.facts.get(cause, "")
    return bool(old and new and old != new)


def _verdict_word(before: Observation, after: Observation) -> Word:
    """Return what a verdict is after another one. To fail as a test declares is worse than to be verified, and neither
    better nor worse than anything else: it is known already.
    """
    old, new = rank(before.verdict), rank(after.verdict)
    known = any(side.declared for side in (before, after)) and not before.verified and not after.verified
    if old == new or known:
        return Word.CHANGED
    return Word.REGRESSED if new < old else Word.IMPROVED


def _verdict_cause(before: Observation, after: Observation) -> tuple[Cause, str]:
    """Return the first fact that differs; where none does, what the failure says."""
    for cause in FACTS:
        if _differs(cause, before, after):
            return cause, words(cause, before, after)
    failure = after.record.failure if after.record is not None else None
    if failure is not None:
        return Cause.NONE, cut(one_line(f"{failure.kind}: {failure.message}"), _MESSAGE)
    return Cause.NONE, "nothing that the records name is different"


def _whole(
    word: Word, side: Observation, policy: Policy, before: str | None, after: str | None, cause: Cause, detail: str
) -> Change:
    """Return a change of a subject as a whole."""
    effects = policy.of(VERDICT, "", side.subject.label, side.subject.npu).effects
    return Change(word, side.subject, VERDICT, "", "", before, after, cause, detail, effects[word])


def _accept(changes: Sequence[Change], against: Sequence[Change], policy: Policy) -> list[Change]:
    """Return changes; those after which nothing differs from the baseline become `accepted`."""
    open_series = {_series(change) for change in against if change.word is not Word.UNCHANGED}
    open_subjects = {change.subject for change in against if change.metric == VERDICT
                     and change.word is not Word.UNCHANGED}  # fmt: skip
    subjects = {change.subject for change in against}
    return [
        replace(change, word=Word.ACCEPTED, effect=_accepted_effect(change, policy))
        if change.word not in (Word.UNCHANGED, Word.UNKNOWN)
        and _series(change) not in open_series
        and change.subject not in open_subjects
        and (change.subject in subjects or change.word is Word.MISSING)
        else change
        for change in changes
    ]


def _accepted_effect(change: Change, policy: Policy) -> Effect:
    return policy.of(change.metric, change.provenance, change.subject.label, change.subject.npu).effects[Word.ACCEPTED]


def _series(change: Change) -> tuple[Subject, str, str]:
    return change.subject, change.metric, change.provenance


def _to_accept(waiting: int) -> Iterator[str]:
    if waiting:
        yield (f"{waiting:,} of the changes fail because the policy asks to accept them: `ethos-hil accept RUN "
               "--baseline FILE`, then compare with --baseline FILE")  # fmt: skip


def _notes(before: Sequence[Observation], after: Sequence[Observation]) -> Iterator[str]:
    """Yield what is different of the two sides as a whole."""
    old, new = _versions(before), _versions(after)
    for name in sorted({*old, *new}):
        if old.get(name, "") != new.get(name, "") and old and new:
            yield f"{name} {old.get(name) or 'none'} became {new.get(name) or 'none'}"
    for cause in (Cause.TIMING_MODEL, Cause.FIRMWARE, Cause.TARGET):
        sides = [sorted({test.facts[cause] for test in side if test.facts.get(cause)}) for side in (before, after)]
        if all(sides) and sides[0] != sides[1]:
            yield f"{cause} {', '.join(sides[0])} became {', '.join(sides[1])}"


def _versions(side: Sequence[Observation]) -> Mapping[str, str]:
    """Return all versions of each tool on a side, as text."""
    by_tool: dict[str, set[str]] = {}
    for test in side:
        for name, version in test.versions.items():
            by_tool.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in by_tool.items()}
