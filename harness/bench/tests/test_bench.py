"""A benchmark as a program: interrupted, killed and resumed, nothing is lost and nothing is there twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.record import Record
from ethos_hil.base.testing.processes import processes_with, wait_until
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.bench.bench import BenchPlan, PointsJob, is_settled
from ethos_hil.harness.bench.points import BenchCase, BenchPoint, PointSettings, facts_of
from ethos_hil.harness.campaign.place import RunPlace
from ethos_hil.harness.campaign.recorded import final_answers
from ethos_hil.harness.testing.command import run_command
from ethos_hil.harness.testing.refusals import refusal
from ethos_hil.harness.testing.small_grid import LINEAR, RELU, RESIZE, grid
from ethos_hil.results.bench.tests import samples
from ethos_hil.results.store import StoredRecord, read_run

GRID = grid("ethos-u55-128", cases=RELU + LINEAR + RESIZE)


def records(folder: Path) -> list[Record]:
    lines = list(read_run(folder))
    assert all(isinstance(line, StoredRecord) for line in lines), lines  # every line is whole
    return [line.record for line in lines if isinstance(line, StoredRecord)]


@pytest.mark.slow
def test_an_interrupted_run_is_resumed(tmp_path: Path, recorded: Recorded) -> None:
    """One that is killed, too, which `harness/campaign/tests` does with every source."""
    (tmp_path / "grid.toml").write_text(GRID)
    folder = tmp_path / "results/runs/one"
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "bench", "--grid", "grid.toml", "--jobs", "1"]
    with subprocess.Popen([*command, "--run-name", "one"], cwd=tmp_path, stderr=subprocess.PIPE) as interrupted:
        wait_until(lambda: interrupted.poll() is not None or (folder.exists() and final_answers(folder)), "a record")
        interrupted.send_signal(signal.SIGINT)
        _, error = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert b"--resume one makes the rest" in error
    assert not processes_with(bytes(folder))
    before = Counter(record.dumps() for record in records(folder))
    assert len(before) < 3 * 2

    ended = run_command("bench", "--grid", "grid.toml", "--jobs", "1", "--resume", "one", "--json", "-", cwd=tmp_path)
    assert ended.status == 0, ended.err
    after = records(folder)
    assert before <= Counter(record.dumps() for record in after), "what was there is as it was"
    lines = sorted(f"{row.model} {row.npu} {row.memory_mode}: {row.verdict} {row.kind or ''}" for row in after)
    document = json.loads(ended.out)
    recorded.check("\n".join([*lines, f"{len(document['points'])} points: {document['counts']}"]))


def plan(model: str) -> BenchPlan:
    case = BenchCase(model, "model", (), (), model=model)
    places = [("ethos-u55-128", mode) for mode in ("Shared_Sram", "Sram_Only")] + [("ethos-u55-256", "Sram_Only")]
    points = tuple(BenchPoint(case, npu, mode, U55.system.name, "virtual") for npu, mode in places)
    return BenchPlan(points, PointSettings("models"))


def test_what_failed_was_not_verified_or_lacked_a_tool_is_asked_again(recorded: Recorded) -> None:
    wanted = plan("nothing:here")
    facts = facts_of(wanted.points[0], wanted.settings)
    ends: list[tuple[Verdict, FailureKind | None]] = [(Verdict.VERIFIED, None), (Verdict.COMPILED_ONLY, None)]
    ends += [(Verdict.SKIPPED, FailureKind.CAPABILITY), (Verdict.UNVERIFIED, FailureKind.NO_REFERENCE)]
    lines = []
    for verdict, kind in [*ends, *((Verdict.FAILED, kind) for kind in FailureKind)]:
        row = replace(samples.point(verdict=verdict, failure=kind and Failure(kind, "why")), **facts)
        lines.append(f"{verdict} {kind or ''}: {'settled' if is_settled(row) else 'asked again'}")
    recorded.check("\n".join(lines))
    error = EthosHilError("its process ended", kind=FailureKind.INTERNAL)
    lost = PointsJob(wanted.planned).refuse(wanted.planned[0], error).record
    assert (lost.kind, lost.bench, is_settled(lost)) == (FailureKind.INTERNAL, row.bench, False)


def test_another_benchmark_is_refused_and_what_differs_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("")
    wanted = plan("net.py:net")
    for resume in (False, True):
        with RunPlace(tmp_path, "one", resume).opened(wanted.subject()):
            pass
    others = [
        replace(wanted, points=wanted.points[:2]),
        replace(wanted, settings=PointSettings("models", repeat=2)),
        replace(wanted, settings=PointSettings("other")),
        plan("net.py:none"),
    ]
    subjects = [other.subject() for other in others]
    Path("net.py").write_text("\n")
    subjects.append(wanted.subject())
    place = RunPlace(tmp_path, "one", resume=True)
    recorded.check("\n".join(refusal(place.opened(subject).__enter__) for subject in subjects))
