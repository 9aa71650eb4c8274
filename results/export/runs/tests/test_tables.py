"""The table of points: one definition with a history's, in CSV and in Parquet, read by other code."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import duckdb
import pytest

from ethos_hil.base.plain_text import escape
from ethos_hil.base.record import Metric, RunInfo
from ethos_hil.results.compaction.columns import COLUMNS
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.export.runs import tables
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.history import History
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.store import StoredRecord

OF_A_METRIC = ("metric", "value", "unit", "provenance", "samples")


def table(results: RunResults) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tables.points_csv(results, None).decode())))


def parquet(results: RunResults, folder: Path) -> list[dict[str, object]]:
    path = folder / "points.parquet"
    path.write_bytes(tables.points_parquet(results, None))
    with duckdb.connect() as database:
        relation = database.read_parquet(str(path))
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def test_the_rows_are_those_of_a_history(tmp_path: Path) -> None:
    records = (samples.record(), samples.record(name="sub", run=None), samples.failed())
    results = samples.run(*records)
    name = results.name
    compact_records([StoredRecord(name, results.created, record) for record in records], tmp_path / "history")
    expected = History(tmp_path / "history").rows("SELECT * EXCLUDE series FROM points ORDER BY number")
    assert len(expected) == 12
    assert parquet(results, tmp_path) == expected
    columns = [*(column for column in COLUMNS if column != "metrics"), *OF_A_METRIC]
    assert list(expected[0]) == list(table(results)[0]) == columns
    for row, same in zip(table(results), expected, strict=True):
        for column in columns:
            assert row[column] == cell(same[column]), column


def cell(value: object) -> str:
    """What CSV has for a value."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def test_a_record_is_of_the_run_that_it_names() -> None:
    rows = table(samples.run(samples.record(run=None), samples.record(name="sub", run=RunInfo("another"))))
    assert [row["run"] for row in rows[::4]] == ["20261125T100247Z-c394cb", "another"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_cell_is_a_formula(start: str) -> None:
    """Neither as a program reads the file, nor as a spreadsheet does that takes quotes for nothing."""
    text = f'{start}cmd|" /C calc"!A0'
    record = samples.record(model=text, npu=text, memory_mode=text, test=None,
                      metrics=(Metric(text, -1, text, text, (-1, 2)),))  # fmt: skip
    for row in table(samples.run(record)):
        for column, cell in row.items():
            if column != "value":
                assert not cell.startswith(start), column
        assert row["label"] == row["npu"] == row["metric"] == f"'{text}"
        assert (row["value"], row["samples"]) == ("-1.0", "'-1.0 2.0")


def test_text_is_escaped_in_csv_and_kept_in_parquet(tmp_path: Path) -> None:
    results = samples.hostile()
    row, *_ = rows = table(results)
    assert [float(each["value"]) for each in rows[: len(samples.NUMBERS)]] == list(samples.NUMBERS), "they are exact"
    assert row["npu"] == f"'{escape(samples.HOSTILE, keep='')}"
    assert not {char for char in tables.points_csv(results, None).decode() if not char.isprintable()} - {"\n"}
    cells = parquet(results, tmp_path)[0]
    assert cells["npu"] == samples.HOSTILE.replace("\udc80", "\\udc80")
    assert cells["value"] == 0
