"""`ethos-hil report`: one file, or one line that says why not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.testing.command import Run, check_errors, check_session
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
def ethos_hil(ethos_hil: Run) -> Run:
    """Runs the command line in a folder with two runs, of which the second has a slower test."""
    for name in ("monday", "tuesday"):
        folder = RunFolder(Path("runs"), name=name)
        for at, record in enumerate(records()):
            folder.append(slower(record) if name == "tuesday" and at == 2 else record)
    return ethos_hil


def test_a_run_becomes_one_file(ethos_hil: Run, recorded: Recorded) -> None:
    ended = ethos_hil("report", "runs/monday")
    assert "Writing the report" in ended.err
    page = Path("report.html").read_text()
    assert "6 verified." in page
    check_session(recorded, ethos_hil, ["report runs/monday -o again.html", "report runs -o - | <!doctype"])
    assert Path("again.html").read_text() == page
    assert sorted(path.name for path in Path().iterdir()) == ["again.html", "net.py", "report.html", "runs"]


def test_against_a_run_a_baseline_and_a_run_of_the_history(ethos_hil: Run) -> None:
    compact(Path("runs/monday"), Path("past"))
    assert ethos_hil("accept", "runs/monday", "--baseline", "base.jsonl")[0] == 0
    for side in ("runs/monday", "base.jsonl", "monday"):
        page = page_of(ethos_hil, "runs/tuesday", "--against", side, "--history", "past")
        assert f"1 got worse against {Path(side).name}." in page
        assert "Another timing model" in page
        assert ("ethos-hil accept tuesday --baseline base.jsonl" in page) is (side == "base.jsonl")
        assert 'id="history"' in page
    assert "ethos-hil accept" not in page  # nothing reads a baseline there


def page_of(ethos_hil: Run, *arguments: str) -> str:
    ended = ethos_hil("report", *arguments)
    assert ended.status == 0, ended
    return Path("report.html").read_text()


def test_shards_are_one_run_and_so_is_a_record_at_the_clock_that_is_asked_for(ethos_hil: Run) -> None:
    """And a record that its writer did not finish is told."""
    assert "2 shards" in page_of(ethos_hil, "runs/monday", "runs/tuesday")
    (test, *_) = records()
    model = replace(test, test=None, model="net.py:net")
    for name, record in (("test", test), ("model", model)):
        Path(f"{name}.json").write_text(json.dumps(record.to_json()))
    page = page_of(ethos_hil, "test.json")
    assert "1 verified." in page
    assert "ethos-hil bundle" not in page
    cycles = model.metric("npu_cycles")
    assert cycles is not None
    assert f"{cycles.value / 1e6:,.3g} s at 1 MHz" in page_of(ethos_hil, "model.json", "--clock", "1MHz")
    (lines,) = Path("runs/monday").glob("records-*.jsonl")
    lines.write_bytes(lines.read_bytes()[:-40])
    page = page_of(ethos_hil, "runs/monday")
    for words in ("5 verified.", "1 problem with the run", "cannot be read: not a complete record"):
        assert words in page


def test_what_cannot_be_a_report_is_one_line(ethos_hil: Run, recorded: Recorded) -> None:
    Path("foreign.json").write_text('{"schema_version": 1}')
    Path("deep.json").write_text("[" * 100_000)
    Path("cut.json").write_text('{"schema_version": 1, "verdict": "veri')
    for name in ("empty", "broken", "no-history", "foreign"):
        Path(name).mkdir()
    Path("broken/manifest.json").write_text("{")
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
