"""A run as one table: a row for each record with all figures, or for each metric, as a history's view `points`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.results.bench.figures import BenchRow, bench_table
from ethos_hil.results.compaction.columns import POINTS, row_of
from ethos_hil.results.compaction.database import ROWS, literal, open_database, quote
from ethos_hil.results.export.exporter import NotExportable
from ethos_hil.results.export.runs.run_exporter import RunExporter
from ethos_hil.results.gate.account import account_of
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.table import ResultTable, as_csv

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_POINTS = f"SELECT * EXCLUDE series FROM ({POINTS}) ORDER BY number"
"""`series` is DuckDB's hash, and may be another number in another version of it."""


def records_csv(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table with a row for each record as CSV."""
    return _records(results).to_csv().encode()


def records_parquet(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table with a row for each record as a Parquet file."""
    return _records(results).to_parquet()


def _records(results: RunResults) -> ResultTable[BenchRow]:
    return bench_table([test.record for test in account_of(results).tests])


def points_csv(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table with a row for each metric as CSV. Several texts or numbers are joined by blanks.

    Raises:
        NotExportable: no record has a metric.
    """
    with _points(results) as database:
        answer = database.execute(_POINTS)
        columns = [column[0] for column in answer.description or ()]
        return as_csv(columns, (map(_word, row) for row in answer.fetchall())).encode()


def points_parquet(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table with a row for each metric as a Parquet file.

    Raises:
        NotExportable: no record has a metric.
    """
    with _points(results) as database, tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        points = Path(folder, "points")
        database.execute(f"COPY ({_POINTS}) TO '{quote(points)}' (FORMAT parquet, COMPRESSION zstd)")
        return points.read_bytes()


@contextmanager
def _points(results: RunResults) -> Iterator[DuckDBPyConnection]:
    """Return a database with the table `records`, whose metrics `_POINTS` selects."""
    rows = []
    for number, record in enumerate(results.records):
        run = record.run.name if record.run is not None else results.name
        rows.append(row_of(number, StoredRecord(run, results.created, record)))
    if not any(row["metrics"] for row in rows):
        raise NotExportable(f"no record of {results.name} has a metric", "export a run in which something ran")
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder, open_database() as database:
        lines = Path(folder, "rows.jsonl")
        lines.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        database.execute("SET threads = 1")  # so that the same records make the same bytes
        database.execute(f"CREATE TABLE records AS FROM {ROWS}", [literal(lines)])
        yield database


def _word(value: Any) -> Any:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else value


_METRICS, _FIGURES = "a row for each metric of each record", "a row for each record with all figures"
POINTS_CSV = RunExporter("points-csv", ".csv", f"{_METRICS}, as CSV", points_csv)
POINTS_PARQUET = RunExporter("points-parquet", ".parquet", f"{_METRICS}, as Parquet", points_parquet)
RECORDS_CSV = RunExporter("bench-csv", ".csv", f"{_FIGURES}, as CSV", records_csv)
RECORDS_PARQUET = RunExporter("bench-parquet", ".parquet", f"{_FIGURES}, as Parquet", records_parquet)
