"""A benchmark: makes all points of a grid that a run folder has no record of, in several processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from ethos_hil.base.crew import WorkerCrew, error_told
from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.base.writing import wait_for_writers
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.harness.bench.points import PointSettings, part_of, refused
from ethos_hil.harness.bench.run_state import LOGS, BenchState, recorded, set_aside
from ethos_hil.harness.bench.worker import POINT, BenchJob
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.results.run_name import is_name
from ethos_hil.results.store import RunFolder

_WORKER = "ethos_hil.harness.bench.worker"
_MOST_LOSSES = 1
"""Processes that a job may end before the rest of it is given up: each takes seconds to start."""
_PATIENCE = 60.0
"""Seconds until the last process of a benchmark that was killed has ended."""
_FIRST_ESTIMATE = 3.0
"""Seconds after which it is said how long the rest takes."""


@dataclass(frozen=True)
class BenchPlan:
    """What to make.

    Attributes:
        points: in the order of the grid.
        settings: what holds for all of them.
    """

    points: tuple[BenchPoint, ...]
    settings: PointSettings

    @property
    def state(self) -> BenchState:
        """What tells a run of this plan, with the tools of today, from another."""
        return BenchState.of(self.points, self.settings)


def new_run(plan: BenchPlan, root: Path, name: str | None = None) -> RunFolder:
    """Make the run folder of a plan.

    Args:
        plan: the plan.
        root: the folder of run folders.
        name: its name; by default a new one.

    Raises:
        UsageError: there is a run of that name.
        OSError: it cannot be written.
    """
    if name is not None:
        _check_name(name)
        if (root / name).exists():
            raise UsageError(
                f"there is a run {name} in {root}", hint=f"go on with it: --resume {name}; or name another"
            )
    state = plan.state
    folder = RunFolder(root, name=name)
    state.write(folder.path)
    return folder


def resumed_run(plan: BenchPlan, root: Path, name: str) -> RunFolder:
    """Return the run folder of a plan that has some of its points, and that nobody writes any more.

    Raises:
        UsageError: there is none, it is of another plan or of other tools, or it is still written.
        OSError: it cannot be read or written.
    """
    _check_name(name)
    folder = root / name
    plan.state.check_same(folder)
    if not wait_for_writers(folder, _PATIENCE):
        raise UsageError(f"the run {name} is still being written", hint="wait for it, or end it")
    return RunFolder(root, name=name)


def run_bench(
    plan: BenchPlan,
    run_folder: RunFolder,
    *,
    jobs: int,
    reporter: Reporter,
    prefix: str = "",
    folder: Path | None = None,
) -> None:
    """Make the points of a plan that a run folder has no settled record of. Each leaves one, whatever happens to it.

    Args:
        plan: the plan.
        run_folder: where records go.
        jobs: processes.
        reporter: receives the progress.
        prefix: how the names of the parts of a nightly begin that the points are; "" outside a nightly.
        folder: where MODELs start from; by default the working directory.

    Raises:
        OSError: a record cannot be written.
    """
    set_aside(run_folder.path, prefix)
    done = recorded(run_folder.path, prefix)
    left = tuple(point for point in plan.points if point.key not in done)
    if not left:
        return
    (run_folder.path / LOGS).mkdir(exist_ok=True)
    count = _Count(len(plan.points) - len(left), len(plan.points), plan.settings.grid, reporter)
    crew: WorkerCrew[BenchJob] = WorkerCrew(
        _WORKER,
        [str(run_folder.path)],
        folder=folder or Path.cwd(),
        log=lambda number: run_folder.path / LOGS / f"process-{number + 1}.log",
        processes=jobs,
    )

    def told(job: BenchJob, said: str) -> None:
        if said != POINT:
            raise error_told(said)
        count.one_more()

    def lost(job: BenchJob, how: str) -> BenchJob | None:
        return _lost(job, how, run_folder, count.one_more)

    crew.run(tuple(_jobs(left, plan.settings, prefix)), told=told, lost=lost, tick=count.show)
    count.show()


def _jobs(points: Sequence[BenchPoint], settings: PointSettings, prefix: str) -> Iterator[BenchJob]:
    """Yield jobs of points that share a TOSA program."""
    for _, group in groupby(points, key=lambda each: (each.case.name, EthosU.parse(each.npu).family.tosa)):
        yield BenchJob(tuple(group), settings, prefix)


def _lost(job: BenchJob, how: str, run_folder: RunFolder, one_more: Callable[[], None]) -> BenchJob | None:
    """Keep the record of the point that a process ended in. Return the job of those behind it, the first time."""
    done = recorded(run_folder.path, job.prefix)
    left = [point for point in job.points if point.key not in done]
    if not left:
        return None
    error = EthosHilError(f"its process ended with {how} before there was an answer", kind=FailureKind.INTERNAL)
    ended, rest = (left[:1], left[1:]) if job.losses < _MOST_LOSSES else (left, [])
    for point in ended:
        run_folder.append(refused(point, job.settings, error).record, part=part_of(job.prefix, point))
        one_more()
    return replace(job, points=tuple(rest), losses=job.losses + 1) if rest else None


def _check_name(name: str) -> None:
    if not is_name(name):
        raise UsageError(f"{name!r} is no name of a run", hint="letters, digits, points and dashes make one")


class _Count:
    """How many points are done, and how long the rest may take."""

    def __init__(self, done: int, total: int, grid: str, reporter: Reporter) -> None:
        self._before, self._done, self._total = done, done, total
        self._reporter = reporter
        self._stage = f"Benchmarking {grid}: {total:,} points"
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.show()

    def one_more(self) -> None:
        """Count a point."""
        with self._lock:
            self._done += 1

    def show(self) -> None:
        """Report it."""
        seconds, made = time.monotonic() - self._began, self._done - self._before
        left = ""
        if made and seconds > _FIRST_ESTIMATE:
            left = f": about {_duration(seconds / made * (self._total - self._done))} left"
        self._reporter.stage(self._stage + left)
        self._reporter.step(self._done, self._total)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
