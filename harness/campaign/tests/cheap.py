"""A cheap source of questions: real records, made by real processes of the crew, without a model or a board."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ethos_hil.base import environment
from ethos_hil.base.judge import is_settled
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.campaign.engine import CampaignCrew, CrewAnswer, PlannedJob
from ethos_hil.harness.campaign.place import RunPlace
from ethos_hil.harness.campaign.planned import Planned, share_of, write_plan
from ethos_hil.harness.campaign.run_folder import BENCH, CampaignSubject
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.results.bench.tests import samples

KILLING = "killing"
"""How the names of questions start that kill their process."""
SLOW = 0.02
CREW, HERE = "crew", "here"
"""Where a plan is asked: by processes, as a night and a benchmark are; in the process itself, as a scan is."""


@dataclass(frozen=True)
class CheapJob(PlannedJob[Planned]):
    """Questions whose answers are known."""

    def answers(self, pool: BoardPool) -> Iterator[CrewAnswer]:
        """Answer them, with a little patience."""
        for planned in self.planned:
            time.sleep(SLOW)
            if planned.name.startswith(KILLING):
                os.kill(os.getpid(), signal.SIGKILL)
            yield CrewAnswer(answer_to(planned))


def answer_to(planned: Planned) -> Record:
    """Return the answer to a question: right, but for one that is named after a kind of failure."""
    own = planned.part or planned.more or planned.name
    kind = next((kind for kind in FailureKind if own.startswith(f"{kind} ")), None)
    record = samples.point() if kind is None else samples.point(verdict=Verdict.FAILED, failure=Failure(kind, "why"))
    return replace(record, model=planned.name, bench=None, npu=planned.question.npu, created=environment.now(),
                   verdict=record.verdict if kind is not None else Verdict.VERIFIED)  # fmt: skip


def plan_of(*names: str, as_in: str = BENCH) -> tuple[Planned, ...]:
    """Return questions of these names, told from one another as those of a source are: by name, in a night by part, in
    an evaluation and a scan by what the source adds.
    """
    match as_in:
        case "nightly":
            return tuple(Planned(Question("net"), "net", part=name) for name in names)
        case "evaluate" | "scan":
            return tuple(Planned(Question("net"), "net", more=name) for name in names)
    return tuple(Planned(Question(name), name) for name in names)


def jobs_of(plan: Sequence[Planned], attempt: int) -> list[CheapJob]:
    """Return jobs of three questions each."""
    return [CheapJob(tuple(plan[at : at + 3]), attempt) for at in range(0, len(plan), 3)]


def subject_of(plan: Sequence[Planned], shard: Shard | None = None) -> CampaignSubject:
    """Return what a campaign of a plan is of."""
    return CampaignSubject(BENCH, " ".join(planned.digest for planned in plan), {"tool": "1"}, shard=str(shard or ""))


def answers_here(plan: Sequence[Planned]) -> Iterator[tuple[Planned, CrewAnswer]]:
    """Answer in this process, with a little patience and with something to keep beside the record."""
    for planned in plan:
        time.sleep(SLOW)
        yield planned, CrewAnswer(answer_to(planned), {"name": planned.name})


def ask(
    plan: Sequence[Planned], root: Path, name: str, *, resume: bool = False, shard: Shard | None = None,
    here: bool = False,
) -> None:  # fmt: skip
    """Ask a plan, or resume it; with a crew, or here."""
    with RunPlace(root, name, resume, shard).opened(subject_of(plan, shard)) as run:
        assert run.campaign is not None
        mine = share_of(plan, shard)
        write_plan(run.campaign.folder, mine, run.campaign.state.shard)
        crew = CampaignCrew(run.campaign.run_folder, 2, Silent())
        if here:
            crew.ask_here(mine, answers_here, is_settled)
        else:
            crew.ask(mine, jobs_of, is_settled, "Asking")
        run.answers(mine)


def main() -> None:
    """Ask, or resume, as a program: HOW ROOT NAME QUESTION..."""
    how, root, name, *names = sys.argv[1:]
    ask(plan_of(*names), Path(root), name, resume=(Path(root) / name).exists(), here=how == HERE)
