"""What becomes of a number: which one of the run before it is held against, and where the limits of a policy lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from ethos_hil.results.gate.change import VERDICT, Cause, Change, Effect, RunComparison, Word
from ethos_hil.results.gate.compare import SampleDifference, compare_runs, difference
from ethos_hil.results.gate.observation import Key, Number, Observation, of_record
from ethos_hil.results.gate.policy import Policy, PolicyRule
from ethos_hil.results.testing.synthetic_year import nights

ONE = of_record(next(nights(1, count=1, tests=1))[0].record)
NEWER = {**ONE.facts, Cause.PROGRAM: "another", Cause.STREAM: "another"}


def observed(numbers: Mapping[Key, float | tuple[float, ...]], facts: Mapping[Cause, str] = ONE.facts) -> Observation:
    results = {}
    for key, value in numbers.items():
        samples = value if isinstance(value, tuple) else (value,)
        results[key] = Number(sorted(samples)[len(samples) // 2], "cycles", samples)
    return replace(ONE, numbers=results, facts=facts)


def compared(before: Observation, after: Observation, *rules: PolicyRule) -> RunComparison:
    return compare_runs([before], [after], policy=Policy(rules=(*Policy().rules, *rules)))


def numbers(comparison: RunComparison) -> list[Change]:
    return [change for change in comparison.changes if change.metric != VERDICT]


def test_a_number_that_was_found_in_another_way_is_held_against_none() -> None:
    """It does not pass as new: it takes the place of one of its name, and only of one that is gone."""
    modelled, measured, reported = (("npu_cycles", how) for how in ("modelled", "measured", "reported"))
    changes = numbers(compared(observed({measured: 10, reported: 20}), observed({modelled: 30})))
    assert [(change.word, change.provenance, change.before, change.after, change.detail) for change in changes] == [
        (Word.INCOMPARABLE, "modelled", 10, 30, "another provenance: measured became modelled"),
        (Word.MISSING, "reported", 20, None, ""),
    ]
    assert [change.effect for change in changes] == [Effect.FAIL, Effect.FAIL]
    (moved,) = numbers(compared(observed({measured: 10, reported: 20}), observed({modelled: 30, measured: 10})))
    assert (moved.word, moved.provenance, moved.before, moved.detail) == (
        Word.INCOMPARABLE, "modelled", 20, "another provenance: reported became modelled",
    )  # fmt: skip
    (new,) = numbers(compared(observed({measured: 10}), observed({modelled: 30, measured: 10})))
    assert (new.word, new.provenance, new.before, new.after) == (Word.NEW, "modelled", None, 30)
    other = ("cpu_cycles", "measured")
    (new,) = numbers(compared(observed({measured: 10}), observed({measured: 10, other: 7})))
    assert (new.word, new.metric) == (Word.NEW, "cpu_cycles"), "one of another name is not what it was"


@pytest.mark.parametrize(
    ("percent", "before", "after", "word"),
    [
        (7, 10_000, 10_700, Word.CHANGED),
        (7, 10_000, 10_701, Word.REGRESSED),
        (0, 10_000, 10_001, Word.REGRESSED),
        (7, 10_000, 9_999, Word.IMPROVED),
        (7, 0, 1, Word.REGRESSED),
        (100, 0, 0, None),
    ],
)
def test_an_exact_number_may_be_worse_by_what_a_policy_allows(
    percent: float, before: float, after: float, word: Word | None
) -> None:
    """The limit itself passes, one more does not."""
    key = ("npu_cycles", "modelled")
    rule = PolicyRule(metric="npu_cycles", allowed_percent=percent)
    changes = numbers(compared(observed({key: before}), observed({key: after}, NEWER), rule))
    assert [change.word for change in changes] == [word for word in (word,) if word is not None]
    assert {change.allowed for change in changes} <= {f"{percent} %" if percent else ""}
    assert all((change.effect is Effect.FAIL) is (word is Word.REGRESSED) for change in changes)


@pytest.mark.parametrize(("better", "words"), [("lower", "+-"), ("higher", "-+"), ("neither", "==")])
def test_a_policy_says_which_direction_is_the_better_one(better: str, words: str) -> None:
    word = {"+": Word.IMPROVED, "-": Word.REGRESSED, "=": Word.CHANGED}
    rule = PolicyRule(metric="npu_cycles", better=better)
    for key, spread in ((("npu_cycles", "modelled"), 1), (("npu_cycles", "measured"), 12)):
        low, high = (tuple(float(base + at) for at in range(spread)) for base in (1000, 2000))
        for old, new, expected in ((high, low, words[0]), (low, high, words[1])):
            (change,) = numbers(compared(observed({key: old}), observed({key: new}, NEWER), rule))
            assert change.word is word[expected]


@pytest.mark.parametrize(
    ("percent", "more", "word"),
    [(2, 2000, None), (2, 2001, Word.REGRESSED), (2, -2000, None), (2, -2001, Word.IMPROVED), (5, 5000, None)],
)
def test_a_noisy_number_has_to_differ_by_more_than_a_policy_says(percent: float, more: int, word: Word | None) -> None:
    """Of the median before: the share itself does not count, one more does."""
    key = ("npu_cycles", "measured")
    before = tuple(100_000.0 + at for at in range(-5, 6))
    after = tuple(number + more for number in before)
    rule = PolicyRule(metric="npu_cycles", smallest_percent=percent)
    changes = numbers(compared(observed({key: before}), observed({key: after}), rule))
    assert [change.word for change in changes] == [word for word in (word,) if word is not None]
    assert {change.detail for change in changes} <= {"by the samples of both sides"}


@pytest.mark.parametrize(("old", "new", "enough"), [(10, 10, True), (9, 10, False), (10, 9, False)])
def test_each_side_needs_its_samples(old: int, new: int, enough: bool) -> None:
    key = ("npu_cycles", "measured")
    sides = [tuple(base + at for at in range(count)) for base, count in ((1000.0, old), (2000.0, new))]
    (change,) = numbers(compared(observed({key: sides[0]}), observed({key: sides[1]})))
    assert change.word is (Word.REGRESSED if enough else Word.UNKNOWN)
    assert enough or change.detail == f"{old} and {new} samples; each side needs 10"


def test_a_number_moved_without_a_cause_is_unstable_where_all_is_known() -> None:
    key = ("npu_cycles", "modelled")
    (change,) = numbers(compared(observed({key: 10}), observed({key: 11})))
    assert (change.word, change.detail, change.rows) == (Word.UNSTABLE, "nothing that decides it is different", ())
    unknown = {**ONE.facts, Cause.FIRMWARE: ""}
    (change,) = numbers(compared(observed({key: 10}), observed({key: 11}, unknown)))
    assert (change.word, change.cause) == (Word.REGRESSED, Cause.NONE)
    nan = float("nan")
    assert numbers(compared(observed({key: nan}), observed({key: nan}, NEWER))) == []
    (change,) = numbers(compared(observed({key: nan}), observed({key: 5}, NEWER)))
    assert change.percent == ""


def test_a_missing_number_has_the_cause_of_what_can_move_it() -> None:
    before = observed({("npu_cycles", "modelled"): 10, ("sram_used", "reported"): 20})
    changes = numbers(compared(before, observed({("sram_used", "reported"): 20}, NEWER)))
    assert [(change.word, change.cause, change.effect) for change in changes] == [
        (Word.MISSING, Cause.STREAM, Effect.FAIL)
    ]


def test_what_a_policy_does_not_compare_is_neither_new_nor_missing_nor_worse() -> None:
    left_out = PolicyRule(metric="sram_*", compared=False)
    sides = (
        observed({("sram_used", "reported"): 1, ("sram_more", "reported"): 2}),
        observed({("sram_used", "reported"): 9}),
    )
    for before, after in (sides, sides[::-1]):
        assert compared(before, after, left_out).changes == ()
        assert compared(before, after).changes


def test_a_verdict_and_then_the_numbers_of_a_test_follow_one_another() -> None:
    """Equal in effect and cause, what became of the test as a whole comes first."""
    before = observed({("a", "modelled"): 1, ("npu_cycles", "modelled"): 10, ("z", "modelled"): 1})
    after = replace(observed(dict.fromkeys(before.numbers, 5), NEWER), question="another")
    changes = compare_runs([before], [after]).changes
    assert [(change.word, change.metric) for change in changes] == [
        (Word.EDITED, metric) for metric in (VERDICT, "a", "npu_cycles", "z")
    ]


@pytest.mark.parametrize(
    ("before", "after", "ratio", "percent"),
    [
        (200, 100, Fraction(1, 2), "-50.0 %"),
        (100, 100.1, None, "+0.1 %"),
        (1000, 1000.5, None, "+0.05 %"),
        (100, 101.04, None, "+1.0 %"),
        (100, 100, None, "+0.0 %"),
        (0, 5, None, ""),
        (5, None, None, ""),
        (None, 5, None, ""),
        ("verified", "skipped", None, ""),
        (1.0, float("inf"), None, ""),
    ],
)
def test_a_share_is_told_of_two_numbers(
    before: float | str | None, after: float | str | None, ratio: Fraction | None, percent: str
) -> None:
    change = Change(Word.CHANGED, ONE.subject, "x", "", "", before, after, Cause.NONE, "", Effect.WARN)
    assert change.percent == percent
    assert ratio is None or change.ratio == ratio


def test_the_operations_that_moved_come_with_the_largest_first_and_only_where_both_records_are_at_hand() -> None:
    assert ONE.record is not None
    key, row = ("npu_cycles", "modelled"), ONE.record.ops[0]

    def side(cycles: float, *ops: int) -> Observation:
        rows = tuple(replace(row, id=f"npu{at}", source=f"net.py:{at}", cycles=count) for at, count in enumerate(ops))
        assert ONE.record is not None
        return replace(
            observed({key: cycles}, NEWER if cycles != 100 else ONE.facts), record=replace(ONE.record, ops=rows)
        )

    before, after = side(100, 50, 30, 20), side(101, 49, 32, 20)
    (change,) = numbers(compared(before, after))
    assert [row.delta for row in change.rows] == [2, -1]
    for old, new in ((replace(before, record=None), after), (before, replace(after, record=None))):
        (change,) = numbers(compared(old, new))
        assert (change.after, change.rows) == (101, ()), "a history and a baseline have no operations"


def test_a_policy_says_whether_something_waits_to_be_accepted() -> None:
    waiting = {Word.EDITED: Effect.ACCEPT}
    of_rule = PolicyRule(metric="npu_cycles", effects=waiting)
    assert not Policy().accepts
    assert Policy(effects={**Policy().effects, **waiting}).accepts
    assert Policy(rules=(*Policy().rules, of_rule)).accepts
    assert Policy().unfitting([ONE]) == (), "a rule that is ours is not a typo of the user"


def test_samples_that_overlap_are_not_different_whatever_their_medians_are() -> None:
    low, high = (
        [100, 101, 102, 103, 104, 105, 111, 112, 113, 114, 115],
        [100, 101, 102, 103, 110, 111, 112, 113, 114, 115, 116],
    )
    assert difference(low, high, smallest=0.02, least=10) is SampleDifference.NONE
    assert difference(low, [number + 20 for number in low], smallest=0.02, least=10) is SampleDifference.MORE
    assert difference([number + 20 for number in low], low, smallest=0.02, least=10) is SampleDifference.LESS
    assert difference(low, [110.0], smallest=0.02, least=10) is SampleDifference.TOO_FEW
    assert difference([110.0], low[:10], smallest=0.02, least=10) is SampleDifference.TOO_FEW
    assert difference([100.0], [102.0], smallest=0.02, least=10) is SampleDifference.NONE, "not by enough"
