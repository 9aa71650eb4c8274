"""The account of a run: everything that was chosen, once, and everything that is red. All outputs are made from it.

Terminal, report, summary, JUnit, OpenMetrics and JSON count and judge nothing by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property

from ethos_hil.base.dataclasses import dataclass, field, fields, replace
from ethos_hil.base.judge import Ending, Evidence, Findings, Quarantined, ending_of, standing_of
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import FAR_DB, Record, RunFacts, RunInfo, SuiteTest, TargetInfo
from ethos_hil.base.verdict import NOT_ATTEMPTED, WORST, Failure, FailureKind, Standing, Verdict
from ethos_hil.results.gate.change import Change, RunComparison
from ethos_hil.results.gate.observation import Observation, of_record
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import Selected, Selection
from ethos_hil.results.subject import Subject, subject_of

AUDIT = " (audit)"
"""What the name of a part ends in whose tests run a second time, to see whether exact numbers are."""
_CRASH = "crash"


@dataclass(frozen=True, kw_only=True)
class Accounted(Ending):
    """How a test, model or case of a part ends, however often it was tried.

    Attributes:
        record: of the attempt that counts: the worst one that could be made, the last of equals. Of what is missing, a
            record that says so.
        spoilt: attempts that the target or the way to it spoilt, and another one has followed.
        attempts: how many records there are, of one shard.
    """

    record: Record
    spoilt: tuple[Record, ...] = ()
    attempts: int = 1

    @property
    def part(self) -> str:
        """The part of a nightly's plan, or ""."""
        return self.record.within.part

    @cached_property
    def subject(self) -> Subject:
        """What is followed of it from run to run."""
        return subject_of(self.record)

    @property
    def label(self) -> str:
        """The suite's test, or the model."""
        return self.record.label

    @property
    def name(self) -> str:
        """What its part calls it."""
        return self.record.name

    @property
    def sentence(self) -> str:
        """Why it is red, with what it is and where it ran."""
        record = self.record
        name = self.name if self.name == self.label else f"{self.name} ({self.label})"
        return (
            f"{self.standing.letter} {name} on {record.target.name}{f' {record.npu}' if record.npu else ''}: {self.red}"
        )


FAR = f"with less than {FAR_DB:g} dB, constant or saturated"
"""What is said of verified answers that are far from the float model's."""


@dataclass(frozen=True)
class Problem:
    """Something red that is not a test's verdict.

    Attributes:
        text: what, as a sentence.
        gap: whether something that was asked for may be lost by it, so that the run is not whole.
    """

    text: str
    gap: bool = True


