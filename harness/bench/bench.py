"""The points of a benchmark, made by processes that leave one record for each in a run folder.

The run folder says what benchmark it has, so that a run that ended early can be resumed:

<run folder>/bench.json    digests of the grid, the points and the settings; the state of the tools; the budgets
<run folder>/bench/        what the processes said, and records of points that were asked again
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ethos_hil.base import ending
from ethos_hil.base.crew import WorkerCrew, error_of_line
from ethos_hil.base.ending import OF_THIS_PLACE, is_refusal
from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.files import write_whole
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Record
from ethos_hil.base.regular_file import read_bytes, read_text
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import FailureKind
from ethos_hil.base.writing import wait_for_writers
from ethos_hil.harness.bench.case import BenchPoint, PointKey, key_of
from ethos_hil.harness.bench.points import PointSettings, part_of, refuse
from ethos_hil.harness.bench.worker import POINT, BenchJob
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.tool_state import difference, tool_state
from ethos_hil.results.bench.budget import STATE
from ethos_hil.results.gate import account
from ethos_hil.results.run_name import is_name
from ethos_hil.results.store import RunFolder, StoredRecord, read_run

_WORKER = "ethos_hil.harness.bench.worker"
_MOST_LOSSES = 1
"""Processes that a job may end before the rest of it is given up: each takes seconds to start."""
_PATIENCE = 60.0
"""Seconds until the last process of a benchmark that was killed has ended."""
_FIRST_ESTIMATE = 3.0
"""Seconds after which it is said how long the rest takes."""
LOGS, ASKED_AGAIN = "bench", "asked-again.jsonl"
_SCHEMA_VERSION = 1


@dataclass(frozen=True)
class BenchState:
    """What `bench.json` says.

    Attributes:
        grid: the grid's name.
        cases: digest of all cases, with the files of their models.
        points: digest of what tells the points from one another.
        settings: digest of the settings.
        tools: what the answers depend on.
    """

    grid: str
    cases: str
    points: str
    settings: str
    tools: Mapping[str, str]

    @classmethod
    def of(cls, points: Sequence[BenchPoint], settings: PointSettings) -> BenchState:
        """Return the state of a run of some points, with the tools of today."""
        cases = tuple(dict.fromkeys(point.case.name for point in points))
        by_name = {point.case.name: point.case for point in points}
        declared = [(asdict(by_name[name]), _file(by_name[name].model)) for name in cases]
        ini = settings.vela_ini
        values = {**asdict(settings), "vela_ini": "" if ini is None else read_text(ini)}
        return cls(
            settings.grid, _digest(declared), _digest([point.key for point in points]), _digest(values), tool_state()
        )

    def write(self, folder: Path) -> None:
        """Write it into a run folder. Raises OSError."""
        data = {"schema_version": _SCHEMA_VERSION, **asdict(self)}
        write_whole(folder / STATE, json.dumps(data, indent=2) + "\n")

    def check_same(self, folder: Path) -> None:
        """Check that a run folder has a benchmark of this state.

        Raises:
            UsageError: it has none, or another one; says what is different.
        """
        before, what = _read(folder), f"the run {folder.name}"
        wrong = {
            "grid": f"is of the grid {before.grid}, and not of {self.grid}",
            "cases": f"has other cases of the grid {self.grid}, or they have changed",
            "points": "has other NPUs, memory modes, systems or targets",
            "settings": "boots, repeats or configures Vela otherwise",
        }
        for name, text in wrong.items():
            if getattr(before, name) != getattr(self, name):
                again = "give the options of that run, or leave out --resume for a new one"
                raise UsageError(f"{what} {text}", hint=again)
        changed = difference(before.tools, self.tools)
        if changed:
            raise UsageError(f"{what} was made with other tools: {changed}", hint="leave out --resume for a new run")


def recorded_keys(folder: Path, prefix: str = "") -> frozenset[PointKey]:
    """Return the keys of the points that a run folder has whole records of.

    Args:
        folder: the run folder.
        prefix: only those of a nightly's parts whose names begin so (`ethos_hil.harness.bench.points.part_of`).

    Raises:
        OSError: it cannot be read.
    """
    records = (item.record for item in read_run(folder) if isinstance(item, StoredRecord))
    return frozenset(key_of(record) for record in records if record.bench is not None and _is_of(record, prefix))


def is_settled(record: Record) -> bool:
    """Return whether a point's record is an answer that asking again would not change: its answers are right, it was
    only compiled and timed, or it was refused for a reason of its own. A failure, an answer that nothing vouches for,
    and a tool that was missing may end otherwise next time.
    """
    refused = is_refusal(record) and record.kind not in OF_THIS_PLACE
    return refused or ending.is_settled(record, compile_only=True)


def set_aside(folder: Path, prefix: str = "") -> int:
    """Move the records of points that are not settled to `ASKED_AGAIN`, so that a point has one record in a run folder.
    Return how many. No process may be writing to the folder.

    Args:
        folder: the run folder.
        prefix: as of `recorded_keys`.

    Raises:
        OSError: it cannot be read or written.
    """
    count = 0
    for path in sorted(folder.glob("records-*.jsonl")):
        lines = read_bytes(path).splitlines(keepends=True)
        again = [line for line in lines if _is_asked_again(line, prefix)]
        if not again:
            continue
        (folder / LOGS).mkdir(exist_ok=True)
        with (folder / LOGS / ASKED_AGAIN).open("ab") as file:
            file.writelines(again)
            file.flush()
            os.fsync(file.fileno())
        write_whole(path, b"".join(line for line in lines if line not in again))
        count += len(again)
    return count


def _is_asked_again(line: bytes, prefix: str) -> bool:
    try:
        record = Record.from_json(json.loads(line))
    except (ValueError, RecursionError):
        return False  # readers report it
    return record.bench is not None and _is_of(record, prefix) and not is_settled(record)


def _is_of(record: Record, prefix: str) -> bool:
    return account.part_of(record).startswith(f"{prefix}: " if prefix else "")


def _read(folder: Path) -> BenchState:
    try:
        data = json.loads(read_text(folder / STATE))
        if data["schema_version"] != _SCHEMA_VERSION:
            raise ValueError(f"it has schema version {data['schema_version']!r}, not {_SCHEMA_VERSION}")
        return from_json(BenchState, data)
    except OSError as error:
        raise UsageError(
            f"{folder} has no benchmark to resume: {error.strerror} ({STATE})",
            hint="`ethos-hil runs` lists the runs; --resume takes the name of one",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder / STATE} cannot be read: {error}", hint="start a new run, without --resume"
        ) from error


def _file(model: str) -> str:
    """Return the digest of the file of a MODEL; "" for a module, or where there is none."""
    path = Path(model.rpartition(":")[0] or model).expanduser()
    if not model or not path.is_file():
        return ""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


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
                f"there is a run {name} in {root}", hint=f"resume it with --resume {name}, or give another name"
            )
    state = plan.state
    folder = RunFolder(root, name=name)
    state.write(folder.path)
    return folder


def resumed_run(plan: BenchPlan, root: Path, name: str) -> RunFolder:
    """Return the run folder of a plan that has some of its points, and that no process writes to any more.

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
    done = recorded_keys(run_folder.path, prefix)
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

    def report(job: BenchJob, answer: str) -> None:
        if answer != POINT:
            raise error_of_line(answer)
        count.one_more()

    def record_loss(job: BenchJob, how: str) -> BenchJob | None:
        return _record_loss(job, how, run_folder, count.one_more)

    crew.run(tuple(_jobs(left, plan.settings, prefix)), report=report, lost=record_loss, tick=count.show)
    count.show()


