"""The series of a history: which numbers belong together over runs and versions, and why one changed."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

from ethos_hil.base.record import BenchInfo, Metric, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.tests.test_record import RECORD
from ethos_hil.results.compaction.columns import ADDED, CAUSES, COLUMNS, EDITED
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.history import History
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.tests.test_history import history, record

SCHEMA_1 = Path(__file__).parent / "data/schema-1"


def artifact(**changes: object) -> dict[str, object]:
    assert RECORD.artifact is not None
    (delegate,) = RECORD.artifact.delegates
    return {"artifact": dataclasses.replace(RECORD.artifact, delegates=(dataclasses.replace(delegate, **changes),))}  # type: ignore[arg-type]


CHANGED: dict[str, dict[str, object]] = {
    "edited": {"artifact": dataclasses.replace(RECORD.artifact, question="3" * 64, delegates=())},  # type: ignore[type-var]
    "tosa": artifact(tosa_sha256="1", weights_sha256="1", stream_sha256="1"),
    "weights": artifact(weights_sha256="1", stream_sha256="1"),
    "stream": {**artifact(stream_sha256="1"), "timing_model": "other"},
    "timing_model": {"timing_model": "other", "firmware_sha256": "other"},
    "firmware": {"firmware_sha256": "other", "versions": {"fvp": "11.30"}},
    "fvp": {"versions": {"fvp": "11.30"}},
    "": {},
}


def model(cycles: float, day: int, *, scheme: str = "a8w8", case: str = "") -> Record:
    assert RECORD.artifact is not None
    of = record(cycles, day=day, test=None, artifact=dataclasses.replace(RECORD.artifact, scheme=scheme))
    return dataclasses.replace(of, bench=BenchInfo("grid", case, case))


def night(folder: Path, day: int, *records: Record) -> None:
    """Put a night into a history."""
    compact_records([StoredRecord(f"night{day}", record.created, record) for record in records], folder)


def changes_in(folder: Path) -> list[tuple[str, float, float, str]]:
    return [(change.run, change.old, change.new, change.cause) for change in History(folder).changes()]


def test_files_of_a_later_version_have_more_columns(tmp_path: Path) -> None:
    night(tmp_path, 1, record(1))
    path = tmp_path / "night1.parquet"
    marks = f"ethos_hil_history: '1', ethos_hil_columns: '{' '.join(ADDED)} weather'"
    duckdb.sql(
        f"COPY (SELECT 'rain' AS weather, * FROM '{path}') TO '{path}.new' (FORMAT parquet, KV_METADATA {{{marks}}})"
    )
    path.with_name(f"{path.name}.new").replace(path)
    night(tmp_path, 2, record(2, day=2))
    assert [row.keys() for row in History(tmp_path).rows("FROM records")] == [dict.fromkeys(COLUMNS).keys()] * 2
    assert [change[:3] for change in changes_in(tmp_path)] == [("night2", 1, 2)]


OTHER_TARGET = dataclasses.replace(RECORD.target, name="other")
SRAM = (Metric("sram_used", 78, "bytes", "fvp"),)
SERIES: dict[str, list[Record]] = {
    "in the order of time": [record(3, day=3), record(1, day=1), record(2, day=2)],
    "edited inputs": [record(1), record(2, day=2, inputs_sha256="other"), record(3, day=3, inputs_sha256="")],
    "another NPU": [record(1), record(2, day=2, npu="ethos-u65-256")],
    "another memory mode": [record(1), record(2, day=2, memory_mode="Sram_Only")],
    "another system": [record(1), record(2, day=2, system_config="other")],
    "another method": [record(1), record(2, day=2, method="other")],
    "no runner": [record(1), record(2, day=2, runner=None)],
    "no test": [record(1), record(2, day=2, test=None)],
    "another target": [record(1), record(2, day=2, target=OTHER_TARGET)],
    "another provenance": [record(1), record(2, day=2, provenance="vela")],
    "nights without the number": [
        record(1), record(1, day=2), record(day=3, metrics=()), record(day=4, metrics=SRAM), record(2, day=5),
        record(2, day=6),
    ],
    "another scheme": [model(1, 1), model(2, 2, scheme="a16w8")],
    "another case": [model(1, 1, case="small"), model(2, 2, case="wide")],
    **{
        f"the cause is {cause!r}":
            [record(1), *(dataclasses.replace(record(2, day=day), **changes) for day in (2, 3))]  # type: ignore[arg-type]
        for cause, changes in CHANGED.items()
    },
    "wall times": [record(1, provenance="host"), record(2, day=2, provenance="host")],
}  # fmt: skip


@pytest.mark.parametrize("what", SERIES)
def test_a_change_is_within_one_series_and_in_the_order_of_time(tmp_path: Path, what: str, recorded: Recorded) -> None:
    """Whatever runs are called. The first thing that differs is its cause; wall times count only when asked for."""
    assert set(CHANGED) == {EDITED, *CAUSES, ""}
    archive = history(tmp_path, *SERIES[what])
    lines = []
    for change in archive.changes(noisy=True):
        quiet = "" if change in archive.changes() else ", noisy"
        numbers = f"{change.before} {change.run} {change.metric} {change.old} {change.new} {change.cause!r}{quiet}"
        lines.append(f"{change.label} {numbers}")
    recorded.check("\n".join(lines) or "no change")
    assert archive.changes("test_sub") == []


def test_changes_are_those_since_a_day(tmp_path: Path) -> None:
    archive = history(tmp_path, *SERIES["in the order of time"])
    assert [point.value for point in archive.points("test_add")] == [1, 2, 3]
    assert [change.new for change in archive.changes(since=datetime(2026, 1, 3))] == [3]


def test_two_records_of_one_run_and_moment_are_in_their_order(tmp_path: Path) -> None:
    compact_records([StoredRecord("run", "", record(value)) for value in (3, 1, 2)], tmp_path)
    assert [(change.old, change.new) for change in History(tmp_path).changes()] in ([(1, 2), (3, 1)], [(3, 1), (1, 2)])


@pytest.mark.parametrize("seed", range(5))
def test_changes_are_those_that_a_loop_over_all_points_finds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    last: dict[tuple[str, str], float] = {}
    expected = []
    for night in range(20):
        records = []
        for npu in ("ethos-u55-128", "ethos-u65-256"):
            values = {name: float(chance.randrange(2)) for name in "abc" if chance.random() < 0.7}
            metrics = tuple(Metric(name, value, "", "modelled") for name, value in values.items())
            records.append(dataclasses.replace(record(day=night + 1, npu=npu), metrics=metrics))
            for name, value in values.items():
                old = last.setdefault((npu, name), value)
                if old != value:
                    expected.append((f"run{night:02}", npu, name, old, value))
                last[npu, name] = value
        compact_records([StoredRecord(f"run{night:02}", "", record) for record in records], tmp_path)
    changes = History(tmp_path).changes()
    assert [(change.run, change.npu, change.metric, change.old, change.new) for change in changes] == sorted(
        expected, key=lambda row: (-int(row[0][3:]), *row[1:3])
    )
    assert expected


def test_series_of_a_history_that_the_version_before_wrote_go_on(tmp_path: Path) -> None:
    """The history and its record were written when records did not have their question yet (schema 1, 4262d8e)."""
    shutil.copy(SCHEMA_1 / "20261128T135133Z-89cc35.parquet", tmp_path)
    assert [row["records"] for row in History(tmp_path).runs()] == [5]
    older = Record.from_json(json.loads((SCHEMA_1 / "record.json").read_text()))
    assert older.question is None
    slower = tuple(
        dataclasses.replace(metric, value=1401.0) if metric.name == "npu_cycles" else metric for metric in older.metrics
    )
    newer = dataclasses.replace(older, question=older.asked, metrics=slower, created="2026-12-01T02:00:00+00:00")
    assert newer.to_json()["schema_version"] == 2
    compact_records([StoredRecord("now", newer.created, newer)], tmp_path)
    label = "suites/ops/test_elementwise.py::test_add_same_U55_BI"
    (change,) = History(tmp_path).changes()
    assert (change.label, change.metric, change.old, change.new) == (label, "npu_cycles", 1400, 1401)
    assert len({point.subject for point in History(tmp_path).points(label)}) == 1
