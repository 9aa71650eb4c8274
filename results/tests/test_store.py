"""The store: complete lines only, nothing lost, nothing half-written."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.files import write_all
from ethos_hil.base.record import BenchInfo, Record, RunInfo, SuiteTest
from ethos_hil.base.testing.processes import wait_until
from ethos_hil.base.tests.test_record import RECORD
from ethos_hil.results.history import History
from ethos_hil.results.run_results import find_results
from ethos_hil.results.store import RunFolder, Skipped, StoredRecord, find_record, new_name, read, read_run
from ethos_hil.results.testing.one_name import OTHERS, net
from ethos_hil.results.text.record import for_people, record_table


def stored(root: Path) -> list[Record]:
    return [item.record for item in read(root) if isinstance(item, StoredRecord)]


def skipped(root: Path) -> list[str]:
    return [item.where for item in read(root) if isinstance(item, Skipped)]


def test_what_is_appended_is_read_back_with_its_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append(RECORD)
    folder.append(RECORD)
    assert stored(tmp_path) == [replace(RECORD, run=folder.info)] * 2
    assert folder.info.name == folder.path.name
    manifest = json.loads((folder.path / "manifest.json").read_text())
    assert {"machine", "versions", "commit", "command", "created"} <= manifest.keys()


def test_a_run_names_the_job_of_the_ci_that_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI_JOB_URL", "GITHUB_RUN_ID", "CI_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    assert "job" not in json.loads((RunFolder(tmp_path).path / "manifest.json").read_text())
    monkeypatch.setenv("CI_JOB_ID", "7")
    assert RunFolder(tmp_path).info.job == "7"
    monkeypatch.setenv("CI_JOB_URL", "https://gitlab.example/jobs/7")
    folder = RunFolder(tmp_path)
    assert json.loads((folder.path / "manifest.json").read_text())["job"] == folder.info.job
    assert folder.info.job == "https://gitlab.example/jobs/7"


def test_processes_share_a_folder_and_its_manifest(tmp_path: Path) -> None:
    name = new_name()
    script = f"""
import sys
from pathlib import Path
from ethos_hil.results.store import RunFolder
from ethos_hil.base.tests.test_record import RECORD
RunFolder(Path(sys.argv[1]), name={name!r}, command=["pytest", "suites"]).append(RECORD)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    for process in [subprocess.Popen(command) for _ in range(2)]:
        assert process.wait() == 0
    assert stored(tmp_path) == [replace(RECORD, run=RunFolder(tmp_path, name=name).info)] * 2
    assert len(list((tmp_path / name).glob("*.jsonl"))) == 2
    assert json.loads((tmp_path / name / "manifest.json").read_text())["command"] == ["pytest", "suites"]
    assert {path.suffix for path in (tmp_path / name).iterdir()} == {".json", ".jsonl"}


def test_a_record_after_a_half_line_of_a_dead_process_of_the_same_id_is_whole(tmp_path: Path) -> None:
    """In a container the processes of each run have the same ids."""
    folder = RunFolder(tmp_path)
    folder.append(RECORD)
    path = next(folder.path.glob("*.jsonl"))
    path.write_bytes(path.read_bytes() + RECORD.dumps().encode()[:50])
    folder.append(RECORD, part="a part", attempt=2)
    assert [of.run for of in stored(tmp_path)] == [folder.info, replace(folder.info, part="a part", attempt=2)]
    assert skipped(tmp_path) == [f"{path}:2"]


def test_a_file_that_cannot_be_read_is_reported_and_other_runs_are_shown(tmp_path: Path) -> None:
    """Who judges a run alone gets the error: what is not read there is not known. So is a folder without a manifest."""
    first, second = RunFolder(tmp_path, name="first"), RunFolder(tmp_path, name="second")
    second.append(RECORD)
    path = first.path / "records-1.jsonl"
    path.symlink_to(path)
    (tmp_path / "stray").mkdir()
    assert skipped(tmp_path) == [str(path), str(tmp_path / "stray")]
    assert len(stored(tmp_path)) == 1
    with pytest.raises(OSError, match="records-1"):
        list(read_run(first.path))


IMPORTS = """
import resource, signal, sys
from dataclasses import replace
from pathlib import Path
from ethos_hil.base.files import write_whole
from ethos_hil.base.tests.test_record import RECORD
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.store import RunFolder, StoredRecord
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
root, history = map(Path, sys.argv[1:])
"""
FULL_DISK = """
folder = RunFolder(root)
folder.append(RECORD)
write_whole(root / "report.json", "before")
compact_records([StoredRecord("run0", "", RECORD)], history)
size = len(RECORD.dumps())
def attempt(limit, write):
    # From here on no file may grow beyond the limit: the next write stops half-way, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    try:
        write()
    except OSError:
        print("refused")
attempt(size * 3 // 2, lambda: folder.append(RECORD))
attempt(size * 3 // 2, lambda: write_whole(root / "report.json", "x" * size * 2))
for run in ("run0", "run1"):
    attempt(2000, lambda: compact_records([StoredRecord(run, "", RECORD), StoredRecord(run, "", RECORD)], history))
attempt(100, lambda: RunFolder(root))
"""


