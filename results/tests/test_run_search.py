"""A run is found by its folder, those of its shards, a folder of runs, or a file of records."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ethos_hil.base.tests.test_record import RECORD
from ethos_hil.results.run_results import find_results
from ethos_hil.results.store import RunFolder


def written(root: Path, name: str, *models: str) -> Path:
    folder = RunFolder(root, name=name)
    for model in models:
        folder.append(dataclasses.replace(RECORD, model=model))
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
