"""The Parquet table: other readers find every value of the record."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fastparquet
import pandas as pd
import pytest

from ethos_hil.base.plain_text import valid
from ethos_hil.base.record import JOB, Record
from ethos_hil.results.export import parquet
from ethos_hil.results.export.exporter import NotExportable
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


READERS = {"fastparquet": by_fastparquet, "duckdb": by_duckdb}


@pytest.fixture(params=READERS.values(), ids=list(READERS))
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Record], Rows]:
    def read(of: Record) -> Rows:
        path = tmp_path / "rows.parquet"
        path.write_bytes(parquet.write(of))
        result: Rows = request.param(path)
        return result

    return read


@pytest.mark.parametrize("of", RECORDS.values(), ids=RECORDS)
def test_every_field_of_every_row_is_there(rows: Callable[[Record], Rows], of: Record) -> None:
    table = rows(of)
    cpu = () if of.profile is None else of.profile.cpu
    assert all(list(row) == list(COLUMNS) for row in table)
    assert all((row["model"], row["npu"], row["target"]) == (valid(of.model), of.npu, "virtual") for row in table)
    for operation, row in zip(of.ops, table, strict=False):
        assert row["kind"] == ("job" if operation.id == JOB else "npu")
        for name in ("id", "npu_op", "tosa_op", "module", "source", "provenance", "method", "merged_with"):
            assert row[name] == valid(getattr(operation, name)), name
        for name in ("instruction", "cycles", "spread"):
            assert row[name] == getattr(operation, name), name
        assert row["aten_ops"] == [valid(name) for name in operation.aten_ops]
        assert row["sources"] == [valid(name) for name in operation.sources]
        assert row["samples"] == list(operation.samples)
        assert row["events"] == {valid(name): count for name, count in operation.events.items()}
        assert row["operator"] is row["part"] is row["cpu_instructions"] is row["calls"] is None
        cost = None if of.profile is None else of.profile.costs.get(operation.id)
        expected = dict.fromkeys(list(COLUMNS)[list(COLUMNS).index("bound_by") :]) if cost is None else flat(cost)
        assert {name: row[name] for name in expected} == expected
    for cpu_row, row in zip(cpu, table[len(of.ops) :], strict=True):
        assert row["kind"] == "cpu"
        for name in ("id", "operator", "part", "module", "source", "provenance"):
            assert row[name] == valid(getattr(cpu_row, name)), name
        for name in ("instruction", "spread", "calls"):
            assert row[name] == getattr(cpu_row, name), name
        counted = cpu_row.count if cpu_row.unit == "instructions" else None
        assert (row["cpu_instructions"], row["cycles"]) == (counted, None if counted is not None else cpu_row.count)
        assert (
            row["npu_op"]
            is row["aten_ops"]
            is row["events"]
            is row["samples"]
            is row["macs"]
            is row["sram_read"]
            is None
        )


def flat(cost: Any) -> dict[str, Any]:
    """The columns of a cost of `profiled.cost`, from that the table is made by hand."""
    traffic = {"sram": (15, 13), "dram": (0, 0), "on_chip_flash": (0, 0), "off_chip_flash": (99, 0), "other": (1, 2)}
    if cost.bound_by == "Dram":
        traffic |= {"sram": (0, 0), "dram": (15, 13)}
    elif cost.bound_by != "Sram":
        traffic |= {"sram": (0, 0), "other": (16, 15)}
    return {
        "bound_by": valid(cost.bound_by), "traversal": "depth-first", "macs": 1 << 60, "mac_cycles": 3,
        "output_cycles": 4, "weight_cycles": 5, "weight_bytes": 17, "weights": 18, "kernels": 19, "transfers": 20,
        "cascade": 21, "vela_cycles": 22, "vela_npu_cycles": None, "modelled": 23, "rule": "output",
        "port0_cycles": 6, "port1_cycles": 7,
        "ifm_height": 8, "ifm_width": 9, "ifm_depth": 10, "ofm_height": 11, "ofm_width": 12, "ofm_depth": 13,
        "block_height": 14, "block_width": 15, "block_depth": 16,
        "ublock_height": 1, "ublock_width": 2, "ublock_depth": 8,
        **{f"{place}_read": read for place, (read, _) in traffic.items()},
        **{f"{place}_written": written for place, (_, written) in traffic.items()},
    }  # fmt: skip


def test_all_columns_of_a_cost_are_compared() -> None:
    profile = record().profile
    assert profile is not None
    names = list(COLUMNS)
    assert set(flat(profile.costs["npu00000"])) == set(names[names.index("bound_by") :])


def test_the_largest_numbers_are_exact(rows: Callable[[Record], Rows]) -> None:
    numbers = [0, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)]
    of = dataclasses.replace(record(), ops=tuple(op(n, "", number) for n, number in enumerate(numbers)), profile=None)
    assert [row["cycles"] for row in rows(of)] == numbers


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


def test_a_record_without_rows_is_refused() -> None:
    with pytest.raises(NotExportable) as raised:
        parquet.write(dataclasses.replace(record(), ops=(), profile=None))
    assert raised.value.message == "the record of net.py:net has no rows"
    assert "ethos-hil profile" in str(raised.value.hint)


def test_the_same_record_makes_the_same_bytes() -> None:
    for name, of in RECORDS.items():
        assert parquet.write(of) == parquet.write(of), name
        assert parquet.write(Record.from_json(json.loads(of.dumps()))) == parquet.write(of), name
