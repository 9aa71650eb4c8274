"""`ethos-hil export`: what is written, and one line and the right exit status otherwise."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.record import Metric, Op, Record, TargetInfo
from ethos_hil.base.testing.distribution import distribution
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.testing.command import Run, assert_one_clear_line, check_errors, check_session
from ethos_hil.results.export import plain
from ethos_hil.results.export.exporter import EXPORTERS
from ethos_hil.results.export.runs.run_exporter import export_run
from ethos_hil.results.run_results import find_results
from ethos_hil.results.store import RunFolder

RECORD = Record(
    Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-128", target=TargetInfo("virtual", "virtual", "corstone-300"),
    ops=(Op("npu00000", "Conv2D", "CONV2D", ("aten.conv2d.default",), "a", "net.py:3", 12, "modelled"),),
)  # fmt: skip


@pytest.fixture
def ethos_hil(ethos_hil: Run) -> Run:
    """Runs the command line in a folder with a record in a file and one in a store."""
    Path("record.json").write_text(plain.write_json(RECORD))
    RunFolder(Path("runs")).append(RECORD)
    return ethos_hil


@pytest.mark.parametrize("source", ["record.json", "runs"])
def test_a_record_is_written_to_stdout_or_to_a_file(ethos_hil: Run, source: str) -> None:
    assert ethos_hil("export", source, "--to", "csv") == (0, plain.write_csv(RECORD), "")
    assert ethos_hil("export", source, "--to", "json", "-o", "copy.json") == (0, "", "")
    expected = json.loads(Path("record.json").read_text())
    if source == "runs":  # a record that is kept names its run
        (folder,) = Path("runs").iterdir()
        manifest = json.loads((folder / "manifest.json").read_text())
        commit, dirty = manifest["commit"] or "", bool(manifest["dirty"])
        expected["run"] = {"name": folder.name, "commit": commit, "dirty": dirty, "shard": "", "part": "", "attempt": 1,
                           "job": "", "planned": ""}  # fmt: skip
    assert Path("copy.json").read_text() == json.dumps(expected, indent=2) + "\n"


def test_what_cannot_be_written_is_one_line(ethos_hil: Run, recorded: Recorded) -> None:
    Path("empty").mkdir()
    Path("net.py").write_text("import torch\n")
    for name in ("half.json", "lines.jsonl"):
        Path(name).write_text(RECORD.dumps()[:50])
    Path("out").write_text("before")
    check_errors(recorded, ethos_hil, "export record.json", [
        "--to cvs", "--to folded", "--to perfetto -o out", "--to csv -o absent/x.csv",
        "--to csv --against record.json", "record.json --to csv", "absent --to junit", "--to junit --policy net.py",
        "--to points-csv -o out", "--to junit --against absent", "--to junit --against record.json --policy net.py",
    ])  # fmt: skip
    check_errors(recorded, ethos_hil, "export", [
        "absent.json --to csv", "empty --to csv", "net.py --to csv", "empty --to junit", "net.py --to summary",
        "half.json --to junit", "lines.jsonl --to junit",
    ])  # fmt: skip


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_a_file_is_whole_or_not_there(ethos_hil: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert ethos_hil("export", "record.json", "--to", name, "-o", "whole") == (0, "", "")
    content = EXPORTERS.get(name).write(RECORD)
    assert Path("whole").read_bytes() == (content.encode() if isinstance(content, str) else content)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sorted(Path().iterdir())
    monkeypatch.setattr(os, "fsync", full)
    ended = ethos_hil("export", "record.json", "--to", name, "-o", "half")
    assert_one_clear_line(ended, 2, "cannot write half: No space left on device (nothing was written there)")
    assert sorted(Path().iterdir()) == before


NIGHT = [replace(RECORD, model=f"net{number}.py:net", metrics=(Metric("npu_cycles", number, "cycles", "modelled"),))
         for number in range(5)]  # fmt: skip


@pytest.mark.parametrize("name", ["junit", "points-parquet"])
def test_a_run_is_written_in_every_format(ethos_hil: Run, name: str) -> None:
    for number, record in enumerate(NIGHT):
        RunFolder(Path(f"shard{number % 2}"), name="night").append(record)
    shards = (Path("shard0/night"), Path("shard1/night"))
    expected = export_run(find_results(shards), None, name)
    assert ethos_hil("export", *map(str, shards), "--to", name, "-o", "out") == (0, "", "")
    assert Path("out").read_bytes() == expected
    if name == "junit":
        assert ethos_hil("export", *map(str, shards), "--to", name) == (0, expected.decode(), "")
        assert all(f"net{number}.py" in expected.decode() for number in range(5))
    assert ethos_hil("export", "shard1", "--to", name, "-o", "out") == (0, "", "")
    assert Path("out").read_bytes() == export_run(find_results(shards[1:]), None, name)


def test_an_exporter_that_ends_or_writes_no_text_is_named(
    ethos_hil: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    """One that exits with 0 would end a red night so."""
    bodies = {"ends": "sys.exit(0)", "no-utf8": "return chr(0xD800)", "number": "return 5", "fails": "1 // 0"}
    code = "import sys\nfrom ethos_hil.results.export.exporter import Exporter\n"
    entries = "[ethos_hil.exporters]\n"
    for number, (name, body) in enumerate(bodies.items()):
        code += f"def write{number}(record):\n    {body}\nE{number} = Exporter('{name}', '', '', write{number})\n"
        entries += f"{name} = odd_code:E{number}\n"
    monkeypatch.syspath_prepend(str(distribution(tmp_path / "site", "odd", entries, odd_code=code)))
    monkeypatch.delitem(sys.modules, "odd_code", raising=False)
    Path("out").write_text("before")
    check_errors(recorded, ethos_hil, "export record.json -o out", [f"--to {name}" for name in bodies])
    monkeypatch.setattr(type(EXPORTERS), "names", lambda self: ("junit",))
    check_errors(recorded, ethos_hil, "export record.json", ["--to junit"])


def test_a_run_is_compared_with_another_or_with_a_baseline(ethos_hil: Run, recorded: Recorded) -> None:
    for name, change in (("night1", 0), ("night2", 1)):
        folder = RunFolder(Path("nights"), name=name)
        for record in NIGHT:
            cycles = record.metrics[0].value + 100 + change
            folder.append(replace(record, metrics=(replace(record.metrics[0], value=cycles),)))
    assert ethos_hil("accept", "nights/night1", "--baseline", "baseline.jsonl")[0] == 0
    Path("gate.toml").write_text("schema_version = 1\n[gate]\nregressed = 'warn'\n")
    check_session(recorded, ethos_hil, [
        f"export nights/night2 --to summary --against {against} | Against"
        for against in ("nights/night1", "baseline.jsonl", "baseline.jsonl --policy gate.toml")
    ])  # fmt: skip


def test_a_line_that_was_cut_short_is_told_and_the_others_are_written(ethos_hil: Run) -> None:
    folder = RunFolder(Path("night"), name="night")
    folder.append(RECORD)
    with next(folder.path.glob("*.jsonl")).open("a") as lines:
        lines.write('{"schema_version"')
    status, out, err = ethos_hil("export", "night", "--to", "junit")
    assert (status, out.count("<testcase"), out.count("<failure")) == (0, 2, 1), "what cannot be read is red"
    assert re.fullmatch(r"skipped night/night/records-.*:2: not a complete record: .*\n", err)