def test_a_full_disk_loses_nothing_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    root, history = tmp_path / "runs", tmp_path / "history"
    # -B: Python 3.11 does not notice that a file took only a part of its bytecode, and keeps the part.
    command = [sys.executable, "-B", "-c", IMPORTS + FULL_DISK, str(root), str(history)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["refused"] * 5
    (record,) = stored(root)
    assert record == replace(RECORD, run=record.run)
    assert not skipped(root)
    assert (root / "report.json").read_text() == "before"
    assert not list(root.glob(".report*"))
    assert len([path for path in root.iterdir() if path.is_dir()]) == 1
    assert [path.name for path in history.iterdir()] == ["run0.parquet"]
    assert [row["records"] for row in History(history).runs()] == [1]


KILLED = """
folder = RunFolder(root)
print("ready", flush=True)
number = 0
while True:
    number += 1
    folder.append(RECORD)
    compact_records([StoredRecord("run", "", replace(RECORD, executions=number))] * 50, history)
"""


def test_a_writer_that_is_killed_leaves_complete_lines_and_no_half_of_a_run(tmp_path: Path) -> None:
    root, history = tmp_path / "runs", tmp_path / "history"
    chance = random.Random(17)
    for _ in range(5):
        command = [sys.executable, "-c", IMPORTS + KILLED, str(root), str(history)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            wait_until((history / "run.parquet").exists, "a run is written")
            time.sleep(chance.random() / 5)
            process.send_signal(signal.SIGKILL)
        assert not skipped(root)
        assert [row["records"] for row in History(history).runs()] == [50]


def test_of_files_that_are_written_together_there_are_all_or_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    write_all({tmp_path / "a": b"after", tmp_path / "b": b"new"})
    assert [(tmp_path / name).read_text() for name in "ab"] == ["after", "new"]
    with pytest.raises(OSError, match="No such file") as caught:
        write_all({tmp_path / "a": b"once more", tmp_path / "gone" / "c": b"new"})
    assert caught.value.filename2 == str(tmp_path / "gone" / "c")
    assert (tmp_path / "a").read_text() == "after"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_the_table_has_one_row_a_record(tmp_path: Path) -> None:
    RunFolder(tmp_path).append(RECORD)
    (row,) = record_table(StoredRecord("run", "", of) for of in stored(tmp_path)).records()
    assert (row["npu_cycles"], row["failure"], row["record"]) == (1234, "mismatch", 1)
    assert not list(for_people(record_table([])).records())


def test_no_two_rows_for_people_are_equal() -> None:
    """One model in five memory modes was five equal rows, and a test's profiles too."""
    test = SuiteTest("t.py::test_add_same_MI", "add", "same", "MI", "t.py:1")
    several = {
        **{column: [net(), OTHERS[column]] for column in ("memory_mode", "system_config", "method", "scheme", "soc")},
        "profile": [replace(RECORD, test=replace(test, profile=name)) for name in ("MI", "BI", "U55_BI")],
        "case": [replace(RECORD, bench=BenchInfo("default", name, "conv")) for name in ("conv_8", "conv_16")],
        "attempt": [replace(RECORD, run=RunInfo("night", attempt=number)) for number in (1, 2)],
        "record": [RECORD, RECORD],
    }
    for column, records in several.items():
        rows = list(for_people(record_table(StoredRecord("night", "", record) for record in records)).records())
        assert len({tuple(row.values()) for row in rows}) == len(rows)
        assert {column, "memory_mode"} <= set(rows[0]), column
        assert not ({*several} - {column, "memory_mode"}) & set(rows[0]), column


# A run is found by its folder, those of its shards, a folder of runs, or a file of records.


def written(root: Path, name: str, *models: str) -> Path:
    folder = RunFolder(root, name=name)
    for model in models:
        folder.append(replace(RECORD, model=model))
    return folder.path


def models(*paths: Path) -> list[str]:
    return [record.model for record in find_results(paths).records]


def test_a_run_folder_and_its_shards(tmp_path: Path) -> None:
    first, second = written(tmp_path / "1", "night", "a", "b"), written(tmp_path / "2", "night", "c")
    assert models(first) == ["a", "b"]
    results = find_results([first, second, tmp_path / "1/../1/night"])
    assert [record.model for record in results.records] == ["a", "b", "c"]
    assert (results.name, results.folders, len(results.manifests)) == ("night", (first, second), 2)


def test_of_a_folder_of_runs_it_is_the_newest_that_has_a_record(tmp_path: Path) -> None:
    written(tmp_path, "20260101", "old")
    written(tmp_path, "20260102", "new")
    written(tmp_path, "20260103")
    (tmp_path / "20260104").mkdir()
    assert models(tmp_path) == ["new"]


def test_a_file_is_a_run_with_its_records(tmp_path: Path) -> None:
    (lines,) = written(tmp_path, "night", "a", "b").glob("*.jsonl")
    file = tmp_path / "record.json"
    file.write_text(RECORD.dumps())
    assert models(file) == [RECORD.model]
    lines.write_bytes(lines.read_bytes() + b'{"schema_version": 1\n' + b"[1]\n")
    results = find_results([lines])
    assert [record.model for record in results.records] == ["a", "b"]
    assert [line.where for line in results.skipped] == [f"{lines}:3", f"{lines}:4"]
    assert (results.name, results.created) == ("night", RECORD.created)


def test_the_last_record_of_a_store_and_one_in_a_file_are_found(tmp_path: Path) -> None:
    older, newer = written(tmp_path, "20260101", "older"), written(tmp_path, "20260102", "newer", "newest")
    written(tmp_path, "20260103")  # of a run that kept none
    (tmp_path / "notes.txt").write_text("not a run")
    (file,) = newer.glob("records-*.jsonl")
    with file.open("a") as stream:
        stream.write('{"schema_version": 1, "verd')  # its writer died
    assert find_record(tmp_path).model == "newest"
    assert find_record(older).model == "older"
    # Of several writers' files the one that was written last counts.
    other = newer / "records-1.jsonl"
    other.write_text(replace(RECORD, model="another writer's").dumps() + "\n")
    os.utime(other, ns=(0, file.stat().st_mtime_ns + 1))
    assert find_record(newer).model == find_record(other).model == "another writer's"
    (tmp_path / "record.json").write_text(RECORD.dumps())
    assert find_record(tmp_path / "record.json") == RECORD
