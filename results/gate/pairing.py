"""Which subject of one run is which of another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ethos_hil.results.gate.change import Subject
from ethos_hil.results.gate.observation import Observation
from ethos_hil.results.gate.word import Cause

_Pairs = list[tuple[Observation, Observation]]
_FIELDS: tuple[tuple[Cause, tuple[str, ...]], ...] = (
    (Cause.MEMORY_MODE, ("memory_mode",)),
    (Cause.SYSTEM_CONFIG, ("system_config",)),
    (Cause.PLACE, ("target", "soc", "runner", "method")),
    (Cause.NPU, ("npu",)),
)
"""What two subjects of one label may differ in, and what that is called."""


_LOWERED = ("memory_mode", "system_config", "target", "soc")
"""What a run that failed early may not know."""
_NOWHERE = "none"
"""The target of a test that failed before it had one."""


@dataclass(frozen=True)
class Pairing:
    """All subjects of two runs, each once.

    Attributes:
        same: on both sides.
        renamed: on both sides under different labels: the same question at the same place.
        moved: of one label, at different places.
        missing, new: on one side only.
    """

    same: tuple[tuple[Observation, Observation], ...]
    renamed: tuple[tuple[Observation, Observation], ...]
    moved: tuple[tuple[Observation, Observation], ...]
    missing: tuple[Observation, ...]
    new: tuple[Observation, ...]


def pair(before: Sequence[Observation], after: Sequence[Observation], aliases: Mapping[str, str]) -> Pairing:
    """Return which is which.

    A subject that is on one side only is the one of another name that was asked the same question, or the one of the
    same name at another place, where there is exactly one such on either side.
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
    missing = list(old.values())
    # A run that failed before it was lowered does not know for what.
    unlowered, missing, new = _matched(missing, new, lambda each: _without(each.subject, _LOWERED), _one_unlowered)
    renamed, missing, new = _matched(missing, new, _asked)
    moved: _Pairs = []
    for _, names in _FIELDS:
        found, missing, new = _matched(missing, new, lambda each, names=names: _without(each.subject, names))  # type: ignore[misc]
        moved += found
    found, missing, new = _matched(missing, new, lambda each: each.subject.label)
    return Pairing((*same, *unlowered), tuple(renamed), (*moved, *found), tuple(missing), tuple(new))


def place_cause(before: Subject, after: Subject) -> tuple[Cause, str]:
    """Return what differs first between the places of two subjects of one label, in words."""
    for cause, names in _FIELDS:
        for name in names:
            old, new = getattr(before, name), getattr(after, name)
            if old != new:
                return cause, f"another {name.replace('_', ' ')}: {old or 'none'} became {new or 'none'}"
    return Cause.NONE, ""


def _asked(each: Observation) -> Hashable:
    """Return what a renamed test has in common with itself; None for one whose question is not known."""
    return (each.question, each.inputs, replace(each.subject, label="")) if each.question else None


def _without(subject: Subject, names: Iterable[str]) -> Hashable:
    return replace(subject, **dict.fromkeys(names, ""))


def _one_unlowered(before: Observation, after: Observation) -> bool:
    """Return whether two subjects are one, but for what a side that failed early does not know."""
    for side, other in ((before, after), (after, before)):
        mine, theirs = side.subject, other.subject
        unknown = not side.verified and not mine.memory_mode and not mine.system_config
        if unknown and (mine.target == _NOWHERE or (mine.target, mine.soc) == (theirs.target, theirs.soc)):
            return True
    return False


def _matched(
    old: Sequence[Observation],
    new: Sequence[Observation],
    key: Callable[[Observation], Hashable],
    may_pair: Callable[[Observation, Observation], bool] = lambda _before, _after: True,
) -> tuple[_Pairs, list[Observation], list[Observation]]:
    """Return pairs that have a key in common which no other has, and what is left on either side."""
    sides: list[dict[Hashable, list[Observation]]] = []
    for side in (old, new):
        by_key: dict[Hashable, list[Observation]] = {}
        for each in side:
            by_key.setdefault(key(each), []).append(each)
        sides.append(by_key)
    keys = [each for each in sides[0] if each is not None and len(sides[0][each]) == len(sides[1].get(each, ())) == 1]
    pairs = [(sides[0][each][0], sides[1][each][0]) for each in keys if may_pair(sides[0][each][0], sides[1][each][0])]
    taken = {id(each) for found in pairs for each in found}
    return pairs, [each for each in old if id(each) not in taken], [each for each in new if id(each) not in taken]
