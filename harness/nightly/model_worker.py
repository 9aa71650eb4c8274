"""The processes that run models for a nightly: `python -m ethos_hil.harness.nightly.model_worker RUN_FOLDER`.

A process reads a job a line from stdin, and answers each with a line on stdout when its record is in the run folder.
Torch is imported once for all jobs, and boards wait for the next one. The crew starts the processes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.crew import DONE, WorkerCrew, error_told, own_streams, told_of
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.interruption import end_on_signals
from ethos_hil.base.question import Question
from ethos_hil.base.shortage import unforeseen
from ethos_hil.base.verdict import FailureKind
from ethos_hil.base.writing import Writing
from ethos_hil.harness.nightly.night import SESSIONS
from ethos_hil.harness.nightly.plan import ModelPart
from ethos_hil.harness.verdict.failed_record import failed_findings
from ethos_hil.lowering.cache.settings import prepare_torch
from ethos_hil.results.store import RunFolder

if TYPE_CHECKING:
    from ethos_hil.base.record import Record
    from ethos_hil.harness.virtual.board import BoardPool


@dataclass(frozen=True)
class ModelJob:
    """A model to run.

    Attributes:
        part: what to run.
        timeout: seconds of the run on the target.
        attempt: see `RunInfo`.
    """

    part: ModelPart
    timeout: float
    attempt: int = 1

    def dumps(self) -> str:
        """Return it as a line."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def parse(cls, line: str) -> ModelJob:
        """Return what `dumps` wrote."""
        data = json.loads(line)
        return cls(ModelPart(**data["part"]), data["timeout"], data["attempt"])

    @property
    def question(self) -> Question:
        """The run that it asks for."""
        part = self.part
        return Question(
            part.model,
            npu=part.npu,
            target=part.target,
            memory_mode=part.memory_mode or None,
            inputs=Path(part.inputs) if part.inputs else None,
            timeout=self.timeout,
            profile=part.profile,
        )


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
    jobs, answers = own_streams()
    end_on_signals()
    prepare_torch()
    from ethos_hil.harness.virtual.board import BoardPool

    writing = Writing(folder)
    run_folder = RunFolder(folder.parent, name=folder.name)
    try:
        with BoardPool() as pool:
            for line in jobs:
                job = ModelJob.parse(line)
                run_folder.append(run(job, pool), part=job.part.name, attempt=job.attempt)
                answers.write(f"{DONE}\n")
                answers.flush()
    except OSError as error:
        answers.write(f"{told_of(error, folder)}\n")
        answers.flush()
    finally:
        writing.close()


_WORKER = "ethos_hil.harness.nightly.model_worker"


class ModelCrew:
    """Some processes. Each dies with this one; one that ends in the middle of a job is replaced."""

    def __init__(self, run_folder: RunFolder, folder: Path, processes: int) -> None:
        """Start nothing yet.

        Args:
            run_folder: where records go.
            folder: the working directory.
            processes: how many.
        """
        self._run_folder = run_folder
        self._crew: WorkerCrew[ModelJob] = WorkerCrew(
            _WORKER,
            [str(run_folder.path)],
            folder=folder,
            log=lambda number: run_folder.path / SESSIONS / f"models-{number + 1}.log",
            processes=processes,
        )

    def run(self, jobs: Sequence[ModelJob], tick: Callable[[], None]) -> None:
        """Run all jobs; each leaves a record.

        Args:
            jobs: what to run.
            tick: called every half second.

        Raises:
            OSError: a record cannot be written.
        """
        self._crew.run(jobs, told=_refuse, lost=self._lost, tick=tick)

    def _lost(self, job: ModelJob, how: str) -> None:
        """Keep the record of a job whose process ended in the middle of it."""
        error = EthosHilError(
            f"its process ended with {how} before there was an answer",
            kind=FailureKind.INTERNAL,
            hint="run it alone: ethos-hil run",
        )
        self._run_folder.append(failed_findings(job.question, error).record, part=job.part.name, attempt=job.attempt)


def _refuse(job: ModelJob, said: str) -> None:
    raise error_told(said)


if __name__ == "__main__":
    main()
