"""The history: what is compacted is found again, nothing is lost or half written, and a change has its cause."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
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
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.record_context import BenchInfo
from ethos_hil.base.testing.processes import wait_for_work, wait_until
from ethos_hil.base.tests.test_record import RECORD
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.compaction.columns import ADDED
from ethos_hil.results.history import CAUSES, COLUMNS, EDITED, BadHistory, History, compact, compact_records
from ethos_hil.results.store import RunFolder, StoredRecord

SCHEMA_1 = Path(__file__).parent / "data/schema-1"
LABEL = "suites/ops/test_a.py::test_add_same_BI"


def record(cycles: float = 1234, *, day: int = 1, provenance: str = "modelled", **changes: object) -> Record:
    return dataclasses.replace(
        RECORD,
        metrics=(
            Metric("npu_cycles", cycles, "cycles", provenance, (cycles,)),
            Metric("sram_used", 77, "bytes", "fvp"),
        ),
        created=f"2026-01-{day:02}T02:00:00+00:00",
        **{"bench": None, **changes},  # type: ignore[arg-type]
    )


def history(folder: Path, *records: Record) -> History:
    """A history with one record in each run."""
    for number, record in enumerate(records):
        compact_records([StoredRecord(f"run{number}", record.created, record)], folder)
    return History(folder)


def test_what_is_compacted_is_found_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs", shard="2/4")
    folder.append(record())
    folder.append(record(2.0**53 - 1, npu="ethos-u85-256"))
    result = compact(folder.path, tmp_path / "history")
    assert (result.records, result.fresh, result.skipped) == (2, True, ())
    archive = History(tmp_path / "history")
    (row,) = archive.rows(
        "SELECT * EXCLUDE (subject, numbers, metrics, created) FROM records WHERE npu = 'ethos-u55-128'"
    )
    expected = {
        "run": folder.path.name, "number": 0, "job": folder.info.job, "commit": folder.info.commit, "shard": "2/4",
        "label": LABEL, "operator": "add",
        "test_case": "same", "profile": "BI", "npu": "ethos-u55-128", "memory_mode": "Shared_Sram", "system_config": "",
        "target_kind": "virtual", "target": "virtual", "soc": "corstone-300", "runner": "cd" * 8,
        "method": "forward", "bench_case": "", "scheme": "", "question": "12" * 8,
        "inputs": "de" * 8, "verdict": "failed", "failure": "mismatch", "executions": 1, "clock_hz": 500e6,
        "npu_ops": 1, "delegated": None, "cpu_ops": 1, "pte_bytes": 4096, "pte": "ab" * 8, "lowering": "ef" * 8,
        "timing_model": "bc" * 8, "timing_adapters": "reset", "firmware": "9a" * 8, "fvp": "", "rules": "bus, uart",
        "versions": '{"torch": "2.13.0"}', "vela_flags": [],
        "plan": "", "branch": "", "whole": False, "counts": True,
    }  # fmt: skip
    assert {name: row.pop(name) for name in expected} == expected
    assert row.keys() == {"tosa", "weights", "stream"}
    assert all(len(digest) == 16 for digest in row.values())
    points = archive.rows("SELECT npu, metric, value, unit, provenance, samples FROM points ORDER BY npu, metric")
    assert [tuple(point.values()) for point in points] == [
        ("ethos-u55-128", "npu_cycles", 1234, "cycles", "modelled", [1234]),
        ("ethos-u55-128", "sqnr_db", -math.inf, "dB", "computed", []),
        ("ethos-u55-128", "sram_used", 77, "bytes", "fvp", []),
        ("ethos-u85-256", "npu_cycles", 2**53 - 1, "cycles", "modelled", [2**53 - 1]),
        ("ethos-u85-256", "sqnr_db", -math.inf, "dB", "computed", []),
        ("ethos-u85-256", "sram_used", 77, "bytes", "fvp", []),
    ]


def test_another_reader_of_parquet_finds_the_same(tmp_path: Path) -> None:
    history(tmp_path, record())
    file = fastparquet.ParquetFile(str(tmp_path / "run0.parquet"))
    assert {name.partition(".")[0] for name in file.columns} == set(COLUMNS)
    assert file.to_pandas(["label", "verdict", "pte_bytes"]).to_dict("records") == [
        {"label": LABEL, "verdict": "failed", "pte_bytes": 4096}
    ]


def test_a_run_that_is_there_already_is_left_alone_until_it_has_more(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs")
    folder.append(record())
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


def test_a_record_cut_short_is_told_and_the_others_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs")
    folder.append(record())
    (path,) = folder.path.glob("*.jsonl")
    path.write_bytes(path.read_bytes() + path.read_bytes()[:99])
    result = compact(folder.path, tmp_path / "history")
    assert (result.records, [line.where for line in result.skipped]) == (1, [f"{path}:2"])


def test_runs_of_several_machines_are_merged_by_being_in_one_folder(tmp_path: Path) -> None:
    for number, machine in enumerate(("a", "b")):
        compact_records([StoredRecord(machine, "", record(number + 1, day=number + 1))], tmp_path / machine)
    (tmp_path / "b" / "b.parquet").rename(tmp_path / "a" / "b.parquet")
    assert [(change.old, change.new) for change in History(tmp_path / "a").changes()] == [(1, 2)]


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


def night(folder: Path, day: int, *records: Record, before: bool = False) -> None:
    """Put a night into a history; as a version did it that knew neither cases nor schemes."""
    file = compact_records([StoredRecord(f"night{day}", record.created, record) for record in records], folder)
    if before:
        as_before(file.path)


def as_before(path: Path) -> None:
    names = ("label", "npu", "memory_mode", "system_config", "target_kind", "target", "soc", "runner", "method",
             "question", "inputs")  # fmt: skip
    rows = duckdb.execute(f"SELECT {', '.join(names)} FROM '{path}' ORDER BY number").fetchall()
    subjects = [int(hashlib.sha256("\0".join(row).encode()).hexdigest()[:16], 16) for row in rows]
    subject = f"{subjects}[number + 1]::UBIGINT AS subject"
    duckdb.sql(
        f"COPY (SELECT * EXCLUDE ({', '.join(ADDED)}) REPLACE ({subject}) FROM '{path}') "
        f"TO '{path}.old' (FORMAT parquet, KV_METADATA {{ethos_hil_history: '1', ethos_hil_records: ''}})"
    )
    path.with_name(f"{path.name}.old").replace(path)


def changes_in(folder: Path) -> list[tuple[str, float, float, str]]:
    return [(change.run, change.old, change.new, change.cause) for change in History(folder).changes()]


def test_two_schemes_and_two_cases_of_a_model_are_series_of_their_own(tmp_path: Path) -> None:
    both = [("a8w8", "small"), ("a16w8", "small"), ("a8w8", "wide")]
    for day in (1, 2, 3):
        night(tmp_path, day, *(model(10 * at + (at == 1 and day == 3), day, scheme=scheme, case=case)
                               for at, (scheme, case) in enumerate(both)))  # fmt: skip
    assert changes_in(tmp_path) == [("night3", 10, 11, "")]
    assert len(History(tmp_path).rows("SELECT DISTINCT series FROM points WHERE metric = 'npu_cycles'")) == 3


def test_the_series_of_an_older_history_go_on(tmp_path: Path) -> None:
    """A test's, and a model's: what later runs know of it is the same."""
    night(tmp_path, 1, record(1), model(5, 1), before=True)
    night(tmp_path, 2, record(2, day=2), model(6, 2, question="2"), before=True)
    night(tmp_path, 3, record(3, day=3), model(7, 3, question="2", case="wide"))
    changes = {
        (change.run, change.label): (change.old, change.new, change.cause) for change in History(tmp_path).changes()
    }
    assert changes == {
        ("night2", LABEL): (1, 2, ""), ("night2", "net.py:net"): (5, 6, EDITED),
        ("night3", LABEL): (2, 3, ""), ("night3", "net.py:net"): (6, 7, ""),
    }  # fmt: skip
    assert [point.value for point in History(tmp_path).points("net.py")] == [5, 6, 7]
    row = History(tmp_path).rows("FROM records WHERE run = 'night1'")[0]
    assert row.keys() == set(COLUMNS)
    assert (row["bench_case"], row["scheme"]) == ("", "")


def test_an_older_history_by_itself_is_read(tmp_path: Path) -> None:
    night(tmp_path, 1, record(1), model(5, 1), before=True)
    night(tmp_path, 2, record(2, day=2), model(6, 2, question="2"), before=True)
    assert sorted(changes_in(tmp_path)) == [("night2", 1, 2, ""), ("night2", 5, 6, EDITED)]


@pytest.mark.parametrize("later", [True, False])
def test_what_nothing_tells_apart_in_an_older_history_is_followed_by_its_question(tmp_path: Path, later: bool) -> None:
    """Two cases of one model would be one series that jumps each night."""
    for day in (1, 2):
        cases = [model(10 * number, day, question=str(number)) for number in (1, 2)]
        night(tmp_path, day, *(cases[:1] if later else cases), before=True)
    if later:
        night(tmp_path, 3, *(model(30 * number, 3, case=f"case{number}", question=str(number)) for number in (1, 2)))
    assert changes_in(tmp_path) == []


def test_a_column_that_a_file_does_not_say_it_has_is_not_read_there(tmp_path: Path) -> None:
    """Files of a later version have more columns, and those of an earlier one fewer."""
    night(tmp_path, 1, record(1))
    path = tmp_path / "night1.parquet"
    marks = f"ethos_hil_history: '1', ethos_hil_columns: '{' '.join(ADDED)} weather'"
    duckdb.sql(
        f"COPY (SELECT 'rain' AS weather, * FROM '{path}') TO '{path}.new' (FORMAT parquet, KV_METADATA {{{marks}}})"
    )
    path.with_name(f"{path.name}.new").replace(path)
    night(tmp_path, 2, record(2, day=2))
    night(tmp_path, 3, record(3, day=3), before=True)
    assert [row.keys() for row in History(tmp_path).rows("FROM records")] == [dict.fromkeys(COLUMNS).keys()] * 3
    assert [change[:3] for change in changes_in(tmp_path)] == [("night3", 2, 3), ("night2", 1, 2)]


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


def test_text_that_unicode_does_not_allow_is_escaped(tmp_path: Path) -> None:
    archive = history(tmp_path, record(model="net\udc80'; DROP", test=None))
    assert [point.label for point in archive.points("'; DROP")] == ["net\\udc80'; DROP"]


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


def test_a_file_of_before_a_column_was_added_is_read_beside_newer_ones(tmp_path: Path) -> None:
    """The columns of an older version, before the CI's job was one of them."""
    for name in ("old", "new"):
        compact_records([StoredRecord(name, "2026-11-25T02:00:00+00:00", RECORD)], tmp_path)
    with duckdb.connect() as database:
        query = "SELECT decode(key), decode(value) FROM parquet_kv_metadata(?)"
        marks = dict(database.execute(query, [str(tmp_path / "old.parquet")]).fetchall())
        metadata = ", ".join(f"{key}: '{value}'" for key, value in marks.items() if key != "ethos_hil_columns")
        since = "job, plan, branch, whole, counts"
        database.execute(f"COPY (SELECT * EXCLUDE ({since}) FROM '{tmp_path}/old.parquet') TO '{tmp_path}/cut' "
                         f"(FORMAT parquet, KV_METADATA {{{metadata}}})")  # fmt: skip
    (tmp_path / "cut").replace(tmp_path / "old.parquet")
    rows = History(tmp_path).rows("SELECT run, job FROM records ORDER BY run")
    assert rows == [{"run": "new", "job": ""}, {"run": "old", "job": None}]
    (tmp_path / "new.parquet").unlink()
    (old,) = History(tmp_path).runs()
    assert (old["run"], old["records"], old["plan"], old["whole"]) == ("old", 1, None, None)


