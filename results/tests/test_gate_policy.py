"""What a policy and a baseline allow of a change, and how much a measured number may move."""

from __future__ import annotations

import random
from dataclasses import replace

from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.results.gate.change import Effect, Word
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.policy import Policy, PolicyRule
from ethos_hil.results.testing.seeded_changes import EDITS, REGRESSIONS
from ethos_hil.results.tests.test_gate import NIGHT, compared, outcomes


def test_a_policy_asks_to_accept_edits() -> None:
    """It fails until the baseline has the edited model as it is now."""
    before, after, _ = EDITS["edited weights"](list(NIGHT), random.Random(0))
    sides = observations(before), observations(after)
    for effect, passes, shown in ((Effect.FAIL, False, True), (Effect.WARN, True, True), (Effect.IGNORE, True, False)):
        comparison = compare_runs(*sides, policy=Policy(effects={**Policy().effects, Word.EDITED: effect}))
        assert (comparison.passed, bool(comparison.changes)) == (passes, shown)
    accepting = Policy(effects={**Policy().effects, Word.EDITED: Effect.ACCEPT})
    for baseline in (None, sides[0]):
        comparison = compare_runs(*sides, policy=accepting, baseline=baseline)
        assert {change.effect for change in comparison.changes} == {Effect.FAIL}
        assert comparison.notes == (
            "3 of the changes fail because the policy asks to accept them: `ethos-hil accept RUN --baseline FILE`, "
            "then compare with --baseline FILE",
        )
    comparison = compare_runs(*sides, policy=accepting, baseline=sides[1])
    assert ({change.word for change in comparison.changes}, comparison.passed, comparison.notes) == (
        {Word.ACCEPTED},
        True,
        (),
    )


def test_a_rule_that_fits_nothing_is_told() -> None:
    rules = (
        PolicyRule(metric="npu_*"),
        PolicyRule(metric="npu_cycels", allowed_percent=5),
        PolicyRule(label="*mobilenet*"),
        PolicyRule(metric="npu_cycles", npu="ethos-u55-12"),
        PolicyRule(metric="npu_cycles", provenance="host"),
    )
    comparison = compared(NIGHT, NIGHT, Policy(rules=(*Policy().rules, *rules)))
    assert comparison.notes == (
        'the policy\'s rule 2 (metric = "npu_cycels") fits nothing: did you mean "npu_cycles"?',
        'the policy\'s rule 3 (label = "*mobilenet*") fits nothing',
        'the policy\'s rule 4 (metric = "npu_cycles", npu = "ethos-u55-12") fits nothing: '
        'did you mean "ethos-u55-128"?',
        'the policy\'s rule 5 (metric = "npu_cycles", provenance = "host") fits nothing',
    )
    sides = observations(NIGHT), observations(NIGHT[:1])  # a part of the tests need not fit all rules
    assert compare_runs(*sides, policy=Policy(rules=(*Policy().rules, *rules)), partial=True).notes == ()


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


def test_what_the_baseline_has_is_accepted() -> None:
    for what, regression in REGRESSIONS.items():
        _, bad, expected = regression(list(NIGHT), random.Random(5))
        if what == "a test that differs within one night":
            continue  # no baseline can have both
        sides = observations(NIGHT), observations(bad)
        comparison = compare_runs(*sides, baseline=sides[1])
        assert {change.word for change in comparison.changes} <= {Word.ACCEPTED}, what
        assert len(comparison.changes) == len(expected)
        assert comparison.passed
        assert outcomes(compare_runs(*sides, baseline=sides[0])) == expected, what


def test_one_number_is_accepted_and_another_is_not() -> None:
    _, bad, _ = REGRESSIONS["a Vela flag makes another stream, faster, in more SRAM"](list(NIGHT), random.Random(5))
    half = [replace(record, metrics=tuple(replace(m, value=m.value + 1) if m.name == "sram_used" else m
                                        for m in record.metrics)) for record in bad]  # fmt: skip
    comparison = compare_runs(observations(NIGHT), observations(half), baseline=observations(bad))
    words = {change.metric: change.word for change in comparison.changes if change.metric != "sram_used"}
    assert words == {"npu_cycles": Word.ACCEPTED}
    assert {change.word for change in comparison.changes if change.metric == "sram_used"} == {
        Word.REGRESSED,
        Word.UNSTABLE,
    }
