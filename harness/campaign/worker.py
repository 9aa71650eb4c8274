"""A process of a campaign's crew: `python -m ethos_hil.harness.campaign.worker RUN_FOLDER`.

It reads jobs as a process of `ethos_hil.base.crew`, and hands over each answer; the process that started it
writes the run folder. Torch is imported once for all jobs, and boards wait for the next one.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from pathlib import Path

from ethos_hil.base.crew import DONE, serve
from ethos_hil.harness.campaign.engine import CrewAnswer, PlannedJob
from ethos_hil.lowering.cache.contents import prepare_torch


def main() -> None:
    """Answer until there are no more jobs."""

    def work(jobs: Iterable[PlannedJob]) -> Generator[CrewAnswer | str]:
        prepare_torch()
        from ethos_hil.harness.virtual.board import BoardPool

        with BoardPool() as pool:
            for job in jobs:
                yield from job.answers(pool)
                yield DONE

    serve(Path(sys.argv[1]), work)


if __name__ == "__main__":
    main()
