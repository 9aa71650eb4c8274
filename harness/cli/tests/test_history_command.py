"""`ethos-hil history`: runs are added and asked about, and what is wrong is one clear line."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.testing.command import Run, check_errors, check_session
from ethos_hil.results.store import RunFolder

NET = Record(
    Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-128", target=TargetInfo("virtual", "virtual", "corstone-300")
)


@pytest.fixture
def ethos_hil(ethos_hil: Run) -> Run:
    """Runs `ethos-hil history`, in a folder with three runs of a network."""
    for day, cycles in enumerate((100, 100, 90), start=1):
        add(f"night{day}", night(day, cycles))
    return partial(ethos_hil, "history")


def night(day: int, cycles: int, **other: Any) -> Record:
    metrics = (Metric("npu_cycles", cycles, "cycles", "modelled"),)
    return replace(NET, metrics=metrics, created=f"2026-01-0{day}T02:00:00+00:00", **other)


def add(name: str, record: Record) -> None:
    """Add a record to a run, in a file of its own."""
    folder = RunFolder(Path("results/runs"), name=name).path
    (folder / f"records-{len(list(folder.glob('*.jsonl'))) + 1}.jsonl").write_text(record.dumps() + "\n")


def test_runs_are_added_once_and_asked_about(ethos_hil: Run, recorded: Recorded) -> None:
    """Each is listed; a number is shown where it changed; any other question is SQL."""
    odd = "SELECT ['nan'::DOUBLE, 1] AS list, {'a': 'inf'::DOUBLE} AS pair"
    check_session(recorded, ethos_hil, [
        "add --json", "add results/runs/night2 --json", "--json", "", "show net --json", "show net", "changes --json",
        "changes", "changes --since 2026-01-04 --json", "changes --since 2026-01-04",
        "sql 'SELECT count(*) AS n FROM points' --json", f"sql {shlex.quote(odd)} --json",
    ])  # fmt: skip


@pytest.mark.parametrize("other", [
    {"method": "decode"}, {"system_config": "Deep"}, {"target": TargetInfo("board:b", "virtual", "corstone-300")},
    {"target": TargetInfo("virtual", "virtual", "corstone-310")},
], ids=["method", "system_config", "target", "soc"])  # fmt: skip
def test_two_of_one_name_are_told_apart(ethos_hil: Run, other: dict[str, Any], recorded: Recorded) -> None:
    """Each is a series of its own, and the table has a column for what they differ in, and no other one."""
    for day in (1, 2, 3):
        add(f"night{day}", night(day, 700 + (day == 3), **other))
    ethos_hil("add")
    recorded.check(plain(ethos_hil("changes").out), "changes")
    check_session(recorded, ethos_hil, ["show net"])
    tables = [ethos_hil(*words, "--json").out.splitlines() for words in (["changes"], ["show", "net"])]
    changed, shown = ({json.loads(line)["subject"] for line in lines} for lines in tables)
    assert changed == shown


def test_a_run_that_cannot_be_added_does_not_keep_the_others_out(ethos_hil: Run, recorded: Recorded) -> None:
    """One without a record, one of the future; what is cut short in one is passed over."""
    with Path("results/runs/night2/records-1.jsonl").open("a") as file:
        file.write('{"schema_version"')
    RunFolder(Path("results/runs"), name="begun")
    check_session(recorded, ethos_hil, ["add --json", "add results/runs/begun --json"])
    for name in ("night0", "night9"):
        add(name, replace(NET, created="2999-01-01T00:00:00+00:00"))
    check_session(recorded, ethos_hil, ["add --json", "ls results/history"], "of the future")


def as_anybody(path: Path, mode: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command while a path has other permissions, and in a way that they count: for root they do not."""
    prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    command = [*prefix, sys.executable, "-m", "ethos_hil.harness.cli.main", "history", *arguments]
    path.chmod(mode)
    try:
        return subprocess.run(command, capture_output=True, text=True)
    finally:
        path.chmod(0o755)


def test_what_may_not_be_read_or_written_is_named(ethos_hil: Run) -> None:
    """A run that may not be read is no run that is not there."""
    done = as_anybody(Path("results/runs/night2"), 0o000, "add", "--json")
    assert (done.returncode, len(done.stdout.splitlines())) == (2, 2)
    assert "results/runs/night2 has no record: no usable manifest.json: [Errno 13]" in done.stderr.splitlines()[-1]
    ethos_hil("--history", "h", "add", "results/runs/night1")
    before = sorted(Path("h").iterdir())
    for mode, where, arguments, words in (
        (0o000, "h/night1.parquet", (), "h/night1.parquet cannot be read or written: Permission denied"),
        (0o555, "h", ("add",), "h/night2.parquet cannot be read or written: Permission denied"),
        (0o000, "h", (), "Path 'h' is not readable"),
    ):
        done = as_anybody(Path(where), mode, "--history", "h", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr.splitlines()[-1]
        assert sorted(Path("h").iterdir()) == before


def test_a_folder_that_is_slow_to_list_is_mentioned_and_a_fast_one_is_not(
    ethos_hil: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ethos_hil("add")
    assert ethos_hil("--json")[2] == ""
    listed = Path.iterdir

    def slow(self: Path) -> Iterator[Path]:
        for path in listed(self):
            time.sleep(1)
            yield path

    monkeypatch.setattr(Path, "iterdir", slow)
    status, out, err = ethos_hil("--json")
    assert (status, len(out.splitlines()), err) == (0, 3, "Reading results/history ...\n")


def test_what_is_wrong_is_one_line(ethos_hil: Run, recorded: Recorded) -> None:
    ethos_hil("--history", "h", "add")
    Path("foreign").mkdir()
    Path("foreign/x.parquet").write_text("no")
    check_errors(recorded, ethos_hil, "", [
        "", "add absent", "add results", "--history h show nett", "--history h sql 'SELECT nothing'",
        "--history h/night1.parquet", "--history h sql ' '", "--history h sql '/* nothing */'", "--history foreign",
        "--history h/night1.parquet add",
    ])  # fmt: skip
