"""Exporters: what they write says what the record says: CSV, JSON, a graph for Model Explorer, a table of Parquet."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import fastparquet
import pandas as pd
import pytest

from ethos_hil.base.inference_profile import Edge, Slice
from ethos_hil.base.plain_text import valid
from ethos_hil.base.record import JOB, Op, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.export import model_explorer, parquet
from ethos_hil.results.export.exporter import EXPORTERS, NotExportable
from ethos_hil.results.export.operations_csv import COLUMNS
from ethos_hil.results.tests import profiled

ATEN, SOURCES = ("aten.conv2d.default", "aten.relu.default"), ("net.py:3", "net.py:4")
OPS = (
    Op("npu00000", "Conv2D", "CONV2D", ATEN, "a.b", "net.py:3", 1234, "modelled", SOURCES),
    Op("npu00001", 'Add, "quoted"\n', "ADD", (), "", "", None, "vela"),
)
TARGET = TargetInfo("virtual", "virtual", "corstone-300")


def record(model: str = "net.py:net") -> Record:
    return Record(Verdict.VERIFIED, model=model, npu="ethos-u55-128", target=TARGET, ops=OPS)


def text_of(name: str, of: Record) -> str:
    content = EXPORTERS.get(name).write(of)
    assert isinstance(content, str)
    return content


def test_json_is_the_whole_record() -> None:
    assert Record.from_json(json.loads(text_of("json", record()))) == record()


@pytest.mark.parametrize("of", [record(), profiled.record()], ids=["plain", "with a profile"])
def test_csv_has_every_field_of_every_operation_and_its_costs(of: Record, recorded: Recorded) -> None:
    """Another reader finds as many rows, with each name once; a job has no cost."""
    text = text_of("csv", of)
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert (tuple(header), len(rows)) == (COLUMNS, len(of.ops))
    assert [row[:2] for row in rows] == [[op.id, op.npu_op] for op in of.ops]
    recorded.check(text)


RECORDS = {"small": profiled.record(), "hostile": profiled.hostile(), "large": profiled.large(1500)}


@pytest.mark.parametrize("name", EXPORTERS.names())
def test_the_same_record_makes_the_same_bytes(name: str) -> None:
    write = EXPORTERS.get(name).write
    for what, of in RECORDS.items():
        assert write(of) == write(of) == write(Record.from_json(json.loads(of.dumps()))), what


SMALL = RECORDS["small"]
LACKING = {
    "a profile": dataclasses.replace(SMALL, profile=None),
    "rows": dataclasses.replace(SMALL, ops=(), profile=None),
    "a timeline": profiled.with_profile(SMALL, timeline=()),
    **{
        f"a slice that ends after its begin, from {begin} to {end}":
            profiled.with_profile(SMALL, timeline=(Slice("npu", "x", begin, end),))
        for begin, end in ((5, 4), (-1, 4), (0, 1 << 70))
    },
}  # fmt: skip


@pytest.mark.parametrize("what", LACKING)
def test_what_cannot_be_shown_is_said(what: str, recorded: Recorded) -> None:
    lines = []
    for name in EXPORTERS.names():
        try:
            EXPORTERS.get(name).write(LACKING[what])
            lines.append(f"{name}: written")
        except NotExportable as error:
            lines.append(f"{name}: {error.message}; {error.hint}")
    recorded.check("\n".join(lines))


# The graph and overlays for Model Explorer.


EDGES = (
    Edge("input 0", "npu00000", 640), Edge("npu00000", "npu00002", 400), Edge("npu00002", "npu00003", 64),
    Edge("npu00000", "npu00003", 336), Edge("npu00003", "output 0", 10),
)  # fmt: skip
GIVEN = profiled.with_profile(SMALL, edges=EDGES)


def nodes(of: Record) -> dict[str, dict[str, Any]]:
    (graph,) = json.loads(model_explorer.graph(of))["graphs"]
    by_id = {node["id"]: node for node in graph["nodes"]}
    assert len(by_id) == len(graph["nodes"])
    return by_id


def test_every_row_is_a_node_with_its_edges_and_its_cycles_in_the_overlay(recorded: Recorded) -> None:
    assert {op.id for op in GIVEN.ops if op.id != JOB} < nodes(GIVEN).keys()
    recorded.check(model_explorer.graph(GIVEN).replace("}, {", "},\n{"))
    recorded.check(model_explorer.cycles(GIVEN).replace("}, ", "},\n"), "cycles")


def test_names_cannot_break_out_of_their_boxes() -> None:
    hostile = dataclasses.replace(GIVEN.ops[1], module=f"a/b.{profiled.HOSTILE}", npu_op=profiled.HOSTILE)
    node = nodes(dataclasses.replace(GIVEN, model=profiled.HOSTILE, ops=(hostile, *GIVEN.ops[2:])))[hostile.id]
    assert node["namespace"].startswith("a|b/")
    assert "\x1b" not in node["label"]


# The Parquet table: other readers find every value of the record.


Rows = list[dict[str, Any]]
TABLES = {**RECORDS, "plain": dataclasses.replace(SMALL, profile=None)}


def by_fastparquet(path: Path) -> Rows:
    """Code that has nothing in common with what wrote it. It is told which columns are integers that may be null: left
    to itself, it takes some that are null throughout for such that never are, and fails.
    """
    file = fastparquet.ParquetFile(io.BytesIO(path.read_bytes()))
    frame = file.to_pandas(
        dtypes=file.dtypes | {name: pd.Int64Dtype() for name, kind in parquet.COLUMNS.items() if kind == "BIGINT"}
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


@pytest.mark.parametrize("of", TABLES.values(), ids=TABLES)
def test_two_readers_find_the_same_row_for_each_operation(tmp_path: Path, of: Record) -> None:
    rows = read(of, tmp_path)
    assert all(list(row) == list(parquet.COLUMNS) for row in rows)
    cpu = () if of.profile is None else of.profile.cpu
    names = ("id", "module", "source", "provenance")
    expected = [[valid(getattr(entry, name)) for name in names] for entry in (*of.ops, *cpu)]
    assert [[row[name] for name in names] for row in rows] == expected
    assert {row["model"] for row in rows} == {valid(of.model)}


@pytest.mark.parametrize("name", ["small", "plain"])
def test_every_field_of_every_row_is_there(tmp_path: Path, name: str, recorded: Recorded) -> None:
    """What is not known is null, and so is what another kind of row has."""
    rows = read(TABLES[name], tmp_path)
    recorded.check("\n".join(f"{column}: {', '.join(repr(row[column]) for row in rows)}" for column in parquet.COLUMNS))


def read(of: Record, folder: Path) -> Rows:
    """The rows, as two readers find them."""
    path = folder / "rows.parquet"
    path.write_bytes(parquet.write(of))
    rows = by_duckdb(path)
    assert by_fastparquet(path) == rows
    return rows


def test_the_largest_numbers_are_exact(tmp_path: Path) -> None:
    numbers = [0, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)]
    of = dataclasses.replace(
        SMALL, ops=tuple(profiled.op(n, "", number) for n, number in enumerate(numbers)), profile=None
    )
    assert [row["cycles"] for row in read(of, tmp_path)] == numbers


def test_files_of_several_records_are_one_table(tmp_path: Path) -> None:
    for name, of in TABLES.items():
        (tmp_path / f"{name}.parquet").write_bytes(parquet.write(of))
    with duckdb.connect() as database:
        database.execute(f"SELECT count(*), sum(cycles) FROM read_parquet('{tmp_path}/*.parquet')")
        (count,) = database.fetchall()
    cpu = [row for of in TABLES.values() if of.profile for row in of.profile.cpu]
    ops = [op for of in TABLES.values() for op in of.ops]
    cycles = sum(op.cycles or 0 for op in ops) + sum(row.count or 0 for row in cpu if row.unit == "cycles")
    assert count == (len(ops) + len(cpu), cycles)
