"""The gate finds every regression of a list, by the right word and cause, and nothing else; equal nights are quiet."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from ethos_hil.results.comparison import RowChange
from ethos_hil.results.gate.change import VERDICT, Change, Effect, RunComparison
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.policy import Policy, PolicyRule
from ethos_hil.results.gate.word import Cause, Word
from ethos_hil.results.record import Failure, Metric, Record, TargetInfo
from ethos_hil.results.testing.seeded_regressions import REGRESSIONS
from ethos_hil.results.testing.synthetic_year import nights
from ethos_hil.results.verdict import FailureKind, Verdict

TESTS = 90


def night(seed: int = 1) -> list[Record]:
    """The records of a good night."""
    return [item.record for item in next(nights(seed, count=1, tests=TESTS))]


NIGHT = night()


def compared(before: Sequence[Record], after: Sequence[Record], policy: Policy | None = None) -> RunComparison:
    return compare_runs(observations(before), observations(after), policy=policy or Policy())


def told(found: RunComparison) -> dict[tuple[str, str], tuple[Word, Cause]]:
    return {(change.subject.label, change.metric): (change.word, change.cause) for change in found.changes}


def only(found: RunComparison) -> Change:
    (change,) = found.changes
    return change


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", REGRESSIONS)
def test_each_regression_is_found_and_nothing_else(what: str, seed: int) -> None:
    bad, expected = REGRESSIONS[what](list(NIGHT), random.Random(seed))
    found = compared(NIGHT, bad)
    assert told(found) == expected
    assert sum(found.counts.values()) > TESTS * 10
    worse = {Word.REGRESSED, Word.MISSING, Word.INCOMPARABLE, Word.UNSTABLE}
    assert found.passed == worse.isdisjoint(word for word, _ in expected.values())


def test_fifty_equal_nights_raise_no_alarm() -> None:
    """Wall times, run names and times of creation differ."""
    chance = random.Random(7)
    before = NIGHT
    for number in range(50):
        created = f"2026-02-{number % 28 + 1:02}T02:00:00+00:00"
        shuffled = chance.sample(before, len(before))
        after = [replace(each, created=created, metrics=tuple(_later(each, chance))) for each in shuffled]
        found = compared(before, after)
        assert (found.changes, found.notes, found.passed) == ((), (), True)
        assert set(found.counts) == {Word.UNCHANGED}
        before = after


def _later(record: Record, chance: random.Random) -> Iterator[Metric]:
    """Yield a record's metrics on another night: wall times are other ones."""
    for metric in record.metrics:
        host = metric.provenance == "host"
        yield replace(metric, value=metric.value * chance.uniform(0.2, 5)) if host else metric


def test_the_operation_that_moved_is_named_with_its_line() -> None:
    bad, _ = REGRESSIONS["one operator slower in the timing model"](list(NIGHT), random.Random(3))
    for change in compared(NIGHT, bad).changes:
        (row,) = change.rows
        assert (row.change, row.name, row.source) == (RowChange.SLOWER, "Conv2D", f"{operator(change)}.py:7")
        assert isinstance(change.before, int | float)
        assert isinstance(change.after, int | float)
        assert row.delta == change.after - change.before


def operator(change: Change) -> str:
    return change.subject.label.split("test_")[-1].rsplit("_case", 1)[0]


def test_a_cause_names_the_versions_and_arguments_behind_it() -> None:
    bad, _ = REGRESSIONS["a Vela flag makes another stream, slower"](list(NIGHT), random.Random(0))
    assert (
        only(compared(NIGHT, bad)).detail == "another command stream: Vela's arguments: nothing became --optimise=Size"
    )
    newer = [replace(each, versions={**each.versions, "ethos-u-vela": "5.2.0"}) for each in bad]
    found = compared(NIGHT, newer)
    assert "ethos-u-vela 5.0.0 became 5.2.0; Vela's arguments" in only(found).detail
    assert found.notes == ("ethos-u-vela 5.0.0 became 5.2.0",)
    assert list(found.by_cause()) == [(Cause.STREAM, only(found).detail)]


