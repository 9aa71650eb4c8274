"""The gate finds every regression of a list, by the right word and cause, and nothing else; equal nights are quiet."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.gate.change import VERDICT, Cause, Effect, RunComparison, Word
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.gate import Side, gate
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.policy import Policy, PolicyRule
from ethos_hil.results.selection import Selected, Selection
from ethos_hil.results.store import RunFolder
from ethos_hil.results.testing.in_lines import lines_of_comparison
from ethos_hil.results.testing.seeded_changes import EARLY, EDITS, KEYWORDS, REGRESSIONS, with_models
from ethos_hil.results.testing.synthetic_year import nights

TESTS = 90


def night(seed: int = 1) -> list[Record]:
    """The records of a good night."""
    return with_models([item.record for item in next(nights(seed, count=1, tests=TESTS))])


NIGHT = night()


def compared(before: Sequence[Record], after: Sequence[Record], policy: Policy | None = None) -> RunComparison:
    return compare_runs(observations(before), observations(after), policy=policy or Policy())


def outcomes(comparison: RunComparison) -> dict[tuple[str, str], tuple[Word, Cause]]:
    return {(change.subject.label, change.metric): (change.word, change.cause) for change in comparison.changes}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", [*REGRESSIONS, *EDITS])
def test_each_regression_edit_and_repair_is_called_so_and_nothing_else_is_found(what: str, seed: int) -> None:
    before, after, expected = {**REGRESSIONS, **EDITS}[what](list(NIGHT), random.Random(seed))
    comparison = compared(before, after)
    assert outcomes(comparison) == expected
    assert sum(comparison.counts.values()) > TESTS * 10
    check_values(comparison, before, after)


FAILING = {Word.REGRESSED, Word.MISSING, Word.INCOMPARABLE, Word.UNSTABLE}


def check_values(comparison: RunComparison, before: Sequence[Record], after: Sequence[Record]) -> None:
    """Check that a change has the numbers of the records, and the effect of its word."""
    sides = [observations(records) for records in (before, after)]
    for change in comparison.changes:
        if change.metric != VERDICT and change.before is not None and change.after is not None:
            values = [{number.value for observation in side if observation.subject.label == change.subject.label
                       for (name, _), number in observation.numbers.items() if name == change.metric}
                      for side in sides]  # fmt: skip
            assert change.before in values[0]
            assert change.after in values[1]
            assert change.before != change.after or change.cause is Cause.PROVENANCE
        moved = change.word is Word.INCOMPARABLE and change.metric != VERDICT and change.cause is not Cause.PROVENANCE
        fails = change.word in FAILING and not moved
        assert change.effect is (Effect.FAIL if fails else Effect.WARN)
    assert comparison.passed == all(change.effect is Effect.WARN for change in comparison.changes)


def test_a_number_that_an_edit_brings_is_part_of_the_edit() -> None:
    before, after, _ = EDITS["edited code with fewer blocks"](list(NIGHT), random.Random(0))
    (edited,) = {change.subject for change in compared(before, after).changes}
    comparison = compared(before, [replace(record, metrics=(*record.metrics, Metric("more", 1.0, "", "modelled")))
                              if record.label == edited.label else record for record in after])  # fmt: skip
    words = {change.subject == edited: change.word for change in comparison.changes if change.metric == "more"}
    assert words == {True: Word.EDITED, False: Word.NEW}, "the model's other scheme was not edited"


@pytest.mark.parametrize("unknown", ["memory_mode", "system_config", "soc", "target", "runner", "scheme"])
def test_each_field_that_an_early_failure_does_not_know_fits_anything(unknown: str) -> None:
    """One by one; and a right answer knows all but its scheme."""
    (whole,) = observations(NIGHT[:1])
    whole = replace(whole, subject=replace(whole.subject, **dict.fromkeys(("runner", "system_config", "scheme"), "x")))
    nothing = "none" if unknown == "target" else ""
    open_one = replace(whole.subject, **{unknown: nothing})
    early = replace(whole, subject=open_one, verdict="failed: compile", question="", inputs="", numbers={})
    assert [change.word for change in compare_runs([early], [whole]).changes] == [Word.IMPROVED]
    assert [change.word for change in compare_runs([whole], [early]).changes] == [Word.REGRESSED]
    right = replace(whole, subject=open_one)
    words = {change.word for change in compare_runs([right], [whole]).changes}
    assert words == (set() if unknown == "scheme" else {Word.INCOMPARABLE})


def edited(record: Record, **changes: object) -> Record:
    assert record.artifact is not None
    return replace(record, artifact=replace(record.artifact, question="e" * 64), **changes)  # type: ignore[arg-type]


def ended(verdict: Verdict, kind: FailureKind = FailureKind.INTERNAL) -> Record:
    fine = verdict in (Verdict.VERIFIED, Verdict.COMPILED_ONLY)
    return replace(ONE, verdict=verdict, failure=None if fine else Failure(kind, "no"))


def numbers(of: Record, **changes: object) -> tuple[Metric, ...]:
    """The numbers of a record; its cycles are another number."""
    return (replace(of.metrics[0], **changes), *of.metrics[1:])  # type: ignore[arg-type]


def accurate(of: Record, decibels: float | None) -> Record:
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
NONE = replace(SCHEMES[0], accuracy=())
SIDES: dict[str, tuple[list[Record], list[Record]]] = {
    "an edit and another provenance": ([ONE], [edited(ONE, metrics=numbers(ONE, provenance="vela"))]),
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
    "a higher accuracy": ([accurate(SCHEMES[0], 12.0)], SCHEMES[:1]),
    "an accuracy that was not there": ([NONE], SCHEMES[:1]),
    "an edit with an accuracy that was not there": ([edited(NONE)], SCHEMES[:1]),
    "an accuracy that is lost": (SCHEMES[:1], [NONE]),
    "an answer that is exact": (SCHEMES[:1], [accurate(SCHEMES[0], float("inf"))]),
    "another name": ([ONE], [NAMED]),
    "another name, and slower": ([ONE], [replace(NAMED, metrics=numbers(ONE, value=ONE.metrics[0].value * 2))]),
    "another name, and wrong":
        ([ONE], [replace(NAMED, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "no"))]),
    "a part of the tests": (NIGHT[:3], NIGHT[:2]),
    "a case that is lost": ([record for record in NIGHT if record.bench is not None], []),
}  # fmt: skip


@pytest.mark.parametrize("what", SIDES)
def test_a_change_has_its_word_cause_and_effect(what: str, recorded: Recorded) -> None:
    """An edit explains no number of another kind; a declared defect is worse than a right answer; what failed early and
    may be any of several is paired with none; an accuracy warns; a renamed test has the changes of its numbers.
    """
    recorded.check(lines_of_comparison(compared(*SIDES[what])))


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
    """Wall times, run names and times of creation differ."""
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


def test_notes_say_what_is_different_of_both_sides_where_both_know_it() -> None:
    one = observations(NIGHT[:1])[0]
    notes = {
        what: list(
            compare_runs([replace(one, facts=old, versions=before)], [replace(one, facts=new, versions=after)]).notes
        )
        for what, (old, new, before, after) in FACTS.items()
    }
    assert {what: note for what, note in notes.items() if note} == {
        "another firmware": ["firmware 1.0 became 1.1"],
        "another torch": ["torch 2.12 became 2.13"],
        "no torch any more": ["torch 2.12 became none"],
    }


def test_only_some_of_the_tests_are_compared_and_that_leaves_some() -> None:
    first, second, third = (Side(name, observations(NIGHT[:count])) for name, count in (("a", 3), ("b", 2), ("c", 3)))
    labels = [observation.subject.label for observation in first.observations]
    (gone,) = {observation.subject.label for observation in first.observations} - {
        observation.subject.label for observation in second.observations
    }
    assert {change.subject.label: change.word for change in gate(first, second).changes} == {gone: Word.MISSING}
    assert gate(first, second, partial=True).passed
    assert not gate(first, second, only=[gone, "no such test"]).passed
    assert not gate(first, second, only=[f"{gone[:-1]}?"]).passed
    there = next(label for label in labels if label != gone)
    comparison = gate(first, second, only=[there])
    assert (comparison.passed, comparison.subjects) == (True, 1)
    with pytest.raises(UsageError, match="no test or model has 'no such test' in its name"):
        gate(first, second, only=["no such test"])
    assert {change.word for change in gate(first, second, baseline=second).changes} == {Word.ACCEPTED}
    assert {change.word for change in gate(first, second, baseline=third).changes} == {Word.MISSING}
    assert (gate(first, baseline=third).before, gate(first, baseline=third).after) == ("c", "a")


def test_a_part_of_the_tests_misses_nothing() -> None:
    before, after = observations(NIGHT), observations(NIGHT[:9])
    assert not compare_runs(before, after).passed
    assert compare_runs(before, after, partial=True).changes == ()
    first = replace(
        after[0], numbers={key: number for key, number in after[0].numbers.items() if key[0] != "npu_cycles"}
    )
    (lost,) = compare_runs(
        before, (first, *after[1:]), partial=True
    ).changes  # of a test that ran nothing may be missing
    assert (lost.word, lost.metric, lost.subject) == (Word.MISSING, "npu_cycles", first.subject)


def test_a_comparison_as_json_has_all_words_and_changes(recorded: Recorded) -> None:
    _, bad, _ = REGRESSIONS["a lost delegation"](list(NIGHT), random.Random(0))
    recorded.check(json.dumps(compared(NIGHT, bad).to_json()).replace(", {", ",\n{"))


def test_a_run_that_lost_a_record_does_not_pass(tmp_path: Path) -> None:
    """What is lost may be in neither of the two runs: only the selection knows of it."""
    (records,) = ([item.record for item in items] for items in nights(count=1, tests=2))
    folders = []
    for night in (records[:1], records[:1]):
        folder = RunFolder(tmp_path, command=["x"])
        for record in night:
            folder.append(record)
        folders.append(folder.path)
    assert gate(*folders).passed
    assert records[0].test is not None
    Selection("", tests=(Selected(records[0].label, "a"), Selected("test_lost_BI", "a"))).write(folders[1])
    comparison = gate(*folders)
    assert not comparison.passed
    assert comparison.failing == ()
    (gap,) = comparison.gaps
    assert gap.startswith("M test_lost_BI on none: internal: it was chosen and has no record")
    assert gate(folders[1], folders[0]).passed, "the run before may lack what it will"
    path = next(folders[0].glob("records-*.jsonl"))
    path.write_bytes(path.read_bytes() + bytes(100))
    (gap,) = gate(folders[1], folders[0]).gaps
    assert f"{path}:2 cannot be read" in gap


# What a policy and a baseline allow of a change, and how much a measured number may move.


BEFORE, AFTER, _ = EDITS["edited weights"](list(NIGHT), random.Random(0))
ACCEPTING = Policy(effects={**Policy().effects, Word.EDITED: Effect.ACCEPT})
BASELINES = {"none": None, "the one before": BEFORE, "one that accepts it": AFTER}


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_policy_asks_to_accept_edits(baseline: str, recorded: Recorded) -> None:
    """It fails until the baseline has the edited model as it is now."""
    accepted = BASELINES[baseline]
    kept = None if accepted is None else observations(accepted)
    recorded.check(
        lines_of_comparison(compare_runs(observations(BEFORE), observations(AFTER), policy=ACCEPTING, baseline=kept))
    )


@pytest.mark.parametrize("effect", [Effect.FAIL, Effect.WARN, Effect.IGNORE])
def test_a_policy_says_what_edits_do_to_the_gate(effect: Effect, recorded: Recorded) -> None:
    recorded.check(
        lines_of_comparison(compared(BEFORE, AFTER, Policy(effects={**Policy().effects, Word.EDITED: effect})))
    )


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


def on_a_board(*samples: float) -> Record:
    return replace(
        NIGHT[0], target=TargetInfo("my-board", "board", "corstone-300"),
        metrics=(Metric("npu_cycles", sorted(samples)[len(samples) // 2], "cycles", "measured", samples),),
    )  # fmt: skip


def noise(mean: float, seed: int, count: int = 12) -> list[float]:
    chance = random.Random(seed)
    return [round(chance.gauss(mean, mean / 100)) for _ in range(count)]


def test_equal_measurements_raise_few_alarms() -> None:
    alarms = sum(
        bool(compared([on_a_board(*noise(1e5, seed))], [on_a_board(*noise(1e5, seed + 1000))]).changes)
        for seed in range(100)
    )
    assert alarms == 0


def test_one_number_is_accepted_and_another_is_not(recorded: Recorded) -> None:
    _, bad, _ = REGRESSIONS["a Vela flag makes another stream, faster, in more SRAM"](list(NIGHT), random.Random(5))
    before, after = next(pair for pair in zip(NIGHT, bad, strict=True) if pair[0] != pair[1])
    metrics = (replace(metric, value=metric.value + (metric.name == "sram_used")) for metric in after.metrics)
    half = replace(after, metrics=tuple(metrics))
    recorded.check(
        lines_of_comparison(compare_runs(observations([before]), observations([half]), baseline=observations([after])))
    )
