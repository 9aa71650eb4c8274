"""What became of each number of a subject that is on both sides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ethos_hil.results.gate.cause import first_cause, known
from ethos_hil.results.gate.change import Change, Effect
from ethos_hil.results.gate.moved_rows import moved_rows
from ethos_hil.results.gate.observation import Key, Number, Observation
from ethos_hil.results.gate.policy import Allowance, Policy, noisy
from ethos_hil.results.gate.samples import SampleDifference, difference
from ethos_hil.results.gate.word import Cause, Word

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
            yield _compared(before, after, key, allowance)
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
    for found in compare_numbers(before, after, policy):
        effects = policy.of(found.metric, found.provenance, after.subject.label, after.subject.npu).effects
        within = (found.metric, found.provenance) in after.unstable
        quiet = found.word is Word.NEW and found.effect is Effect.IGNORE  # a run of an earlier version lacks it
        if within or quiet or found.word in (Word.UNCHANGED, Word.INCOMPARABLE, Word.UNKNOWN):
            if word is Word.EDITED:
                yield found
        elif word is Word.EDITED:
            yield replace(found, word=word, cause=cause, detail=detail, effect=effects[word])
        elif found.before is not None and found.after is not None:
            shown = Effect.IGNORE if effects[word] is Effect.IGNORE else Effect.WARN
            yield replace(found, word=word, cause=cause, detail=detail, effect=shown, rows=())


def _compared(before: Observation, after: Observation, key: Key, allowance: Allowance) -> Change:
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
    if cause is Cause.NONE and known(before, after, key[1]):
        return _change(Word.UNSTABLE, after, key, old, new, cause, "nothing that decides it is different", allowance)
    if word is Word.REGRESSED and abs(new.value - old.value) <= abs(old.value) * allowance.allowed_percent / 100:
        word = Word.CHANGED
    found = _change(word, after, key, old, new, cause, detail, allowance)
    if key[0] == "npu_cycles":
        return replace(found, rows=moved_rows(before.record, after.record))
    return found


def _noisy(after: Observation, key: Key, old: Number, new: Number, allowance: Allowance) -> Change:
    least = allowance.least_samples
    found = difference(old.samples, new.samples, smallest=allowance.smallest_percent / 100, least=least)
    if found is SampleDifference.TOO_FEW:
        detail = f"{len(old.samples)} and {len(new.samples)} samples; each side needs {least}"
        return _change(Word.UNKNOWN, after, key, old, new, Cause.NONE, detail, allowance)
    if found is SampleDifference.NONE:
        return _change(Word.UNCHANGED, after, key, old, new, Cause.NONE, "", allowance)
    word = (_BETTER if found is SampleDifference.LESS else _WORSE)[allowance.better]
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
        unit=next(each.unit for each in (new, old) if each is not None),
        before=None if old is None else old.value,
        after=None if new is None else new.value,
        cause=cause,
        detail=detail,
        effect=allowance.effects.get(word, Effect.FAIL),
        allowed=f"{allowance.allowed_percent:g} %" if allowance.allowed_percent else "",
    )
