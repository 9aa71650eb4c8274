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
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.harness.testing.snapshot import Snapshot
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


def test_what_cannot_be_a_report_is_one_line(ethos_hil: Run) -> None:
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
    check_errors(ethos_hil, "report", Snapshot("""
        nowhere: 2 ethos-hil: nowhere cannot be read: No such file or directory (`ethos-hil runs` lists what
            run folders have, `ethos-hil history` runs)
        foreign.json: 2 ethos-hil: foreign.json has no record: record is not as schema version 2 has it:
            verdict: there is no 'verdict' (give what `ethos-hil run --json FILE` wrote, or a run folder)
        deep.json: 2 ethos-hil: deep.json has no record: too deeply nested (give what `ethos-hil run --json
            FILE` wrote, or a run folder)
        cut.json: 2 ethos-hil: cut.json has no record: Unterminated string starting at: line 1 column 34
            (char 33) (give what `ethos-hil run --json FILE` wrote, or a run folder)
        empty: 2 ethos-hil: empty is not a run folder, and has none in it (`ethos-hil runs` lists what run
            folders have, `ethos-hil history` runs)
        broken: 2 ethos-hil: broken/manifest.json is damaged: Expecting property name enclosed in double
            quotes: line 1 column 2 (char 1) (a run folder has to stay as it was written)
        cut.json -o cut.json: 2 ethos-hil: --output and RUN are the same file, cut.json (name another file
            for --output)
    """))  # fmt: skip
    check_errors(ethos_hil, "report runs/monday", Snapshot("""
        --commit-url http://g/{commit}: 2 ethos-hil: --commit-url: 'http://g/{commit}' does not begin with
            https:// (such as https://git.example/commits/{commit})
        --job-url https://g/: 2 ethos-hil: --job-url: 'https://g/' has no {job} in it (such as
            https://git.example/jobs/{job})
        --history no-history: 2 ethos-hil: no-history has no runs (`ethos-hil history add` writes a history
            from run folders)
        --history nowhere: 2 ethos-hil: nowhere cannot be read: No such file or directory (`ethos-hil runs`
            lists what run folders have, `ethos-hil history` runs)
        --history foreign: 2 ethos-hil: foreign/x.parquet is not a Parquet file: Invalid Input Error: Footer
            length error in file 'foreign/x.parquet' (move what is not a run's out of the folder)
        --against nowhere: 2 ethos-hil: nowhere is not a run folder, record or baseline, nor a run of
            results/history (`ethos-hil runs` lists what run folders have, `ethos-hil history` runs)
        --against foreign.json: 2 ethos-hil: foreign.json has no record: record is not as schema version 2
            has it: verdict: there is no 'verdict' (give what `ethos-hil run --json FILE` wrote, or a run
            folder)
        --policy policy.toml: 2 ethos-hil: --policy is about a comparison, and there is none (give
            --against)
        --against runs/tuesday --policy policy.toml: 2 ethos-hil: policy.toml:1: schema_version: 1 was
            expected (docs/compare.md explains policies)
        -o nowhere/report.html: 2 ethos-hil: cannot write nowhere/report.html: No such file or directory
            (nothing was written there)
        -o empty: 2 ethos-hil: cannot write empty: Is a directory (nothing was written there)
        --against cut.json -o cut.json: 2 ethos-hil: --output and --against are the same file, cut.json
            (name another file for --output)
        --clock 0: 2 ethos-hil: --clock: a clock of '0' is outside of 1 kHz to 10 GHz (--clock 400MHz)
        --clock fast: 2 ethos-hil: --clock: 'fast' is not a clock. It takes a frequency (400MHz, 1e9;
            500MHz/1GHz for NPU and CPU), a system configuration of Vela, or a part: alif-e7-hp, alif-e7-he,
            alif-e8-hp, alif-e8-he, alif-e8-u85, numaker-m55m1, ek-ra8p1, imx93, psoc-edge-e84, mps3-an547,
            mps3-an552, mps3-an555, mps4-fi101 (--clock 400MHz)
    """))  # fmt: skip


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
