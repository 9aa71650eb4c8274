"""The processes that run models for a nightly: `python -m ethos_hil.harness.nightly.model_worker RUN_FOLDER`.

A process reads a job a line from stdin, and answers each with a line on stdout when its record is in the run folder.
Torch is imported once for all jobs, and boards wait for the next one. The crew starts the processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.crew import DONE, WorkerCrew, error_of_line, serve
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.question import Question
from ethos_hil.base.shortage import unforeseen
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.nightly.night import SESSIONS
from ethos_hil.harness.verdict.artifact_info import failed_findings
from ethos_hil.lowering.cache.settings import prepare_torch
from ethos_hil.results.store import RunFolder

if TYPE_CHECKING:
    from ethos_hil.base.record import Record
    from ethos_hil.harness.virtual.board import BoardPool

_WORKER = "ethos_hil.harness.nightly.model_worker"


@dataclass(frozen=True)
class ModelJob:
    """A model to run.

    Attributes:
        part: the name of its part of the plan.
        question: what is asked of it.
        attempt: see `RunInfo`.
    """

    part: str
    question: Question
    attempt: int = 1

    def __str__(self) -> str:
        return self.part


def run(job: ModelJob, pool: BoardPool) -> Record:
    """Run a job. Return its record, whatever happens."""
    try:
        from ethos_hil.harness.run import run as run_model

        return run_model(job.question, pool=pool).record
    except (Exception, SystemExit) as error:
        return failed_findings(job.question, unforeseen(error)).record


def main() -> None:
    """Run jobs until there are no more."""
    folder = Path(sys.argv[1])

    def work(jobs: Iterable[ModelJob]) -> Generator[str]:
        prepare_torch()
        from ethos_hil.harness.virtual.board import BoardPool

        run_folder = RunFolder(folder.parent, name=folder.name)
        with BoardPool() as pool:
            for job in jobs:
                run_folder.append(run(job, pool), part=job.part, attempt=job.attempt)
                yield DONE

    serve(folder, work)


def run_models(
    jobs: Sequence[ModelJob], run_folder: RunFolder, *, folder: Path, processes: int, tick: Callable[[], None]
) -> None:
    """Run all jobs in some processes. Each dies with this one; one that ends in the middle of a job is replaced.

    Args:
        jobs: what to run; each leaves a record.
        run_folder: where records go.
        folder: the working directory.
        processes: how many.
        tick: called every half second.

    Raises:
        OSError: a record cannot be written.
    """
    crew: WorkerCrew[ModelJob] = WorkerCrew(
        _WORKER,
        [str(run_folder.path)],
        folder=folder,
        log=lambda number: run_folder.path / SESSIONS / f"models-{number + 1}.log",
        processes=processes,
    )

    def refuse(job: ModelJob, line: str) -> None:
        raise error_of_line(line)

    def record_loss(job: ModelJob, how: str) -> None:
        error = EthosHilError(
            f"its process ended with {how} before there was an answer",
            kind=FailureKind.INTERNAL,
            hint="run it alone: ethos-hil run",
        )
        run_folder.append(failed_findings(job.question, error).record, part=job.part, attempt=job.attempt)

    crew.run(jobs, report=refuse, lost=record_loss, tick=tick)


if __name__ == "__main__":
    main()
