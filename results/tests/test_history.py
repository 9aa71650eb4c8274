"""The history: what is compacted is found again, and nothing is lost or half written; which numbers belong together
over runs and versions, and why one changed.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import fastparquet
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import BenchInfo, Metric, Record
from ethos_hil.base.testing.processes import wait_for_work
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.tests.test_record import RECORD
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.compaction.columns import ADDED, CAUSES, COLUMNS, EDITED
from ethos_hil.results.compaction.database import open_database
from ethos_hil.results.compaction.run_file import BadHistory, compact, compact_records
from ethos_hil.results.history import History
from ethos_hil.results.store import RunFolder, StoredRecord

LABEL = "suites/ops/test_a.py::test_add_same_BI"


def record(cycles: float = 1234, *, day: int = 1, provenance: str = "modelled", **changes: object) -> Record:
    metrics = Metric("npu_cycles", cycles, "cycles", provenance, (cycles,)), Metric("sram_used", 77, "bytes", "fvp")
    return dataclasses.replace(
        RECORD,
        created=f"2026-01-{day:02}T02:00:00+00:00",
        **{"bench": None, "metrics": metrics, **changes},  # type: ignore[arg-type]
    )


def history(folder: Path, *records: Record) -> History:
    """A history with one record in each run."""
    for number, record in enumerate(records):
        compact_records([StoredRecord(f"run{number}", record.created, record)], folder)
    return History(folder)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "runs", name="night")
    folder.append(record())
    return folder


def test_what_is_compacted_is_found_again(tmp_path: Path, recorded: Recorded) -> None:
    folder = RunFolder(tmp_path / "runs", shard="2/4")
    folder.append(record())
    folder.append(record(2.0**53 - 1, npu="ethos-u85-256"))
    result = compact(folder.path, tmp_path / "history")
    assert (result.records, result.fresh, result.skipped) == (2, True, ())
    archive = History(tmp_path / "history")
    left_out = "created, run, job, commit, metrics, subject, numbers"
    rows = archive.rows(f"SELECT * EXCLUDE ({left_out}) FROM records ORDER BY npu")
    recorded.check("\n".join(f"{name}: {', '.join(repr(row[name]) for row in rows)}" for name in rows[0]))
    points = archive.rows("SELECT npu, metric, value, unit, provenance, samples FROM points ORDER BY npu, metric")
    recorded.check("\n".join(repr(tuple(point.values())) for point in points), "points")
    of_run = {(row["run"], row["job"], row["commit"]) for row in archive.rows("FROM records")}
    assert of_run == {(folder.path.name, folder.info.job, folder.info.commit)}


def test_another_reader_of_parquet_finds_the_same(tmp_path: Path) -> None:
    history(tmp_path, record())
    file = fastparquet.ParquetFile(str(tmp_path / "run0.parquet"))
    assert {name.partition(".")[0] for name in file.columns} == set(COLUMNS)
    assert file.to_pandas(["label", "verdict", "pte_bytes"]).to_dict("records") == [
        {"label": LABEL, "verdict": "failed", "pte_bytes": 4096}
    ]


def test_a_run_that_is_there_already_is_left_alone_until_it_has_more(tmp_path: Path, folder: RunFolder) -> None:
    result = compact(folder.path, tmp_path / "history")

    def written() -> tuple[int, ...]:
        """What changes when the file is written, and not when it is read, as the time of its last access does."""
        state = result.path.stat()
        return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns

    before = written()
    assert not compact(folder.path, tmp_path / "history").fresh
    assert written() == before
    folder.append(record(5))
    again = compact(folder.path, tmp_path / "history")
    assert (again.fresh, again.records) == (True, 2)
    assert [row["records"] for row in History(tmp_path / "history").runs()] == [2]


def test_some_runs_of_a_history_are_a_history(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        compact_records([StoredRecord(name, "2026-11-25T02:00:00+00:00", RECORD)], tmp_path)
    whole = History(tmp_path)
    with whole.kept_open():
        assert len(whole.runs()) == 3
        some = whole.of_runs(["one", "three"])
        assert sorted(row["run"] for row in some.runs()) == ["one", "three"]
        assert len(whole.runs()) == 3
    (tmp_path / "two.parquet").rename(tmp_path / "2.parquet")
    assert len(History(tmp_path).of_runs(["one", "two"]).runs()) == 3  # a file with another name may be any run
    with pytest.raises(OSError, match="two"):
        whole.runs()


def test_a_file_of_before_a_column_was_added_is_refused_until_it_is_added_again(
    tmp_path: Path, folder: RunFolder
) -> None:
    path = compact(folder.path, tmp_path / "history").path
    marks = "ethos_hil_history: '1', ethos_hil_columns: 'bench_case scheme', ethos_hil_records: 'x'"
    duckdb.sql(f"COPY (SELECT * EXCLUDE (job, plan, branch, whole, counts) FROM '{path}') TO '{tmp_path}/cut' "
               f"(FORMAT parquet, KV_METADATA {{{marks}}})")  # fmt: skip
    (tmp_path / "cut").replace(path)
    with pytest.raises(BadHistory, match=r"night\.parquet lacks branch, counts, job, plan, whole: an earlier version"):
        History(tmp_path / "history")
    assert compact(folder.path, tmp_path / "history").fresh
    assert [row["records"] for row in History(tmp_path / "history").runs()] == [1]


@pytest.mark.parametrize("name", ["it's", "lab[12]", "[!l]*", "l?b1", "**", "{lab1,x}", "run=1", "a]b[", "\\\\"])
def test_a_folder_has_any_name_and_is_never_taken_for_a_pattern(tmp_path: Path, name: str) -> None:
    """DuckDB takes `lab[12]` for `lab1` and `lab2`, and `run=1` for a column."""
    for other in ("lab1", "a", name):
        archive = history(tmp_path / other, record(7 if other == name else 1))
    query = "FROM points SELECT run, value WHERE metric = 'npu_cycles'"
    assert archive.rows(query) == [{"run": "run0", "value": 7.0}]


def parquet(marks: str = "") -> Callable[[Path], object]:
    """Return what writes a Parquet file that is none of a history."""
    return lambda path: duckdb.sql(f"COPY (SELECT 1 AS one) TO '{path}' (FORMAT parquet{marks})")


STRANGERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "foreign": (parquet(), "is a Parquet file, but not of a history"),
    "another version": (
        parquet(", KV_METADATA {ethos_hil_history: '2'}"), "has version 2 of a history; this program reads 1"
    ),
    "cut short": (
        lambda path: path.write_bytes((path.parent / "run0.parquet").read_bytes()[:-20]), "is not a Parquet file"
    ),
    "empty": (lambda path: path.write_bytes(b""), "is not a Parquet file"),
}  # fmt: skip


@pytest.mark.parametrize("what", STRANGERS)
def test_a_file_that_is_none_of_a_history_is_refused_by_name(tmp_path: Path, what: str) -> None:
    """Nor is it overwritten."""
    make, words = STRANGERS[what]
    history(tmp_path, record())
    make(tmp_path / "stranger.parquet")
    with pytest.raises(BadHistory, match=rf"stranger\.parquet {words}"):
        History(tmp_path)
    with pytest.raises(BadHistory, match=words):
        compact_records([StoredRecord("stranger", "", record())], tmp_path)


def test_a_folder_whose_name_duckdb_cannot_be_told_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match="has a backslash beside one of"):
        history(tmp_path / "a\\[b]", record())


def test_a_run_without_a_name_in_utf8_is_a_run(tmp_path: Path) -> None:
    """DuckDB opens no file of such a name, and one of them would keep the whole history from being read."""
    folder = RunFolder(tmp_path / "runs", name=os.fsdecode(b"night\xff"))
    folder.append(record())
    result = compact(folder.path, tmp_path / "history")
    assert result.path.name == "night\\udcff.parquet"
    assert not compact(folder.path, tmp_path / "history").fresh
    assert [row["run"] for row in History(tmp_path / "history").runs()] == ["night\\udcff"]
    with pytest.raises(BadHistory, match="has a name that is not valid UTF-8"):
        compact(folder.path, tmp_path / os.fsdecode(b"history\xff"))
    result.path.rename(result.path.with_name(os.fsdecode(b"night\xff.parquet")))
    with pytest.raises(BadHistory, match="has a name that is not valid UTF-8"):
        History(tmp_path / "history")


FUTURE = "of the future: a record in it was made at 2"
CLOCKS: dict[str, tuple[float | str, str]] = {
    "now": (0, ""), "almost a day ahead": (0.9, ""), "a day ahead": (1.1, FUTURE), "far ahead": (30_000, FUTURE),
    "went back": (-3, "the clock there went back"), "none": ("", ""), "no time": ("no time", ""),
    "after all times": ("9999-12-31T23:59:59-12:00", ""), "before all times": ("0001-01-01T00:00:00+12:00", ""),
}  # fmt: skip


@pytest.mark.parametrize("what", CLOCKS)
def test_a_run_of_the_future_is_refused_and_a_clock_that_went_back_is_told(tmp_path: Path, what: str) -> None:
    """It would be the newest for ever, so nothing is written; a time that is none is no error."""
    when, said = CLOCKS[what]
    folder, history = RunFolder(tmp_path / "runs"), tmp_path / "history"
    created = when if isinstance(when, str) else (datetime.now(UTC) + timedelta(days=when)).isoformat()
    folder.append(dataclasses.replace(record(), created=created))
    if "future" in said:
        with pytest.raises(BadHistory, match=rf"{folder.path} is {said}"):
            compact(folder.path, history)
        assert not history.exists()
    else:
        assert "".join(compact(folder.path, history).notes).endswith(said)


@pytest.mark.proof
def test_two_who_add_the_same_runs_at_once_leave_each_whole(tmp_path: Path) -> None:
    for number in range(8):
        folder = RunFolder(tmp_path / "runs", name=f"night{number}")
        for cycles in range(5):
            folder.append(record(cycles))
    script = """
