"""A benchmark as a program: interrupted, killed and resumed, nothing is lost and nothing is there twice."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.bench.bench import BenchPlan, is_settled, make_points
from ethos_hil.harness.bench.points import BenchCase, BenchPoint, PointSettings, facts_of
from ethos_hil.harness.campaign.engine import ASKED_AGAIN, CampaignCrew, set_aside
from ethos_hil.harness.campaign.place import RunPlace
from ethos_hil.harness.campaign.recorded import final_answers
from ethos_hil.harness.campaign.run_folder import STATE
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.results.bench.tests import samples
from ethos_hil.results.store import RunFolder, StoredRecord, read_run

GRID = """
schema_version = 1
name = "small"
npus = ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"]

[[case]]
name = "relu_1x64"
steps = [{layer = "ReLU"}]
inputs = [[1, 64]]
tags = ["short"]

[[case]]
name = "linear_640_to_64"
steps = [{layer = "Linear", args = [640, 64]}]
inputs = [[1, 640]]

[[case]]
name = "resize_4x4x8"
steps = [{layer = "Upsample", options = {scale_factor = 2}}]
inputs = [[1, 8, 4, 4]]
"""
DYING = """
import os, signal

def net():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "bench", "--grid", "grid.toml", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def records(folder: Path) -> list[Record]:
    lines = list(read_run(folder))
    assert all(isinstance(line, StoredRecord) for line in lines), lines  # every line is whole
    return [line.record for line in lines if isinstance(line, StoredRecord)]


