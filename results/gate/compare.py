"""Compares two runs, or a run with a baseline: what changed, by which cause, and whether that passes."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from types import MappingProxyType

from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict, rank
from ethos_hil.results.compaction.columns import COMPUTED
from ethos_hil.results.comparison import RowChange, RowDifference, npu_differences
from ethos_hil.results.gate.change import VERDICT, Cause, Change, Effect, RunComparison, Word
from ethos_hil.results.gate.observation import COMPILED, FACTS, Key, Number, Observation
from ethos_hil.results.gate.pairing import Pairing, pair, place_cause
from ethos_hil.results.gate.policy import DEFAULT, Allowance, Policy, noisy
from ethos_hil.results.subject import Subject

_TOOLS: Mapping[Cause, tuple[str, ...]] = MappingProxyType({
    Cause.TOSA: ("executorch", "torch", "torchao", "tosa-tools", "ethos-hil"),
    Cause.WEIGHTS: ("ethos-u-vela",),
    Cause.STREAM: ("ethos-u-vela",),
    Cause.PROGRAM: ("executorch", "torch", "torchao"),
})  # fmt: skip
"""The tools whose versions decide a fact."""
_WORDS: Mapping[Cause, str] = MappingProxyType({
    Cause.TOSA: "another TOSA program",
    Cause.WEIGHTS: "other encoded weights",
    Cause.STREAM: "another command stream",
    Cause.PROGRAM: "another program around the delegates",
    Cause.TIMING_MODEL: "another timing model",
    Cause.FIRMWARE: "another firmware",
    Cause.TARGET: "another target",
})  # fmt: skip
_ONLY: Mapping[Cause, tuple[str, ...]] = MappingProxyType({Cause.TIMING_MODEL: ("modelled",)})
"""Provenances that a fact can move; all where there are none."""
_NEVER: Mapping[str, frozenset[Cause]] = MappingProxyType({
    COMPILED: frozenset({Cause.FIRMWARE, Cause.TARGET}),
    "vela": frozenset({Cause.FIRMWARE, Cause.TARGET, Cause.PROGRAM}),
})  # fmt: skip
"""Facts that cannot move numbers of a provenance."""


def can_move(cause: Cause, provenance: str) -> bool:
    """Return whether a fact decides about numbers of a provenance."""
    only = _ONLY.get(cause)
    return (only is None or provenance in only) and cause not in _NEVER.get(provenance, ())


def first_cause(before: Observation, after: Observation, provenance: str) -> tuple[Cause, str]:
    """Return the first fact that differs and that can move a number of a provenance, in words; or `Cause.NONE`."""
    for cause in FACTS:
        old, new = before.facts.get(cause, ""), after.facts.get(cause, "")
        if old and new and old != new and can_move(cause, provenance):
            return cause, words(cause, before, after)
        if cause is Cause.TARGET and old != new and can_move(cause, provenance):
            return cause, words(cause, before, after)
    return Cause.NONE, ""


def is_known(before: Observation, after: Observation, provenance: str) -> bool:
    """Return whether both sides name all that decides about a number, so that nothing else can have moved it.

    The program has the delegates in it. A target that says nothing of itself is one that no one can set. What PyTorch
    answers in floating point depends on the machine too, which is not a fact.
    """
    if provenance == COMPUTED:
        return False
    needed = [cause for cause in (Cause.PROGRAM, Cause.TIMING_MODEL, Cause.FIRMWARE) if can_move(cause, provenance)]
    return all(side.facts.get(cause) for side in (before, after) for cause in needed)


def words(cause: Cause, before: Observation, after: Observation) -> str:
    """Return a cause in words; the same for all subjects that it moved."""
    if cause in (Cause.TIMING_MODEL, Cause.FIRMWARE):
        return f"{_WORDS[cause]}: {before.facts[cause]} became {after.facts[cause]}"
    if cause is Cause.TARGET:
        sides = [side.facts.get(cause, "") or "none" for side in (before, after)]
        return f"{_WORDS[cause]}: {sides[0]} became {sides[1]}"
    sides_of_tools = {tool: (before.versions.get(tool), after.versions.get(tool)) for tool in _TOOLS[cause]}
    why = [f"{tool} {old} became {new}" for tool, (old, new) in sides_of_tools.items() if old and new and old != new]
    if cause is not Cause.TOSA:  # Vela's arguments are in the program, too
        why += _flags(before, after)
    if not why and before.lowering and after.lowering and before.lowering != after.lowering:
        why.append("our lowering is another one")
    return f"{_WORDS[cause]}: {'; '.join(why) or 'versions, arguments and lowering are the same'}"


def _flags(before: Observation, after: Observation) -> Iterator[str]:
    old, new = Counter(before.flags), Counter(after.flags)
    gone, come = " ".join((old - new).elements()), " ".join((new - old).elements())
    if gone or come:
        yield f"Vela's arguments: {gone or 'nothing'} became {come or 'nothing'}"


def moved_rows(before: Record | None, after: Record | None) -> tuple[RowDifference, ...]:
    """Return the operations whose cycles differ, the largest difference first; none where a record is not at hand."""
    if before is None or after is None:
        return ()
    rows = [row for row in npu_differences(before.ops, after.ops) if row.change is not RowChange.UNCHANGED]
    return tuple(sorted(rows, key=lambda row: -abs(row.delta)))


LIMIT = 0.002
"""Chance of a false alarm of one comparison. asv, which compares benchmarks of Python, takes the same."""


class SampleDifference(Enum):
    """What samples say."""

    NONE = "none"
    LESS = "less"
    MORE = "more"
    TOO_FEW = "too few"


def difference(before: Sequence[float], after: Sequence[float], *, smallest: float, least: int) -> SampleDifference:
    """Compare samples.

    Args:
        before, after: the samples, at least one each.
        smallest: the smallest difference of the medians that counts, as a share of the first one.
        least: how many samples are needed on each side.
    """
    old, new = statistics.median(before), statistics.median(after)
    if abs(new - old) <= smallest * abs(old):
        return SampleDifference.NONE
    if min(len(before), len(after)) < least:
        return SampleDifference.TOO_FEW
    from scipy.stats import mannwhitneyu  # late: it takes 0.9 s

    if mannwhitneyu(before, after).pvalue >= LIMIT:
        return SampleDifference.NONE
    return SampleDifference.MORE if new > old else SampleDifference.LESS


_BETTER = {"lower": Word.IMPROVED, "higher": Word.REGRESSED, "neither": Word.CHANGED}
"""What a smaller number is, by which direction is the better one."""
_WORSE = {"lower": Word.REGRESSED, "higher": Word.IMPROVED, "neither": Word.CHANGED}


def compare_numbers(before: Observation, after: Observation, policy: Policy) -> Iterator[Change]:
    """Yield a change for each number of two verified observations, unchanged ones too."""
    same_names: dict[str, set[str]] = {}
    for name, provenance in before.numbers:
        same_names.setdefault(name, set()).add(provenance)
    replaced: set[Key] = set()
    for key, number in after.numbers.items():
        allowance = policy.of(*key, after.subject.label, after.subject.npu)
        if not allowance.compared:
            continue
        old = before.numbers.get(key)
        others = same_names.get(key[0], set()) - {provenance for name, provenance in after.numbers if name == key[0]}
        if old is None and others:
            other = key[0], min(others)
            replaced.add(other)
            detail = f"another provenance: {other[1]} became {key[1]}"
            yield _change(Word.INCOMPARABLE, after, key, before.numbers[other], number, Cause.PROVENANCE, detail,
                          allowance)  # fmt: skip
        elif old is None:
            yield _change(Word.NEW, after, key, None, number, Cause.NONE, "", allowance)
        else:
            yield _compare_number(before, after, key, allowance)
    for key, number in before.numbers.items():
        allowance = policy.of(*key, after.subject.label, after.subject.npu)
        if key not in after.numbers and key not in replaced and allowance.compared:
            yield _change(Word.MISSING, after, key, number, None, *first_cause(before, after, key[1]), allowance)


def moved_numbers(
    before: Observation, after: Observation, policy: Policy, word: Word, cause: Cause, detail: str
) -> Iterator[Change]:
    """Yield both sides of each number that is another one, where an edit or another place explains all of them.

    What no edit explains keeps its word: a number of another provenance or unit, one that differs within a run, and
    one of too few samples to tell. After a move, such numbers are left out: the move fails the gate already, and its
    numbers are there to be read.
    """
    for change in compare_numbers(before, after, policy):
        effects = policy.of(change.metric, change.provenance, after.subject.label, after.subject.npu).effects
        within = (change.metric, change.provenance) in after.unstable
        quiet = change.word is Word.NEW and change.effect is Effect.IGNORE  # a run of an earlier version lacks it
        if within or quiet or change.word in (Word.UNCHANGED, Word.INCOMPARABLE, Word.UNKNOWN):
            if word is Word.EDITED:
                yield change
        elif word is Word.EDITED:
            yield replace(change, word=word, cause=cause, detail=detail, effect=effects[word])
        elif change.before is not None and change.after is not None:
            shown = Effect.IGNORE if effects[word] is Effect.IGNORE else Effect.WARN
            yield replace(change, word=word, cause=cause, detail=detail, effect=shown, rows=())


def _compare_number(before: Observation, after: Observation, key: Key, allowance: Allowance) -> Change:
    old, new = before.numbers[key], after.numbers[key]
    if old.unit != new.unit:
        detail = f"another unit: {old.unit} became {new.unit}"
        return _change(Word.INCOMPARABLE, after, key, old, new, Cause.PROVENANCE, detail, allowance)
    if key in after.unstable:
        detail = "differs between two executions of one run"
        return _change(Word.UNSTABLE, after, key, old, new, Cause.NONE, detail, allowance)
    if noisy(key[1]):
        return _noisy(after, key, old, new, allowance)
    if old.value == new.value or (math.isnan(old.value) and math.isnan(new.value)):
        return _change(Word.UNCHANGED, after, key, old, new, Cause.NONE, "", allowance)
    cause, detail = first_cause(before, after, key[1])
    word = (_BETTER if new.value < old.value else _WORSE)[allowance.better]
    if cause is Cause.NONE and is_known(before, after, key[1]):
        return _change(Word.UNSTABLE, after, key, old, new, cause, "nothing that decides it is different", allowance)
    if word is Word.REGRESSED and abs(new.value - old.value) <= abs(old.value) * allowance.allowed_percent / 100:
        word = Word.CHANGED
    change = _change(word, after, key, old, new, cause, detail, allowance)
    if key[0] == "npu_cycles":
        return replace(change, rows=moved_rows(before.record, after.record))
    return change


def _noisy(after: Observation, key: Key, old: Number, new: Number, allowance: Allowance) -> Change:
    least = allowance.least_samples
    outcome = difference(old.samples, new.samples, smallest=allowance.smallest_percent / 100, least=least)
    if outcome is SampleDifference.TOO_FEW:
        detail = f"{len(old.samples)} and {len(new.samples)} samples; each side needs {least}"
        return _change(Word.UNKNOWN, after, key, old, new, Cause.NONE, detail, allowance)
    if outcome is SampleDifference.NONE:
        return _change(Word.UNCHANGED, after, key, old, new, Cause.NONE, "", allowance)
    word = (_BETTER if outcome is SampleDifference.LESS else _WORSE)[allowance.better]
    return _change(word, after, key, old, new, Cause.NONE, "by the samples of both sides", allowance)


def _change(
    word: Word, after: Observation, key: Key, old: Number | None, new: Number | None, cause: Cause, detail: str,
    allowance: Allowance,
) -> Change:  # fmt: skip
    return Change(
        word,
        after.subject,
        metric=key[0],
        provenance=key[1],
        unit=next(number.unit for number in (new, old) if number is not None),
        before=None if old is None else old.value,
        after=None if new is None else new.value,
        cause=cause,
        detail=detail,
        effect=allowance.effects.get(word, Effect.FAIL),
        allowed=f"{allowance.allowed_percent:g} %" if allowance.allowed_percent else "",
    )


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
    notes = [*_notes(before, after)]
    if waiting:
        notes.append(f"{waiting:,} of the changes fail because the policy asks to accept them: `ethos-hil accept RUN "
                     "--baseline FILE`, then compare with --baseline FILE")  # fmt: skip
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
        # A wrong answer is wrong at any place: who lets moves pass means numbers.
        word = Word.REGRESSED if _verdict_word(old, new) is Word.REGRESSED else Word.INCOMPARABLE
        yield _whole(word, new, policy, old.verdict, new.verdict, cause, detail)
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
    by_tool: dict[str, set[str]] = {}
    for test in side:
        for name, version in test.versions.items():
            by_tool.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in by_tool.items()}
