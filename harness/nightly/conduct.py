"""Runs the parts of a plan that have no record yet: a known model on each target first, then suites, models, sweeps;
and holds what the run folders say against the plan: the account of the night.

A suite is a session of pytest, in a process of its own that dies with this one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from pathlib import Path

from ethos_hil.base.errors import ToolError
from ethos_hil.base.files import read_text
from ethos_hil.base.judge import Quarantined, is_settled
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.process import end_child, start_child
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing, Verdict
from ethos_hil.harness.bench.order import PlannedPoint, make_points
from ethos_hil.harness.campaign.engine import AnswerProgress, CampaignCrew, may_repeat, question_jobs, write_plan
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.campaign.run_folder import (
    SESSIONS,
    OpenCampaign,
    is_audited,
    last_records,
    of_part,
    of_today,
    records_of,
)
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.plan import ModelPart, NightlyConfig, NightlyPlan, Part, SuitePart, SweepPart, npu_for
from ethos_hil.harness.targets.registry import find_plugin, kind_of, name_in_records
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.results.gate.account import AUDIT, Account, Problem, attempt_of, part_of, take_account
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import Selected, Selection, SessionEnd, forget_end, read_end, read_selection

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
        for number, part in enumerate(self._plan.suites, 1):
            if part.target not in self._done.down:
                self._suite(number, part)
        self._models()
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
                attempt = 1 + max(map(attempt_of, before), default=0)
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

        Args:
            number: of the part in the plan; names the session's files.
            part: what to run.
            name: the part's name in records.
            attempt: see `RunInfo`.
            tests: pytest's ids in place of the part's paths; None for all.
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

    def _models(self) -> None:
        parts = [part for part in self._plan.models if part.target not in self._done.down]
        planned = [planned for part in parts for planned in part.planned_of(self._shard, self._config.timeout)]
        self._crew.ask(planned, question_jobs, is_settled, "Running models")

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


def down_parts(plan: NightlyPlan, down: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the parts that cannot run where their targets are down."""
    return frozenset(part.name for part in plan.parts if part.target in down)


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


_PASSED, _FAILED, _NO_TESTS = 0, 1, 5
"""pytest's exit statuses of a session in which all tests had their turn."""
_SHOWN = 3
"""How many names a note has."""


def account_of_night(
    plan: NightlyPlan,
    results: RunResults,
    conducted: Conducted,
    quarantine: Sequence[Quarantined],
    today: date,
    shards: Sequence[Shard] = (),
    problems: Sequence[str] = (),
) -> Account:
    """Return the account of a night.

    Args:
        plan: what was to run.
        results: what the night's run folders have.
        conducted: what happened beside the records.
        quarantine: what may fail.
        today: the day, for the quarantine.
        shards: those that have run; none for a night without shards.
        problems: what is wrong with the shards, as sentences.
    """
    skipped = down_parts(plan, conducted.down)
    parts = [part for part in plan.parts if part.name not in skipped]
    all_problems = [*map(Problem, problems), *(Problem(f"{part}: {what}") for part, what in conducted.problems.items())]
    for part in parts:
        all_problems += _of_part(part, results, conducted, shards)
    all_problems += _not_of_the_plan(plan, results)
    account = take_account(
        results,
        parts={part.name: part.target for part in parts},
        quarantine=quarantine,
        today=today,
        problems=all_problems,
        down={name_in_records(target): why for target, why in conducted.down.items()},
    )
    account = account.with_problems(_without_answer(parts, results, account))
    return account.with_notes(_omissions(parts, results))


def _of_part(part: Part, results: RunResults, conducted: Conducted, shards: Sequence[Shard]) -> Iterator[Problem]:
    """Yield what is missing of a part beside records: what it chose, and how its sessions ended."""
    chosen = {selection.shard: selection for selection in results.selections if selection.part == part.name}
    for shard in shards or (None,):
        where = f"shard {shard}, {part.name}" if shard is not None else part.name
        selection = chosen.get(str(shard or ""))
        if isinstance(part, ModelPart | SweepPart):
            if selection is None and part.planned_of(shard):
                yield Problem(f"{where}: nothing says what it chose")
            continue
        if where in conducted.problems:
            continue
        if selection is None:
            hint = f"`pytest --collect-only {' '.join(part.entry.paths)}` may say why"
            yield Problem(f"{where}: nothing says what it chose: pytest ended before it had; {hint}")
        ends = [end for end in results.sessions if end.shard == str(shard or "") and end.part == part.name]
        if not any(end.attempt == 1 for end in ends):
            yield Problem(f"{where}: nothing says how its session ended")
        for end in ends:
            yield from _of_end(end, where, part)
    if isinstance(part, SuitePart):
        yield from _of_selection(part, list(chosen.values()), results, shards)
    yield from _not_chosen(part, list(chosen.values()), results)


