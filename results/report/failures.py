"""What is not verified, with what is known of it: where a wrong answer starts, since when, and whose change it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.plain_text import count_of
from ethos_hil.base.record import Divergence, Record
from ethos_hil.base.verdict import NOT_ATTEMPTED, Standing
from ethos_hil.results.compaction.columns import row_of
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report.reproduce import bundle, rerun
from ethos_hil.results.since import PastNight, Since
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.subject import Names, Subject


@dataclass(frozen=True)
class ToldSince:
    """Since when.

    Attributes:
        new: whether it was otherwise in the run before.
        first: the first run in which it was so; None where that is tonight's.
        last: the last run in which it was otherwise; None where the history has none.
        nights: for how many runs it has been so, with tonight's.
        spread: what to say where not all tests of a group are so since one run.
    """

    new: bool
    first: PastNight | None
    last: PastNight | None
    nights: str
    spread: str = ""


def tell_since(stretches: Sequence[Since | None]) -> ToldSince | None:
    """Return since when tests that belong together are so: the longest of them; None where nothing is known of one."""
    known = [stretch for stretch in stretches if stretch is not None]
    if not known:
        return None
    longest = max(known, key=lambda stretch: stretch.runs)
    others = sum(stretch.runs < longest.runs for stretch in known)
    spread = f"{count_of(others, 'other')} for fewer nights" if others else ""
    return ToldSince(longest.new, longest.first, longest.last, count_of(longest.runs + 1, "night"), spread)


class Whose(StrEnum):
    """Who made a change."""

    MODEL = "the model was edited"
    UPSTREAM = "an upstream version"
    OURS = "our code"
    BOARD = "the board, target or machine"
    UNKNOWN = "not known"


_VERSIONS = ("ethos-u-vela", "executorch", "torch", "torchao", "tosa-tools", "fvp")
_OURS = {"lowering": "our lowering", "timing_model": "the timing model", "firmware": "the firmware",
         "commit": "the commit"}  # fmt: skip


def of_failure(record: Record, since: Since) -> str:
    """Return who made a test fail, with what is different from the last run in which it was right; "" where none is.

    Args:
        record: tonight's.
        since: since when it fails; only what failed tonight for the first time is compared with the run before.
    """
    if record.kind in NOT_ATTEMPTED:
        return str(Whose.BOARD)
    if since.last is None or not since.new:
        return ""
    now, before = row_of(0, StoredRecord("", "", record)), since.facts
    edited = [name for name in ("question", "inputs") if _differ(before.get(name), now[name])]
    if edited:
        return str(Whose.MODEL)
    old, new = _versions(before.get("versions", "")), _versions(str(now["versions"]))
    moved = [f"{name} {old[name]} became {new[name]}" for name in _VERSIONS if _differ(old.get(name), new.get(name))]
    if moved:
        return f"{Whose.UPSTREAM} ({', '.join(moved)})"
    ours = [text for name, text in _OURS.items() if _differ(before.get(name), now[name])]
    if ours:
        return f"{Whose.OURS} ({' and '.join(ours)} changed)"
    return f"{Whose.UNKNOWN} (model, versions, firmware and commit are those of {since.last.run})"


def _differ(old: str | None, new: object) -> bool:
    return bool(old) and bool(new) and old != new


def _versions(text: str) -> Mapping[str, str]:
    try:
        versions = json.loads(text or "{}")
    except ValueError:
        return {}
    return versions if isinstance(versions, dict) else {}


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
