"""The processes that run a nightly's models, each one model after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ethos_hil.base.crew import WorkerCrew, error_told
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.nightly.model_worker import ModelJob
from ethos_hil.harness.nightly.night import SESSIONS
from ethos_hil.harness.verdict.failed_record import failed_findings
from ethos_hil.results.store import RunFolder

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