def _of_end(end: SessionEnd, where: str, part: SuitePart) -> Iterator[Problem]:
    if end.status not in (_PASSED, _FAILED, _NO_TESTS):
        yield Problem(f"{where}: pytest ended with status {end.status}, and not all tests had their turn")
    if end.status == _FAILED and not end.complaints:
        yield Problem(f"{where}: pytest ended with status {end.status}, and names nothing that failed")
    if not part.entry.may_be_empty:
        yield from (Problem(f"{where}: a file skipped itself, with all of its tests: {file}") for file in end.unseen)


def _of_selection(
    part: SuitePart, chosen: Sequence[Selection], results: RunResults, shards: Sequence[Shard]
) -> Iterator[Problem]:
    """Yield what is wrong with all that the shards of a suite chose together, and with its audit."""
    all_there = not shards or len({shard.number for shard in shards}) == shards[0].count
    if not part.entry.may_be_empty and any(selection.tests or selection.functions for selection in chosen):
        for path in dict.fromkeys(path for selection in chosen for path in selection.left_out.barren):
            yield Problem(f"{part.name}: there is no test in {path}")
    elif not part.entry.may_be_empty and chosen and all_there:
        words = " ".join([*part.arguments, *part.selection, *part.entry.paths])
        yield Problem(f"{part.name}: it chose no test ({words}); `may_be_empty = true` in its [[suite]] allows that")
    for selection in results.selections:
        if selection.part == part.name + AUDIT:
            ends = [end for end in results.sessions if (end.part, end.shard) == (selection.part, selection.shard)]
            where = f"shard {selection.shard}, {selection.part}" if selection.shard else selection.part
            if not ends:
                yield Problem(f"{where}: nothing says how its session ended")
            for end in ends:
                yield from _of_end(end, where, part)


def _not_chosen(part: Part, chosen: Sequence[Selection], results: RunResults) -> Iterator[Problem]:
    """Yield records of tests that were not chosen: then not even the selection is what it was."""
    names = {test.id for selection in chosen for test in selection.tests}
    strange = dict.fromkeys(record.name for record in results.records if part_of(record) == part.name)
    for name in strange if chosen else ():
        if name not in names:
            yield Problem(f"{part.name}: {name} has a record, and was not chosen")


def _not_of_the_plan(plan: NightlyPlan, results: RunResults) -> Iterator[Problem]:
    """Yield records that say that no part of the plan asked for them: no account has them."""
    parts = {part.name for part in plan.parts}
    strange = dict.fromkeys(
        (part_of(record), record.name) for record in results.records if part_of(record).removesuffix(AUDIT) not in parts
    )
    for part, name in strange:
        yield Problem(f"{name} has a record of {part or 'no part'}, which the plan does not have")


def _omissions(parts: Sequence[Part], results: RunResults) -> Iterator[str]:
    """Yield what suites did not choose, where someone may think that it runs: each thing once."""
    notes: set[str] = set()
    for part in parts:
        if not isinstance(part, SuitePart):
            continue
        suite = part.name.partition(":")[0]
        chosen = [selection.left_out for selection in results.selections if selection.part == part.name]
        lists = {
            "not chosen, because their names end in no profile": [left_out.unprofiled for left_out in chosen],
            "taken out by a conftest.py or a plug-in": [left_out.removed for left_out in chosen],
        }
        for what, of_shards in lists.items():
            names = dict.fromkeys(name for names in of_shards for name in names)
            if names:
                shown = ", ".join([*list(names)[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])
                notes.add(f"{suite}: {len(names):,} {what}: {shown}")
        filters = part.entry.expression or part.entry.markers
        count = max((left_out.deselected for left_out in chosen), default=0)
        if count and not filters:
            notes.add(f"{suite}: {count:,} deselected by addopts, PYTEST_ADDOPTS or a plug-in")
    yield from sorted(notes)


def _without_answer(parts: Sequence[Part], results: RunResults, account: Account) -> Iterator[Problem]:
    """Yield the parts that chose something of which nothing was tried: a night of skipped tests says nothing."""
    for part in parts:
        if not isinstance(part, SuitePart) or part.entry.may_be_empty:
            continue
        tests = [test for test in account.tests if test.part == part.name]
        lacking = [test for test in tests if test.standing in (Standing.SKIPPED, Standing.COMPILED_ONLY)]
        if tests and len(lacking) == len(tests):
            failure = lacking[0].record.failure
            why = failure.message if failure is not None else str(lacking[0].standing)
            yield Problem(f"{part.name}: none of its tests ran: {why}")
        chosen = {name for choice in results.selections if choice.part == part.name for name in choice.functions}
        idle = {name for end in results.sessions if end.part == part.name for name in end.idle}
        if chosen and chosen <= idle and not tests:
            yield Problem(f"{part.name}: none of its tests ran: all were skipped")
