"""The job of a question that nothing has to be shared for: it is asked as `ethos-hil run` asks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ethos_hil.base.errors import unforeseen
from ethos_hil.harness.campaign.engine import CrewAnswer, PlannedJob
from ethos_hil.harness.campaign.planned import Planned
from ethos_hil.harness.verdict.artifact_info import failed_findings

if TYPE_CHECKING:
    from ethos_hil.base.record import Record
    from ethos_hil.harness.virtual.board import BoardPool


class QuestionJob(PlannedJob[Planned]):
    """Questions that are asked one by one."""

    def answers(self, pool: BoardPool) -> Iterator[CrewAnswer]:
        """Ask them."""
        return (CrewAnswer(self._ask(planned, pool)) for planned in self.planned)

    @staticmethod
    def _ask(planned: Planned, pool: BoardPool) -> Record:
        try:
            from ethos_hil.harness.run import run

            return run(planned.question, pool=pool).record
        except (Exception, SystemExit) as error:
            return failed_findings(planned.question, unforeseen(error)).record


def jobs_of(plan: Sequence[Planned], attempt: int) -> list[QuestionJob]:
    """Return a job for each question."""
    return [QuestionJob((planned,), attempt) for planned in plan]
