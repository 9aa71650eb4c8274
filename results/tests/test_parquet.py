"""The Parquet table: other readers find every value of the record."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import duckdb
import fastparquet
import pandas as pd
import pytest

from ethos_hil.base.plain_text import valid
from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.export import parquet
from ethos_hil.results.export.parquet import COLUMNS
from ethos_hil.results.tests.profiled import hostile, large, op, record

Rows = list[dict[str, Any]]
RECORDS = {
    "small": record(),
    "hostile": hostile(),
    "large": large(1500),
    "plain": dataclasses.replace(record(), profile=None),
}


def by_fastparquet(path: Path) -> Rows:
    """Code that has nothing in common with what wrote it. It is told which columns are integers that may be null: left
    to itself, it takes some that are null throughout for such that never are, and fails.
    """
    file = fastparquet.ParquetFile(io.BytesIO(path.read_bytes()))
    frame = file.to_pandas(
        dtypes=file.dtypes | {name: pd.Int64Dtype() for name, kind in COLUMNS.items() if kind == "BIGINT"}
    )
    return [{name: plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def plain(value: Any) -> Any:
    """A value of pandas as Python has it."""
    if isinstance(value, list | dict):
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    return None if value is None or value != value or str(value) == "<NA>" else value


def by_duckdb(path: Path) -> Rows:
    with duckdb.connect() as database:
        relation = database.read_parquet(str(path))
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


@pytest.mark.parametrize("of", RECORDS.values(), ids=RECORDS)
def test_two_readers_find_the_same_row_for_each_operation(tmp_path: Path, of: Record) -> None:
    rows = read(of, tmp_path)
    assert all(list(row) == list(COLUMNS) for row in rows)
    cpu = () if of.profile is None else of.profile.cpu
    names = ("id", "module", "source", "provenance")
    expected = [[valid(getattr(entry, name)) for name in names] for entry in (*of.ops, *cpu)]
    assert [[row[name] for name in names] for row in rows] == expected
    assert {row["model"] for row in rows} == {valid(of.model)}


@pytest.mark.parametrize("name", ["small", "plain"])
def test_every_field_of_every_row_is_there(tmp_path: Path, name: str, recorded: Recorded) -> None:
    """What is not known is null, and so is what another kind of row has."""
    rows = read(RECORDS[name], tmp_path)
    recorded.check("\n".join(f"{column}: {', '.join(repr(row[column]) for row in rows)}" for column in COLUMNS))


def read(of: Record, folder: Path) -> Rows:
    """The rows, as two readers find them."""
    path = folder / "rows.parquet"
    path.write_bytes(parquet.write(of))
    rows = by_duckdb(path)
    assert by_fastparquet(path) == rows
    return rows


def test_the_largest_numbers_are_exact(tmp_path: Path) -> None:
    numbers = [0, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)]
    of = dataclasses.replace(record(), ops=tuple(op(n, "", number) for n, number in enumerate(numbers)), profile=None)
    assert [row["cycles"] for row in read(of, tmp_path)] == numbers


def test_files_of_several_records_are_one_table(tmp_path: Path) -> None:
    for name, of in RECORDS.items():
        (tmp_path / f"{name}.parquet").write_bytes(parquet.write(of))
    with duckdb.connect() as database:
        database.execute(f"SELECT count(*), sum(cycles) FROM read_parquet('{tmp_path}/*.parquet')")
        (count,) = database.fetchall()
    cpu = [row for of in RECORDS.values() if of.profile for row in of.profile.cpu]
    ops = [op for of in RECORDS.values() for op in of.ops]
    cycles = sum(op.cycles or 0 for op in ops) + sum(row.count or 0 for row in cpu if row.unit == "cycles")
    assert count == (len(ops) + len(cpu), cycles)
