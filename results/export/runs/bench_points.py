"""A run as one table with a row for each record and all of its figures: what a benchmark is read with elsewhere."""

from __future__ import annotations

from ethos_hil.results.bench.table import bench_rows
from ethos_hil.results.bench.table_files import as_csv, as_parquet
from ethos_hil.results.export.runs.run_exporter import RunExporter
from ethos_hil.results.gate.account import account_of
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults


def write_csv(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table as CSV."""
    return as_csv(bench_rows([each.record for each in account_of(results).tests]))


def write_parquet(results: RunResults, comparison: RunComparison | None) -> bytes:
    """Return the table as a Parquet file."""
    return as_parquet(bench_rows([each.record for each in account_of(results).tests]))


CSV = RunExporter("bench-csv", ".csv", "a row for each record with all figures, as CSV", write_csv)
PARQUET = RunExporter("bench-parquet", ".parquet", "a row for each record with all figures, as Parquet", write_parquet)
