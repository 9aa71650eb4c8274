"""A benchmark as a program: interrupted, killed and resumed, nothing is lost and nothing is there twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.bench.bench import BenchPlan, is_settled
from ethos_hil.harness.bench.case import BenchCase, BenchPoint
from ethos_hil.harness.bench.points import PointSettings, facts_of
from ethos_hil.harness.campaign.engine import ASKED_AGAIN, set_aside
from ethos_hil.harness.campaign.place import RunPlace
from ethos_hil.harness.campaign.recorded import final_answers
from ethos_hil.results.bench.tests import samples
from ethos_hil.results.store import RunFolder, StoredRecord, read_run

DYING = """
import os, signal

def net():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def records(folder: Path) -> list[Record]:
    lines = list(read_run(folder))
    assert all(isinstance(line, StoredRecord) for line in lines), lines  # every line is whole
    return [line.record for line in lines if isinstance(line, StoredRecord)]


def plan(model: str) -> BenchPlan:
    case = BenchCase(model, "model", (), (), model=model)
    places = [("ethos-u55-128", mode) for mode in ("Shared_Sram", "Sram_Only")] + [("ethos-u55-256", "Sram_Only")]
    points = tuple(BenchPoint(case, npu, mode, U55.system.name, "virtual") for npu, mode in places)
    return BenchPlan(points, PointSettings("models"))


def opened(wanted: BenchPlan, root: Path, name: str, *, resume: bool = False) -> RunFolder:
    with RunPlace(root, name, resume).opened(wanted.subject()) as run:
        assert run.campaign is not None
        return run.campaign.run_folder


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


def test_a_run_of_an_earlier_version_is_refused_in_one_line(tmp_path: Path) -> None:
    RunFolder(tmp_path, name="old")
    (tmp_path / "old/bench.json").write_text('{"schema_version": 1, "grid": "models"}')
    with pytest.raises(UsageError, match="old has no benchmark to resume: an earlier version started it"):
        opened(plan("nothing:here"), tmp_path, "old", resume=True)


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
