"""The gate finds every regression of a list, by the right word and cause, and nothing else; equal nights are quiet."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.gate.change import Cause, Effect, RunComparison, Word
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.gate import Side, gate
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.policy import Policy, PolicyRule
from ethos_hil.results.selection import Selected, Selection
from ethos_hil.results.store import RunFolder
from ethos_hil.results.testing.in_lines import lines_of_comparison
from ethos_hil.results.testing.seeded_changes import CHANGES, EARLY, KEYWORDS, TEST, with_models
from ethos_hil.results.testing.synthetic_year import nights

NIGHT = with_models([item.record for item in next(nights(1, count=1, tests=30))])
"""The records of a good night."""


def compared(before: Sequence[Record], after: Sequence[Record], policy: Policy | None = None) -> RunComparison:
    return compare_runs(observations(before), observations(after), policy=policy or Policy())


def edited(record: Record, **changes: object) -> Record:
    assert record.artifact is not None
    return replace(record, artifact=replace(record.artifact, question="e" * 64), **changes)  # type: ignore[arg-type]


def numbers(of: Record, **changes: object) -> tuple[Metric, ...]:
    """The numbers of a record; its cycles are another number."""
    return (replace(of.metrics[0], **changes), *of.metrics[1:])  # type: ignore[arg-type]


def ended(verdict: Verdict, kind: FailureKind = FailureKind.INTERNAL) -> Record:
    fine = verdict in (Verdict.VERIFIED, Verdict.COMPILED_ONLY)
    return replace(ONE, verdict=verdict, failure=None if fine else Failure(kind, "no"))


def accurate(of: Record, decibels: float) -> Record:
    return replace(of, accuracy=tuple(replace(entry, sqnr_db=decibels) for entry in of.accuracy))


ONE = NIGHT[0]
assert ONE.test is not None
FIRST = (Metric("npu_cycles", 1, "cycles", "modelled"),)
BROKEN = ended(Verdict.FAILED, FailureKind.FAULT)
DEFECT = ended(Verdict.FAILED, FailureKind.MISMATCH)
DECLARED = replace(DEFECT, test=replace(ONE.test, defect="docs/defects/vela-shared-bias.md"))
MOVED = replace(ONE, memory_mode="Sram_Only", metrics=FIRST)
SCHEMES = [record for record in NIGHT if record.label == KEYWORDS]
EARLY_ONE = replace(SCHEMES[0], **EARLY)
NAMED = replace(ONE, test=replace(ONE.test, id="another"))


def agreeing(of: Record, count: int) -> Record:
    entries = tuple(replace(entry, sqnr_db=None, agreeing=count, elements=20) for entry in of.accuracy)
    return replace(of, accuracy=entries)


NONE = replace(SCHEMES[0], accuracy=())
MORE = Metric("more", 1.0, "", "modelled")
SIDES: dict[str, tuple[list[Record], list[Record]]] = {
    "an edit and another provenance": ([ONE], [edited(ONE, metrics=numbers(ONE, provenance="vela"))]),
    "an edit that brings a number, and the other scheme has it too": (  # which was not edited
        SCHEMES, [edited(SCHEMES[0], metrics=(*SCHEMES[0].metrics, MORE)),
                  replace(SCHEMES[1], metrics=(*SCHEMES[1].metrics, MORE))]),
    "an edit and another unit": ([ONE], [edited(ONE, metrics=numbers(ONE, unit="beats"))]),
    "an edit that differs within the run":
        ([ONE], [edited(ONE, metrics=numbers(ONE, value=ONE.metrics[0].value + at)) for at in (1, 2)]),
    "an edit after a wrong answer": ([BROKEN], [edited(BROKEN, metrics=FIRST)]),
    "numbers of a wrong answer": ([BROKEN], [replace(BROKEN, metrics=FIRST)]),
    "a move": ([ONE], [MOVED]),
    "a move after which the answer is wrong":
        ([ONE], [replace(MOVED, verdict=Verdict.FAILED, failure=Failure(FailureKind.FAULT, "no"))]),
    "a defect that is declared": ([DEFECT], [DECLARED]),
    "a defect that is not declared any more": ([DECLARED], [DEFECT]),
    "a declared defect after a right answer": ([ONE], [DECLARED]),
    "a right answer after a declared defect": ([DECLARED], [ONE]),
    "two schemes after one that failed early": ([EARLY_ONE], SCHEMES),
    "one that failed early after two schemes": (SCHEMES, [EARLY_ONE]),
    "the last digits of an accuracy": (SCHEMES[:1], [accurate(SCHEMES[0], 29.996 + 1e-9)]),
    "a lower accuracy": (SCHEMES[:1], [accurate(SCHEMES[0], 12.0)]),
    "fewer indices agree": ([agreeing(SCHEMES[0], 20)], [agreeing(SCHEMES[0], 14)]),
    "more indices agree": ([agreeing(SCHEMES[0], 14)], [agreeing(SCHEMES[0], 20)]),
    "a higher accuracy": ([accurate(SCHEMES[0], 12.0)], SCHEMES[:1]),
    "an accuracy that was not there": ([NONE], SCHEMES[:1]),
    "an edit with an accuracy that was not there": ([edited(NONE)], SCHEMES[:1]),
    "an accuracy that is lost": (SCHEMES[:1], [NONE]),
    "an answer that is exact": (SCHEMES[:1], [accurate(SCHEMES[0], float("inf"))]),
    "another name, and slower": ([ONE], [replace(NAMED, metrics=numbers(ONE, value=ONE.metrics[0].value * 2))]),
    "another name, and wrong":
        ([ONE], [replace(NAMED, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "no"))]),
    "a part of the tests": (NIGHT[:3], NIGHT[:2]),
    "a case that is lost": ([record for record in NIGHT if record.bench is not None], []),
}  # fmt: skip


@pytest.mark.parametrize("what", [*SIDES, *CHANGES])
def test_a_change_has_its_word_cause_and_effect(what: str, recorded: Recorded) -> None:
    """An edit explains no number of another kind; a declared defect is worse than a right answer; what failed early and
    may be any of several is paired with none; an accuracy warns; a renamed test has the changes of its numbers; of wall
    times, times of creation and the order of tests nothing is said.
    """
    recorded.check(lines_of_comparison(compared(*(CHANGES[what](NIGHT) if what in CHANGES else SIDES[what]))))


def test_a_move_passes_where_a_policy_says_so_and_a_wrong_answer_after_it_never() -> None:
    for effect, count in ((Effect.WARN, 2), (Effect.IGNORE, 0)):
        policy = Policy(effects={**Policy().effects, Word.INCOMPARABLE: effect})
        comparison = compared(*SIDES["a move"], policy)
        assert (comparison.passed, len(comparison.changes)) == (True, count)
        assert not compared(*SIDES["a move after which the answer is wrong"], policy).passed


WORST_FIRST = (Verdict.FAILED, Verdict.SKIPPED, Verdict.COMPILED_ONLY, Verdict.UNVERIFIED, Verdict.VERIFIED)


@pytest.mark.parametrize("old", WORST_FIRST)
def test_a_verdict_that_gets_worse_has_regressed_whatever_it_was(old: Verdict, recorded: Recorded) -> None:
    """And another failure than before is a change; so is a declared defect after what was neither right nor wrong."""
    after = [*map(ended, WORST_FIRST), ended(old, FailureKind.FAULT), DECLARED]
    recorded.check("\n".join(lines_of_comparison(compared([ended(old)], [new])) for new in after))


def test_fifty_equal_nights_raise_no_alarm() -> None:
    """Wall times, times of creation and the order of tests differ."""
    chance = random.Random(7)
    before = NIGHT
    for number in range(50):
        created = f"2026-02-{number % 28 + 1:02}T02:00:00+00:00"
        shuffled = chance.sample(before, len(before))
        after = [replace(record, created=created, metrics=tuple(_later(record, chance))) for record in shuffled]
        comparison = compared(before, after)
        assert (comparison.changes, comparison.notes, comparison.passed) == ((), (), True)
        assert set(comparison.counts) == {Word.UNCHANGED}
        before = after


def _later(record: Record, chance: random.Random) -> Iterator[Metric]:
    """Yield a record's metrics on another night: wall times are other ones."""
    for metric in record.metrics:
        host = metric.provenance == "host"
        yield replace(metric, value=metric.value * chance.uniform(0.2, 5)) if host else metric


