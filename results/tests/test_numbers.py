"""What becomes of a number: which one of the run before it is held against, where the limits of a policy lie, and which
cause of a change is named, in which words.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.gate.change import Cause, Change, Effect, Word
from ethos_hil.results.gate.compare import SampleDifference, compare_runs, difference, first_cause, is_known, words
from ethos_hil.results.gate.observation import FACTS, Key, Number, Observation, of_record
from ethos_hil.results.gate.policy import Policy, PolicyRule
from ethos_hil.results.testing.in_lines import lines_of_comparison
from ethos_hil.results.testing.synthetic_year import nights

ONE = of_record(next(nights(1, count=1, tests=1))[0].record)
NEWER = {**ONE.facts, Cause.PROGRAM: "another", Cause.STREAM: "another"}


def observed(numbers: Mapping[Key, float | tuple[float, ...]], facts: Mapping[Cause, str] = ONE.facts) -> Observation:
    results = {}
    for key, value in numbers.items():
        samples = value if isinstance(value, tuple) else (value,)
        results[key] = Number(sorted(samples)[len(samples) // 2], "cycles", samples)
    return replace(ONE, numbers=results, facts=facts)


Sides = tuple[Observation, Observation]
MODELLED, MEASURED, REPORTED = (("npu_cycles", how) for how in ("modelled", "measured", "reported"))
SRAM = ("sram_used", "reported")


def moved(key: Key, before: float | tuple[float, ...], after: float | tuple[float, ...]) -> Sides:
    """One number on both sides, with another program."""
    return observed({key: before}), observed({key: after}, NEWER)


def spread(base: float, count: int) -> tuple[float, ...]:
    return tuple(base + at for at in range(count))


def with_ops(cycles: float, *ops: int) -> Observation:
    assert ONE.record is not None
    row = ONE.record.ops[0]
    rows = tuple(replace(row, id=f"npu{at}", source=f"net.py:{at}", cycles=count) for at, count in enumerate(ops))
    side = observed({MODELLED: cycles}, NEWER if cycles != 100 else ONE.facts)
    return replace(side, record=replace(ONE.record, ops=rows))


NAN, NOISE = float("nan"), spread(99_995.0, 11)
BEFORE, AFTER = with_ops(100, 50, 30, 20), with_ops(101, 49, 32, 20)
THREE = observed({("a", "modelled"): 1, MODELLED: 10, ("z", "modelled"): 1})
PLAIN: Mapping[str, Sides] = {
    "another provenance takes the place of one that is gone":
        (observed({MEASURED: 10, REPORTED: 20}), observed({MODELLED: 30})),
    "another provenance, and one stays":
        (observed({MEASURED: 10, REPORTED: 20}), observed({MODELLED: 30, MEASURED: 10})),
    "another provenance beside the same": (observed({MEASURED: 10}), observed({MODELLED: 30, MEASURED: 10})),
    "another name is not what it was":
        (observed({MEASURED: 10}), observed({MEASURED: 10, ("cpu_cycles", "measured"): 7})),
    "moved without a cause": (observed({MODELLED: 10}), observed({MODELLED: 11})),
    "moved where not all is known":
        (observed({MODELLED: 10}), observed({MODELLED: 11}, {**ONE.facts, Cause.FIRMWARE: ""})),
    "no number on both sides": moved(MODELLED, NAN, NAN),
    "no number before": moved(MODELLED, NAN, 5),
    "missing by a new program": (observed({MODELLED: 10, SRAM: 20}), observed({SRAM: 20}, NEWER)),
    "edited: the verdict comes first":
        (THREE, replace(observed(dict.fromkeys(THREE.numbers, 5), NEWER), question="another")),
    "enough samples": moved(MEASURED, spread(1000, 10), spread(2000, 10)),
    "too few samples before": moved(MEASURED, spread(1000, 9), spread(2000, 10)),
    "too few samples after": moved(MEASURED, spread(1000, 10), spread(2000, 9)),
    "operations that moved": (BEFORE, AFTER),
    "a history has no operations": (replace(BEFORE, record=None), AFTER),
    "a baseline has no operations": (BEFORE, replace(AFTER, record=None)),
}  # fmt: skip


@pytest.mark.parametrize("what", PLAIN)
def test_a_number_is_held_against_the_one_of_its_name_and_provenance(what: str, recorded: Recorded) -> None:
    recorded.check(lines_of_comparison(compare_runs([PLAIN[what][0]], [PLAIN[what][1]])))


SLOW, FAST = (moved(MODELLED, *values) for values in ((1000, 2000), (2000, 1000)))
LONG, SHORT = (moved(MEASURED, *map(partial(spread, count=12), values)) for values in ((1000, 2000), (2000, 1000)))
OF_RULE: Mapping[str, tuple[PolicyRule, Sequence[Sides]]] = {
    **{
        f"{percent} % allowed": (
            PolicyRule(metric="npu_cycles", allowed_percent=percent),
            [moved(MODELLED, before, after) for before, after in values],
        )
        for percent, values in {
            7: ((10_000, 10_700), (10_000, 10_701), (10_000, 9_999), (0, 1)), 0: ((10_000, 10_001),), 100: ((0, 0),)
        }.items()
    },
    **{
        f"{better} is better": (PolicyRule(metric="npu_cycles", better=better), (SLOW, FAST, LONG, SHORT))
        for better in ("lower", "higher", "neither")
    },
    **{
        f"smaller than {percent} %": (
            PolicyRule(metric="npu_cycles", smallest_percent=percent),
            [(observed({MEASURED: NOISE}), observed({MEASURED: tuple(at + more for at in NOISE)})) for more in changes],
        )
        for percent, changes in {2: (2000, 2001, -2000, -2001), 5: (5000,)}.items()
    },
    "not compared": (
        PolicyRule(metric="sram_*", compared=False),
        [(side := observed({SRAM: 1, ("sram_more", "reported"): 2}), other := observed({SRAM: 9})), (other, side)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_RULE)
def test_a_rule_says_how_far_and_in_which_direction_a_number_may_move(what: str, recorded: Recorded) -> None:
    """The limit itself passes, one more does not; what is not compared is neither new nor missing nor worse."""
    rule, sides = OF_RULE[what]
    policy = Policy(rules=(*Policy().rules, rule))
    recorded.check(
        "\n".join(lines_of_comparison(compare_runs([before], [after], policy=policy)) for before, after in sides)
    )


SHARES: Sequence[tuple[float | str | None, float | str | None]] = (
    (200, 100), (100, 100.1), (1000, 1000.5), (100, 101.04), (100, 100), (0, 5), (5, None), (None, 5),
    ("verified", "skipped"), (1.0, float("inf")),
)  # fmt: skip


def test_a_share_is_told_of_two_numbers(recorded: Recorded) -> None:
    lines = []
    for before, after in SHARES:
        change = Change(Word.CHANGED, ONE.subject, "x", "", "", before, after, Cause.NONE, "", Effect.WARN)
        lines.append(f"{before}, {after}: {change.ratio}, {change.percent!r}")
    recorded.check("\n".join(lines))


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


def test_equal_measurements_raise_no_alarm() -> None:
    def noise(seed: int) -> list[float]:
        chance = random.Random(seed)
        return [round(chance.gauss(1e5, 1e3)) for _ in range(12)]

    for seed in range(100):
        assert difference(noise(seed), noise(seed + 1000), smallest=0.02, least=10) is SampleDifference.NONE


# The cause: what can move a number and what cannot, and what is known of it.


FACT = {cause: f"{cause} 1" for cause in FACTS}
KNOWN = replace(of_record(next(nights(1, count=1, tests=1))[0].record), facts=FACT, versions={}, flags=(), lowering="")


def with_facts(**facts: str) -> Observation:
    return replace(KNOWN, facts={**FACT, **{Cause[name]: text for name, text in facts.items()}})


def test_a_fact_is_a_cause_only_of_what_it_can_move_and_no_cause_is_known_without_it(recorded: Recorded) -> None:
    """Else a new firmware is blamed for a larger .pte, and a number of an earlier version's record, which does not say
    which firmware it ran on, moved by itself. What PyTorch answers in floating point depends on the machine too.
    """
    lines = []
    for provenance in ("compiled", "vela", "modelled", "measured", "reported", "computed"):
        lines.append(f"{provenance}: {'' if is_known(KNOWN, KNOWN, provenance) else 'not '}known")
        for cause in FACTS:
            other, silent = with_facts(**{cause.name: "another"}), with_facts(**{cause.name: ""})
            found = first_cause(KNOWN, other, provenance)[0] or "nothing"
            known = is_known(KNOWN, silent, provenance), is_known(silent, KNOWN, provenance)
            lines.append(f"  {cause}: the cause is {found}, known without it {known}")
    recorded.check("\n".join(lines))


LAX, STRICT = with_facts(TARGET=""), with_facts(TARGET="rules: waits")
"""Someone turned the board's rules off, or the FVP's timing adapters on."""
LATER, UNKNOWN = with_facts(STREAM="2", PROGRAM="2", FIRMWARE="2"), with_facts(STREAM="", PROGRAM="", FIRMWARE="2")
CAUSES = {
    "the first of several": (KNOWN, LATER), "not known now": (KNOWN, UNKNOWN), "not known before": (UNKNOWN, KNOWN),
    "the same": (KNOWN, KNOWN), "rules off": (STRICT, LAX), "rules on": (LAX, STRICT), "no rules": (LAX, LAX),
}  # fmt: skip


def test_the_first_fact_that_differs_is_the_cause_and_one_that_is_not_known_is_none(recorded: Recorded) -> None:
    for provenance in ("modelled", "compiled"):
        lines = (f"{what}: {first_cause(*sides, provenance)}" for what, sides in CAUSES.items())
        recorded.check("\n".join(lines), provenance)


OLD = {"executorch": "1.0", "torch": "2.9", "ethos-u-vela": "5.0", "qemu": "9"}
NEW = {"executorch": "1.1", "torch": "2.10", "ethos-u-vela": "5.1", "qemu": "10", "ethos-hil": "0.9"}
ARGUMENTS = (("", "--x"), ("--x", ""), ("--a --b", "--a --c"), ("--a --b --b", "--b --a"), ("--a --b", "--b --a"))
TOLD: dict[str, tuple[Observation, ...]] = {
    **{
        f"Vela's arguments, {old!r} and {new!r}": tuple(
            replace(KNOWN, flags=tuple(flags.split()), lowering=f"of {flags}") for flags in (old, new)
        )
        for old, new in ARGUMENTS
    },
    "other tools": (replace(KNOWN, versions=OLD), replace(KNOWN, versions=NEW)),
    "other tools and arguments": (replace(KNOWN, versions=OLD), replace(KNOWN, versions=NEW, flags=("--x",))),
    "the same": (KNOWN, KNOWN),
    "another lowering": (KNOWN, replace(KNOWN, lowering="b")),
    "another firmware and timing model": (KNOWN, with_facts(FIRMWARE="b", TIMING_MODEL="c")),
}  # fmt: skip


@pytest.mark.parametrize("what", TOLD)
def test_a_cause_names_what_decides_it_where_both_sides_know_it(what: str, recorded: Recorded) -> None:
    """Tools, the arguments of Vela that differ, or our lowering."""
    recorded.check("\n".join(words(cause, *TOLD[what]) for cause in FACTS))


@pytest.mark.parametrize("more", [0, 1])
def test_a_failure_that_nothing_else_explains_is_its_own_cause_and_a_long_one_is_cut(
    more: int, recorded: Recorded
) -> None:
    record = next(nights(1, count=1, tests=1))[0].record
    failure = Failure(FailureKind.TIMEOUT, "x" * (291 + more))
    failed = of_record(replace(record, verdict=Verdict.FAILED, failure=failure))
    lines = []
    for after in (failed, replace(failed, record=None), replace(failed, facts={**failed.facts, Cause.FIRMWARE: "5"})):
        (change,) = compare_runs([of_record(record)], [after]).changes
        lines.append(f"{change.cause!r}: {change.detail}")
    recorded.check("\n".join(lines))
