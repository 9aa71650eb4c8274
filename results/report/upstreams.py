"""Several upstreams that lowered the same in one run, side by side: what differs from the first, and why."""

from __future__ import annotations

from collections.abc import Sequence

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.gate.change import VERDICT, Change
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import Observation, observations
from ethos_hil.results.subject import Subject

HERE = "the environment of ethos-hil"
_SHOWN = ("npu_cycles", VERDICT)
_MOST_ROWS = 200


@dataclass(frozen=True)
class UpstreamSide:
    """An upstream beside the first.

    Attributes:
        first, name: what both are called, and `versions` what tells theirs apart: "executorch 1.4.1, 1.5.1 there".
        depth: how deep the lowering knew them: "full", "bare" or both.
        verified, asked: how many are verified of how many, of this one.
        same: how many have the same cycles and verdict in both.
        changes: the others, each with its cause.
        left_out: how many more there are.
    """

    first: str
    name: str
    versions: str
    depth: str
    verified: int
    asked: int
    same: int
    changes: tuple[Change, ...]
    left_out: int


def upstream_sides(tests: Sequence[Accounted]) -> tuple[UpstreamSide, ...]:
    """Return each upstream of a run beside the first one; nothing where there is only one.

    What only one of them lowered, such as a night's known model, is left out.

    Args:
        tests: all that was asked, in order.
    """
    alike = [replace(test.subject, upstream="") for test in tests]
    upstreams: dict[Subject, set[str]] = {}
    for test, subject in zip(tests, alike, strict=True):
        upstreams.setdefault(subject, set()).add(test.subject.upstream)
    groups: dict[str, list[Accounted]] = {}
    for test, subject in zip(tests, alike, strict=True):
        if len(upstreams[subject]) > 1:
            groups.setdefault(test.subject.upstream, []).append(test)
    if not groups:
        return ()
    (first, before), *others = groups.items()
    return tuple(_side(first, before, name, after) for name, after in others)


def _side(first: str, before: Sequence[Accounted], name: str, after: Sequence[Accounted]) -> UpstreamSide:
    changes = [
        change
        for change in compare_runs(_alike(before), _alike(after), partial=True).changes
        if change.metric in _SHOWN and None not in (change.before, change.after)
    ]
    depths = {test.record.artifact.depth for test in after if test.record.artifact is not None}
    return UpstreamSide(
        first or HERE,
        name or HERE,
        _versions(before, after),
        " and ".join(sorted(depths - {""})),
        sum(test.record.verdict is Verdict.VERIFIED for test in after),
        len(after),
        len(after) - len({change.subject for change in changes}),
        tuple(changes[:_MOST_ROWS]),
        max(0, len(changes) - _MOST_ROWS),
    )


def _alike(tests: Sequence[Accounted]) -> tuple[Observation, ...]:
    """Return what tests say, as if one upstream had lowered them all."""
    return tuple(
        replace(seen, subject=replace(seen.subject, upstream=""))
        for seen in observations(test.record for test in tests)
    )


def _versions(before: Sequence[Accounted], after: Sequence[Accounted]) -> str:
    made = ([test.record for test in tests if test.record.artifact is not None] for tests in (before, after))
    old, new = ({**records[0].versions} if records else {} for records in made)
    return ", ".join(f"{name} {old[name]} and {new[name]}" for name in new if old.get(name, new[name]) != new[name])