def wait_for_records(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not folder.exists() or len(final_answers(folder)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of processes that work for a run folder."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in text:
            commands.append(text)
    return commands


@pytest.mark.slow
def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    """One that is killed, too, which `harness/campaign/tests` does with every source."""
    (tmp_path / "grid.toml").write_text(GRID)
    folder = tmp_path / "results" / "runs" / "one"
    interrupted = start(tmp_path, "--run-name", "one", "--jobs", "2")
    wait_for_records(folder, 1, interrupted)
    interrupted.send_signal(signal.SIGINT)
    _, error = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert "--resume one makes the rest" in error
    assert not processes_of(folder)
    before = Counter(record.dumps() for record in records(folder))
    assert len(before) < 3 * 8

    finished = start(tmp_path, "--resume", "one", "--json", "-")
    out, error = finished.communicate(timeout=120)
    assert finished.returncode == 0, error
    after = records(folder)
    keys = Counter((record.model, record.npu, record.memory_mode) for record in after)
    assert set(keys.values()) == {1}  # nothing twice
    assert len(keys) == 3 * 8  # nothing lost
    assert before <= Counter(record.dumps() for record in after)  # what was there is as it was
    assert {record.verdict for record in after if record.model == "relu_1x64"} == {Verdict.VERIFIED}
    assert {record.verdict for record in after if record.model == "linear_640_to_64"} == {Verdict.COMPILED_ONLY}
    refused = [record for record in after if record.failure is not None]
    assert {record.failure.kind for record in refused if record.failure is not None} == {FailureKind.DELEGATION}
    assert {(record.model, record.npu) for record in refused} == {
        ("resize_4x4x8", "ethos-u55-128"),
        ("resize_4x4x8", "ethos-u65-256"),
    }
    document = json.loads(out)
    assert document["counts"] == {"verified": 8, "compiled-only": 11, "refused": 5}
    assert len(document["points"]) == 24


def plan(model: str) -> BenchPlan:
    case = BenchCase(model, "model", (), (), model=model)
    places = [("ethos-u55-128", mode) for mode in ("Shared_Sram", "Sram_Only")] + [("ethos-u55-256", "Sram_Only")]
    points = tuple(BenchPoint(case, npu, mode, U55.system.name, "virtual") for npu, mode in places)
    return BenchPlan(points, PointSettings("models"))


def opened(wanted: BenchPlan, root: Path, name: str, *, resume: bool = False) -> RunFolder:
    with RunPlace(root, name, resume).opened(wanted.subject()) as run:
        assert run.campaign is not None
        return run.campaign.run_folder


@pytest.mark.slow
def test_a_point_that_ends_its_process_has_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(DYING)
    wanted = plan("net.py:net")
    folder = opened(wanted, tmp_path / "runs", "one")
    make_points(wanted.planned, CampaignCrew(folder, 1, Silent()))
    rows = records(folder.path)
    assert len(rows) == 3
    for row in rows:
        assert row.failure is not None
        assert row.failure.kind == FailureKind.INTERNAL
        assert "its process ended with signal 9" in row.failure.message

    make_points(wanted.planned, CampaignCrew(folder, 1, Silent()))  # one record of each all the same
    assert len(records(folder.path)) == 3
    aside = (folder.path / ASKED_AGAIN).read_text().splitlines()
    assert [Record.from_json(json.loads(line)) for line in aside] == rows
    make_points(wanted.planned, CampaignCrew(folder, 1, Silent(), replaces=False))
    assert len(records(folder.path)) == 6, "a night keeps what failed before it was resumed"


@pytest.mark.parametrize(
    ("verdict", "kind", "done"),
    [
        (Verdict.VERIFIED, None, True),
        (Verdict.COMPILED_ONLY, None, True),
        (Verdict.SKIPPED, FailureKind.CAPABILITY, True),
        (Verdict.FAILED, FailureKind.DELEGATION, True),
        (Verdict.FAILED, FailureKind.OUT_OF_MEMORY, True),
        (Verdict.FAILED, FailureKind.NOT_AVAILABLE, False),
        (Verdict.FAILED, FailureKind.LICENCE, False),
        (Verdict.FAILED, FailureKind.MISMATCH, False),
        (Verdict.FAILED, FailureKind.TIMEOUT, False),
        (Verdict.FAILED, FailureKind.INTERNAL, False),
        (Verdict.UNVERIFIED, FailureKind.NO_REFERENCE, False),
    ],
)
def test_only_what_asking_again_would_not_change_is_done(
    verdict: Verdict, kind: FailureKind | None, done: bool, tmp_path: Path
) -> None:
    """A resumed run asks again what failed, was not verified, or lacked a tool; the record before is kept beside."""
    wanted = plan("nothing:here")
    folder = RunFolder(tmp_path, name="one")
    for planned in wanted.planned[:2]:
        row = replace(samples.point(), **facts_of(planned.point, wanted.settings))
        folder.append(row, planned=planned.digest)
    failure = None if kind is None else Failure(kind, "why")
    last = wanted.planned[2]
    odd = replace(samples.point(verdict=verdict, failure=failure), **facts_of(last.point, wanted.settings))
    folder.append(odd, planned=last.digest)
    assert is_settled(odd) is done
    set_aside(folder.path, is_settled)
    assert len(records(folder.path)) == (3 if done else 2)
    assert set(final_answers(folder.path)) == {planned.digest for planned in wanted.planned[: 3 if done else 2]}
    assert (folder.path / ASKED_AGAIN).exists() is not done


def test_another_state_of_the_tools_is_refused(tmp_path: Path, recorded: Recorded) -> None:
    wanted = plan("nothing:here")
    folder = opened(wanted, tmp_path, "one")
    assert opened(wanted, tmp_path, "one", resume=True).path == folder.path
    path = folder.path / STATE
    state = json.loads(path.read_text())
    state["made_with"] = {"ethos-u-vela version": "4.0.0"}
    RunFolder(tmp_path, name="old")
    (tmp_path / "old/bench.json").write_text('{"schema_version": 1, "grid": "models"}')
    lines = []
    for text, name, resume in (
        (json.dumps(state), "one", True), ("{}", "one", True), ("{}", "one", False), ("{}", "../one", False),
        ("{}", "two", True), ("{}", "old", True),
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(UsageError) as caught:
            opened(wanted, tmp_path, name, resume=resume)
        lines.append(
            re.sub(r"4\.0\.0 and is .*", "4.0.0 and is ...", caught.value.message).replace(str(tmp_path), "/here")
        )
    recorded.check("\n".join(lines))


def test_another_benchmark_is_refused_and_what_differs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(DYING)
    wanted = plan("net.py:net")
    opened(wanted, tmp_path, "one")
    for other, reason in (
        (replace(wanted, points=wanted.points[:2]), "has other NPUs, memory modes, systems or targets"),
        (replace(wanted, settings=PointSettings("models", repeat=2)), "boots, repeats or configures Vela otherwise"),
        (replace(wanted, settings=PointSettings("other")), "is of another grid than other"),
        (plan("net.py:none"), "has other cases of the grid models, or they have changed"),
    ):
        with pytest.raises(UsageError, match=f"the run one {reason}"):
            opened(other, tmp_path, "one", resume=True)
    Path("net.py").write_text(DYING + "\n")
    with pytest.raises(UsageError, match="other cases of the grid models, or they have changed"):
        opened(wanted, tmp_path, "one", resume=True)
