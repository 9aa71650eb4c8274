"""Exporters: what they write says what the record says."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from ethos_hil.base.record import Op, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.export.exporter import EXPORTERS
from ethos_hil.results.export.operations_csv import COLUMNS
from ethos_hil.results.store import RunFolder, find_record
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


def test_the_last_record_of_a_store_is_found(tmp_path: Path) -> None:
    older, newer = RunFolder(tmp_path, name="20260101T000000Z-aaaaaa"), RunFolder(tmp_path, name="20260102T000000Z-bbb")
    older.append(record("older"))
    newer.append(record("newer"))
    newer.append(record("newest"))
    RunFolder(tmp_path, name="20260103T000000Z-ccc")  # of a run that kept none
    (tmp_path / "notes.txt").write_text("not a run")
    (file,) = newer.path.glob("records-*.jsonl")
    with file.open("a") as stream:
        stream.write('{"schema_version": 1, "verd')  # its writer died
    assert find_record(tmp_path).model == "newest"
    assert find_record(older.path).model == "older"
    # Of several writers' files the one that was written last counts.
    other = newer.path / "records-1.jsonl"
    other.write_text(record("another writer's").dumps() + "\n")
    os.utime(other, ns=(0, file.stat().st_mtime_ns + 1))
    assert find_record(newer.path).model == "another writer's"
    assert find_record(other).model == "another writer's"


def test_a_record_in_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(text_of("json", record()))
    assert find_record(path) == record()
