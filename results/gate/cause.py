"""The first thing that differs between two observations, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ethos_hil.results.gate.observation import COMPILED, FACTS, Observation
from ethos_hil.results.gate.word import Cause
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


def known(before: Observation, after: Observation, provenance: str) -> bool:
    """Return whether both sides name all that decides about a number, so that nothing else can have moved it.

    The program has the delegates in it. A target that says nothing of itself is one that nobody can set. What PyTorch
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
