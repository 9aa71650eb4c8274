"""Runs the parts of a plan that have no record yet: a known model on each target first, then suites, models, sweeps.

A suite is a session of pytest, in a process of its own that dies with this one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from ethos_hil.base.errors import ToolError
from ethos_hil.base.files import read_text
from ethos_hil.base.judge import is_settled
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.process import end_child, start_child
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.bench.bench import PlannedPoint, make_points
from ethos_hil.harness.campaign.engine import AnswerProgress, CampaignCrew, may_repeat, question_jobs
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.campaign.planned import write_plan
from ethos_hil.harness.campaign.recorded import is_audited, last_records, of_part, of_today, records_of
from ethos_hil.harness.campaign.run_folder import SESSIONS, OpenCampaign
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.config import NightlyConfig
from ethos_hil.harness.nightly.plan import ModelPart, NightlyPlan, SuitePart, SweepPart, npu_for
from ethos_hil.harness.targets.registry import find_plugin, kind_of
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.results.gate.account import AUDIT
from ethos_hil.results.selection import Selected, Selection, forget_end, read_end, read_selection

_USAGE = 4
"""pytest's exit status for arguments, or a conftest.py, that it cannot use."""
_TICK = 1.0
_END = 30.0
"""Seconds that an interrupted session has to stop its boards."""
_MOST_LOG = 64 << 20


class Conductor:
    """Runs what a night has no records of."""

    def __init__(
        self, config: NightlyConfig, plan: NightlyPlan, night: OpenCampaign, shard: Shard | None, reporter: Reporter
    ) -> None:
        self._config = config
        self._plan = plan
        self._night = night
        self._shard = shard
        self._reporter = reporter
        self._crew = CampaignCrew(night.run_folder, config.jobs, reporter, config.folder, replaces=False)
        self._done = Conducted()

    def run(self) -> Conducted:
        """Run everything. What was interrupted is run again, what has a record is not.

        Raises:
            ToolError: pytest is missing.
            OSError: a record or another file cannot be written.
        """
        if self._plan.suites:
            check_pytest()
        self._choose()
        for target in self._plan.targets:
            missing = find_plugin(target).find(EthosU.parse(npu_for(target, self._plan)))
            if missing is not None:
                self._done.down[target] = f"{missing.message} ({missing.hint})" if missing.hint else missing.message
        self._try_known()
        for number, suite in enumerate(self._plan.suites, 1):
            if suite.target not in self._done.down:
                self._suite(number, suite)
        parts = [part for part in self._plan.models if part.target not in self._done.down]
        planned = [planned for part in parts for planned in part.planned_of(self._shard, self._config.timeout)]
        self._crew.ask(planned, question_jobs, is_settled, "Running models")
        self._sweeps()
        return self._done

    def _choose(self) -> None:
        """Keep what the parts have that pytest does not choose, before anything runs: it has to leave a record."""
        parts: tuple[ModelPart | SweepPart, ...] = (*self._plan.known, *self._plan.models, *self._plan.sweeps)
        planned = [planned for part in parts for planned in part.planned_of(self._shard, self._config.timeout)]
        write_plan(self._night.folder, planned, self._night.state.shard)

    def _try_known(self) -> None:
        """Run the known model on each target that has not verified it yet."""
        jobs = []
        for part in self._plan.known:
            if part.target in self._done.down:
                continue
            before = list(of_part(records_of(self._night.folder), part.name))
            if not any(record.verdict == Verdict.VERIFIED for record in of_today(before)):
                attempt = 1 + max((record.within.attempt for record in before), default=0)
                jobs += question_jobs(part.planned_of(None, self._config.timeout), attempt)
        if jobs:
            progress = AnswerProgress("Verifying the known model", 0, len(jobs), self._reporter)
            self._crew.run(jobs, progress.counting(self._crew.keep), progress.show)
        for job in jobs:
            (planned,) = job.planned
            (record,) = of_part(records_of(self._night.folder), planned.part, job.attempt)
            if record.verdict != Verdict.VERIFIED:
                self._done.down[planned.question.target] = f"{planned.name} is not verified there: {record.why}"

    def _suite(self, number: int, part: SuitePart) -> None:
        self._session(number, part, part.name)
        selection = read_selection(self._night.folder, part.name)
        if selection is None:
            return
        again = [record.name for record in self._last(part.name) if may_repeat(record, kind_of(part.target))]
        if again:
            self._session(number, part, part.name, attempt=2, tests=_arguments(again, selection))
        sample = sorted(self._sample(part.name))
        if not is_audited(self._night.folder, part.name + AUDIT, sample):
            by_id = {test.id: test for test in selection.tests}
            sampled = tuple(by_id.get(name, Selected(name)) for name in sample)
            Selection(part.name + AUDIT, selection.root, sampled, shard=selection.shard).write(self._night.folder)
            self._session(number, part, part.name + AUDIT, tests=_arguments(sample, selection))

    def _session(
        self, number: int, part: SuitePart, name: str, *, attempt: int = 1, tests: Sequence[str] | None = None
    ) -> None:
        """Run a session of pytest. What it says of its end is in the run folder; here only that it does not.

        The part's number in the plan names the session's files, `name` is the part's in records, and `tests` are
        pytest's ids in place of the part's paths.
        """
        again = f"-{attempt}" if attempt > 1 else "-audit" if name != part.name else ""
        log = self._night.folder / SESSIONS / f"{number:02}{again}.log"
        log.parent.mkdir(exist_ok=True)
        self._reporter.stage(f"Running {name}" if attempt == 1 else f"Repeating what could not be tried of {name}")
        forget_end(self._night.folder, name, attempt)
        command = self._command(part, name, attempt, tests, log.with_suffix(".txt"))
        status = _status(command, self._config.folder, log, self._counter(lambda: self._total(name, tests)))
        end = read_end(self._night.folder, name, attempt)
        if end is None or end.status != status or status == _USAGE:
            where = name if attempt == 1 else f"{name}, attempt {attempt}"
            early = " before its end" if end is None else ""
            how = "pytest cannot run it" if status == _USAGE else f"pytest ended with status {status}{early}"
            self._done.problems[where] = f"{how}: {_reason(log)} ({log})"

    def _command(
        self, part: SuitePart, name: str, attempt: int, tests: Sequence[str] | None, arguments: Path
    ) -> list[str]:
        """Return pytest's command line. The names of tests are in the file `arguments`."""
        folder = self._night.folder
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *part.arguments]
        command += ["-n", str(self._config.jobs), "--dist", "worksteal"]  # one, too: a test may kill its process
        command += [f"--runs={folder.parent}", f"--run-name={folder.name}", "--resume"]
        command += [f"--run-part={name}", f"--run-attempt={attempt}", f"--artifacts={folder / 'failures'}"]
        if tests is None:
            command += [f"--shard={self._shard}"] if self._shard is not None else []
            return [*command, *part.selection, "--", *part.entry.paths]
        arguments.write_text("".join(f"{test}\n" for test in tests))
        return [*command, f"@{arguments}"]

    def _total(self, name: str, tests: Sequence[str] | None) -> int:
        if tests is not None:
            return len(tests)
        selection = read_selection(self._night.folder, name)
        return len(selection.tests) if selection is not None else 0

    def _sweeps(self) -> None:
        """Make the points of all sweeps, one sweep after the other: its points share what is lowered."""
        for _, parts in groupby(self._plan.sweeps, key=lambda part: part.prefix):
            # Case by case, as a benchmark makes them.
            by_case: dict[str, list[PlannedPoint]] = {}
            for part in parts:
                for planned in part.planned_of(self._shard) if part.target not in self._done.down else ():
                    by_case.setdefault(planned.name, []).append(planned)
            make_points([planned for group in by_case.values() for planned in group], self._crew)

    def _last(self, part: str) -> Iterable[Record]:
        return last_records(of_part(records_of(self._night.folder), part), lambda record: record.name).values()

    def _sample(self, part: str) -> Iterator[str]:
        """Yield the names of the tests that run twice: some that a target verified, the same every night."""
        if not self._plan.audit_one_in:
            return
        for record in self._last(part):
            digest = hashlib.sha256(record.name.encode()).digest()
            drawn = int.from_bytes(digest[8:16]) % self._plan.audit_one_in == 0
            if drawn and record.npu and record.verdict == Verdict.VERIFIED:
                yield record.name

    def _counter(self, total: Callable[[], int]) -> Callable[[], None]:
        """Return a function that reports how many records there are more than now."""
        began = _lines(self._night.folder)

        def tick() -> None:
            whole = total()
            if whole:
                self._reporter.step(min(whole, _lines(self._night.folder) - began), whole)

        return tick


