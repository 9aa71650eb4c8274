"""The report of a conformance run: counts for each configuration, each reason once, and all failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import table_of
from ethos_hil.suites.lab.prove.conformance.check import CheckEnding, CheckResult


def summary(verdicts: Sequence[CheckResult]) -> RenderableType:
    """Return the whole report for people."""
    parts: list[RenderableType] = [outcomes(verdicts)]
    for outcome in (CheckEnding.FAULTED, CheckEnding.NOT_COMPARABLE, CheckEnding.NOT_COMPILED):
        reasons = by_reason(verdicts, outcome)
        if reasons:
            parts += ["", f"{outcome}, by reason:"]
            parts += [Text(f"  {len(programs):4} programs: {reason}") for reason, programs in reasons]
    failed: dict[str, list[str]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.outcome.failed:
            failed[f"{verdict.outcome}: {verdict.program}: {verdict.detail}"].append(f"{verdict.npu} {verdict.mode}")
    if failed:
        parts += ["", "failures:"]
        parts += [Text(f"  {what} ({_shortened(places)})") for what, places in failed.items()]
    return Group(*parts)


def _shortened(places: Sequence[str]) -> str:
    more = len(places) - 2
    return "; ".join(places[:2]) + (f"; and {more} more" if more > 0 else "")


def outcomes(verdicts: Sequence[CheckResult]) -> Table:
    """Return a table that counts programs by outcome, for each configuration and memory mode, with totals."""
    counts: dict[tuple[str, str], Counter[CheckEnding]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[verdict.npu, verdict.mode][verdict.outcome] += 1
    total: Counter[CheckEnding] = sum(counts.values(), Counter())
    table = table_of(footer=True)
    table.add_column("configuration", footer="total")
    table.add_column("memory mode")
    for outcome in CheckEnding:
        table.add_column(str(outcome), justify="right", footer=f"{total[outcome]:,}")
    for (npu, mode), row in counts.items():
        table.add_row(npu, mode, *(f"{row[outcome]:,}" for outcome in CheckEnding))
    return table


def by_reason(verdicts: Sequence[CheckResult], outcome: CheckEnding) -> list[tuple[str, set[str]]]:
    """Return each reason for an outcome with the programs that had it, the most frequent first."""
    reasons: dict[str, set[str]] = defaultdict(set)
    for verdict in verdicts:
        if verdict.outcome is outcome:
            reasons[verdict.detail].add(verdict.program)
    return sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))


def to_json(verdicts: Sequence[CheckResult]) -> dict[str, Any]:
    """Return the report for programs: counts, and every check."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return {
        "programs": len({verdict.program for verdict in verdicts}),
        "configurations": sorted({verdict.npu for verdict in verdicts}),
        "outcomes": {str(outcome): counts[outcome] for outcome in CheckEnding},
        "verdicts": [
            {
                "program": verdict.program,
                "npu": verdict.npu,
                "mode": verdict.mode,
                "outcome": str(verdict.outcome),
                "detail": verdict.detail,
                "sets": verdict.sets,
            }
            for verdict in verdicts
        ],
    }


def counts(verdicts: Sequence[CheckResult], npus: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return how many exact programs had each kind of operation, on each configuration."""
    programs: dict[str, dict[str, set[str]]] = defaultdict(lambda: {npu: set() for npu in npus})
    for result in verdicts:
        for kind in result.kinds:
            programs[kind][result.npu].add(result.program)
    return {kind: {npu: len(names) for npu, names in by_npu.items()} for kind, by_npu in sorted(programs.items())}
