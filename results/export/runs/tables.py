"""A run as one table: a row for each record with all figures, or for each metric, as a history's view `points`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ethos_hil.base.plain_text import escape
from ethos_hil.base.record import Record
from ethos_hil.results.bench.table import BenchRow, bench_table
from ethos_hil.results.compaction.columns import COLUMNS, POINTS, row_of
from ethos_hil.results.compaction.database import ROWS, literal, open_database, quote
from ethos_hil.results.export.exporter import NotExportable
from ethos_hil.results.export.runs.run_exporter import RunExporter
from ethos_hil.results.gate.account import account_of
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.table import ResultTable

_POINTS = f"SELECT * EXCLUDE series FROM ({POINTS})"
"""`series` is DuckDB's hash, and may be another number in another version of it."""
_FORMULA = r"^[=+\-@\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"
"""How a cell starts that a spreadsheet takes for a formula (OWASP, CSV Injection): =, +, -, @, and their wide forms."""

_TEXTS = (*(name for name, kind in COLUMNS.items() if kind == "VARCHAR"), "metric", "unit", "provenance")
_LISTS = ("vela_flags", "samples")
"""Columns of several texts or numbers; in CSV they are joined by blanks."""


def records_csv(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table with a row for each record as CSV."""
    return _records(results).to_csv().encode()


def records_parquet(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table with a row for each record as a Parquet file."""
    return _records(results).to_parquet()


def _records(results: RunResults) -> ResultTable[BenchRow]:
    return bench_table([test.record for test in account_of(results).tests])


def points_csv(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table with a row for each metric as CSV.

    Control characters are escapes, and a text that a spreadsheet would compute has an apostrophe before it.

    Raises:
        NotExportable: no record has a metric.
    """
    plain = f"SELECT * REPLACE ({', '.join(f'array_to_string({name}, chr(32)) AS {name}' for name in _LISTS)})"
    inert = ", ".join(
        f"CASE WHEN regexp_matches({name}, '{_FORMULA}') THEN chr(39) || {name} ELSE {name} END AS {name}"
        for name in (*_TEXTS, *_LISTS)
    )
    query = f"SELECT * REPLACE ({inert}) FROM ({plain} FROM ({_POINTS}))"
    return _table(results, query, "FORMAT csv, HEADER", lambda text: escape(text, keep=""))


def points_parquet(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table with a row for each metric as a Parquet file.

    Raises:
        NotExportable: no record has a metric.
    """
    return _table(results, _POINTS, "FORMAT parquet, COMPRESSION zstd", lambda text: text)


def _table(results: RunResults, query: str, form: str, convert: Callable[[str], str]) -> bytes:
    rows = [row_of(number, _stored_record(results, record)) for number, record in enumerate(results.records)]
    if not any(row["metrics"] for row in rows):
        raise NotExportable(f"no record of {results.name} has a metric", "export a run in which something ran")
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder, open_database() as database:
        lines, points = Path(folder, "rows.jsonl"), Path(folder, "points")
        lines.write_text("\n".join(json.dumps(_with_texts(row, convert)) for row in rows), encoding="utf-8")
        database.execute("SET threads = 1")  # so that the same records make the same bytes
        database.execute(f"CREATE TABLE records AS FROM {ROWS}", [literal(lines)])
        database.execute(f"COPY ({query} ORDER BY number) TO '{quote(points)}' ({form})")
        return points.read_bytes()


def _stored_record(results: RunResults, record: Record) -> StoredRecord:
    return StoredRecord(record.run.name if record.run is not None else results.name, results.created, record)


def _with_texts(value: Any, convert: Callable[[str], str]) -> Any:
    """Return a value of JSON with other texts."""
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, dict):
        return {name: _with_texts(child, convert) for name, child in value.items()}
    return [_with_texts(child, convert) for child in value] if isinstance(value, list) else value


_METRICS, _FIGURES = "a row for each metric of each record", "a row for each record with all figures"
POINTS_CSV = RunExporter("points-csv", ".csv", f"{_METRICS}, as CSV", points_csv)
POINTS_PARQUET = RunExporter("points-parquet", ".parquet", f"{_METRICS}, as Parquet", points_parquet)
RECORDS_CSV = RunExporter("bench-csv", ".csv", f"{_FIGURES}, as CSV", records_csv)
RECORDS_PARQUET = RunExporter("bench-parquet", ".parquet", f"{_FIGURES}, as Parquet", records_parquet)
