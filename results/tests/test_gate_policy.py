"""What a policy and a baseline allow of a change, and how much a measured number may move."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.gate.change import Effect, Word
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.gate.policy import Policy, PolicyRule
from ethos_hil.results.testing.seeded_changes import EDITS, REGRESSIONS
from ethos_hil.results.testing.told import told
from ethos_hil.results.tests.test_gate import NIGHT, compared, outcomes

BEFORE, AFTER, _ = EDITS["edited weights"](list(NIGHT), random.Random(0))
ACCEPTING = Policy(effects={**Policy().effects, Word.EDITED: Effect.ACCEPT})
BASELINES = {"none": None, "the one before": BEFORE, "one that accepts it": AFTER}


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_policy_asks_to_accept_edits(baseline: str, recorded: Recorded) -> None:
    """It fails until the baseline has the edited model as it is now."""
    accepted = BASELINES[baseline]
    kept = None if accepted is None else observations(accepted)
    recorded.check(told(compare_runs(observations(BEFORE), observations(AFTER), policy=ACCEPTING, baseline=kept)))


@pytest.mark.parametrize("effect", [Effect.FAIL, Effect.WARN, Effect.IGNORE])
def test_a_policy_says_what_edits_do_to_the_gate(effect: Effect, recorded: Recorded) -> None:
    recorded.check(told(compared(BEFORE, AFTER, Policy(effects={**Policy().effects, Word.EDITED: effect}))))


def test_a_rule_that_fits_nothing_is_told(recorded: Recorded) -> None:
    rules = (
        PolicyRule(metric="npu_*"),
        PolicyRule(metric="npu_cycels", allowed_percent=5),
        PolicyRule(label="*mobilenet*"),
        PolicyRule(metric="npu_cycles", npu="ethos-u55-12"),
        PolicyRule(metric="npu_cycles", provenance="host"),
    )
    policy = Policy(rules=(*Policy().rules, *rules))
    recorded.check(told(compared(NIGHT, NIGHT, policy)))
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


def test_one_number_is_accepted_and_another_is_not(recorded: Recorded) -> None:
    _, bad, _ = REGRESSIONS["a Vela flag makes another stream, faster, in more SRAM"](list(NIGHT), random.Random(5))
    before, after = next(pair for pair in zip(NIGHT, bad, strict=True) if pair[0] != pair[1])
    metrics = (replace(metric, value=metric.value + (metric.name == "sram_used")) for metric in after.metrics)
    half = replace(after, metrics=tuple(metrics))
    recorded.check(told(compare_runs(observations([before]), observations([half]), baseline=observations([after]))))
