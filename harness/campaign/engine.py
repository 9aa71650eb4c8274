"""The engine: a crew of processes answers the planned questions that a run folder has no settled record of.

Each question leaves one record for each attempt, whatever happens to it. What could not be tried, on a board or an FVP,
is tried once more; nothing else is.
"""

from __future__ import annotations

import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from ethos_hil.base.crew import WorkerCrew, error_of_line
from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.errors import EthosHilError, unforeseen
from ethos_hil.base.files import append_line, read_bytes, write_whole
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import NOT_ATTEMPTED, FailureKind
from ethos_hil.harness.campaign.planned import P, Planned
from ethos_hil.harness.campaign.recorded import final_answers
from ethos_hil.harness.campaign.run_folder import SESSIONS
from ethos_hil.harness.targets.registry import kind_of
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.artifact_info import failed_findings
from ethos_hil.results.store import RunFolder

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool

MORE = "more.jsonl"
"""The file of what sources keep of their questions beside records."""
ASKED_AGAIN = "asked-again.jsonl"
"""The file of records that a resumed campaign has set aside: their questions were asked again."""
_WORKER = "ethos_hil.harness.campaign.worker"
_MOST_LOSSES = 1
"""Processes that a job may end before the rest of it is given up: each takes seconds to start."""
_FIRST_ESTIMATE = 3.0
"""Seconds after which it is said how long the rest takes."""


@dataclass(frozen=True)
class CrewAnswer:
    """What a worker hands over of a question.

    Attributes:
        record: how it ended.
        more: what its source keeps beside it, ready for JSON.
    """

    record: Record
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedJob(ABC, Generic[P]):
    """Planned questions that a process answers one after the other, because they share work.

    Attributes:
        planned: at least one.
        attempt: see `RunInfo`.
        losses: how many processes have ended in the middle of it.
    """

    planned: tuple[P, ...]
    attempt: int = 1
    losses: int = 0

    @abstractmethod
    def answers(self, pool: BoardPool) -> Iterator[CrewAnswer]:
        """Answer the questions, in order, in a process of the crew. Whatever happens to one, it has an answer."""

    def refuse(self, planned: P, error: EthosHilError) -> CrewAnswer:
        """Return the answer to a question that ended in an error."""
        return CrewAnswer(failed_findings(planned.question, error).record)

    def __str__(self) -> str:
        first = self.planned[0]
        return first.part or first.name if len(self.planned) == 1 else f"{len(self.planned)} points of {first.name}"


class QuestionJob(PlannedJob[Planned]):
    """Questions that share nothing: each is asked as `ethos-hil run` asks it."""

    def answers(self, pool: BoardPool) -> Iterator[CrewAnswer]:
        """Ask them."""
        for planned in self.planned:
            try:
                from ethos_hil.harness.run import run

                yield CrewAnswer(run(planned.question, pool=pool).record)
            except (Exception, SystemExit) as error:
                yield self.refuse(planned, unforeseen(error))


def question_jobs(plan: Sequence[Planned], attempt: int) -> list[QuestionJob]:
    """Return a job for each question."""
    return [QuestionJob((planned,), attempt) for planned in plan]


Keep = Callable[[int, P, CrewAnswer], None]
"""Keeps the answer of an attempt at a question."""