FACTS: dict[str, tuple[dict[Cause, str], dict[Cause, str], dict[str, str], dict[str, str]]] = {
    "another firmware": ({Cause.FIRMWARE: "1.0"}, {Cause.FIRMWARE: "1.1"}, {}, {}),
    "the same firmware": ({Cause.FIRMWARE: "1.0"}, {Cause.FIRMWARE: "1.0"}, {}, {}),
    "no firmware any more": ({Cause.FIRMWARE: "1.0"}, {}, {}, {}),
    "no firmware before": ({}, {Cause.FIRMWARE: "1.1"}, {}, {}),
    "another torch": ({}, {}, {"torch": "2.12", "vela": "5.1"}, {"torch": "2.13", "vela": "5.1"}),
    "no torch any more": ({}, {}, {"torch": "2.12", "vela": "5.1"}, {"vela": "5.1"}),
    "no versions before": ({}, {}, {}, {"torch": "2.13"}),
    "no versions any more": ({}, {}, {"torch": "2.12"}, {}),
}


def test_notes_say_what_is_different_of_both_sides_where_both_know_it(recorded: Recorded) -> None:
    one = observations(NIGHT[:1])[0]
    for what, (old, new, before, after) in FACTS.items():
        sides = replace(one, facts=old, versions=before), replace(one, facts=new, versions=after)
        recorded.check(lines_of_comparison(compare_runs([sides[0]], [sides[1]])), what)


