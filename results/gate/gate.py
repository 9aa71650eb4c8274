"""The gate: a run against another, or against what was accepted, under a policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import Observation
from ethos_hil.results.gate.policy import DEFAULT, read_policy
from ethos_hil.results.gate.sides import Side, side


def gate(
    before: str | Path | Side,
    after: str | Path | Side | None = None,
    *,
    baseline: str | Path | Side | None = None,
    policy: str | Path | None = None,
    history: str | Path | None = None,
    only: Sequence[str] = (),
    partial: bool = False,
) -> RunComparison:
    """Compare two runs, or a run with what was accepted.

    Args:
        before: a run folder, or a folder of them (its newest run); a record; a baseline; the name of a run of
            `history`, or "last". Without `after`, it is compared with `baseline`.
        after: the same; what is new in it counts as new.
        baseline: what was accepted: a change after which a test is as it is in there is `accepted`.
        policy: what is allowed, a TOML file; by default nothing that is worse.
        history: where runs are looked up by their names.
        only: only tests and models with one of these texts in their name, or whose name fits one as a pattern.
        partial: whether `after` is a part of what was asked, so that nothing is missing in it.

    Raises:
        OSError: a file cannot be read.
        ValueError: a side, baseline or policy is none, or `only` leaves nothing.
    """
    sides = [_side(each, history) for each in (before, after, baseline) if each is not None]
    if len(sides) < 2:
        raise ValueError("there is nothing to compare with: give a second run, or a baseline")
    sides = [replace(each, observations=chosen(each.observations, only)) for each in sides]
    if only and not any(each.observations for each in sides):
        raise ValueError(f"no test or model has {' or '.join(map(repr, only))} in its name")
    one, two = sides[:2] if after is not None else sides[::-1]
    found = compare_runs(
        one.observations,
        two.observations,
        policy=read_policy(Path(policy)) if policy is not None else DEFAULT,
        names=(one.name, two.name),
        baseline=sides[2].observations if len(sides) > 2 else None,
        partial=partial,
    )
    return replace(found, gaps=() if only else two.gaps)


def chosen(found: Sequence[Observation], only: Sequence[str]) -> tuple[Observation, ...]:
    """Return those whose label has one of the texts in it, or fits it as a pattern; all where there are none."""
    return tuple(
        each for each in found
        if not only or any(text in each.subject.label or fnmatchcase(each.subject.label, text) for text in only)
    )  # fmt: skip


def _side(given: str | Path | Side, history: str | Path | None) -> Side:
    if isinstance(given, Side):
        return given
    return side(str(given), Path(history) if history is not None else None)