@dataclass(frozen=True)
class Account:
    """All that a run says.

    Attributes:
        tests: what was chosen in the parts that could run, each once.
        problems: what else is red.
        notes: what is worth knowing.
        down: targets that could not be used, and why.
        comparison: what is different from another run; None where it is compared with nothing.
        failing: the changes for which the gate fails, without those of tests in quarantine.
        unstable: names of tests whose exact numbers or verdicts differ within the run, with which.
        functions: how many tests that leave no record ran, and did not fail.
    """

    tests: tuple[Accounted, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    down: Mapping[str, str] = field(default_factory=dict, hash=False)
    comparison: RunComparison | None = None
    failing: tuple[Change, ...] = ()
    unstable: tuple[str, ...] = ()
    functions: int = 0

    @property
    def counts(self) -> Counter[Standing]:
        """How many tests stand how."""
        return Counter(test.standing for test in self.tests)

    @property
    def far(self) -> tuple[Accounted, ...]:
        """What is verified, and has little to do with the float model's answer."""
        return tuple(test for test in self.tests if test.standing is Standing.VERIFIED and test.record.far)

    def told(self, standing: Standing) -> str:
        """Return how many stand so, and of what is verified how many are of little use."""
        far = f" ({len(self.far):,} of them {FAR})" if standing is Standing.VERIFIED and self.far else ""
        return f"{self.counts[standing]:,} {standing}{far}"

    @property
    def whole(self) -> bool:
        """Whether everything that was asked for has an answer, good or bad."""
        missing = any(test.standing is Standing.MISSING for test in self.tests)
        return not (missing or self.down or any(problem.gap for problem in self.problems))

    @property
    def red(self) -> tuple[str, ...]:
        """Everything that someone has to look at, as sentences."""
        return tuple(self._red())

    @property
    def beside(self) -> tuple[str, ...]:
        """What is red, and is neither a test's own answer nor a number that moved, as sentences."""
        return (
            *(f"{target} could not be used: {why}" for target, why in self.down.items()),
            *(problem.text for problem in self.problems),
            *(test.sentence for test in self.tests if test.red and not test.standing.red),
            *(f"{name} differs between two executions of this run" for name in self.unstable),
        )

    @property
    def green(self) -> bool:
        """Whether no one has to look at anything."""
        return not self.down and not self.red

    @property
    def sentence(self) -> str:
        """How the run went: how many tests stand how, the gate, and the colour."""
        stands = ", ".join(self.told(standing) for standing, _ in self.counts.most_common())
        if not stands:
            stands = f"test functions without a record: {self.functions:,}" if self.functions else "nothing ran"
        if self.down:
            stands += f"; not run, because of their target: {', '.join(self.down)}"
        if self.comparison is not None:
            failing = len({change.subject for change in self.failing})
            gate = f"the gate fails for {failing:,}" if failing else "the gate passes"
            stands += f"; {gate} against {self.comparison.before}"
        return f"{stands}; {self.colour}"

    @property
    def colour(self) -> str:
        """ "green", "red: 3", or "infrastructure" where no one knows how it would have ended."""
        if self.down:
            return "infrastructure"
        return f"red: {len(self.red):,}" if self.red else "green"

    def with_problems(self, problems: Iterable[Problem]) -> Account:
        """Return it with more that is red."""
        return replace(self, problems=(*self.problems, *problems))

    def with_notes(self, notes: Iterable[str]) -> Account:
        """Return it with more that is worth knowing."""
        return replace(self, notes=(*self.notes, *notes))

    def with_comparison(self, comparison: RunComparison | None, observed: Iterable[Observation] = ()) -> Account:
        """Return it with a comparison, and with what differs between two executions of the run itself.

        Args:
            comparison: with another run.
            observed: what the run's own records say.
        """
        allowed = {of_record(test.record).subject for test in self.tests if test.standing is Standing.QUARANTINED}
        changes = comparison.failing if comparison is not None else ()
        failing = tuple(change for change in changes if change.subject not in allowed)
        unstable = []
        for observation in observed:
            if observation.unstable:
                keys = sorted(" ".join(filter(None, key)) for key in observation.unstable)
                unstable.append(f"{observation.subject.label} ({', '.join(keys)})")
        return replace(self, comparison=comparison, failing=failing, unstable=tuple(unstable))

    def _red(self) -> Iterator[str]:
        yield from (problem.text for problem in self.problems)
        yield from (test.sentence for test in self.tests if test.red)
        for change in self.failing:
            head = f"{change.word}: {change.subject.name} {change.subject.npu}"
            yield f"{head}: {change.sentence}: {change.detail}".rstrip(": ")
        yield from (f"unstable: {name}" for name in self.unstable)


@dataclass(frozen=True)
class JudgedResults(RunResults):
    """The results of a run that was held against its plan, with its account."""

    account: Account = field(default=Account(()), hash=False)

    @classmethod
    def of(cls, results: RunResults, account: Account) -> JudgedResults:
        """Return results with their account."""
        return cls(**{member.name: getattr(results, member.name) for member in fields(RunResults)}, account=account)


def account_of(results: RunResults, comparison: RunComparison | None = None) -> Account:
    """Return the account of a run: a night's own, or for another run what its folders say."""
    if isinstance(results, JudgedResults):
        return results.account
    return take_account(results).with_comparison(comparison)


def take_account(
    results: RunResults,
    *,
    parts: Mapping[str, str] | None = None,
    quarantine: Sequence[Quarantined] = (),
    today: date = date.min,
    problems: Iterable[Problem] = (),
    down: Mapping[str, str] | None = None,
) -> Account:
    """Account for everything that a run chose.

    Args:
        results: what its folders have.
        parts: the parts of a plan that could run, in order, with their targets; None for a run without a plan.
        quarantine: what may fail.
        today: the day, for the quarantine.
        problems: what else is red.
        down: targets that could not be used, and why.
    """
    own = [
        record for record in results.records if not is_audit(record) and (parts is None or record.within.part in parts)
    ]
    missing = [
        _lost_record(test, selection, (parts or {}).get(selection.part, ""), _how(results, test))
        for selection, test in _without_record(results, parts)
    ]
    tests = [_account_for(records, parts, quarantine, today) for records in _attempts(own)]
    tests += [_judge(record, parts, quarantine, today, missing=True) for record in missing]
    if parts is not None:
        order = {part: number for number, part in enumerate(parts)}
        tests.sort(key=lambda test: (order[test.part], test.name))
    used = {entry for test in tests for entry in quarantine if entry.matches(*_place(test.record, parts))}
    notes = [f"in quarantine, and not among the tests: {entry.id}" for entry in quarantine if entry not in used]
    red = [*problems, *_unreadable(results), *_of_sessions(results, tests)]
    functions = {(end.part, name) for end in results.sessions for name in end.ran - end.idle}
    return Account(tuple(tests), tuple(red), tuple(notes), down or {}, functions=len(functions))


def is_audit(record: Record) -> bool:
    """Return whether a record is of a test's second run."""
    return record.within.part.endswith(AUDIT)


def _attempts(records: Iterable[Record]) -> list[list[Record]]:
    """Return the records of each test together: in a part of a plan by its name, else by the planned question that they
    answer, else by all that tells its place.

    What stopped before it had a place is an attempt at the only test of its name and NPU that has one.
    """
    by_place: dict[tuple[str, ...], list[Record]] = {}
    places: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for record in records:
        run = record.within
        name = run.part, record.name, record.label, record.npu
        place = () if run.part else (run.planned,) if run.planned else _place_of(record)
        by_place.setdefault((*name, *place), []).append(record)
        if (record.memory_mode or record.verdict == Verdict.VERIFIED) and not run.planned:
            places.setdefault(name, set()).add(place)
    for key in list(by_place):
        known = places.get(key[:4], set())
        if len(known) == 1 and (other := (*key[:4], *next(iter(known)))) != key:
            by_place[other] += by_place.pop(key)
    return list(by_place.values())


def _place_of(record: Record) -> tuple[str, ...]:
    artifact, runner = record.artifact, record.runner
    return (record.memory_mode, record.system_config, record.target.name, record.target.soc, record.method,
            artifact.scheme if artifact is not None else "", runner.sha256 if runner is not None else "",
            record.inputs_sha256)  # fmt: skip


def _account_for(
    records: Sequence[Record], parts: Mapping[str, str] | None, quarantine: Sequence[Quarantined], today: date
) -> Accounted:
    """Return a test by all of its records. An attempt that could not be made counts only where there is no other."""
    in_time = sorted(records, key=lambda record: (record.within.attempt, record.created))
    attempts = [record for record in in_time if record.kind not in NOT_ATTEMPTED]
    counting = attempts or in_time[-1:]
    judged = [_judge(record, parts, quarantine, today) for record in reversed(counting)]
    worst = min(judged, key=lambda test: WORST.index(test.standing))
    spoilt = tuple(record for record in in_time if not any(record is other for other in counting))
    shards = Counter(record.run.shard for record in records if record.run is not None)  # each runs the known model
    return replace(worst, spoilt=spoilt, attempts=max(shards.values(), default=len(records)))


def _judge(
    record: Record,
    parts: Mapping[str, str] | None,
    quarantine: Sequence[Quarantined],
    today: date,
    *,
    missing: bool = False,
) -> Accounted:
    entries = [entry for entry in quarantine if entry.matches(*_place(record, parts))]
    return Accounted(record=record, **vars(ending_of(record, entries, today, missing=missing)))


def _place(record: Record, parts: Mapping[str, str] | None) -> tuple[tuple[str, str], str, str]:
    """Return the names, NPU and target of a record. One that stopped early knows its target by its part."""
    target = record.target.name
    if target == "none" and parts is not None:
        target = parts.get(record.within.part, target)
    return (record.name, record.label), record.npu, target


def _without_record(results: RunResults, parts: Mapping[str, str] | None) -> Iterator[tuple[Selection, Selected]]:
    """Yield what was chosen and has no record, with its part."""
    there = {(record.within.part, record.name) for record in results.records}
    answered = {record.within.planned for record in results.records}
    for selection in results.selections:
        if parts is None or selection.part.removesuffix(AUDIT) in parts:
            for test in selection.tests:
                is_there = test.planned in answered if test.planned else (selection.part, test.id) in there
                if not is_there and not selection.part.endswith(AUDIT):
                    yield selection, test


def _how(results: RunResults, test: Selected) -> str:
    """Return how it came that a test has no record, by what pytest says."""
    complaints = (complaint for end in results.sessions for complaint in end.complaints if complaint.id == test.id)
    crash = next((complaint.message for complaint in complaints if complaint.when == _CRASH), "")
    skipped = any(test.id in end.ran for end in results.sessions)
    return crash or ("a mark or a hook of pytest skipped it" if skipped else "")


def _lost_record(test: Selected, selection: Selection, target: str, how: str) -> Record:
    why = how or "it did not run, or what ran it ended before there was one"
    message = f"it was chosen and has no record: {why}"
    facts = RunFacts(
        model=(f"{test.operator}_{test.case}" if test.case else test.operator) or test.id,
        npu=test.npu,
        target=TargetInfo(test.target or (target if test.npu else "") or "none", "none", ""),
        test=SuiteTest(test.id, test.operator, test.case, test.profile, "") if test.operator else None,
        run=RunInfo("", shard=selection.shard, part=selection.part),
    )
    stopped = Failure(FailureKind.INTERNAL, message, "run it alone, to see why")
    return Findings(facts, Evidence(stopped=stopped)).record


def _unreadable(results: RunResults) -> Iterator[Problem]:
    for skipped in results.skipped:
        yield Problem(f"{skipped.where} cannot be read: {skipped.why}")


def _of_sessions(results: RunResults, tests: Sequence[Accounted]) -> Iterator[Problem]:
    """Yield what pytest called failed, and is not red by a verdict of its own."""
    red = {
        (record.within.part, record.within.attempt, record.name)
        for record in results.records
        if standing_of(record).red
    }
    lost = {(test.part, test.name) for test in tests if test.standing is Standing.MISSING}
    for end in results.sessions:
        for complaint in end.complaints:
            known = (end.part, end.attempt, complaint.id) in red or (end.part, complaint.id) in lost
            if not (known and complaint.when in ("call", _CRASH)):
                gap = complaint.when in (_CRASH, "collect")
                yield Problem(f"{_where(end.part, end.shard)}{complaint}", gap)
    for selection in results.selections:
        ran = {name for end in results.sessions if (end.part, end.shard) == (selection.part, selection.shard)
               for name in (*end.ran, *(complaint.id for complaint in end.complaints))}  # fmt: skip
        for name in selection.functions:
            if name not in ran:
                yield Problem(f"{_where(selection.part, selection.shard)}{name} was chosen and did not run")
    audits: dict[tuple[str, str], list[Record]] = {}
    for record in filter(is_audit, results.records):
        audits.setdefault((record.within.part, record.name), []).append(record)
    for selection in results.selections:
        for test in selection.tests if selection.part.endswith(AUDIT) else ():
            why = _not_audited(audits.get((selection.part, test.id), []))
            if why:
                yield Problem(f"{_where(selection.part, selection.shard)}{test.id} {why}")


def _not_audited(audits: Sequence[Record]) -> str:
    """Return why a test has no second answer; "" where it has one, whatever it is."""
    if not audits:
        return "was chosen and has no record"
    last = audits[-1].failure
    spoilt = all(record.kind in NOT_ATTEMPTED for record in audits)
    return f"could not run a second time: {last.kind}: {one_line(last.message)}" if spoilt and last is not None else ""


def _where(part: str, shard: str) -> str:
    place = ", ".join(filter(None, (f"shard {shard}" if shard else "", part)))
    return f"{place}: " if place else ""
