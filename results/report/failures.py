"""What is not verified, with what is known of it. Failures that say the same are shown once, with all their tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ethos_hil.base.record import Divergence, Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report.reproduce import bundle, rerun
from ethos_hil.results.report.whose import ToldSince, of_failure, tell_since
from ethos_hil.results.since import Since
from ethos_hil.results.subject import Names, Subject

_FINE = (Standing.VERIFIED, Standing.COMPILED_ONLY, Standing.SKIPPED, Standing.REFUSED)
"""What is not shown here; points of a benchmark that could not be made are in its section."""
_OTHERS = 200
"""Tests that are named apart from the first one of a failure."""
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
    tests: Iterable[Accounted], run: str, since: Mapping[Subject, Since], names: Names
) -> tuple[FailureGroup, ...]:
    """Return what is not verified: red ones first, of these what is new, then those with the most tests.

    Args:
        tests: all that was asked.
        run: the name of the run's folder, "" where there is none.
        since: since when tests are red.
        names: what to call tests and models.
    """
    by_kind: dict[tuple[object, ...], list[Accounted]] = {}
    for test in tests:
        if test.standing not in _FINE:
            failure = test.record.failure
            message = _NUMBER.sub("#", failure.message) if failure is not None else ""
            stretch = since.get(test.subject)
            new = stretch.new if stretch is not None else None
            by_kind.setdefault((test.standing, test.record.kind, message, test.reason, new), []).append(test)
    groups = (_group(alike, run, since, names) for alike in by_kind.values())
    return tuple(sorted(groups, key=_order))


def _order(group: FailureGroup) -> tuple[bool, bool, str, int]:
    return (not group.standing.red, group.new is False, group.standing, -group.count)


def _group(alike: Sequence[Accounted], run: str, since: Mapping[Subject, Since], names: Names) -> FailureGroup:
    first = alike[0].record
    stretches = [since.get(test.subject) for test in alike]
    others = [names.full(test.subject) for test in alike[1:]]
    return FailureGroup(
        standing=alike[0].standing,
        first=first,
        label=names.full(alike[0].subject),
        reason=alike[0].reason,
        new=stretches[0].new if stretches[0] is not None else None,
        since=tell_since(stretches),
        whose=of_failure(first, stretches[0]) if stretches[0] is not None else "",
        commands=tuple(filter(None, (rerun(first), bundle(run, first)))),
        others=tuple(others[:_OTHERS]),
        more=max(0, len(others) - _OTHERS),
    )


def divergence_rows(divergence: Divergence) -> Iterator[tuple[str, str]]:
    """Yield the place where a wrong answer starts, by what a reader asks first."""
    yield "where it starts", divergence.message
    names = [divergence.npu_op, divergence.tosa_op, ", ".join(divergence.aten_ops)]
    rows = {
        "operation": " ← ".join(name for name in names if name),
        "line": " in ".join(name for name in (divergence.source, divergence.module) if name),
        "tensor": f"{divergence.tensor} {list(divergence.shape)} {divergence.dtype}" if divergence.tensor else "",
        "first element": f"{list(divergence.index)}: {divergence.expected} expected, {divergence.found} found"
        if divergence.index is not None
        else "",
        "elements that differ": f"{divergence.mismatches:,}" if divergence.mismatches is not None else "",
        "on the functional NPU": {True: "the same answer", False: "another answer"}.get(divergence.reproduced, "")
        if divergence.reproduced is not None
        else "",
    }
    yield from ((name, value) for name, value in rows.items() if value)


def wrong_outputs(record: Record) -> Iterator[str]:
    """Yield the outputs that are wrong, in words."""
    for output in record.outputs:
        if output.mismatches:
            first = f", the first at {output.first_mismatch}" if output.first_mismatch else ""
            yield (f"{output.name} ({output.dtype}, {list(output.shape)}): {output.mismatches:,} of "
                   f"{output.compared:,} elements differ from {output.reference or 'nothing'}, "
                   f"by {output.max_abs_error:g} at most{first}")  # fmt: skip