@pytest.mark.parametrize("name", ["it's", "lab[12]", "[!l]*", "l?b1", "**", "{lab1,x}", "run=1", "a]b[", "\\\\"])
def test_a_folder_has_any_name_and_is_never_taken_for_a_pattern(tmp_path: Path, name: str) -> None:
    """DuckDB takes `lab[12]` for `lab1` and `lab2`, and `run=1` for a column."""
    for other in ("lab1", "a", name):
        archive = history(tmp_path / other, record(7 if other == name else 1))
    query = "FROM points SELECT run, value WHERE metric = 'npu_cycles'"
    assert archive.rows(query) == [{"run": "run0", "value": 7.0}]


def test_a_folder_that_duckdb_cannot_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match="has a backslash beside one of"):
        history(tmp_path / "a\\[b]", record())


@pytest.mark.parametrize("name", ["lab[12]", "lab*", "lab?", "lab[!x]"])
def test_a_folder_whose_name_is_a_pattern_is_not_the_one_beside_it(tmp_path: Path, name: str) -> None:
    history(tmp_path / "lab1", record(1), record(2, day=2))
    assert [point.value for point in history(tmp_path / name, record(3)).points("test_add")] == [3]


def foreign(path: Path) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS one) TO '{path}' (FORMAT parquet)")


