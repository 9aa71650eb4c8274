"""What becomes of a number: which one of the run before it is held against, where the limits of a policy lie, which
cause of a change is named, in which words, and which rows of two records are compared; and which times follow.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.inference_profile import CpuRow, InferenceProfile
from ethos_hil.base.program_info import ArtifactInfo
from ethos_hil.base.record import JOB, Metric, Op, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results import comparison
from ethos_hil.results.compaction.columns import row_of
from ethos_hil.results.comparison import Incomparable, compare
from ethos_hil.results.gate.change import Cause, Change, Effect, Word
from ethos_hil.results.gate.compare import SampleDifference, compare_runs, difference, first_cause, is_known, words
from ethos_hil.results.gate.observation import FACTS, Key, Number, Observation, observations, of_record
from ethos_hil.results.gate.policy import Policy, PolicyRule
from ethos_hil.results.latency import latency_of, with_latency
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.testing.in_lines import lines_of_comparison
from ethos_hil.results.testing.synthetic_year import nights
from ethos_hil.results.text.record import latency_rows

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
    "samples that overlap, whatever their medians are": moved(
        MEASURED, (*spread(100, 6), *spread(111, 5)), (*spread(100, 4), *spread(110, 7))
    ),
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


# Two records are compared row by row: nothing is lost or aligned by number, and what may not be compared is refused.


def row(number: int, cycles: int | None, module: str, *aten: str, lines: Sequence[int] = (), **other: Any) -> Op:
    named = tuple(f"net.py:{line}" for line in lines)
    op = Op(f"npu{number:05d}", "Conv2D", "CONV2D", aten, module, named[0] if named else "", cycles, "modelled",
               named, 1, "shares")  # fmt: skip
    return dataclasses.replace(op, **other)


def record(*ops: Op, **other: Any) -> Record:
    target = TargetInfo("virtual", "virtual", "corstone-300")
    return dataclasses.replace(
        Record(Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-128", target=target, ops=ops), **other
    )


STEM = row(0, 100, "stem", "conv", lines=[1])
RELU = row(1, 30, "act", "relu", lines=[2])
HEAD = row(2, 70, "head", "mm", lines=[3])


JOB_OP = Op(JOB, JOB, "", (), "", "", 12, "modelled", instruction=1)
MERGED = dataclasses.replace(RELU, cycles=None, merged_with=HEAD.id)
MOVED_ON = (
    row(0, 5, "pre", "pad", lines=[9], instruction=4),
    dataclasses.replace(STEM, id="npu00001", instruction=4),
    dataclasses.replace(HEAD, id="npu00002", instruction=4, cycles=60),
)
FUSED = row(0, 110, "stem", "conv", "relu", lines=[1, 2])
HALVES = (row(0, 55, "stem", "conv", lines=[1]), row(1, 55, "stem", "conv", lines=[1]))


def with_cpu(count: int, unit: str) -> Record:
    kernel = CpuRow("cpu00000.kernel", 0, "kernel", "q::quantize", count, unit, "instructions")
    return record(STEM, profile=InferenceProfile(cpu=(kernel,)))


def asked(question: str) -> Record:
    return record(STEM, artifact=ArtifactInfo("ab", 1, 1, (), question=question))


SIDES: dict[str, tuple[Record, Record]] = {
    "equal": (record(STEM, RELU, HEAD), record(STEM, RELU, HEAD)),
    "a new row before others": (record(STEM, HEAD), record(*MOVED_ON)),
    "fused": (record(STEM, RELU, HEAD), record(FUSED, HEAD)),
    "split": (record(FUSED, HEAD), record(STEM, RELU, HEAD)),
    "cut into two alike": (record(STEM), record(*HALVES)),
    "the same operator elsewhere": (record(STEM), record(row(0, 9, "other", "conv", lines=[7]))),
    "cycles elsewhere": (record(MERGED, HEAD), record(MERGED, HEAD)),
    "a job": (record(STEM), record(JOB_OP, STEM)),
    "a job that costs nothing": (record(STEM), record(dataclasses.replace(JOB_OP, cycles=0), STEM)),
    "slower on the CPU": (with_cpu(10, "instructions"), with_cpu(13, "instructions")),
    "counted otherwise on the CPU": (with_cpu(10, "instructions"), with_cpu(13, "cycles")),
    "another question": (asked("one"), asked("two")),
    "the same question": (asked("one"), asked("one")),
    "no question": (asked("one"), asked("")),
    "no timing model": (record(STEM), record(STEM, timing_model="one")),
}


@pytest.mark.parametrize("what", SIDES)
def test_all_rows_of_both_sides_are_in_a_comparison_once(what: str, recorded: Recorded) -> None:
    """None is moved by a new one, and none is aligned by its number."""
    before, after = SIDES[what]
    result = compare(before, after)
    assert sum(row.delta for row in result.npu) == sum(op.cycles or 0 for op in after.ops) - sum(
        op.cycles or 0 for op in before.ops
    )
    rows = [f"{row.change}: {row.before} {row.old} -> {row.after} {row.new}" for row in (*result.npu, *result.cpu)]
    recorded.check("\n".join(["equal" if result.equal else "not equal", *rows, *result.notes]))


REFUSED = {
    "verdict": record(STEM, verdict=Verdict.UNVERIFIED),
    "cycles": record(dataclasses.replace(STEM, cycles=None)),
    "npu": record(STEM, npu="ethos-u55-256"),
    "memory-mode": record(STEM, memory_mode="Sram_Only"),
    "system-config": record(STEM, system_config="Ethos_U55_Deep_Embedded"),
    "provenance": record(dataclasses.replace(STEM, provenance="measured")),
    "target": record(STEM, target=TargetInfo("corstone-300", "fvp", "corstone-300")),
    "fvp": record(STEM, versions={"fvp": "FVP 11.27"}),
    "timing-model": record(STEM, timing_model="another"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_may_not_be_compared_is_refused(code: str, recorded: Recorded) -> None:
    with pytest.raises(Incomparable) as caught:
        compare(record(STEM, timing_model="one"), REFUSED[code])
    assert caught.value.code == code
    recorded.check(f"{caught.value.message}\n{caught.value.hint}")


def test_a_row_lost_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = comparison._align
    monkeypatch.setattr(comparison, "_align", lambda *arguments: list(whole(*arguments))[1:])
    with pytest.raises(AssertionError, match="do not add up"):
        compare(record(STEM, HEAD), record(STEM, HEAD))


# Times that follow from cycles and a clock, and that nothing compares a second time.


COUNTED = Metric("npu_cycles", 1_000_000, "cycles", "fvp")
OF_CYCLES = Record(
    verdict=Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-256",
    target=TargetInfo("corstone-300", "fvp", "corstone-300"),
    metrics=(COUNTED, Metric("cpu_cycles", 250_000, "cycles", "fvp")), system_config="Ethos_U55_High_End_Embedded",
    clock_hz=500e6,
)  # fmt: skip
INSTRUCTIONS = Metric("cpu_instructions", 250_000, "instructions", "instructions")


ON_A_BOARD = dataclasses.replace(OF_CYCLES, metrics=(dataclasses.replace(COUNTED, provenance="measured"),))
ONCE = with_latency(OF_CYCLES)
TWICE = with_latency(ONCE, StatedClock(1e9, "--clock 1GHz"))
BOTH_CLOCKS = StatedClock(250e6, "--clock 250MHz/1GHz", 1e9)
TIMED: dict[str, tuple[Record, StatedClock | None]] = {
    "both clocks": (OF_CYCLES, BOTH_CLOCKS),
    "the compiler's clock": (OF_CYCLES, None),
    "a board at the compiler's clock": (ON_A_BOARD, None),
    "a board at its own clock": (ON_A_BOARD, StatedClock(400e6, "the clock of board:x")),
    "instructions": (dataclasses.replace(OF_CYCLES, metrics=(COUNTED, INSTRUCTIONS)), BOTH_CLOCKS),
    "another clock": (ONCE, StatedClock(1e9, "--clock 1GHz")),
    "the clock that was stated": (TWICE, None),
    "a third clock": (TWICE, StatedClock(250e6, "x")),
    "no cycles": (dataclasses.replace(OF_CYCLES, metrics=()), None),
    "no clock": (dataclasses.replace(OF_CYCLES, clock_hz=0.0), None),
    "no time": (dataclasses.replace(OF_CYCLES, metrics=(dataclasses.replace(COUNTED, value=0),)), None),
}


@pytest.mark.parametrize("what", TIMED)
def test_times_follow_from_cycles_and_the_clock_that_is_known_best(what: str, recorded: Recorded) -> None:
    """NPU, CPU and total are apart, and instructions are never time."""
    record, clock = TIMED[what]
    timed = with_latency(record, clock)
    assert Record.from_json(json.loads(timed.dumps())) == timed
    recorded.check([list(timed.metrics), latency_of(record, clock), timed.clock, dict(latency_rows(timed))])


def test_a_slower_program_alarms_once_and_another_clock_never() -> None:
    slower = dataclasses.replace(
        OF_CYCLES, metrics=(dataclasses.replace(COUNTED, value=1_100_000), OF_CYCLES.metrics[1])
    )
    sides = [observations([with_latency(record)]) for record in (OF_CYCLES, slower)]
    changed = [change.metric for change in compare_runs(*sides).changes if change.word != "unchanged"]
    assert changed == ["npu_cycles"]
    other = observations([with_latency(OF_CYCLES, StatedClock(1e9, "--clock 1GHz"))])
    again = compare_runs(sides[0], other)
    assert again.changes == ()
    assert again.counts == {"unchanged": 3}  # the verdict and both cycles


def test_a_history_has_no_derived_numbers() -> None:
    record = with_latency(OF_CYCLES)
    rows = [row_of(1, StoredRecord("a", "2026-11-24T09:30:00+00:00", entry)) for entry in (OF_CYCLES, record)]
    assert rows[0] == rows[1]
    assert "npu_cycles" in str(rows[1]["metrics"])