@dataclass(frozen=True)
class CampaignCrew:
    """How many processes answer, and where.

    Attributes:
        run_folder: where records go.
        processes: how many.
        reporter: receives the progress.
        folder: where MODELs start from; None for the working directory.
        replaces: whether the answer to a question that is asked again takes the place of the one before, because its
            user resumes the run by its name. A night resumes by itself: it keeps both, and the worse one counts.
    """

    run_folder: RunFolder
    processes: int
    reporter: Reporter
    folder: Path | None = None
    replaces: bool = True

    def ask(
        self,
        plan: Sequence[P],
        jobs: Callable[[Sequence[P], int], Iterable[PlannedJob[P]]],
        is_settled: Callable[[Record], bool],
        stage: str,
    ) -> None:
        """Ask what the run folder has no settled answer of; then once more what could not be tried.

        Args:
            plan: what is asked.
            jobs: returns the jobs of some of it; they get the number of the attempt.
            is_settled: whether asking again would not change a record.
            stage: what the progress is called.

        Raises:
            OSError: a record cannot be read or written.
        """
        left = self._left(plan, is_settled)
        for attempt in (1, 2):
            if attempt > 1:
                last = final_answers(self.run_folder.path)
                left = [
                    planned
                    for planned in left
                    if may_repeat(last.get(planned.digest), kind_of(planned.question.target))
                ]
            if left:
                text = stage if attempt == 1 else f"{stage}: again, what could not be tried"
                progress = AnswerProgress(text, len(plan) - len(left), len(plan), self.reporter)
                self.run(jobs(left, attempt), progress.counting(self.keep), progress.show)

    def ask_here(
        self,
        plan: Sequence[P],
        answers: Callable[[Sequence[P]], Iterator[tuple[P, CrewAnswer]]],
        is_settled: Callable[[Record], bool],
    ) -> None:
        """Ask what the run folder has no settled answer of in this process, which says itself how far it is.

        Args:
            plan: what is asked.
            answers: answers what is left of it; not called where that is nothing.
            is_settled: whether asking again would not change a record.

        Raises:
            OSError: a record cannot be read or written.
        """
        left = self._left(plan, is_settled)
        for planned, answer in answers(left) if left else ():
            self.keep(1, planned, answer)

    def _left(self, plan: Sequence[P], is_settled: Callable[[Record], bool]) -> list[P]:
        if self.replaces:
            set_aside(self.run_folder.path, is_settled)
        last = final_answers(self.run_folder.path)
        return [planned for planned in plan if planned.digest not in last or not is_settled(last[planned.digest])]

    def run(self, jobs: Iterable[PlannedJob[P]], keep: Keep[P], tick: Callable[[], bool | None]) -> None:
        """Do jobs, and keep each answer at once.

        Args:
            jobs: what to do; see `WorkerCrew.run`.
            keep: keeps an answer; called from one thread at a time.
            tick: see `WorkerCrew.run`; called once more in the end.

        Raises:
            OSError: a record cannot be written.
        """
        folder = self.run_folder.path
        (folder / SESSIONS).mkdir(exist_ok=True)
        crew: WorkerCrew[PlannedJob[P]] = WorkerCrew(
            _WORKER,
            [str(folder)],
            folder=self.folder or Path.cwd(),
            log=lambda number: folder / SESSIONS / f"process-{number + 1}.log",
            processes=self.processes,
        )
        lock = threading.Lock()
        answers = dict[int, tuple[PlannedJob[P], int]]()  # by thread: its last job, and how many answers that has

        def count_of(job: PlannedJob[P]) -> int:
            last, count = answers.get(threading.get_ident(), (None, 0))
            return count if last is job else 0

        def answered(job: PlannedJob[P], planned: P, answer: CrewAnswer) -> None:
            with lock:
                keep(job.attempt, planned, answer)

        def report(job: PlannedJob[P], answer: CrewAnswer | str) -> None:
            if isinstance(answer, str):  # a file that the process cannot read or write
                raise error_of_line(answer)
            at = count_of(job)
            answered(job, job.planned[at], answer)
            answers[threading.get_ident()] = job, at + 1

        def lost(job: PlannedJob[P], how: str) -> PlannedJob[P] | None:
            """Keep the record of the question that a process ended in; return the rest of the job, the first time."""
            left = job.planned[count_of(job) :]
            hint = "run it alone: ethos-hil run" if len(job.planned) == 1 else None
            error = EthosHilError(
                f"its process ended with {how} before there was an answer", kind=FailureKind.INTERNAL, hint=hint
            )
            given_up = left if job.losses >= _MOST_LOSSES else left[:1]
            for planned in given_up:
                answered(job, planned, job.refuse(planned, error))
            rest = left[len(given_up) :]
            return replace(job, planned=rest, losses=job.losses + 1) if rest else None

        crew.run(jobs, report=report, lost=lost, tick=tick)
        tick()

    def keep(self, attempt: int, planned: Planned, answer: CrewAnswer) -> None:
        """Keep the answer of an attempt at a question in the run folder. Raises OSError."""
        if answer.more:  # first: the record says that the question is answered
            line = json.dumps({"planned": planned.digest, **answer.more}, allow_nan=False)
            append_line(self.run_folder.path / MORE, line)
        self.run_folder.append(answer.record, part=planned.part, attempt=attempt, planned=planned.digest)


def read_more(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return what a source kept of its questions beside records, by their digests. A line that its writer did not
    finish is left out: then there is no record, either.

    Raises:
        OSError: it cannot be read.
    """
    path, kept = folder / MORE, dict[str, Mapping[str, Any]]()
    for line in read_bytes(path).splitlines() if path.exists() else ():
        try:
            data = json.loads(line)
            kept[data.pop("planned")] = data
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            continue
    return kept


def may_repeat(record: Record | None, kind: str) -> bool:
    """Return whether a question is asked once more: it could not be tried, and was tried once.

    Args:
        record: of its last attempt.
        kind: the target's. On a virtual one nothing is repeated: what fails there fails for a reason of ours.
    """
    if record is None or kind == "virtual":
        return False
    return record.kind in NOT_ATTEMPTED and record.within.attempt == 1


def set_aside(folder: Path, is_settled: Callable[[Record], bool]) -> None:
    """Move the records that are not settled to `ASKED_AGAIN`, so that each question has one record in a run folder. No
    process may be writing to it.

    Raises:
        OSError: it cannot be read or written.
    """

    def is_asked_again(line: bytes) -> bool:
        try:
            return not is_settled(Record.from_json(json.loads(line)))
        except (ValueError, RecursionError):
            return False  # readers report it

    for path in sorted(folder.glob("records-*.jsonl")):
        lines = read_bytes(path).splitlines(keepends=True)
        again = [line for line in lines if is_asked_again(line)]
        if not again:
            continue
        with (folder / ASKED_AGAIN).open("ab") as file:
            file.writelines(again)
            file.flush()
            os.fsync(file.fileno())
        write_whole(path, b"".join(line for line in lines if line not in again))


class AnswerProgress:
    """How many questions are answered, and how long the rest may take."""

    def __init__(self, stage: str, done: int, total: int, reporter: Reporter) -> None:
        """Report that `done` of `total` are answered already."""
        self._stage, self._before, self._done, self._total = stage, done, done, total
        self._reporter = reporter
        self._began = time.monotonic()
        self.show()

    def counting(self, keep: Keep[P]) -> Keep[P]:
        """Return a function that keeps an answer, and counts it."""

        def keep_and_count(attempt: int, planned: P, answer: CrewAnswer) -> None:
            keep(attempt, planned, answer)
            self._done += 1

        return keep_and_count

    def show(self) -> None:
        """Report it."""
        seconds, answers = time.monotonic() - self._began, self._done - self._before
        left = ""
        if answers and seconds > _FIRST_ESTIMATE:
            left = f": about {_duration(seconds / answers * (self._total - self._done))} left"
        self._reporter.stage(self._stage + left)
        self._reporter.step(self._done, self._total)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