def other_version(path: Path) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS one) TO '{path}' (FORMAT parquet, KV_METADATA {{ethos_hil_history: '2'}})")


def truncated(path: Path) -> None:
    path.write_bytes((path.parent / "run0.parquet").read_bytes()[:-20])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (foreign, "is a Parquet file, but not of a history"),
        (other_version, "has version 2 of a history; this program reads 1"),
        (truncated, "is not a Parquet file"),
        (lambda path: path.write_bytes(b""), "is not a Parquet file"),
    ],
    ids=["foreign", "version", "truncated", "empty"],
)
def test_a_file_that_is_none_of_a_history_is_refused_by_name(
    tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    history(tmp_path, record())
    make(tmp_path / "stranger.parquet")
    with pytest.raises(BadHistory, match=rf"stranger\.parquet {words}"):
        History(tmp_path)
    with pytest.raises(BadHistory, match=words):  # nor is it overwritten
        compact_records([StoredRecord("stranger", "", record())], tmp_path)


def test_a_folder_without_runs_and_a_run_without_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match="has no runs"):
        History(tmp_path)
    with pytest.raises(BadHistory, match=r"has no record: no usable manifest\.json"):
        compact(tmp_path, tmp_path / "history")
    with pytest.raises(FileNotFoundError):
        History(tmp_path / "absent")


