"""What a run says is the same from its records, from a history and from a baseline. What is followed has one key,
whoever says what it is, and names tell all apart; and a test is paired with the one that it was, and never with two.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.record import BenchInfo, Metric, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.compaction.run_file import compact, compact_records
from ethos_hil.results.gate.change import Cause
from ethos_hil.results.gate.gate import side
from ethos_hil.results.gate.observation import Number, Observation, merge, of_record
from ethos_hil.results.gate.pairing import both_know, pair, place_cause
from ethos_hil.results.history import History
from ethos_hil.results.store import RunFolder, StoredRecord
from ethos_hil.results.subject import EARLY, KEY, Names, Subject, subject_of
from ethos_hil.results.testing.one_name import OTHERS, TEST, net
from ethos_hil.results.testing.seeded_changes import with_models
from ethos_hil.results.testing.synthetic_year import nights

NIGHT: list[Record] = with_models([item.record for item in next(nights(1, count=1, tests=12))])
GOOD = NIGHT[0]
MODEL = NIGHT[-1]
TIMED = (*GOOD.metrics, Metric("wall", 2.0, "s", "host", samples=(1.0, 2.0, 9.0)))
RECORDS: Mapping[str, Record] = {
    "verified": GOOD,
    "samples": replace(GOOD, metrics=TIMED),
    "rules": replace(GOOD, target=replace(GOOD.target, rules=("waits",))),
    "two rules": replace(GOOD, target=replace(GOOD.target, rules=("waits", "alignment"))),
    "board's FVP": replace(GOOD, versions={**GOOD.versions, "fvp": "11.27"}, timing_adapters="axi 0"),
    "failed": replace(GOOD, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "1 of 4")),
    "unverified": replace(GOOD, verdict=Verdict.UNVERIFIED),
    "no artifact": replace(
        GOOD, verdict=Verdict.FAILED, failure=Failure(FailureKind.COMPILE, "no"), artifact=None, metrics=()
    ),
    "a case": replace(MODEL, bench=BenchInfo("grid", "group", "small")),
    "a method": replace(MODEL, method="encode"),
}


def seen(observation: Observation) -> dict[str, Any]:
    """Everything that a history keeps: not the record, nor what a test declares."""
    return {
        field.name: getattr(observation, field.name)
        for field in fields(observation)
        if field.name not in ("record", "declared")
    }


@pytest.mark.parametrize("what", RECORDS)
def test_a_history_says_what_the_record_says(what: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs", name="night")
    (run.path / "records-1.jsonl").write_text(RECORDS[what].dumps() + "\n")
    compact(run.path, tmp_path / "history")
    (observation,) = side("night", tmp_path / "history").observations
    assert seen(observation) == seen(of_record(RECORDS[what]))
    assert observation.wrong is of_record(RECORDS[what]).wrong, "what is declared is not known, so nothing is"


def test_a_target_is_told_in_words() -> None:
    observations = of_record(RECORDS["board's FVP"]), of_record(RECORDS["two rules"])
    assert [observation.facts[Cause.TARGET] for observation in observations] == [
        "FVP: 11.27; timing adapters: axi 0",
        "rules: waits, alignment",
    ]


ATTEMPTS = (
    ("failed: link", "verified"), ("verified", "failed: link"), ("failed: mismatch", "verified"),
    ("verified", "failed: mismatch"), ("failed: mismatch", "failed: link"), ("failed: link", "failed: timeout"),
    ("unverified", "verified"),
)  # fmt: skip


def test_of_several_attempts_the_worst_counts_that_could_be_made(recorded: Recorded) -> None:
    """What was not made differs from nothing."""
    lines = []
    for verdicts in ATTEMPTS:
        (observation,) = merge([replace(of_record(GOOD), verdict=verdict) for verdict in verdicts])
        lines.append(f"{', then '.join(verdicts)}: {observation.verdict}, unstable {sorted(observation.unstable)}")
    recorded.check("\n".join(lines))


def test_what_ran_once_is_as_its_record_says() -> None:
    """A median that someone else took is not taken again."""
    observation = replace(of_record(GOOD), numbers={("wall", "host"): Number(3.0, "s", (1.0, 2.0, 9.0))})
    assert merge([observation]) == (observation,)
    assert replace(observation, record=None) == observation, "whether its record is at hand is not what it says"


CYCLES, WALL, DECIBELS = ("npu_cycles", "modelled"), ("wall", "host"), ("sqnr_db", "computed")


def ran(count: float, *walls: float, version: str) -> Observation:
    numbers = {CYCLES: Number(count, "cycles", (count,)), WALL: Number(walls[0], "s", walls),
               DECIBELS: Number(count, "dB", (count,))}  # fmt: skip
    return replace(of_record(GOOD), numbers=numbers, versions={"qemu": version})


ONCE = replace(ran(10, 5.0, version="1"), numbers={CYCLES: Number(10, "cycles", (10,))})
EXECUTIONS = {
    "equal counts": [ran(10, 5.0, 1.0, version="1"), ran(10, 3.0, version="2")],
    "one in floating point may differ": [ran(10, 5.0, version="1"), ran(11, 5.0, version="2")],
    "one number of the first": [ONCE, ran(10, 7.0, version="2")],
}


@pytest.mark.parametrize("what", EXECUTIONS)
def test_of_several_executions_samples_are_put_together_and_the_last_says_the_rest(
    what: str, recorded: Recorded
) -> None:
    (observation,) = merge(EXECUTIONS[what])
    recorded.check(
        f"{observation.numbers}\n{sorted(observation.unstable)}\n{observation.versions}".replace("), (", "),\n(")
    )


# Keys and names.


@pytest.mark.parametrize("kind", [*OTHERS, "plain", "test", "quantised test"])
def test_a_history_and_the_gate_have_the_key_of_the_record(tmp_path: Path, kind: str) -> None:
    assert TEST.artifact is not None
    quantised = replace(TEST, artifact=replace(TEST.artifact, scheme="a16w8"))
    record = {**OTHERS, "plain": net(), "test": TEST, "quantised test": quantised}[kind]
    compact_records([StoredRecord("night", "", record)], tmp_path)
    (row,) = History(tmp_path).rows(f"SELECT {KEY} AS key FROM records")
    assert Subject(**row["key"]) == subject_of(record) == of_record(record).subject


def test_no_two_have_one_key_or_one_name() -> None:
    subjects = [subject_of(record) for record in (net(), *OTHERS.values())]
    assert len(set(subjects)) == len(subjects)
    for both in combinations(subjects, 2):
        names = Names(both)
        assert names.full(both[0]) != names.full(both[1])
    names = Names(subjects)
    assert len({names.full(subject) for subject in subjects}) == len(subjects)


def test_a_name_has_no_more_than_it_needs() -> None:
    plain, scheme, mode = map(subject_of, (net(), OTHERS["scheme"], OTHERS["memory_mode"]))
    assert Names([plain]).full(plain) == "net.py:net"
    assert Names([plain, scheme]).full(scheme) == Names([plain, scheme]).name(scheme) == "net.py:net (a16w8)"
    assert Names([plain, mode]).full(mode) == "net.py:net on Sram_Only"
    assert Names([plain, mode]).name(mode) == "net.py:net"
    other = subject_of(net(npu="ethos-u85-256", target=TargetInfo("virtual", "virtual", "corstone-320")))
    assert Names([plain, other]).full(plain) == "net.py:net on ethos-u55-128"


def test_what_is_not_known_of_a_failure_tells_nothing_apart() -> None:
    early = replace(net(), artifact=None, memory_mode="", target=TargetInfo("none", "none", ""))
    plain = subject_of(net())
    assert Names([plain, subject_of(early)]).full(plain) == "net.py:net"


# Which test of one run is which of another: renamed, moved, or known by halves.


ONE, TWO = (of_record(item.record) for item in next(nights(1, count=1, tests=2)))


def at(observation: Observation, **place: str) -> Observation:
    return replace(observation, subject=replace(observation.subject, **place))


def early(observation: Observation) -> Observation:
    return replace(
        at(observation, memory_mode="", system_config="", target="none", soc=""),
        verdict="failed: compile", question="", inputs="", facts={}, numbers={},
    )  # fmt: skip


NAMED = at(ONE, label="another")
EDITED = replace(NAMED, question="edited")
ALIASES = {"another": ONE.subject.label}
OLD, NEW = ([at(ONE, memory_mode=mode, npu=npu) for npu in ("one", "two")] for mode in ("a", "b"))
SEVERAL = [at(ONE, memory_mode=mode) for mode in ("a", "b")]
NEAR, FAR = at(ONE, memory_mode="a", soc="x"), at(ONE, memory_mode="b", soc="y")
PLACED, OTHER = at(early(ONE), soc="x"), replace(NEAR, question="another")
WHOLE = at(ONE, runner="x", system_config="x", scheme="x")
OPEN = {name: at(WHOLE, **{name: "none" if name == "target" else ""}) for name in EARLY}
Night = Sequence[Observation]
PAIRS: dict[str, tuple[Night, Night, dict[str, str]]] = {
    "the same, whatever it says": ([ONE, TWO], [TWO, replace(ONE, verdict="failed: mismatch", question="another")], {}),
    "renamed": ([ONE], [NAMED], {}),
    "renamed, another case": ([ONE], [at(NAMED, case="wide")], {}),
    "another name and question": ([ONE], [replace(NAMED, question="x")], {}),
    "another name and inputs": ([ONE], [replace(NAMED, inputs="x")], {}),
    "another name and place": ([ONE], [at(NAMED, npu="ethos-u85-2048")], {}),
    "two failures have nothing in common": ([replace(ONE, question="")], [replace(NAMED, question="")], {}),
    "one of two names": ([ONE], [NAMED, at(ONE, label="a third")], {}),
    "two of one name": ([ONE, at(ONE, label="a third")], [NAMED], {}),
    "an alias": ([ONE], [EDITED], ALIASES),
    "no alias": ([ONE], [EDITED], {}),
    "an alias of one that is still there": ([ONE], [ONE, EDITED], ALIASES),
    "an alias of itself": ([ONE], [EDITED], {ONE.subject.label: ONE.subject.label}),
    "an alias at another place": ([ONE], [at(EDITED, npu="ethos-u85-2048")], ALIASES),
    "moved in two ways": ([ONE], [at(ONE, npu="ethos-u85-2048", memory_mode="x")], {}),
    "the place that differs least": (OLD, NEW, {}),
    "one of two places": (OLD, NEW[:1], {}),
    "two places for one": ([at(ONE, memory_mode="a")], [at(ONE, memory_mode="b"), at(ONE, memory_mode="c")], {}),
    "another case is another question": (
        [at(ONE, case="wide", npu="one", memory_mode="a")], [at(ONE, case="deep", npu="two", memory_mode="b")], {}
    ),
    "early, any of several": ([early(ONE)], SEVERAL, {}),
    "early, any of several, and another": ([early(ONE)], [*SEVERAL, TWO], {}),
    "early, and one that is gone": ([early(ONE), TWO], SEVERAL, {}),
    "early, and another name": ([early(ONE)], [TWO], {}),
    "a right answer knew its place": ([replace(early(ONE), verdict="verified")], SEVERAL, {}),
    "and so did a wrong one": ([replace(at(ONE, memory_mode="c"), verdict="failed: mismatch")], SEVERAL, {}),
    "early, on another NPU": (
        [early(at(ONE, npu="three"))], [at(SEVERAL[0], npu="one"), at(SEVERAL[1], npu="two")], {}
    ),
    "early, the nearest place": ([PLACED], [FAR, NEAR], {}),
    "early, the same question": ([replace(early(ONE), question=ONE.question)], [OTHER, FAR], {}),
    "early, the question before the place": ([replace(PLACED, question=ONE.question)], [OTHER, at(FAR, soc="x")], {}),
    "early, each its own": ([PLACED, at(early(ONE), soc="y")], [FAR, NEAR], {}),
    "early now, either of two": ([NEAR, FAR], [early(ONE)], {}),
    **{f"{name} is not known of a right answer": ([side], [WHOLE], {}) for name, side in OPEN.items()},
    **{f"{name} is not known of what failed early": ([replace(side, verdict="failed: compile")], [WHOLE], {})
       for name, side in OPEN.items()},
    **{f"{name} is not known of what fails early now": ([WHOLE], [replace(side, verdict="failed: compile")], {})
       for name, side in OPEN.items()},
}  # fmt: skip


@pytest.mark.parametrize("what", PAIRS)
def test_a_test_is_paired_with_the_one_that_it_was_and_never_with_two(what: str, recorded: Recorded) -> None:
    """It is known by its name; renamed, by its question, inputs and place; what failed early, by what it knows."""
    before, after, aliases = PAIRS[what]
    pairing = pair(before, after, aliases)
    sides = (("before", before), ("after", after))
    names = {id(one): f"{side} {at}" for side, ones in sides for at, one in enumerate(ones)}
    lines = []
    for name, of in (("same", None), ("renamed", None), ("moved", None), ("missing", before), ("new", after),
                       ("unclear", before)):  # fmt: skip
        for entry in getattr(pairing, name):
            both = entry if of is None else (entry,)
            lines.append(f"{name}: {' and '.join(names[id(one)] for one in both)}")
    recorded.check("\n".join(sorted(lines)))


PLACES = ("memory_mode", "system_config", "target", "soc", "runner", "method", "npu", "scheme")


def test_the_first_place_that_differs_is_the_cause(recorded: Recorded) -> None:
    lines = []
    for name in PLACES:
        here, there = (at(ONE, **{name: place}) for place in ("here", "there"))
        assert pair([here], [there], {}).moved == ((here, there),)
        subjects = here.subject, there.subject, replace(here.subject, **{name: ""})
        lines += [f"{name}: {place_cause(*both)}" for both in itertools.product(subjects, repeat=2)]
    recorded.check("\n".join(lines))


def test_a_subject_of_both_sides_knows_what_either_knows() -> None:
    whole = replace(ONE.subject, system_config="fast", runner="r", scheme="a8w8", case="wide")
    nothing = replace(whole, memory_mode="", system_config="", target="none", soc="", runner="", scheme="", case="")
    assert both_know(whole, nothing) == both_know(nothing, whole) == whole
    moved = replace(whole, npu="ethos-u85-2048", memory_mode="x")
    assert both_know(whole, moved) == moved, "what is known now is not what it was"
