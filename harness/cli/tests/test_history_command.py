"""`ethos-hil history`: runs are added and asked about, and what is wrong is one clear line."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.harness.cli import main
from ethos_hil.results.record import Metric, Record, TargetInfo
from ethos_hil.results.store import RunFolder
from ethos_hil.results.verdict import Verdict

NET = Record(Verdict.VERIFIED, "net.py:net", "ethos-u55-128", TargetInfo("virtual", "virtual", "corstone-300"))
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ethos_hil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Call]:
    """Runs the command line in this process, in a folder with three runs of a network."""
    monkeypatch.chdir(tmp_path)
    for day, cycles in enumerate((100, 100, 90), start=1):
        metrics = (Metric("npu_cycles", cycles, "cycles", "modelled"),)
        created = f"2026-01-0{day}T02:00:00+00:00"
        RunFolder(Path("results/runs"), name=f"night{day}").append(replace(NET, metrics=metrics, created=created))
    before = signal.getsignal(signal.SIGTERM)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ethos-hil", "history", *arguments])
        with pytest.raises(SystemExit) as caught:
            main.main()
        captured = capfd.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    yield call
    signal.signal(signal.SIGTERM, before)


def rows(answer: tuple[int, str, str]) -> list[dict[str, object]]:
    status, out, _ = answer
    assert status == 0, answer
    return [json.loads(line) for line in out.splitlines()]


def test_runs_are_added_once_and_listed(ethos_hil: Call) -> None:
    assert [row["added"] for row in rows(ethos_hil("add", "--json"))] == [True, True, True]
    assert [row["added"] for row in rows(ethos_hil("add", "results/runs/night2", "--json"))] == [False]
    assert [(row["run"], row["records"], row["verified"]) for row in rows(ethos_hil("--json"))] == [
        ("night1", 1, 1), ("night2", 1, 1), ("night3", 1, 1)
    ]  # fmt: skip
    status, out, err = ethos_hil()
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["run", "night1", "night2", "night3"]


def test_a_number_is_shown_where_it_changed(ethos_hil: Call) -> None:
    ethos_hil("add")
    assert [row["value"] for row in rows(ethos_hil("show", "net", "--json"))] == [100, 100, 90]
    _, out, _ = ethos_hil("show", "net")
    assert [line.split()[2] for line in out.splitlines()[1:]] == ["night1", "night3"]
    (change,) = rows(ethos_hil("changes", "--json"))
    assert (change["run"], change["before"], change["old"], change["new"]) == ("night3", "night2", 100, 90)
    assert "-10.00 %" in ethos_hil("changes")[1]
    assert rows(ethos_hil("changes", "--since", "2026-01-04", "--json")) == []
    assert ethos_hil("changes", "--since", "2026-01-04") == (0, "", "nothing\n")
    assert rows(ethos_hil("sql", "SELECT count(*) AS n FROM points", "--json")) == [{"n": 3}]


def test_a_record_cut_short_is_told(ethos_hil: Call) -> None:
    (path,) = Path("results/runs/night2").glob("*.jsonl")
    path.write_bytes(path.read_bytes() + b'{"schema_version"')
    status, _, err = ethos_hil("add", "--json")
    assert status == 0
    assert f"skipped {path}:2: not a complete record" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "results/history cannot be read"),
        (("add", "absent"), "absent cannot be read or written: No such file"),
        (("add", "results"), "results has no run folders"),
        (("--history", "h", "show", "nett"), "no test or model with 'nett'"),
        (("--history", "h", "sql", "SELECT nothing"), 'column "nothing" was not found'),
        (("--history", "h/night1.parquet"), "h/night1.parquet cannot be read or written: Not a directory"),
        (("--history", "foreign"), "foreign/x.parquet is no Parquet file"),
        (("--history", "h/night1.parquet", "add"), "night1.parquet cannot be read or written"),
    ],
    ids=lambda value: "-".join(value) or "none" if isinstance(value, tuple) else None,
)
def test_what_is_wrong_is_one_line(ethos_hil: Call, arguments: tuple[str, ...], words: str) -> None:
    ethos_hil("--history", "h", "add")
    Path("foreign").mkdir()
    Path("foreign/x.parquet").write_text("no")
    status, out, err = ethos_hil(*arguments)
    lines = [line for line in err.splitlines() if not line.endswith("...")]
    assert (status, out, len(lines)) == (2, "", 1), err
    assert words in lines[0]
