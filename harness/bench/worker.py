"""The process that makes points: `python -m ethos_hil.harness.bench.worker RUN_FOLDER`.

It reads jobs as a process of `ethos_hil.base.crew`, and says `POINT` when a point's record is in the run folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.crew import DONE, own_streams, told_of
from ethos_hil.base.interruption import end_on_signals
from ethos_hil.base.writing import Writing
from ethos_hil.harness.bench.case import BenchCase, BenchInput, BenchPoint, BenchStep, with_tuples
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

    def dumps(self) -> str:
        """Return it as a line."""
        ini = self.settings.vela_ini
        data = {
            "case": asdict(self.case),
            "points": [(each.npu, each.memory_mode, each.system_config, each.target) for each in self.points],
            "settings": {**asdict(self.settings), "vela_ini": str(ini) if ini is not None else None},
            "prefix": self.prefix,
        }
        return json.dumps(data) + "\n"

    @classmethod
    def parse(cls, line: str) -> BenchJob:
        """Return what `dumps` wrote."""
        data = with_tuples(json.loads(line))
        case = _case(data["case"])
        told = data["settings"]
        ini = None if told["vela_ini"] is None else Path(told["vela_ini"])
        clock = None if told["clock"] is None else StatedClock(**told["clock"])
        settings = PointSettings(**{**told, "vela_ini": ini, "clock": clock})
        return cls(tuple(BenchPoint(case, *names) for names in data["points"]), settings, data["prefix"])


def _case(data: Mapping[str, Any]) -> BenchCase:
    steps = tuple(BenchStep(**each) for each in data["steps"])
    return BenchCase(**{**data, "steps": steps, "inputs": tuple(BenchInput(**each) for each in data["inputs"])})


def main() -> None:
    """Make points until there are no more."""
    folder = Path(sys.argv[1])
    jobs, answers = own_streams()
    end_on_signals()
    prepare_torch()
    from ethos_hil.harness.bench.case_work import CaseWork
    from ethos_hil.harness.virtual.board import BoardPool

    def say(text: str) -> None:
        answers.write(f"{text}\n")
        answers.flush()

    writing = Writing(folder)
    run_folder = RunFolder(folder.parent, name=folder.name)
    try:
        with BoardPool() as pool:
            for line in jobs:
                job = BenchJob.parse(line)
                records = CaseWork(job.case, job.settings, pool).records(job.points)
                for point, record in zip(job.points, records, strict=True):
                    run_folder.append(record, part=part_of(job.prefix, point))
                    say(POINT)
                say(DONE)
    except OSError as error:
        say(told_of(error, folder))
    finally:
        writing.close()


if __name__ == "__main__":
    main()
