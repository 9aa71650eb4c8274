"""What a night's records say: which tests are as they should be, which are red, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from ethos_hil.harness.bench.point_record import is_refusal
from ethos_hil.harness.nightly.conduct import AUDIT, Conducted, down_parts, final
from ethos_hil.harness.nightly.plan import NightlyPlan
from ethos_hil.harness.nightly.quarantine import Quarantined
from ethos_hil.harness.nightly.recorded import name_of
from ethos_hil.harness.nightly.shard import Shard
from ethos_hil.harness.targets.registry import name_in_records
from ethos_hil.results.plain_text import one_line
from ethos_hil.results.record import Record
from ethos_hil.results.verdict import Verdict
from ethos_hil.results.verdict_letter import DEFECT, LETTERS, QUARANTINED, ending_of

MISSING = "missing"
_LETTERS = {**LETTERS, MISSING: "M"}


@dataclass(frozen=True)
class JudgedTest:
    """A test or model of a part.

    Attributes:
        part, name, npu, target: what and where.
        ending: its verdict, "known defect", "quarantined" or "missing".
        red: why somebody has to look at it, or "".
        quarantine: the entry that it is in, or None.
    """

    part: str
    name: str
    npu: str
    target: str
    ending: str
    red: str = ""
    quarantine: Quarantined | None = None

    @property
    def letter(self) -> str:
        """One letter for its ending."""
        return _LETTERS[self.ending]


@dataclass(frozen=True)
class Judgement:
    """All that a night's records say.

    Attributes:
        tests: of all parts that could run.
        down: targets that could not be used, and why.
        problems: what else is red, as sentences.
        notes: what is worth knowing.
    """

    tests: tuple[JudgedTest, ...]
    down: Mapping[str, str]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Counter[str]:
        """How many tests ended how."""
        return Counter(test.ending for test in self.tests)

    @property
    def red(self) -> tuple[JudgedTest, ...]:
        """The tests that somebody has to look at."""
        return tuple(test for test in self.tests if test.red)

    @property
    def allowed(self) -> frozenset[tuple[str, str, str]]:
        """Name, NPU and target of what may be wrong: a gate does not fail for it."""
        return frozenset((each.name, each.npu, each.target) for each in self.tests if each.ending == QUARANTINED)


def judge(
    plan: NightlyPlan,
    records: Iterable[Record],
    conducted: Conducted,
    quarantine: Sequence[Quarantined],
    today: date,
    shards: Sequence[Shard] = (),
) -> Judgement:
    """Return what records say.

    Args:
        plan: what was to run.
        records: all of the night's.
        conducted: what happened besides.
        quarantine: what may fail.
        today: the day, for the quarantine.
        shards: those that have run; none for a night without shards.
    """
    skipped = down_parts(plan, conducted.down)
    targets = {part.name: part.target for part in plan.parts}
    last = [each for each in final(records) if _part(each) in targets and _part(each) not in skipped]
    tests = [_judged(each, targets[_part(each)], quarantine, today) for each in last]
    there = {(test.part, test.name) for test in tests}
    for part in plan.models:
        mine = not shards or any(shard.takes(part.model) for shard in shards)
        if part.name not in skipped and mine and (part.name, part.model) not in there:
            tests.append(JudgedTest(part.name, part.model, part.npu, part.target, MISSING, "it has no record"))
    for sweep in plan.sweeps:
        for case in sweep.cases:
            mine = not shards or any(shard.takes(case.name) for shard in shards)
            name = case.model or case.name
            if sweep.name not in skipped and mine and (sweep.name, name) not in there:
                tests.append(JudgedTest(sweep.name, name, sweep.npu, sweep.target, MISSING, "it has no record"))
    problems = [f"{part}: {what}" for part, what in conducted.problems.items()]
    problems += [f"{part}: {name} failed" for part, names in conducted.functions.items() for name in names]
    used = {test.quarantine for test in tests}
    notes = [f"in quarantine, and not among the tests: {each.id}" for each in quarantine if each not in used]
    order = {part.name: number for number, part in enumerate(plan.parts)}
    tests.sort(key=lambda test: (order[test.part], test.name))
    down = {name_in_records(target): why for target, why in conducted.down.items()}
    return Judgement(tuple(tests), down, tuple(problems), () if shards else tuple(notes))


def _part(record: Record) -> str:
    return record.run.part if record.run is not None else ""


def _judged(record: Record, target: str, quarantine: Sequence[Quarantined], today: date) -> JudgedTest:
    name, ending = name_of(record), ending_of(record)
    if record.bench is not None and is_refusal(record):
        ending = Verdict.SKIPPED  # what cannot be made is no failure of tonight; a gate sees one that could be before
    where = target if record.target.name == "none" else record.target.name
    test = JudgedTest(_part(record), name, record.npu, where, ending, _red(record, ending))
    entry = next((each for each in quarantine if each.matches(name, record.npu, where)), None)
    if entry is None:
        return test
    objection = entry.objection(record, today)
    failing = record.verdict == Verdict.FAILED
    ending = QUARANTINED if failing and not objection else test.ending
    return JudgedTest(test.part, name, record.npu, where, ending, objection, entry)


def _red(record: Record, ending: str) -> str:
    if ending not in (Verdict.FAILED, Verdict.UNVERIFIED) or ending == DEFECT:
        return ""
    if record.failure is None:
        return str(record.verdict)
    return f"{record.failure.kind}: {one_line(record.failure.message)}"


def is_audit(record: Record) -> bool:
    """Return whether a record is of a test's second run."""
    return _part(record).endswith(AUDIT)
