"""A small nightly for tests: one operator, one model, and their files."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ethos_hil.base.judge import standing_of
from ethos_hil.base.program_info import ArtifactInfo
from ethos_hil.base.record import Metric, Record, RunInfo, SuiteTest, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.campaign.run_folder import NIGHTLY, CampaignSubject, Start, opened
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.nightly import NightOutcome
from ethos_hil.harness.nightly.plan import NightlyPlan, SuitePart
from ethos_hil.results.gate.account import Account
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import ReportedFailure, Selected, Selection, SessionEnd
from ethos_hil.results.testing.in_lines import lines_of_account

TESTS = """\
from ethos_hil.suites.declare.case import Operator, case, f32

plus = Operator(
    "plus",
    aten=("add.Tensor",),
    cases=(
        case("same", lambda a, b: a + b, f32(1, 4, 3, 5), f32(1, 4, 3, 5)),
        case("itself", lambda a: a + a, f32(7)),
    ),
)
"""
NET = """\
import torch


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), (torch.randn(1, 16),)


def killed():
    import os, signal

    os.kill(os.getpid(), signal.SIGKILL)
"""
QUARANTINE = """\
schema_version = 1
[[test]]
id = "test_plus.py::test_plus_itself_*"
kind = "delegation"
reason = "the declaration is wrong"
issue = "https://example.org/7"
owner = "ada"
expires = {expires}
"""


def write(folder: Path, text: str, tests: str = TESTS) -> Path:
    """Write a nightly's file and what it runs. Return the file."""
    for name, content in (("nightly.toml", f"schema_version = 1\n{text}"), ("test_plus.py", tests), ("net.py", NET)):
        (folder / name).write_text(content)
    return folder / "nightly.toml"


def nightly(file: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `ethos-hil nightly` to its end."""
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "nightly", str(file), *map(str, arguments)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=file.parent, env=environment, capture_output=True, text=True, timeout=280)


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody. Return what it prints."""
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def record(
    name: str, part: str = "suite 1: virtual", kind: FailureKind | None = None, *, npu: str = "ethos-u55-128",
    target: str = "virtual", verdict: Verdict | None = None, attempt: int = 1, defect: str = "", cycles: float = 100,
    run: str = "r", shard: str = "",
) -> Record:  # fmt: skip
    """Return a record of a test of a part, verified if no kind of failure is given."""
    return Record(
        verdict or (Verdict.VERIFIED if kind is None else Verdict.FAILED), model=name, npu=npu,
        target=TargetInfo(target, "virtual", "corstone-300"),
        failure=None if kind is None else Failure(kind, f"what {kind} says"),
        metrics=(Metric("npu_cycles", cycles, "cycles", "modelled"),),
        artifact=ArtifactInfo("a" * 64, 100, 1, (), question="q"), created="2026-11-25T01:00:00+00:00",
        test=SuiteTest(name, "plus", "same", "U55_BI", "test_plus.py:3", defect),
        run=RunInfo(run, shard=shard, part=part, attempt=attempt),
    )  # fmt: skip


def night(plan: NightlyPlan, *records: Record, shard: Shard | None = None) -> RunResults:
    """Return a night that has these records, chose just them, and whose sessions ended as these records say."""
    text, now = str(shard or ""), "2026-11-25T01:00:00+00:00"
    models = [record(part.question.label, part.name, npu=part.npu, shard=text) for part in plan.known]
    answers = (*(replace(row, test=None) for row in models), *records)
    selections, sessions = [], []
    for part in plan.parts:
        mine = [row for row in records if row.run is not None and row.run.part == part.name]
        if isinstance(part, SuitePart):
            tests = tuple(Selected(row.name, "plus", "same", "U55_BI", "ethos-u55-128", "virtual") for row in mine)
            selections.append(Selection(part.name, tests=tests, shard=text))
            failed = [row for row in mine if standing_of(row).red]
            complaints = tuple(ReportedFailure(row.name, "call", "") for row in failed)
            sessions.append(SessionEnd(part.name, 1, int(bool(failed)), complaints, shard=text))
        elif asked := part.planned_of(shard):
            tests = tuple(Selected(planned.name, npu=part.npu, target=part.target) for planned in asked)
            selections.append(Selection(part.name, tests=tests, shard=text))
    return RunResults("r", now, answers, selections=tuple(selections), sessions=tuple(sessions))


def ended(results: RunResults, **changes: Any) -> RunResults:
    """Return a night whose sessions of pytest ended otherwise."""
    return replace(results, sessions=tuple(replace(session, **changes) for session in results.sessions))


def write_shard(into: Path, plan: NightlyPlan, shard: Shard, *records: Record) -> Path:
    """Write a finished shard that has these records, as `night`. Return its run folder."""
    results = night(plan, *records, shard=shard)
    subject = CampaignSubject(NIGHTLY, plan.digest, {"commit": "a"}, "nightly.toml", str(shard))
    with opened(into, subject, Start.FRESH) as run:
        for row in results.records:
            run.run_folder.append(row, part=row.within.part)
        for chosen in results.selections:
            chosen.write(run.folder)
        for end in results.sessions:
            end.write(run.folder)
        run.finish({"down": {}, "problems": {}})
    return run.folder


def night_in_lines(account: Account) -> str:
    """Return the exit status of a night, and all that its account says."""
    outcome = NightOutcome("r", "", (), False, account, (), {})
    assert outcome.red == tuple(account.red)
    return f"status {outcome.status}, {outcome.sentence}\n{lines_of_account(account)}"