def test_changes_of_one_cause_are_one_group() -> None:
    bad, expected = REGRESSIONS["one operator slower in the timing model"](list(NIGHT), random.Random(3))
    ((cause, detail), changes), = compared(NIGHT, bad).by_cause().items()  # fmt: skip
    assert cause is Cause.TIMING_MODEL
    assert detail == f"another timing model: {'2' * 16} became {'3' * 16}"
    assert len(changes) == len(expected) > 1


def test_what_is_fixed_is_improved_and_another_failure_is_a_change() -> None:
    broken = replace(NIGHT[0], verdict=Verdict.FAILED, failure=Failure(FailureKind.FAULT, "a fault"))
    other = replace(broken, failure=Failure(FailureKind.TIMEOUT, "too long"))
    assert only(compared([broken], [NIGHT[0]])).word is Word.IMPROVED
    change = only(compared([broken], [other]))
    assert (change.word, change.before, change.after) == (Word.CHANGED, "failed: fault", "failed: timeout")
    assert change.detail == "timeout: too long"
    assert compared([broken], [broken]).changes == ()


def test_numbers_of_a_wrong_answer_do_not_count() -> None:
    broken = replace(NIGHT[0], verdict=Verdict.FAILED, failure=Failure(FailureKind.FAULT, "a fault"))
    slower = replace(broken, metrics=(Metric("npu_cycles", 1, "cycles", "modelled"),))
    assert compared([broken], [slower]).changes == ()


@pytest.mark.parametrize("target", ["none", "virtual"])
def test_a_test_that_failed_before_it_was_lowered_is_not_a_missing_one(target: str) -> None:
    early = replace(
        NIGHT[0], verdict=Verdict.FAILED, failure=Failure(FailureKind.COMPILE, "no"), memory_mode="", metrics=(),
        artifact=None, target=TargetInfo(target, target, "" if target == "none" else "corstone-300"),
    )  # fmt: skip
    assert only(compared(NIGHT, [early, *NIGHT[1:]])).word is Word.REGRESSED
    assert only(compared([early, *NIGHT[1:]], NIGHT)).word is Word.IMPROVED


def test_an_attempt_that_was_not_made_does_not_count() -> None:
    first = replace(NIGHT[0], verdict=Verdict.FAILED, failure=Failure(FailureKind.NOT_LAUNCHED, "no"), metrics=())
    assert compared(NIGHT, [first, *NIGHT]).changes == ()
    wrong = replace(first, failure=Failure(FailureKind.MISMATCH, "1 of 4"))
    assert only(compared(NIGHT, [wrong, *NIGHT])).word is Word.UNSTABLE
    assert only(compared(NIGHT, [*NIGHT, wrong])).word is Word.UNSTABLE


