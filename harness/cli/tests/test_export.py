"""`ethos-hil export` and `ethos-hil targets`: what is written, and one line and the right exit status otherwise."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ethos_hil.harness.cli import main
from ethos_hil.results.export import operations_csv, record_json
from ethos_hil.results.export.exporter import EXPORTERS, Exporter
from ethos_hil.results.export.runs.run_exporter import RUN_EXPORTERS
from ethos_hil.results.record import Op, Record, TargetInfo
from ethos_hil.results.store import RunFolder
from ethos_hil.results.verdict import Verdict

RECORD = Record(
    Verdict.VERIFIED, "net.py:net", "ethos-u55-128", TargetInfo("virtual", "virtual", "corstone-300"),
    ops=(Op("npu00000", "Conv2D", "CONV2D", ("aten.conv2d.default",), "a", "net.py:3", 12, "modelled"),),
)  # fmt: skip
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ethos_hil(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Iterator[Call]:
    """Runs the command line in this process, in an empty folder with a record in a file and one in a store."""
    monkeypatch.chdir(tmp_path)
    Path("record.json").write_text(record_json.write(RECORD))
    RunFolder(Path("runs")).append(RECORD)
    before = signal.getsignal(signal.SIGTERM)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ethos-hil", *arguments])
        with pytest.raises(SystemExit) as caught:
            main.main()
        captured = capfdbinary.readouterr()
        status = caught.value.code
        assert isinstance(status, int)
        return status, captured.out.decode(), captured.err.decode()

    yield call
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("source", ["record.json", "runs"])
def test_a_record_is_written_to_stdout_or_to_a_file(ethos_hil: Call, source: str) -> None:
    assert ethos_hil("export", source, "--to", "csv") == (0, operations_csv.write(RECORD), "")
    assert ethos_hil("export", source, "--to", "json", "-o", "copy.json") == (0, "", "")
    expected = json.loads(Path("record.json").read_text())
    if source == "runs":  # a record that is kept names its run
        (folder,) = Path("runs").iterdir()
        manifest = json.loads((folder / "manifest.json").read_text())
        commit, dirty = manifest["commit"] or "", bool(manifest["dirty"])
        expected["run"] = {"name": folder.name, "commit": commit, "dirty": dirty, "shard": "", "part": "", "attempt": 1}
    assert Path("copy.json").read_text() == json.dumps(expected, indent=2) + "\n"


def test_the_exporters_are_listed(ethos_hil: Call) -> None:
    status, out, err = ethos_hil("exporters", "--json")
    assert (status, err) == (0, "")
    listed = json.loads(out)
    assert listed["schema_version"] == 1
    assert [each["name"] for each in listed["exporters"]] == [*EXPORTERS.names(), *RUN_EXPORTERS.names()]
    kinds = [each["of"] for each in listed["exporters"]]
    assert kinds == ["record"] * len(EXPORTERS.names()) + ["run"] * len(RUN_EXPORTERS.names())
    assert {each["distribution"] for each in listed["exporters"]} == {"ethos-hil"}
    status, out, err = ethos_hil("exporters")
    assert (status, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        ["advice", ".advice.json"], ["chrome", ".trace.json"], ["csv", ".csv"], ["etdump", ".etdp"],
        ["folded", ".folded"], ["json", ".json"],
        ["model-explorer", ".graph.json"], ["model-explorer-cycles", ".cycles.json"],
        ["model-explorer-vela", ".vela.json"], ["parquet", ".parquet"], ["perfetto", ".pftrace"],
        ["github-benchmark", ".json"], ["junit", ".xml"], ["openmetrics", ".txt"], ["points-csv", ".csv"],
        ["points-parquet", ".parquet"], ["pytorch-benchmark", ".json"], ["summary", ".md"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("record.json", "--to", "cvs"),
            "no exporter is called 'cvs' (did you mean csv? exporters: advice, chrome, csv, etdump, folded, json",
        ),
        (("absent.json", "--to", "csv"), "absent.json cannot be read: No such file or directory"),
        (("empty", "--to", "csv"), "empty has no record: no run in it has a record"),
        (("net.py", "--to", "csv"), "net.py has no record: Expecting value"),
        (("record.json", "--to", "csv", "-o", "absent/x.csv"), "cannot write absent/x.csv: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(ethos_hil: Call, arguments: tuple[str, ...], words: str) -> None:
    Path("empty").mkdir()
    Path("net.py").write_text("import torch\n")
    status, out, err = ethos_hil("export", *arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert err.startswith("ethos-hil: ")
    assert words in err


def test_a_record_that_lacks_what_a_format_shows_is_refused(ethos_hil: Call) -> None:
    Path("out.pftrace").write_text("before")
    status, out, err = ethos_hil("export", "record.json", "--to", "perfetto", "-o", "out.pftrace")
    assert (status, out) == (2, "")
    assert err.startswith("ethos-hil: the record of net.py:net has no timeline (`ethos-hil profile MODEL --json FILE`")
    assert len(err.splitlines()) == 1
    assert Path("out.pftrace").read_text() == "before"


@pytest.mark.parametrize("name", ["folded", "parquet"])
def test_a_file_is_whole_or_not_there(ethos_hil: Call, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert ethos_hil("export", "record.json", "--to", name, "-o", "whole") == (0, "", "")
    content = EXPORTERS.get(name).write(RECORD)
    assert Path("whole").read_bytes() == (content.encode() if isinstance(content, str) else content)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sorted(Path().iterdir())
    monkeypatch.setattr(os, "fsync", full)
    status, _, err = ethos_hil("export", "record.json", "--to", name, "-o", "half")
    assert (status, err) == (2, "ethos-hil: cannot write half: No space left on device (nothing was written there)\n")
    assert sorted(Path().iterdir()) == before


def test_an_exporter_that_fails_is_named_and_nothing_is_written(
    ethos_hil: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(record: Record) -> str:
        raise ZeroDivisionError("no cycles")

    Path("out.csv").write_text("before")
    monkeypatch.setattr(type(EXPORTERS), "get", lambda self, name: Exporter("csv", ".csv", "", broken))
    status, _, err = ethos_hil("export", "record.json", "--to", "csv", "-o", "out.csv")
    assert status == 3
    assert "the exporter 'csv' of ethos-hil failed: ZeroDivisionError: no cycles" in err
    assert Path("out.csv").read_text() == "before"


def test_targets_are_listed_for_people_and_for_programs(ethos_hil: Call) -> None:
    status, out, _ = ethos_hil("targets")
    assert status == 0
    rows = {line.split()[0]: line for line in out.splitlines() if not line.startswith(" ")}
    assert "ethos-u85-128" in rows["corstone-320"]
    assert "--strict" in rows["virtual"]
    assert "pool" not in out
    status, out, _ = ethos_hil("targets", "--json")
    document = json.loads(out)
    assert document["schema_version"] == 1
    assert {"virtual", "corstone-300", "corstone-320"} <= {target["name"] for target in document["targets"]}
    keys = {"name", "kind", "description", "socs", "npus", "options", "distribution", "available", "missing", "hint"}
    assert all(target.keys() == keys for target in document["targets"])
