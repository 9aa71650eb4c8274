"""Which subject of one run is which of another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.results.gate.change import Cause
from ethos_hil.results.gate.observation import Observation
from ethos_hil.results.subject import ALWAYS, EARLY, FIELDS, UNKNOWN, Subject

_Pairs = list[tuple[Observation, Observation]]
_FIELDS: tuple[tuple[Cause, tuple[str, ...]], ...] = (
    (Cause.MEMORY_MODE, ("memory_mode",)),
    (Cause.SYSTEM_CONFIG, ("system_config",)),
    (Cause.PLACE, ("target", "soc", "runner", "method", "upstream")),
    (Cause.NPU, ("npu",)),
    (Cause.SCHEME, ("scheme",)),
)
"""What two subjects of one name may differ in, and what that is called."""


@dataclass(frozen=True)
class Pairing:
    """All subjects of two runs, each once.

    Attributes:
        same: on both sides.
        renamed: on both sides under different names: the same question at the same place.
        moved: of one name, at different places.
        missing, new: on one side only.
        unclear: failed before they knew their place, and may be one of several that are new.
    """

    same: tuple[tuple[Observation, Observation], ...]
    renamed: tuple[tuple[Observation, Observation], ...]
    moved: tuple[tuple[Observation, Observation], ...]
    missing: tuple[Observation, ...]
    new: tuple[Observation, ...]
    unclear: tuple[Observation, ...] = ()


def pair(before: Sequence[Observation], after: Sequence[Observation], aliases: Mapping[str, str]) -> Pairing:
    """Return which is which.

    A subject that is on one side only is the one of another name that was asked the same question, or the one of the
    same name at another place, where there is exactly one such on either side. What a side does not know is not
    another place: see `_nearest`.
    """
    was = {now: then for now, then in aliases.items() if now != then}
    old = {test.subject: test for test in before}
    same, new = [], []
    for test in after:
        other = old.pop(test.subject, None)
        if other is None and test.subject.label in was:
            other = old.pop(replace(test.subject, label=was[test.subject.label]), None)
        if other is None:
            new.append(test)
        else:
            same.append((other, test))
    nearest, missing, new = _nearest(list(old.values()), new)
    renamed, missing, new = _match(missing, new, _question_of)
    moved: _Pairs = []
    for _, names in _FIELDS:
        empty = dict.fromkeys(names, "")
        matches, missing, new = _match(missing, new, lambda test, empty=empty: replace(test.subject, **empty))  # type: ignore[misc]
        moved += matches
    matches, missing, new = _match(missing, new, lambda test: (test.subject.label, test.subject.case))
    unclear = [test for test in missing if not test.verified and any(_candidates([test], new))]
    missing = [test for test in missing if test not in unclear]
    pairs = (*same, *nearest), tuple(renamed), (*moved, *matches)
    return Pairing(*pairs, tuple(missing), tuple(new), tuple(unclear))


def place_cause(before: Subject, after: Subject) -> tuple[Cause, str]:
    """Return what differs first between the places of two subjects of one name, in words."""
    for cause, names in _FIELDS:
        for name in names:
            old, new = getattr(before, name), getattr(after, name)
            if old != new:
                return cause, f"another {name.replace('_', ' ')}: {old or 'none'} became {new or 'none'}"
    return Cause.NONE, ""


def both_know(before: Subject, after: Subject) -> Subject:
    """Return a subject with what either side knows of it."""
    return replace(after, **{name: getattr(before, name) for name in EARLY + ALWAYS if getattr(after, name) in UNKNOWN})


def _question_of(test: Observation) -> Hashable:
    """Return what a renamed test has in common with itself; None for one whose question is not known."""
    return (test.question, test.inputs, replace(test.subject, label="", case="")) if test.question else None


def _unknown(test: Observation) -> Iterator[str]:
    """Yield the names of what is not known of a subject. Of an answer that was right, all is known."""
    for name in ALWAYS if test.verified else EARLY + ALWAYS:
        if getattr(test.subject, name) in UNKNOWN:
            yield name


def _nearest(
    old: Sequence[Observation], new: Sequence[Observation]
) -> tuple[_Pairs, list[Observation], list[Observation]]:
    """Return pairs that differ only in what one of the two does not know, and what is left on either side.

    Two belong together where each is nearer to the other than any third is: the same question counts most, then how
    many fields are the same. Where several are equally near, none is paired.
    """
    nearest: _Pairs = []
    candidates = list(_candidates(old, new))
    while candidates:
        best: dict[int, tuple[_Nearness, int]] = {}
        for left, right, score in candidates:
            for side in (id(left), id(right)):
                most, count = best.get(side, (score, 0))
                best[side] = (score, 1) if score > most else (most, count + (score == most))
        pairs = [(left, right) for left, right, score in candidates if best[id(left)] == best[id(right)] == (score, 1)]
        if not pairs:
            break
        nearest += pairs
        taken = {id(test) for both in pairs for test in both}
        candidates = [candidate for candidate in candidates if taken.isdisjoint(map(id, candidate[:2]))]
    return nearest, *_rest_of(nearest, old, new)


_Nearness = tuple[bool, int]


def _candidates(
    old: Sequence[Observation], new: Sequence[Observation]
) -> Iterator[tuple[Observation, Observation, _Nearness]]:
    """Yield two that may be one, and how near they are."""
    by_label: dict[str, list[Observation]] = {}
    for test in new:
        by_label.setdefault(test.subject.label, []).append(test)
    for left in old:
        for right in by_label.get(left.subject.label, ()):
            equal = {name for name in FIELDS if getattr(left.subject, name) == getattr(right.subject, name)}
            if equal.union(_unknown(left), _unknown(right)).issuperset(FIELDS):
                yield left, right, (bool(left.question) and left.question == right.question, len(equal))


def _match(
    old: Sequence[Observation], new: Sequence[Observation], key_of: Callable[[Observation], Hashable]
) -> tuple[_Pairs, list[Observation], list[Observation]]:
    """Return pairs that have a key in common which no other has, and what is left on either side."""
    sides: list[dict[Hashable, list[Observation]]] = []
    for side in (old, new):
        by_key: dict[Hashable, list[Observation]] = {}
        for test in side:
            by_key.setdefault(key_of(test), []).append(test)
        sides.append(by_key)
    keys = [key for key in sides[0] if key is not None and len(sides[0][key]) == len(sides[1].get(key, ())) == 1]
    pairs = [(sides[0][key][0], sides[1][key][0]) for key in keys]
    return pairs, *_rest_of(pairs, old, new)


def _rest_of(
    pairs: _Pairs, old: Sequence[Observation], new: Sequence[Observation]
) -> tuple[list[Observation], list[Observation]]:
    taken = {id(test) for both in pairs for test in both}
    return [test for test in old if id(test) not in taken], [test for test in new if id(test) not in taken]
