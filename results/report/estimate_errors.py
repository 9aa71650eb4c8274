"""How far estimates are off: the error ledger of a run, for its report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ethos_hil.base.record import Record
from ethos_hil.results.ledger.ledger_row import LedgerRow
from ethos_hil.results.ledger.merge import joined, merged
from ethos_hil.results.ledger.record_rows import rows_of
from ethos_hil.results.ledger.rule_facts import Rules
from ethos_hil.results.ledger.summary import LedgerGroup, RatioSpread, summarise
from ethos_hil.results.ledger.wording import NOT_COUNTED, NOTHING_COUNTED, OVER_COUNT, OVER_VELA, heading, trust
from ethos_hil.results.report.wording import counted


@dataclass(frozen=True)
class ErrorTable:
    """Ratios by class of operations and family of NPUs.

    Attributes:
        said: what they are of, and are not.
        heads: what is divided by what.
        rows: of each class: its name, the family, how many rows, against what, and the median, the worst ratio and
            where that is for each of `heads`.
    """

    said: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, str, str, str, tuple[tuple[str, str, str], ...]], ...]


@dataclass(frozen=True)
class EstimateErrors:
    """The ledger of a run.

    Attributes:
        heading: how many rows there are, and who counted them.
        tables: of those that were counted, and of the others.
        trust: a line for each rule that modelled cycles come from.
        contradictions: a line for each.
        counted: whether an FVP or a board counted anything.
    """

    heading: str
    tables: tuple[ErrorTable, ...]
    trust: tuple[str, ...]
    contradictions: tuple[str, ...]
    counted: bool


def estimate_errors(records: Iterable[Record], ledger: Sequence[LedgerRow], rules: Rules) -> EstimateErrors | None:
    """Return the ledger of a run, None where no two say how many cycles something takes.

    Args:
        records: of the run.
        ledger: counts of others, for the operations that are in the run too.
        rules: what is known of the timing model's rules.
    """
    own = [row for record in records for row in rows_of(record)]
    streams = {row.stream for row in own if row.stream}
    found = merged([*own, *(row for row in ledger if row.stream in streams)])
    summary = summarise(joined(found.rows))
    tables = []
    if summary.counted:
        tables.append(_table("Estimates over what an FVP or a board counted.", summary.counted, OVER_COUNT))
    if summary.estimated:
        tables.append(_table(NOT_COUNTED if summary.counted else NOTHING_COUNTED, summary.estimated, OVER_VELA))
    if not tables:
        return None
    told = tuple(map(str, found.contradictions))
    return EstimateErrors(heading(summary), tuple(tables), trust(summary, rules), told, bool(summary.counted))


def _table(said: str, groups: Iterable[LedgerGroup], heads: Mapping[str, str]) -> ErrorTable:
    rows = tuple(
        (
            group.name,
            group.where.removeprefix("ethos-"),
            f"{group.rows:,}",
            ", ".join(f"{name} {count:,}" for name, count in group.against.items()),
            tuple(_cells(group.ratios.get(name)) for name in heads),
        )
        for group in groups
    )
    return ErrorTable(said, tuple(heads.values()), rows)


def _cells(ratio: RatioSpread | None) -> tuple[str, str, str]:
    if ratio is None:
        return "", "", ""
    row = ratio.worst_row
    where = f"{row.case} {row.row} for {row.npu}, of {counted(ratio.count, 'row')}"
    error = f" ±{ratio.error:.0%}" if math.isfinite(ratio.error) else ""
    return f"{ratio.median:,.2f}{error}", f"{ratio.worst:,.2f}", where