import sys
from pathlib import Path
from ethos_hil.results.compaction.run_file import compact
from ethos_hil.results.history import History
for run in 2 * sorted(Path("runs").iterdir()):
    compact(run, Path("history"))
    assert all(row["records"] == 5 for row in History(Path("history")).runs())
"""
    adders = [subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path) for _ in range(2)]
    assert [adder.wait(60) for adder in adders] == [0, 0]
    assert len(list((tmp_path / "history").iterdir())) == 8
    assert len(History(tmp_path / "history").rows("FROM records")) == 40


def test_what_killed_writers_left_behind_is_removed_later(tmp_path: Path) -> None:
    history(tmp_path, record())
    for name, age in ((".ethos-hil-old", 3700), (".ethos-hil-new", 3500), (".other", 9000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.jsonl").write_text("half")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    compact_records([StoredRecord("run1", "", record())], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "run0.parquet", "run1.parquet", ".ethos-hil-new", ".other"
    }  # fmt: skip


def test_a_long_question_ends_with_ctrl_c(tmp_path: Path) -> None:
    history(tmp_path, record())
    script = """
import sys
from pathlib import Path
from ethos_hil.results.history import History
found = History(Path(sys.argv[1]))
print("ready", flush=True)
found.rows("SELECT count(*) FROM range(100000000) a, range(100000) b WHERE hash(a.range) % 7 = b.range")
"""
    asking = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert asking.stdout is not None
    asking.stdout.readline()
    wait_for_work(asking.pid, 0.5)
    began = time.monotonic()
    asking.send_signal(signal.SIGINT)
    _, error = asking.communicate(timeout=60)
    assert error.decode().splitlines()[-1].startswith("KeyboardInterrupt")
    assert time.monotonic() - began < 10


def test_the_api_gives_tables_of_pandas(tmp_path: Path) -> None:
    archive = history(tmp_path, record(1), record(2, day=2, verdict=Verdict.VERIFIED, failure=None))
    table = archive.frame("SELECT verdict, value FROM points WHERE metric = ? ORDER BY created", ["npu_cycles"])
    assert json.loads(table.to_json(orient="records")) == [
        {"verdict": "failed", "value": 1}, {"verdict": "verified", "value": 2}
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no_such_column"):
        archive.frame("SELECT no_such_column FROM points")


def test_an_error_of_the_system_is_the_system_s_also_where_duckdb_met_it() -> None:
    """DuckDB tells it in JSON within its own words, and names a file that no one asked for."""
    with pytest.raises(OSError, match="No space") as caught, open_database() as database:
        database.execute("COPY (SELECT 1) TO '/dev/full' (FORMAT csv)")
    assert (caught.value.errno, caught.value.strerror) == (errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_database_without_memory_is_out_of_memory() -> None:
    with pytest.raises(MemoryError, match="Out of Memory"), open_database() as database:
        database.execute(
            "SET memory_limit = '1MB'; SET temp_directory = ''; SET threads = 1; "
            "CREATE TABLE large AS SELECT range AS number, random() AS other FROM range(3000000)"
        )


# The series of a history.


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


def test_files_of_a_later_version_have_more_columns(tmp_path: Path) -> None:
    history(tmp_path, record(1))
    path = tmp_path / "run0.parquet"
    marks = f"ethos_hil_history: '1', ethos_hil_columns: '{' '.join(ADDED)} weather'"
    duckdb.sql(
        f"COPY (SELECT 'rain' AS weather, * FROM '{path}') TO '{path}.new' (FORMAT parquet, KV_METADATA {{{marks}}})"
    )
    path.with_name(f"{path.name}.new").replace(path)
    compact_records([StoredRecord("run1", "", record(2, day=2))], tmp_path)
    assert [row.keys() for row in History(tmp_path).rows("FROM records")] == [dict.fromkeys(COLUMNS).keys()] * 2
    assert [(of.run, of.old, of.new) for of in History(tmp_path).changes()] == [("run1", 1, 2)]


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


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.proof) for seed in (2, 3, 4))])
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