def test_only_some_of_the_tests_are_compared_and_that_leaves_some() -> None:
    first, second, third = (Side(name, observations(NIGHT[:count])) for name, count in (("a", 3), ("b", 2), ("c", 3)))
    there, gone = NIGHT[0].label, NIGHT[2].label
    assert {change.subject.label: change.word for change in gate(first, second).changes} == {gone: Word.MISSING}
    assert gate(first, second, partial=True).passed
    assert not gate(first, second, only=[gone, "no such test"]).passed
    assert not gate(first, second, only=[f"{gone[:-1]}?"]).passed
    comparison = gate(first, second, only=[there])
    assert (comparison.passed, comparison.subjects) == (True, 1)
    with pytest.raises(UsageError, match="no test or model has 'no such test' in its name"):
        gate(first, second, only=["no such test"])
    assert {change.word for change in gate(first, second, baseline=second).changes} == {Word.ACCEPTED}
    assert {change.word for change in gate(first, second, baseline=third).changes} == {Word.MISSING}
    assert (gate(first, baseline=third).before, gate(first, baseline=third).after) == ("c", "a")


def test_a_part_of_the_tests_misses_nothing_but_numbers_of_its_own() -> None:
    before, after = observations(NIGHT), observations([replace(NIGHT[0], metrics=NIGHT[0].metrics[1:]), *NIGHT[1:9]])
    (lost,) = compare_runs(before, after, partial=True).changes
    assert (lost.word, lost.metric, lost.subject) == (Word.MISSING, "npu_cycles", after[0].subject)


def test_a_run_that_lost_a_record_does_not_pass(tmp_path: Path) -> None:
    """What is lost may be in neither of the two runs: only the selection knows of it."""
    folders = [RunFolder(tmp_path, command=["x"]) for _ in range(2)]
    for folder in folders:
        folder.append(ONE)
    before, after = (folder.path for folder in folders)
    assert gate(before, after).passed
    Selection("", tests=(Selected(ONE.label, "a"), Selected("test_lost_BI", "a"))).write(after)
    comparison = gate(before, after)
    assert (comparison.passed, comparison.failing) == (False, ())
    (gap,) = comparison.gaps
    assert gap.startswith("M test_lost_BI on none: internal: it was chosen and has no record")
    assert gate(after, before).passed, "the run before may lack what it will"
    (path,) = before.glob("records-*.jsonl")
    path.write_bytes(path.read_bytes() + bytes(100))
    (gap,) = gate(after, before).gaps
    assert f"{path}:2 cannot be read" in gap


# What a policy and a baseline allow of a change, and how much a measured number may move.


BEFORE, AFTER = CHANGES["edited weights"](NIGHT)
ALLOWED: dict[str, tuple[Effect, list[Record] | None]] = {
    "no baseline": (Effect.ACCEPT, None), "the one before": (Effect.ACCEPT, BEFORE),
    "one that accepts it": (Effect.ACCEPT, AFTER),
    **{effect: (effect, None) for effect in (Effect.FAIL, Effect.WARN, Effect.IGNORE)},
}  # fmt: skip


@pytest.mark.parametrize("what", ALLOWED)
def test_a_policy_says_what_edits_do_to_the_gate(what: str, recorded: Recorded) -> None:
    """Where it asks to accept them, the gate fails until the baseline has the edited model as it is now."""
    effect, accepted = ALLOWED[what]
    policy = Policy(effects={**Policy().effects, Word.EDITED: effect})
    sides = observations(BEFORE), observations(AFTER)
    kept = None if accepted is None else observations(accepted)
    recorded.check(lines_of_comparison(compare_runs(*sides, policy=policy, baseline=kept)))


def test_a_rule_that_fits_nothing_is_told(recorded: Recorded) -> None:
    rules = (
        PolicyRule(metric="npu_*"),
        PolicyRule(metric="npu_cycels", allowed_percent=5),
        PolicyRule(label="*mobilenet*"),
        PolicyRule(metric="npu_cycles", npu="ethos-u55-12"),
        PolicyRule(metric="npu_cycles", provenance="host"),
    )
    policy = Policy(rules=(*Policy().rules, *rules))
    recorded.check(lines_of_comparison(compared(NIGHT, NIGHT, policy)))
    sides = observations(NIGHT), observations(NIGHT[:1])  # a part of the tests need not fit all rules
    assert compare_runs(*sides, policy=policy, partial=True).notes == ()


def test_one_number_is_accepted_and_another_is_not(recorded: Recorded) -> None:
    _, bad = CHANGES["a Vela flag makes another stream, faster, in more SRAM"](NIGHT)
    after = bad[TEST]
    metrics = (replace(metric, value=metric.value + (metric.name == "sram_used")) for metric in after.metrics)
    half = replace(after, metrics=tuple(metrics))
    sides = observations([NIGHT[TEST]]), observations([half])
    recorded.check(lines_of_comparison(compare_runs(*sides, baseline=observations([after]))))
