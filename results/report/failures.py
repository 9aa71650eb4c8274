"""What is not verified, with what is known of it. Failures that say the same are shown once, with all their tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ethos_hil.base.record import Divergence, Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report.reproduce import bundle, rerun
from ethos_hil.results.report.whose import ToldSince, of_failure, told
from ethos_hil.results.since import Since
from ethos_hil.results.subject import Names, Subject

_FINE = (Standing.VERIFIED, Standing.COMPILED_ONLY, Standing.SKIPPED, Standing.REFUSED)
"""What is not shown here; points of a benchmark that could not be made are in its section."""
_OTHERS = 200
"""Tests that are named besides the first one of a failure."""
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")


@dataclass(frozen=True)
class FailureGroup:
    """Tests that fail in the same way.

    Attributes:
        standing: of the first one.
        first: the first one's record.
        label: what to call it.
        reason: of a known defect or of a quarantine.
        new: whether it was right in the run before tonight's; None where that is not known.
        since: since when they fail.
        whose: whose change it is, as far as the first one's record says.
        commands: what shows it again.
        others: names of the other tests, `more` is how many are left out.
        more: see there.
    """

    standing: Standing
    first: Record
    label: str
    reason: str
    new: bool | None
    since: ToldSince | None
    whose: str
    commands: tuple[str, ...]
    others: tuple[str, ...]
    more: int

    @property
    def count(self) -> int:
        """How many tests fail so."""
        return 1 + len(self.others) + self.more


def failure_groups(
    asked: Iterable[Accounted], run: str, since: Mapping[Subject, Since], names: Names
) -> tuple[FailureGroup, ...]:
    """Return what is not verified: red ones first, of these what is new, then those with the most tests.

    Args:
        asked: all that was asked.
        run: the name of the run's folder, "" where there is none.
        since: since when tests are red.
        names: what to call tests and models.
    """
    found: dict[tuple[object, ...], list[Accounted]] = {}
    for each in asked:
        if each.standing not in _FINE:
            failure = each.record.failure
            message = _NUMBER.sub("#", failure.message) if failure is not None else ""
            known = since.get(each.subject)
            new = known.new if known is not None else None
            found.setdefault((each.standing, each.record.kind, message, each.reason, new), []).append(each)
    groups = (_group(each, run, since, names) for each in found.values())
    return tuple(sorted(groups, key=_order))


def _order(group: FailureGroup) -> tuple[bool, bool, str, int]:
    return (not group.standing.red, group.new is False, group.standing, -group.count)


def _group(alike: Sequence[Accounted], run: str, since: Mapping[Subject, Since], names: Names) -> FailureGroup:
    first = alike[0].record
    known = [since.get(each.subject) for each in alike]
    others = [names.full(each.subject) for each in alike[1:]]
    return FailureGroup(
        standing=alike[0].standing,
        first=first,
        label=names.full(alike[0].subject),
        reason=alike[0].reason,
        new=known[0].new if known[0] is not None else None,
        since=told(known),
        whose=of_failure(first, known[0]) if known[0] is not None else "",
        commands=tuple(filter(None, (rerun(first), bundle(run, first)))),
        others=tuple(others[:_OTHERS]),
        more=max(0, len(others) - _OTHERS),
    )


def divergence_rows(found: Divergence) -> Iterator[tuple[str, str]]:
    """Yield the place where a wrong answer begins, by what a reader asks first."""
    yield "where it begins", found.message
    names = [found.npu_op, found.tosa_op, ", ".join(found.aten_ops)]
    told = {
        "operation": " ← ".join(name for name in names if name),
        "line": " in ".join(name for name in (found.source, found.module) if name),
        "tensor": f"{found.tensor} {list(found.shape)} {found.dtype}" if found.tensor else "",
        "first element": f"{list(found.index)}: {found.expected} expected, {found.found} found"
        if found.index is not None
        else "",
        "elements that differ": f"{found.mismatches:,}" if found.mismatches is not None else "",
        "on the functional NPU": {True: "the same answer", False: "another answer"}.get(found.reproduced, "")
        if found.reproduced is not None
        else "",
    }
    yield from ((name, value) for name, value in told.items() if value)


def wrong_outputs(record: Record) -> Iterator[str]:
    """Yield the outputs that are wrong, in words."""
    for each in record.outputs:
        if each.mismatches:
            first = f", the first at {each.first_mismatch}" if each.first_mismatch else ""
            yield (f"{each.name} ({each.dtype}, {list(each.shape)}): {each.mismatches:,} of {each.compared:,} elements "
                   f"differ from {each.reference or 'nothing'}, by {each.max_abs_error:g} at most{first}")  # fmt: skip
