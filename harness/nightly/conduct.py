"""Runs the parts of a plan that have no record yet: a known model on each target first, then suites, models, sweeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from ethos_hil.harness.bench.bench import BenchPlan, run_bench
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.harness.nightly.config import NightlyConfig
from ethos_hil.harness.nightly.model_crew import ModelCrew
from ethos_hil.harness.nightly.model_worker import ModelJob
from ethos_hil.harness.nightly.night import Night
from ethos_hil.harness.nightly.plan import ModelPart, NightlyPlan, SuitePart, npu_for
from ethos_hil.harness.nightly.recorded import name_of, of_part, of_today, recorded, records_of, tried
from ethos_hil.harness.nightly.selection import SelectedTest, TestSelection, read_selection
from ethos_hil.harness.nightly.shard import Shard
from ethos_hil.harness.nightly.suite_session import SessionEnd, SuiteSession, check_pytest
from ethos_hil.harness.progress import Reporter
from ethos_hil.harness.targets.registry import find_plugin, kind_of
from ethos_hil.lowering.errors import UsageError
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.results import environment
from ethos_hil.results.plain_text import one_line
from ethos_hil.results.record import Failure, Record, SuiteTest, TargetInfo
from ethos_hil.results.verdict import NOT_ATTEMPTED, FailureKind, Verdict

AUDIT = " (audit)"
"""What the name of a part ends in whose tests run a second time, to see whether exact numbers are."""


@dataclass
class Conducted:
    """What happened beside the records.

    Attributes:
        down: targets that cannot be used, and why.
        problems: sessions that did not run whole, and why, by the part's name.
        functions: tests without records that failed, by the part's name.
    """

    down: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    functions: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Conductor:
    """Runs what a night has no records of."""

    def __init__(
        self, config: NightlyConfig, plan: NightlyPlan, night: Night, shard: Shard | None, reporter: Reporter
    ) -> None:
        self._config = config
        self._plan = plan
        self._night = night
        self._shard = shard
        self._reporter = reporter
        self._run_folder = night.run_folder
        self._done = Conducted()

    def run(self) -> Conducted:
        """Run everything. What was interrupted is run again, what has a record is not.

        Raises:
            UsageError: pytest cannot use what the plan says.
            ToolError: pytest is missing.
            OSError: a record or another file cannot be written.
        """
        if self._plan.suites:
            check_pytest()
        for target in self._plan.targets:
            missing = find_plugin(target).find(NpuName.parse(npu_for(target, self._plan)))
            if missing is not None:
                self._done.down[target] = f"{missing.message} ({missing.hint})" if missing.hint else missing.message
        self._try_known()
        for number, part in enumerate(self._plan.suites, 1):
            if part.target not in self._done.down:
                self._suite(number, part)
        self._models([part for part in self._plan.models if self._is_mine(part)])
        self._sweeps()
        return self._done

    def _is_mine(self, part: ModelPart) -> bool:
        return part.target not in self._done.down and (self._shard is None or self._shard.takes(part.model))

    def _try_known(self) -> None:
        """Run the known model on each target that has not verified it yet."""
        jobs = []
        for part in self._plan.known:
            if part.target in self._done.down:
                continue
            before = list(of_part(records_of(self._night.folder), part.name))
            if not any(record.verdict == Verdict.VERIFIED for record in of_today(before)):
                attempt = 1 + max((record.run.attempt for record in before if record.run is not None), default=0)
                jobs.append(ModelJob(part, self._config.timeout, attempt))
        self._crew("Verifying the known model", jobs)
        for job in jobs:
            (record,) = of_part(records_of(self._night.folder), job.part.name, job.attempt)
            if record.verdict != Verdict.VERIFIED:
                self._done.down[job.part.target] = f"{job.part.model} is not verified there{_why(record)}"

    def _suite(self, number: int, part: SuitePart) -> None:
        end = self._session(number, part, part.name)
        if not end.whole:
            self._done.problems[part.name] = f"pytest ended with status {end.status}: {end.last} ({end.log})"
            return
        selection = read_selection(self._night.folder, part.name) or TestSelection(self._config.folder, ())
        self._account_for(part, selection)
        again = self._to_repeat(part.name, part.target)
        if again:
            self._session(number, part, part.name, attempt=2, tests=_arguments(again, selection, self._config.folder))
        known = {name.rpartition("::")[2] for name in self._names(part.name)}
        self._done.functions[part.name] = tuple(each for each in end.failed if each.rpartition(".")[2] not in known)
        sample = sorted(self._sample(part.name))
        if not set(sample) <= self._names(part.name + AUDIT):
            tests = _arguments(sample, selection, self._config.folder)
            self._session(number, part, part.name + AUDIT, tests=tests)

    def _session(
        self, number: int, part: SuitePart, name: str, *, attempt: int = 1, tests: Sequence[str] | None = None
    ) -> SessionEnd:
        shard = str(self._shard) if self._shard is not None and tests is None else ""
        session = SuiteSession(
            part, self._night.folder, self._config.folder, self._config.jobs, shard, number, name, attempt, tests
        )
        self._reporter.stage(f"Running {name}" if attempt == 1 else f"Repeating what could not be tried of {name}")
        return session.run(self._counter(lambda: self._total(name, tests)))

    def _total(self, name: str, tests: Sequence[str] | None) -> int:
        if tests is not None:
            return len(tests)
        selection = read_selection(self._night.folder, name)
        return len(selection.tests) if selection is not None else 0

    def _account_for(self, part: SuitePart, selection: TestSelection) -> None:
        """Keep a record of each test that has none: its process ended before it had."""
        names = self._names(part.name)
        for test in selection.tests:
            if test.id not in names:
                self._run_folder.append(_lost(test), part=part.name)

    def _models(self, parts: Sequence[ModelPart]) -> None:
        for attempt in (1, 2):
            jobs = [
                ModelJob(self._with_inputs(part), self._config.timeout, attempt)
                for part in parts
                if (attempt == 1 or self._to_repeat(part.name, part.target))
                and not recorded(self._night.folder, part.name, attempt)
            ]
            self._crew("Running models" if attempt == 1 else "Repeating what could not be tried of models", jobs)

    def _crew(self, stage: str, jobs: Sequence[ModelJob]) -> None:
        if jobs:
            self._reporter.stage(stage)
            crew = ModelCrew(self._run_folder, self._config.folder, self._config.jobs)
            crew.run(jobs, self._counter(lambda: len(jobs)))

    def _sweeps(self) -> None:
        """Make the points of all sweeps, one sweep after the other: its points share what is lowered."""
        for prefix, parts in groupby(self._plan.sweeps, key=lambda part: part.prefix):
            mine = [part for part in parts if part.target not in self._done.down]
            # Case by case, as a benchmark makes them.
            by_case: dict[str, list[BenchPoint]] = {}
            for point in (point for part in mine for point in part.points):
                if self._shard is None or self._shard.takes(point.case.name):
                    by_case.setdefault(point.case.name, []).append(point)
            points = tuple(point for found in by_case.values() for point in found)
            if points:
                run_bench(
                    BenchPlan(points, mine[0].settings),
                    self._run_folder,
                    jobs=self._config.jobs,
                    reporter=self._reporter,
                    prefix=prefix,
                    folder=self._config.folder,
                )

    def _with_inputs(self, part: ModelPart) -> ModelPart:
        if not part.inputs:
            return part
        path = self._config.folder / part.inputs
        if not path.is_file():
            raise UsageError(f"{part.name}: there is no file {path}", hint="paths start from the nightly's own folder")
        return part

    def _names(self, part: str) -> frozenset[str]:
        return tried(self._night.folder, part)

    def _to_repeat(self, part: str, target: str) -> list[str]:
        return to_repeat(of_part(records_of(self._night.folder), part), kind_of(target))

    def _sample(self, part: str) -> Iterator[str]:
        """Yield the names of the tests that run twice: some that a target verified, the same every night."""
        if not self._plan.audit_one_in:
            return
        for record in final(of_part(records_of(self._night.folder), part)):
            digest = hashlib.sha256(name_of(record).encode()).digest()
            drawn = int.from_bytes(digest[8:16]) % self._plan.audit_one_in == 0
            if drawn and record.npu and record.verdict == Verdict.VERIFIED:
                yield name_of(record)

    def _counter(self, total: Callable[[], int]) -> Callable[[], None]:
        """Return a function that reports how many records there are more than now."""
        began = _lines(self._night.folder)

        def tick() -> None:
            whole = total()
            if whole:
                self._reporter.step(min(whole, _lines(self._night.folder) - began), whole)

        return tick


def to_repeat(records: Iterable[Record], kind: str) -> list[str]:
    """Return the names of what could not be tried, and was tried once.

    Args:
        records: those of a part.
        kind: the target's. On a virtual one nothing is repeated: what fails there fails for a reason of ours.
    """
    if kind == "virtual":
        return []
    return [
        name_of(record)
        for record in final(records)
        if record.failure is not None and record.failure.kind in NOT_ATTEMPTED and _attempt(record) == 1
    ]


def final(records: Iterable[Record]) -> list[Record]:
    """Return one record for each part and name: that of the last attempt."""
    found: dict[tuple[str, str], Record] = {}
    for record in records:
        key = (record.run.part if record.run is not None else "", name_of(record))
        if key not in found or _attempt(record) >= _attempt(found[key]):
            found[key] = record
    return list(found.values())


def _attempt(record: Record) -> int:
    return record.run.attempt if record.run is not None else 1


def _arguments(names: Iterable[str], selection: TestSelection, folder: Path) -> list[str]:
    """Return tests as pytest's command line names them: by paths, not from pytest's root folder."""
    found = []
    for name in names:
        file, colons, rest = name.partition("::")
        found.append(f"{selection.root / file}{colons}{rest}")
    return found


def _lost(test: SelectedTest) -> Record:
    failure = Failure(
        FailureKind.INTERNAL, "its process ended before there was a record", "run it alone, with -n 0, to see why"
    )
    return Record(
        verdict=Verdict.FAILED,
        model=f"{test.operator}_{test.case}" if test.case else test.operator,
        npu=test.npu,
        target=TargetInfo("none", "none", ""),
        failure=failure,
        versions=environment.versions(),
        test=SuiteTest(test.id, test.operator, test.case, test.profile, ""),
        created=environment.now(),
    )


def _why(record: Record) -> str:
    return f": {record.failure.kind}: {one_line(record.failure.message)}" if record.failure is not None else ""


def _lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("records-*.jsonl"))


def down_parts(plan: NightlyPlan, down: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the parts that cannot run where their targets are down."""
    return frozenset(part.name for part in plan.parts if part.target in down)
