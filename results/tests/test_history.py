"""The history: what is compacted is found again, nothing is lost or half written, and a change has its cause."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
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
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.testing.processes import wait_for_work
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.tests.test_record import RECORD
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.compaction.columns import COLUMNS
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
    """A run with one record."""
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


def test_a_record_cut_short_is_told_and_the_others_are_kept(tmp_path: Path, folder: RunFolder) -> None:
    (path,) = folder.path.glob("*.jsonl")
    path.write_bytes(path.read_bytes() + path.read_bytes()[:99])
    result = compact(folder.path, tmp_path / "history")
    assert (result.records, [line.where for line in result.skipped]) == (1, [f"{path}:2"])


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


def test_a_folder_without_runs_and_a_run_without_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match="has no runs"):
        History(tmp_path)
    with pytest.raises(BadHistory, match=r"has no record: no usable manifest\.json"):
        compact(tmp_path, tmp_path / "history")
    with pytest.raises(FileNotFoundError):
        History(tmp_path / "absent")
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


def test_an_empty_question_is_no_question(tmp_path: Path) -> None:
    archive = history(tmp_path, record())
    for query in ("", " ", "-- nothing"):
        with pytest.raises(UsageError, match="the query is empty"):
            archive.rows(query)


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
