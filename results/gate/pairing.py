"""Which subject of one run is which of another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ethos_hil.results.gate.change import Cause
from ethos_hil.results.gate.observation import Observation
from ethos_hil.results.subject import ALWAYS, EARLY, FIELDS, UNKNOWN, Subject

_Pairs = list[tuple[Observation, Observation]]
_FIELDS: tuple[tuple[Cause, tuple[str, ...]], ...] = (
    (Cause.MEMORY_MODE, ("memory_mode",)),
    (Cause.SYSTEM_CONFIG, ("system_config",)),
    (Cause.PLACE, ("target", "soc", "runner", "method")),
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
    old = {each.subject: each for each in before}
    same, new = [], []
    for each in after:
        other = old.pop(each.subject, None)
        if other is None and each.subject.label in was:
            other = old.pop(replace(each.subject, label=was[each.subject.label]), None)
        if other is None:
            new.append(each)
        else:
            same.append((other, each))
    nearest, missing, new = _nearest(list(old.values()), new)
    renamed, missing, new = _matched(missing, new, _asked)
    moved: _Pairs = []
    for _, names in _FIELDS:
        found, missing, new = _matched(missing, new, lambda each, names=names: _without(each.subject, names))  # type: ignore[misc]
        moved += found
    found, missing, new = _matched(missing, new, lambda each: (each.subject.label, each.subject.case))
    unclear = [each for each in missing if not each.verified and any(_candidates([each], new))]
    missing = [each for each in missing if each not in unclear]
    pairs = (*same, *nearest), tuple(renamed), (*moved, *found)
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


def _asked(each: Observation) -> Hashable:
    """Return what a renamed test has in common with itself; None for one whose question is not known."""
    return (each.question, each.inputs, replace(each.subject, label="", case="")) if each.question else None


def _without(subject: Subject, names: Iterable[str]) -> Hashable:
    return replace(subject, **dict.fromkeys(names, ""))


def _unknown(each: Observation) -> Iterator[str]:
    """Yield the names of what is not known of a subject. Of an answer that was right, all is known."""
    for name in ALWAYS if each.verified else EARLY + ALWAYS:
        if getattr(each.subject, name) in UNKNOWN:
            yield name


def _nearest(
    old: Sequence[Observation], new: Sequence[Observation]
) -> tuple[_Pairs, list[Observation], list[Observation]]:
    """Return pairs that differ only in what one of the two does not know, and what is left on either side.

    Two belong together where each is nearer to the other than any third is: the same question counts most, then how
    many fields are the same. Where several are equally near, none is paired.
    """
    found: _Pairs = []
    candidates = list(_candidates(old, new))
    while candidates:
        best: dict[int, tuple[_Nearness, int]] = {}
        for one, two, score in candidates:
            for side in (id(one), id(two)):
                most, count = best.get(side, (score, 0))
                best[side] = (score, 1) if score > most else (most, count + (score == most))
        pairs = [(one, two) for one, two, score in candidates if best[id(one)] == best[id(two)] == (score, 1)]
        if not pairs:
            break
        found += pairs
        taken = {id(each) for both in pairs for each in both}
        candidates = [each for each in candidates if taken.isdisjoint(map(id, each[:2]))]
    return found, *_left(found, old, new)


_Nearness = tuple[bool, int]


def _candidates(
    old: Sequence[Observation], new: Sequence[Observation]
) -> Iterator[tuple[Observation, Observation, _Nearness]]:
    """Yield two that may be one, and how near they are."""
    by_label: dict[str, list[Observation]] = {}
    for each in new:
        by_label.setdefault(each.subject.label, []).append(each)
    for one in old:
        for two in by_label.get(one.subject.label, ()):
            equal = {name for name in FIELDS if getattr(one.subject, name) == getattr(two.subject, name)}
            if equal.union(_unknown(one), _unknown(two)).issuperset(FIELDS):
                yield one, two, (bool(one.question) and one.question == two.question, len(equal))


def _matched(
    old: Sequence[Observation], new: Sequence[Observation], key: Callable[[Observation], Hashable]
) -> tuple[_Pairs, list[Observation], list[Observation]]:
    """Return pairs that have a key in common which no other has, and what is left on either side."""
    sides: list[dict[Hashable, list[Observation]]] = []
    for side in (old, new):
        by_key: dict[Hashable, list[Observation]] = {}
        for each in side:
            by_key.setdefault(key(each), []).append(each)
        sides.append(by_key)
    keys = [each for each in sides[0] if each is not None and len(sides[0][each]) == len(sides[1].get(each, ())) == 1]
    pairs = [(sides[0][each][0], sides[1][each][0]) for each in keys]
    return pairs, *_left(pairs, old, new)


def _left(
    pairs: _Pairs, old: Sequence[Observation], new: Sequence[Observation]
) -> tuple[list[Observation], list[Observation]]:
    """Return what is in no pair."""
    taken = {id(each) for both in pairs for each in both}
    return [each for each in old if id(each) not in taken], [each for each in new if id(each) not in taken]
