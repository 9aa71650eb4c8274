"""Records as a table: a row for each, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ethos_hil.base.record import Record
from ethos_hil.results.gate.account import attempt_of, part_of
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.table import INTEGER, Fit, ResultTable, TableColumn

_Numbered = tuple[StoredRecord, int]
"""A record with its number in its run, from 1."""


def _cycles(record: Record) -> tuple[int | None, str]:
    cycles = record.metric("npu_cycles")
    return (None, "") if cycles is None else (int(cycles.value), cycles.provenance)


COLUMNS: Sequence[TableColumn[_Numbered]] = (
    TableColumn("run", lambda row: row[0].run),
    TableColumn("record", lambda row: row[1], INTEGER, Fit.NUMBER),
    TableColumn("created", lambda row: row[0].created),
    TableColumn("model", lambda row: row[0].record.model),
    TableColumn("method", lambda row: row[0].record.method),
    TableColumn("case", lambda row: row[0].record.bench.case if row[0].record.bench is not None else ""),
    TableColumn("profile", lambda row: row[0].record.test.profile if row[0].record.test is not None else ""),
    TableColumn("npu", lambda row: row[0].record.npu),
    TableColumn("memory_mode", lambda row: row[0].record.memory_mode),
    TableColumn("system_config", lambda row: row[0].record.system_config),
    TableColumn("scheme", lambda row: row[0].record.artifact.scheme if row[0].record.artifact is not None else ""),
    TableColumn("target", lambda row: row[0].record.target.name),
    TableColumn("soc", lambda row: row[0].record.target.soc),
    TableColumn("part", lambda row: part_of(row[0].record)),
    TableColumn("attempt", lambda row: attempt_of(row[0].record), INTEGER, Fit.NUMBER),
    TableColumn("verdict", lambda row: row[0].record.verdict),
    TableColumn("failure", lambda row: row[0].record.kind or ""),
    TableColumn("executions", lambda row: row[0].record.executions, INTEGER, Fit.NUMBER),
    TableColumn("npu_cycles", lambda row: _cycles(row[0].record)[0], INTEGER, Fit.NUMBER),
    TableColumn("provenance", lambda row: _cycles(row[0].record)[1]),
)
_WHERE_SEVERAL = ("record", "method", "case", "profile", "system_config", "scheme", "soc", "part", "attempt")
"""Columns that tell a reader nothing where all rows have the same in them."""


def record_table(stored: Iterable[StoredRecord]) -> ResultTable[_Numbered]:
    """Return one row per record, in the given order. `record` is its number in its run, and `npu_cycles` is for one
    execution, missing where none were counted.
    """
    counted: Counter[str] = Counter()
    rows: list[_Numbered] = []
    for item in stored:
        counted[item.run] += 1
        rows.append((item, counted[item.run]))
    return ResultTable(COLUMNS, rows)


def for_people(table: ResultTable[_Numbered]) -> ResultTable[_Numbered]:
    """Return the table without the columns that have one value throughout, and with no two equal rows."""
    values = {column.name: [column.value(row) for row in table.rows] for column in table.columns}
    same = [name for name in _WHERE_SEVERAL if name == "record" or len(set(values[name])) < 2]
    left = [column for column in table.columns if column.name not in same]
    rows = list(zip(*(values[column.name] for column in left), strict=True))
    if len(set(rows)) < len(rows):
        left = [column for column in table.columns if column.name not in same[1:]]
    return ResultTable(left, table.rows)