def _jobs(points: Sequence[BenchPoint], settings: PointSettings, prefix: str) -> Iterator[BenchJob]:
    """Yield jobs of points that share a TOSA program."""
    for _, group in groupby(points, key=lambda point: (point.case.name, EthosU.parse(point.npu).family.tosa)):
        yield BenchJob(tuple(group), settings, prefix)


def _record_loss(job: BenchJob, how: str, run_folder: RunFolder, one_more: Callable[[], None]) -> BenchJob | None:
    """Keep the record of the point that a process ended in. Return the job of those behind it, the first time."""
    done = recorded_keys(run_folder.path, job.prefix)
    left = [point for point in job.points if point.key not in done]
    if not left:
        return None
    error = EthosHilError(f"its process ended with {how} before there was an answer", kind=FailureKind.INTERNAL)
    ended, rest = (left[:1], left[1:]) if job.losses < _MOST_LOSSES else (left, [])
    for point in ended:
        run_folder.append(refuse(point, job.settings, error).record, part=part_of(job.prefix, point))
        one_more()
    return replace(job, points=tuple(rest), losses=job.losses + 1) if rest else None


def _check_name(name: str) -> None:
    if not is_name(name):
        raise UsageError(f"{name!r} is not a name for a run", hint="use letters, digits, dots and dashes")


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
        seconds, points = time.monotonic() - self._began, self._done - self._before
        left = ""
        if points and seconds > _FIRST_ESTIMATE:
            left = f": about {_duration(seconds / points * (self._total - self._done))} left"
        self._reporter.stage(self._stage + left)
        self._reporter.step(self._done, self._total)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