def _arguments(names: Iterable[str], selection: Selection) -> list[str]:
    """Return tests as pytest's command line names them: by paths, not from pytest's root folder."""
    arguments = []
    for name in names:
        file, colons, rest = name.partition("::")
        arguments.append(f"{Path(selection.root, file)}{colons}{rest}")
    return arguments


def _lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("records-*.jsonl"))


def _status(command: Sequence[str], folder: Path, log: Path, tick: Callable[[], None]) -> int:
    """Run a session to its end, and return its exit status; negative for a signal. `tick` is called every second."""
    with log.open("wb") as output:
        process = start_child(command, cwd=folder, stdout=output)
    try:
        while True:
            try:
                return process.wait(_TICK)
            except subprocess.TimeoutExpired:
                tick()
    except BaseException:
        process.terminate()
        end_child(process, _END)
        raise


def check_pytest() -> None:
    """Check that pytest can be started.

    Raises:
        ToolError: it is not installed.
    """
    for name, package in (("pytest", "pytest"), ("xdist", "pytest-xdist")):
        if importlib.util.find_spec(name) is None:
            raise ToolError(f"suites need {package}, which is not installed", hint=f"pip install {package}")


def _reason(log: Path) -> str:
    """Return the line of pytest's that says most about why it ended."""
    output = read_text(log, most=_MOST_LOG) if log.stat().st_size < _MOST_LOG else ""
    lines = [line for line in output.splitlines() if line.strip()]
    usage_errors = [line for line in lines if re.match(r"\S.*: error: ", line)]
    errors = usage_errors or [line for line in lines if re.match(r"(ERROR|E  |INTERNALERROR>.*Error)", line)]
    return one_line((errors or lines or ["it said nothing"])[0 if errors else -1])[:500]