def test_a_full_disk_leaves_the_history_as_it_was(tmp_path: Path) -> None:
    history(tmp_path, record())
    before = (tmp_path / "run0.parquet").read_bytes()
    script = """
import resource, sys
from pathlib import Path
from ethos_hil.results.history import compact_records
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.tests.test_history import record
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for run in ("run0", "run1"):
    try:
        compact_records([StoredRecord(run, "", record(2)), StoredRecord(run, "", record(3))], Path(sys.argv[1]))
    except OSError as error:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused", "refused"]
    assert [path.name for path in tmp_path.iterdir()] == ["run0.parquet"]
    assert (tmp_path / "run0.parquet").read_bytes() == before


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


def test_a_run_of_the_future_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    """It would be the newest for ever."""
    folder = RunFolder(tmp_path / "runs")
    for days, refused in ((0.9, False), (1.1, True), (30_000, True)):
        created = (datetime.now(UTC) + timedelta(days=days)).isoformat()
        folder.append(dataclasses.replace(record(), created=created))
        history = tmp_path / f"history{days}"
        if not refused:
            assert compact(folder.path, history).fresh
            continue
        with pytest.raises(BadHistory, match=rf"{folder.path} is of the future: a record in it was made at 2"):
            compact(folder.path, history)
        assert not history.exists()


@pytest.mark.parametrize("created", ["", "no time", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
def test_a_time_that_is_none_is_no_error(tmp_path: Path, created: str) -> None:
    folder = RunFolder(tmp_path / "runs")
    folder.append(dataclasses.replace(record(), created=created))
    assert compact(folder.path, tmp_path / "history").records == 1


def test_a_clock_that_went_back_during_a_run_is_told(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs")
    folder.append(dataclasses.replace(record(), created=datetime.now(UTC).isoformat()))
    assert compact(folder.path, tmp_path / "history").notes == ()
    folder.append(record())
    (note,) = compact(folder.path, tmp_path / "history").notes
    assert "a record in it was made at 2026-01-01 02:00:00: the clock there went back" in note


def test_two_who_add_the_same_runs_at_once_leave_each_whole(tmp_path: Path) -> None:
    for number in range(8):
        folder = RunFolder(tmp_path / "runs", name=f"night{number:02}")
        for cycles in range(5):
            folder.append(record(cycles))
    script = """
import sys
from pathlib import Path
from ethos_hil.results.history import History, compact
for _ in range(2):
    for run in sorted(Path(sys.argv[1]).iterdir()):
        compact(run, Path(sys.argv[2]))
    assert all(row["records"] == 5 for row in History(Path(sys.argv[2])).runs())
"""
    command = [sys.executable, "-c", script, str(tmp_path / "runs"), str(tmp_path / "history")]
    adders = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    assert [adder.communicate()[1] for adder in adders] == [b""] * 2
    assert sorted(path.name for path in (tmp_path / "history").iterdir()) == [
        f"night{number:02}.parquet" for number in range(8)
    ]
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


def test_an_empty_question_is_no_question(tmp_path: Path) -> None:
    archive = history(tmp_path, record())
    for query in ("", " ", "-- nothing"):
        with pytest.raises(UsageError, match="the query is empty"):
            archive.rows(query)


def test_a_writer_that_is_killed_leaves_no_half_of_a_run(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from ethos_hil.results.history import compact_records
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.tests.test_history import record
print("ready", flush=True)
number = 0
while True:
    number += 1
    compact_records([StoredRecord("run", "", record(number))] * 50, Path(sys.argv[1]))
"""
    chance = random.Random(17)
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        wait_until((tmp_path / "run.parquet").exists, "a run is written")
        time.sleep(chance.random() / 5)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        if (tmp_path / "run.parquet").exists():
            assert [row["records"] for row in History(tmp_path).runs()] == [50]
    assert (tmp_path / "run.parquet").exists()


def test_the_api_gives_tables_of_pandas(tmp_path: Path) -> None:
    archive = history(tmp_path, record(1), record(2, day=2, verdict=Verdict.VERIFIED, failure=None))
    table = archive.frame("SELECT verdict, value FROM points WHERE metric = ? ORDER BY created", ["npu_cycles"])
    assert json.loads(table.to_json(orient="records")) == [
        {"verdict": "failed", "value": 1}, {"verdict": "verified", "value": 2}
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no_such_column"):
        archive.frame("SELECT no_such_column FROM points")


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
