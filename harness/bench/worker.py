"""The process that makes points: `python -m ethos_hil.harness.bench.worker RUN_FOLDER`.

It reads jobs as a process of `ethos_hil.base.crew`, and says `POINT` when a point's record is in the run folder.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.crew import DONE, serve
from ethos_hil.harness.bench.case import BenchCase, BenchPoint
from ethos_hil.harness.bench.points import PointSettings, part_of
from ethos_hil.lowering.cache.settings import prepare_torch
from ethos_hil.results.store import RunFolder

POINT = "point"


@dataclass(frozen=True)
class BenchJob:
    """Points of one case.

    Attributes:
        points: at least one; all of one case.
        settings: of the run.
        prefix: how the names of their parts of a nightly begin; "" outside a nightly.
        losses: how many processes have ended in the middle of it.
    """

    points: tuple[BenchPoint, ...]
    settings: PointSettings
    prefix: str = ""
    losses: int = 0

    @property
    def case(self) -> BenchCase:
        """The case of all points."""
        return self.points[0].case

    def __str__(self) -> str:
        return f"{len(self.points)} points of {self.case.name}"


def main() -> None:
    """Make points until there are no more."""
    folder = Path(sys.argv[1])

    def work(jobs: Iterable[BenchJob]) -> Generator[str]:
        prepare_torch()
        from ethos_hil.harness.bench.case_work import CaseWork
        from ethos_hil.harness.virtual.board import BoardPool

        run_folder = RunFolder(folder.parent, name=folder.name)
        with BoardPool() as pool:
            for job in jobs:
                records = CaseWork(job.case, job.settings, pool).records(job.points)
                for point, record in zip(job.points, records, strict=True):
                    run_folder.append(record, part=part_of(job.prefix, point))
                    yield POINT
                yield DONE

    serve(folder, work)


if __name__ == "__main__":
    main()
