"""`ethos-hil report`: one file, or one line that says why not."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base import files
from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.results.compaction.run_file import compact
from ethos_hil.results.store import RunFolder
from ethos_hil.results.testing.synthetic_year import nights


def records() -> list[Record]:
    (items,) = nights(count=1, tests=6)
    return [item.record for item in items]


def slower(record: Record) -> Record:
    metrics = (
        replace(metric, value=metric.value + 10) if metric.name == "npu_cycles" else metric for metric in record.metrics
    )
    return replace(record, metrics=tuple(metrics), timing_model="3" * 16)


@pytest.fixture
def ethos_hil(command_line: Run) -> Run:
    """Runs the command line in a folder with two runs, of which the second has a slower test."""
    for name in ("monday", "tuesday"):
        folder = RunFolder(Path("runs"), name=name)
        for at, record in enumerate(records()):
            folder.append(slower(record) if name == "tuesday" and at == 2 else record)
    return command_line


def test_a_run_becomes_one_file(ethos_hil: Run) -> None:
    status, out, err = ethos_hil("report", "runs/monday")
    assert (status, out) == (0, "report.html\n")
    assert "Writing the report" in err
    page = Path("report.html").read_text()
    assert "6 verified." in page
    assert sorted(path.name for path in Path().iterdir()) == ["report.html", "runs"]


def test_it_goes_to_stdout_too(ethos_hil: Run) -> None:
    status, out, _ = ethos_hil("report", "runs", "-o", "-")
    assert status == 0
    assert out.startswith("<!doctype html>")
    assert not Path("report.html").exists()


def test_against_a_run_a_baseline_and_a_run_of_the_history(ethos_hil: Run) -> None:
    compact(Path("runs/monday"), Path("past"))
    assert ethos_hil("accept", "runs/monday", "--baseline", "base.jsonl")[0] == 0
    sides = {"runs/monday": "runs/monday", "base.jsonl": "base.jsonl", "monday": "monday"}
    for side, name in sides.items():
        status, _, err = ethos_hil("report", "runs/tuesday", "--against", side, "--history", "past")
        assert status == 0, err
        page = Path("report.html").read_text()
        assert f"1 got worse against {Path(name).name}." in page
        assert "Another timing model" in page
        assert ("ethos-hil accept tuesday --baseline base.jsonl" in page) is (side == "base.jsonl")
        assert 'id="history"' in page
    assert "ethos-hil accept" not in page  # nothing reads a baseline there


def test_times_are_made_with_the_clock_that_is_asked_for(ethos_hil: Run) -> None:
    model = replace(records()[0], test=None, model="net.py:net")
    cycles = model.metric("npu_cycles")
    assert cycles is not None
    Path("one.json").write_text(json.dumps(model.to_json()))
    assert ethos_hil("report", "one.json", "--clock", "1MHz")[0] == 0
    assert f"{cycles.value / 1e6:,.3g} s at 1 MHz" in Path("report.html").read_text()


def test_shards_are_one_run(ethos_hil: Run) -> None:
    assert ethos_hil("report", "runs/monday", "runs/tuesday")[0] == 0
    assert "2 shards" in Path("report.html").read_text()


def test_a_single_record_is_a_run_too(ethos_hil: Run) -> None:
    Path("one.json").write_text(json.dumps(records()[0].to_json()))
    assert ethos_hil("report", "one.json")[0] == 0
    page = Path("report.html").read_text()
    assert "1 verified." in page
    assert "ethos-hil bundle" not in page


def test_what_cannot_be_a_report_is_one_line(ethos_hil: Run, recorded: Recorded) -> None:
    Path("foreign.json").write_text('{"schema_version": 1}')
    Path("deep.json").write_text("[" * 100_000)
    Path("cut.json").write_text('{"schema_version": 1, "verdict": "veri')
    Path("empty").mkdir()
    Path("broken").mkdir()
    Path("broken/manifest.json").write_text("{")
    Path("no-history").mkdir()
    Path("foreign").mkdir()
    Path("foreign/x.parquet").write_bytes(b"PAR1 not at all PAR1")
    Path("policy.toml").write_text("schema_version = 9")
    check_errors(recorded, ethos_hil, "report", [
        "nowhere", "foreign.json", "deep.json", "cut.json", "empty", "broken", "cut.json -o cut.json",
    ])  # fmt: skip
    check_errors(recorded, ethos_hil, "report runs/monday", [
        "--commit-url http://g/{commit}", "--job-url https://g/", "--history no-history", "--history nowhere",
        "--history foreign", "--against nowhere", "--against foreign.json", "--policy policy.toml",
        "--against runs/tuesday --policy policy.toml", "-o nowhere/report.html", "-o empty",
        "--against cut.json -o cut.json", "--clock 0", "--clock fast",
    ])  # fmt: skip


def test_a_record_that_its_writer_did_not_finish_is_told_in_the_report(ethos_hil: Run) -> None:
    (lines,) = Path("runs/monday").glob("records-*.jsonl")
    lines.write_bytes(lines.read_bytes()[:-40])
    assert ethos_hil("report", "runs/monday")[0] == 0
    page = Path("report.html").read_text()
    assert "5 verified." in page
    assert "1 problem with the run" in page
    assert "cannot be read: not a complete record" in page


def test_a_full_disk_leaves_the_old_report(ethos_hil: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("report.html").write_text("of yesterday")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    status, out, err = ethos_hil("report", "runs/monday")
    assert (status, out) == (2, "")
    assert "cannot write report.html: No space left on device" in err
    assert Path("report.html").read_text() == "of yesterday"
    assert sorted(path.name for path in Path().iterdir()) == ["report.html", "runs"]
