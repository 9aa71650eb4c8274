"""A run as one table with a row for each record and all of its figures: what a benchmark is read with elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ethos_hil.results.bench.table import COLUMNS, bench_rows
from ethos_hil.results.export.runs.run_exporter import RunExporter
from ethos_hil.results.gate.account import account_of
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.table_files import as_csv, as_parquet


def write_csv(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table as CSV."""
    return as_csv(COLUMNS, (row.values() for row in _rows(results))).encode()


def write_parquet(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table as a Parquet file."""
    return as_parquet(COLUMNS, _rows(results))


def _rows(results: RunResults) -> Iterator[dict[str, Any]]:
    return bench_rows([test.record for test in account_of(results).tests])


CSV = RunExporter("bench-csv", ".csv", "a row for each record with all figures, as CSV", write_csv)
PARQUET = RunExporter("bench-parquet", ".parquet", "a row for each record with all figures, as Parquet", write_parquet)
