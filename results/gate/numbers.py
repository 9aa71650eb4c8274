"""What became of each number of a subject that is on both sides, and the first thing that differs with it."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from types import MappingProxyType

from ethos_hil.base.record import Record
from ethos_hil.results.comparison import RowChange, RowDifference, npu_differences
from ethos_hil.results.gate.change import Cause, Change, Effect, Word
from ethos_hil.results.gate.observation import COMPILED, FACTS, Key, Number, Observation
from ethos_hil.results.gate.policy import Allowance, Policy, noisy
from ethos_hil.results.history import COMPUTED

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
    why = [*_versions(cause, before, after)]
    if cause is not Cause.TOSA:  # Vela's arguments are in the program, too
        why += _flags(before, after)
    if not why and before.lowering and after.lowering and before.lowering != after.lowering:
        why.append("our lowering is another one")
    return f"{_WORDS[cause]}: {'; '.join(why) or 'versions, arguments and lowering are the same'}"


def _versions(cause: Cause, before: Observation, after: Observation) -> Iterator[str]:
    for tool in _TOOLS[cause]:
        old, new = before.versions.get(tool, ""), after.versions.get(tool, "")
        if old and new and old != new:
            yield f"{tool} {old} became {new}"


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
            yield _compare(before, after, key, allowance)
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


def _compare(before: Observation, after: Observation, key: Key, allowance: Allowance) -> Change:
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
