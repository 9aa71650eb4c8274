"""The rows of files and runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.results.ledger.ledger_row import ledger_source, merge, rows_of
from ethos_hil.results.ledger.tests.test_record_rows import RECORD
from ethos_hil.results.store import RunFolder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs of one record, by two timing models."""
    assert RECORD.profile is not None
    for name, day in (("night1", 1), ("night2", 2)):
        profile = replace(RECORD.profile, timing_model=f"m{day}")
        RunFolder(tmp_path / "runs", name=name).append(
            replace(RECORD, profile=profile, created=f"2026-11-0{day}T02:00:00+00:00")
        )
    return tmp_path / "runs"


def test_all_runs_of_a_folder_are_one_ledger_and_the_newest_timing_model_stays(runs: Path) -> None:
    ledger = ledger_source(runs)
    assert len(ledger.rows) == 2 * len(rows_of(RECORD)) == 2 * len(ledger_source(runs / "night1").rows)
    (row, *_) = merge(ledger.rows)
    assert len(merge(ledger.rows)) == len(rows_of(RECORD))
    assert row.timing_model == "m2"


def test_a_record_and_lines_of_records_are_told_apart(tmp_path: Path) -> None:
    rows = rows_of(RECORD)
    (tmp_path / "r.json").write_text(RECORD.dumps())
    (tmp_path / "r.jsonl").write_text(f"{RECORD.dumps()}\n{RECORD.dumps()}\n{{\n")
    assert ledger_source(tmp_path / "r.json").rows == rows
    ledger = ledger_source(tmp_path / "r.jsonl")
    assert ledger.rows == rows * 2
    assert len(ledger.skipped) == 1


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"not json", b'{"schema_version": 1}'])
def test_a_foreign_file_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"file\.json") as caught:
        ledger_source(path)
    assert "\n" not in str(caught.value)


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no runs in it"):
        ledger_source(tmp_path)
