"""The job of a question that nothing has to be shared for: it is asked as `ethos-hil run` asks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ethos_hil.base.errors import unforeseen
from ethos_hil.harness.campaign.engine import CrewAnswer, PlannedJob
from ethos_hil.harness.campaign.planned import Planned

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool


class QuestionJob(PlannedJob[Planned]):
    """Questions that are asked one by one."""

    def answers(self, pool: BoardPool) -> Iterator[CrewAnswer]:
        """Ask them."""
        for planned in self.planned:
            try:
                from ethos_hil.harness.run import run

                yield CrewAnswer(run(planned.question, pool=pool).record)
            except (Exception, SystemExit) as error:
                yield self.refuse(planned, unforeseen(error))


def jobs_of(plan: Sequence[Planned], attempt: int) -> list[QuestionJob]:
    """Return a job for each question."""
    return [QuestionJob((planned,), attempt) for planned in plan]
