"""A ledger as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from ethos_hil.base.plain_text import escaped
from ethos_hil.results.ledger.ledger_row import LedgerRow
from ethos_hil.results.ledger.merge import Merged
from ethos_hil.results.ledger.rule_facts import Rules, confidence
from ethos_hil.results.ledger.summary import ESTIMATES, Grouping, LedgerGroup, LedgerSummary

SCHEMA_VERSION = 1
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that a spreadsheet takes for a formula."""


def document(summary: LedgerSummary, rows: Sequence[LedgerRow], found: Merged, rules: Rules) -> dict[str, Any]:
    """Return everything for JSON.

    Args:
        summary: of the rows.
        rows: as `ethos_hil.results.ledger.merge.joined` returns them.
        found: how they were merged.
        rules: what is known of the timing model's rules.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "by": summary.by,
        "rows": summary.rows,
        "references": summary.references,
        "without_ratio": summary.without_ratio,
        "repeated": found.repeated,
        "updated": found.updated,
        "contradictions": [str(each) for each in found.contradictions],
        "timing_models": dict(summary.timing_models),
        "rules": {name: confidence(name, rules) for name in summary.rules},
        "counted": [_group(each, summary.by, rules) for each in summary.counted],
        "estimated": [_group(each, summary.by, rules) for each in summary.estimated],
        "ledger": [asdict(row) for row in rows],
    }


def _group(group: LedgerGroup, by: Grouping, rules: Rules) -> dict[str, Any]:
    ratios = {
        name: {"count": each.count, "median": each.median, "error": each.error, "worst": each.worst,
               "worst_case": each.worst_row.case, "worst_row": each.worst_row.row, "worst_npu": each.worst_row.npu}
        for name, each in group.ratios.items()
    }  # fmt: skip
    trust = {"confidence": confidence(group.name, rules)} if by is Grouping.RULE else {}
    return {"name": group.name, "where": group.where, "rows": group.rows, "held_out": group.held_out,
            "against": dict(group.against), "ratios": ratios, **trust}  # fmt: skip


def csv_table(rows: Sequence[LedgerRow]) -> str:
    """Return a line for each row, with the provenance of what it is held against and the ratios to that."""
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    names = [item.name for item in fields(LedgerRow)]
    table.writerow([*names, "reference", *(f"{name}_ratio" for name in ESTIMATES)])
    for row in rows:
        values = [getattr(row, name) for name in ESTIMATES]
        ratios = [f"{value / row.reference:.4f}" if value is not None and row.reference else "" for value in values]
        table.writerow([*(_cell(getattr(row, name)) for name in names), row.provenance, *ratios])
    return written.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if not isinstance(value, str):
        return value
    text = escaped(value, keep="")
    return f"'{text}" if text.startswith(_FORMULA) else text
