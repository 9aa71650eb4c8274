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
from ethos_hil.base.tests.test_record import RECORD
from ethos_hil.results.compaction.columns import ADDED, CAUSES, COLUMNS, EDITED
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.history import History
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.tests.test_history import LABEL, history, record

SCHEMA_1 = Path(__file__).parent / "data/schema-1"


def test_a_series_is_in_the_order_of_time_whatever_its_runs_are_called(tmp_path: Path) -> None:
    """A clock that went backwards gives a run an earlier name; a record says when it was made."""
    archive = history(tmp_path, record(3, day=3), record(1, day=1), record(2, day=2))
    assert [point.value for point in archive.points("test_add")] == [1, 2, 3]
    assert [(change.old, change.new) for change in archive.changes()] == [(2, 3), (1, 2)]
    assert [change.new for change in archive.changes(since=datetime(2026, 1, 3))] == [3]
    assert archive.changes("test_sub") == []


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


@pytest.mark.parametrize("cause", CHANGED)
def test_a_change_has_the_first_thing_that_differs_as_its_cause(tmp_path: Path, cause: str) -> None:
    later = [dataclasses.replace(record(2, day=day), **CHANGED[cause]) for day in (2, 3)]  # type: ignore[arg-type]
    archive = history(tmp_path, record(1), *later)
    (change,) = archive.changes()
    assert (change.label, change.metric, change.old, change.new) == (LABEL, "npu_cycles", 1, 2)
    assert (change.before, change.run, change.cause) == ("run0", "run1", cause)
    assert set(CHANGED) == {EDITED, *CAUSES, ""}


def test_edited_inputs_are_a_change_in_the_series_and_unknown_ones_are_not(tmp_path: Path) -> None:
    archive = history(tmp_path, record(1), record(2, day=2, inputs_sha256="other"), record(3, day=3, inputs_sha256=""))
    assert [(change.new, change.cause) for change in archive.changes()] == [(3, ""), (2, EDITED)]


def model(cycles: float, day: int, *, scheme: str = "a8w8", case: str = "", question: str = "1") -> Record:
    assert RECORD.artifact is not None
    artifact = dataclasses.replace(RECORD.artifact, scheme=scheme, question=question * 64)
    bench = BenchInfo("grid", case, case) if case else None
    return record(cycles, day=day, test=None, model="net.py:net", artifact=artifact, bench=bench)


def night(folder: Path, day: int, *records: Record) -> None:
    """Put a night into a history."""
    compact_records([StoredRecord(f"night{day}", record.created, record) for record in records], folder)


def changes_in(folder: Path) -> list[tuple[str, float, float, str]]:
    return [(change.run, change.old, change.new, change.cause) for change in History(folder).changes()]


def test_two_schemes_and_two_cases_of_a_model_are_series_of_their_own(tmp_path: Path) -> None:
    both = [("a8w8", "small"), ("a16w8", "small"), ("a8w8", "wide")]
    for day in (1, 2, 3):
        night(tmp_path, day, *(model(10 * at + (at == 1 and day == 3), day, scheme=scheme, case=case)
                               for at, (scheme, case) in enumerate(both)))  # fmt: skip
    assert changes_in(tmp_path) == [("night3", 10, 11, "")]
    assert len(History(tmp_path).rows("SELECT DISTINCT series FROM points WHERE metric = 'npu_cycles'")) == 3


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


@pytest.mark.parametrize(
    "other",
    [
        {"npu": "ethos-u65-256"}, {"memory_mode": "Sram_Only"}, {"system_config": "other"}, {"method": "other"},
        {"runner": None}, {"test": None},
        {"target": dataclasses.replace(RECORD.target, name="other")}, {"provenance": "vela"},
    ],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
def test_what_is_no_answer_to_the_same_question_is_another_series(tmp_path: Path, other: dict[str, object]) -> None:
    assert history(tmp_path, record(1), record(2, day=2, **other)).changes() == []  # type: ignore[arg-type]


def test_a_change_is_seen_across_nights_without_the_number(tmp_path: Path) -> None:
    """A run that failed has no cycles; and its other numbers may have moved at another time."""
    failed = dataclasses.replace(record(day=3), metrics=())
    partly = dataclasses.replace(record(day=4), metrics=(Metric("sram_used", 78, "bytes", "fvp"),))
    archive = history(tmp_path, record(1), record(1, day=2), failed, partly, record(2, day=5), record(2, day=6))
    assert [(change.before, change.run, change.metric, change.old, change.new) for change in archive.changes()] == [
        ("run1", "run4", "npu_cycles", 1, 2),
        ("run3", "run4", "sram_used", 78, 77),
        ("run1", "run3", "sram_used", 77, 78),
    ]


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


def test_wall_times_and_counts_of_boards_are_changes_only_when_asked_for(tmp_path: Path) -> None:
    archive = history(tmp_path, record(1, provenance="host"), record(2, day=2, provenance="host"))
    assert archive.changes() == []
    assert len(archive.changes(noisy=True)) == 1


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