def on_a_board(*samples: float) -> Record:
    return replace(
        NIGHT[0], target=TargetInfo("my-board", "board", "corstone-300"),
        metrics=(Metric("npu_cycles", sorted(samples)[len(samples) // 2], "cycles", "measured", samples),),
    )  # fmt: skip


def noise(mean: float, seed: int, count: int = 12) -> list[float]:
    chance = random.Random(seed)
    return [round(chance.gauss(mean, mean / 100)) for _ in range(count)]


def test_measured_numbers_are_compared_by_their_ranks() -> None:
    before = on_a_board(*noise(100_000, 1))
    slower = only(compared([before], [on_a_board(*noise(105_000, 2))]))
    assert (slower.word, slower.effect) == (Word.REGRESSED, Effect.FAIL)
    assert only(compared([before], [on_a_board(*noise(90_000, 3))])).word is Word.IMPROVED
    assert compared([before], [on_a_board(*noise(101_000, 4))]).changes == ()


def test_equal_measurements_raise_few_alarms() -> None:
    alarms = sum(
        bool(compared([on_a_board(*noise(1e5, seed))], [on_a_board(*noise(1e5, seed + 1000))]).changes)
        for seed in range(100)
    )
    assert alarms == 0


def test_too_few_samples_are_not_enough_to_tell() -> None:
    found = compared([on_a_board(100_000, 100_100)], [on_a_board(110_000)])
    assert (only(found).word, found.passed) == (Word.UNKNOWN, True)
    assert only(found).detail == "2 and 1 samples; each side needs 10"
    assert compared([on_a_board(100_000)], [on_a_board(100_000)]).changes == ()


def test_a_policy_allows_what_it_says_and_no_more() -> None:
    bad, _ = REGRESSIONS["a Vela flag makes another stream, slower"](list(NIGHT), random.Random(0))
    (name,) = {change.subject.label for change in compared(NIGHT, bad).changes}
    for percent, passes in ((6.9, False), (7.1, True)):
        allowing = Policy(rules=(*Policy().rules, PolicyRule(metric="npu_*", label=name, allowed_percent=percent)))
        found = compared(NIGHT, bad, allowing)
        assert found.passed is passes
        assert only(found).word is (Word.CHANGED if passes else Word.REGRESSED)
    elsewhere = Policy(rules=(*Policy().rules, PolicyRule(label="another", allowed_percent=50)))
    assert not compared(NIGHT, bad, elsewhere).passed
    strict = Policy(effects={**Policy().effects, Word.IMPROVED: Effect.FAIL})
    better, _ = REGRESSIONS["one operator faster in the timing model"](list(NIGHT), random.Random(0))
    assert compared(NIGHT, better).passed
    assert not compared(NIGHT, better, strict).passed
    quiet = Policy(rules=(*Policy().rules, PolicyRule(metric="npu_cycles", effects={Word.REGRESSED: Effect.IGNORE})))
    assert (compared(NIGHT, bad, quiet).changes, compared(NIGHT, bad, quiet).passed) == ((), True)


def test_an_alias_keeps_a_renamed_test_quiet() -> None:
    bad, expected = REGRESSIONS["a renamed test"](list(NIGHT), random.Random(0))
    ((new, _),) = expected
    (old,) = {each.test.id for each in NIGHT if each.test} - {each.test.id for each in bad if each.test}
    assert compared(NIGHT, bad, Policy(aliases={new: old})).changes == ()


def test_two_tests_of_one_question_are_not_taken_for_renamed_ones() -> None:
    twin = replace(NIGHT[0], test=replace(NIGHT[0].test, id="twin"))  # type: ignore[type-var]
    third = replace(NIGHT[0], test=replace(NIGHT[0].test, id="third"))  # type: ignore[type-var]
    words = {change.subject.label: change.word for change in compared([NIGHT[0], twin], [third]).changes}
    assert sorted(words.values()) == [Word.MISSING, Word.MISSING, Word.NEW]


def test_a_part_of_the_tests_misses_nothing() -> None:
    before, after = observations(NIGHT), observations(NIGHT[:9])
    assert not compare_runs(before, after).passed
    assert compare_runs(before, after, partial=True).changes == ()


def test_what_the_baseline_has_is_accepted() -> None:
    for what, regression in REGRESSIONS.items():
        bad, expected = regression(list(NIGHT), random.Random(5))
        if what == "a test that differs within one night":
            continue  # no baseline can have both
        sides = observations(NIGHT), observations(bad)
        found = compare_runs(*sides, baseline=sides[1])
        assert {change.word for change in found.changes} <= {Word.ACCEPTED}, what
        assert len(found.changes) == len(expected)
        assert found.passed
        assert told(compare_runs(*sides, baseline=sides[0])) == expected, what


def test_one_number_is_accepted_and_another_is_not() -> None:
    bad, _ = REGRESSIONS["a Vela flag makes another stream, faster, in more SRAM"](list(NIGHT), random.Random(5))
    half = [replace(each, metrics=tuple(replace(m, value=m.value + 1) if m.name == "sram_used" else m
                                        for m in each.metrics)) for each in bad]  # fmt: skip
    found = compare_runs(observations(NIGHT), observations(half), baseline=observations(bad))
    words = {change.metric: change.word for change in found.changes if change.metric != "sram_used"}
    assert words == {"npu_cycles": Word.ACCEPTED}
    assert {change.word for change in found.changes if change.metric == "sram_used"} == {Word.REGRESSED, Word.UNSTABLE}


def test_a_comparison_as_json_has_all_words_and_changes() -> None:
    bad, _ = REGRESSIONS["a lost delegation"](list(NIGHT), random.Random(0))
    found = compared(NIGHT, bad)
    data = found.to_json()
    assert data["counts"].keys() == set(Word)
    assert [change["metric"] for change in data["changes"]] == [change.metric for change in found.changes]
    assert data["changes"][0]["subject"]["label"] == found.changes[0].subject.label
    assert all(change.metric != VERDICT for change in found.changes)
