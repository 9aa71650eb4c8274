"""Exporters: what they write says what the record says."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

from ethos_hil.base.record import Op, Record, TargetInfo
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.export.exporter import EXPORTERS
from ethos_hil.results.export.operations_csv import COLUMNS
from ethos_hil.results.store import RunFolder, find_record
from ethos_hil.results.tests import profiled

OPS = (
    Op(
        "npu00000",
        "Conv2D",
        "CONV2D",
        ("aten.conv2d.default", "aten.relu.default"),
        "a.b",
        "net.py:3",
        1234,
        "modelled",
        ("net.py:3", "net.py:4"),
    ),
    Op("npu00001", 'Add, "quoted"\n', "ADD", (), "", "", None, "vela"),
)


def record(model: str = "net.py:net") -> Record:
    return Record(
        Verdict.VERIFIED,
        model=model,
        npu="ethos-u55-128",
        target=TargetInfo("virtual", "virtual", "corstone-300"),
        ops=OPS,
    )


def text_of(name: str, of: Record) -> str:
    content = EXPORTERS.get(name).write(of)
    assert isinstance(content, str)
    return content


def test_json_is_the_whole_record() -> None:
    assert Record.from_json(json.loads(text_of("json", record()))) == record()


def test_csv_has_every_field_of_every_operation() -> None:
    header, *rows = csv.reader(io.StringIO(text_of("csv", record()), newline=""))
    assert tuple(header) == COLUMNS
    assert len(rows) == len(OPS)
    for op, row in zip(OPS, rows, strict=True):
        cells = dict(zip(header, row, strict=True))
        assert cells["npu_op"] == op.npu_op
        assert tuple(cells["aten_ops"].split()) == op.aten_ops
        assert tuple(cells["sources"].split()) == op.sources
        assert cells["cycles"] == ("" if op.cycles is None else str(op.cycles))
        assert (cells["id"], cells["module"], cells["provenance"]) == (op.id, op.module, op.provenance)


def test_csv_has_what_a_profile_says_of_costs() -> None:
    of = profiled.record()
    first, *_ = csv.DictReader(io.StringIO(text_of("csv", of), newline=""))
    assert of.profile is not None
    assert first["id"] == "job"
    assert first["bound_by"] == "", "a job has no cost"
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(text_of("csv", of), newline=""))}
    cost = of.profile.costs["npu00000"]
    values = [rows["npu00000"][name] for name in ("bound_by", "macs", "weight_bytes", "vela_cycles")]
    assert values == [cost.bound_by, str(cost.macs), str(cost.weight_bytes), str(cost.vela_cycles)]
    assert rows["npu00003"]["samples"].split() == ["250", str(1 << 60), "249"]


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
