"""The report of a run of the fuzzer."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.suites.lab.fuzz.streams.jobs import CRASHED, Examined
from ethos_hil.suites.lab.fuzz.streams.trial import FAULT_KINDS, RESULT

OUTCOMES = (RESULT, *FAULT_KINDS, CRASHED)
EXAMPLES = 3  # of a finding


def summary(cases: Sequence[Examined], seconds: float) -> RenderableType:
    """Return the report for people: counts by configuration, and findings."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        counts[case.npu][case.verdict.outcome] += 1
        counts[case.npu]["decoded"] += case.verdict.decoded
    total: Counter[str] = sum(counts.values(), Counter())
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
    table.add_column("configuration", footer="total")
    for outcome in (*OUTCOMES, "decoded"):
        table.add_column(outcome, justify="right", footer=f"{total[outcome]:,}")
    for npu in sorted(counts, key=EthosU.names().index):
        row = counts[npu]
        table.add_row(npu, *(f"{row[outcome]:,}" for outcome in (*OUTCOMES, "decoded")))
    slowest = max((case.verdict.seconds for case in cases), default=0.0)
    by_finding = findings(cases)
    wrong = sum(map(len, by_finding.values()))
    parts: list[RenderableType] = [
        table,
        "",
        f"{len(cases):,} cases in {seconds:.0f} seconds, the slowest in {slowest:.2f}; findings: {wrong or 'none'}",
    ]
    for what, where in by_finding.items():
        more = f" and {len(where) - EXAMPLES} more" if len(where) > EXAMPLES else ""
        parts.append(Text(f"  {len(where):4} x {what}\n         {', '.join(where[:EXAMPLES])}{more}"))
    return Group(*parts)


def findings(cases: Sequence[Examined]) -> dict[str, list[str]]:
    """Return the findings with the files of their cases, the most frequent first.

    Findings that differ in numbers only are one.
    """
    files: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        if case.verdict.finding:
            files[re.sub(r"0x[0-9a-f]+|(?<![\w.:])\d+(?![\w:])", "N", case.verdict.finding)].append(str(case.file))
    return dict(sorted(files.items(), key=lambda item: -len(item[1])))


def to_json(cases: Sequence[Examined], seed: int, seconds: float) -> dict[str, Any]:
    """Return the report for programs."""
    return {
        "cases": len(cases),
        "seed": seed,
        "seconds": round(seconds, 1),
        "slowest_seconds": round(max((case.verdict.seconds for case in cases), default=0.0), 3),
        "decoded": sum(case.verdict.decoded for case in cases),
        "outcomes": dict(Counter(case.verdict.outcome for case in cases)),
        "configurations": {
            npu: dict(Counter(case.verdict.outcome for case in cases if case.npu == npu))
            for npu in dict.fromkeys(case.npu for case in cases)
        },
        "findings": [
            {"npu": case.npu, "finding": case.verdict.finding, "fault": case.verdict.fault, "file": str(case.file)}
            for case in cases
            if case.verdict.finding
        ],
    }
