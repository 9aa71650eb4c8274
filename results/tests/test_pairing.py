"""Which test of one run is which of another: renamed, moved, or known by halves, and never two for one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.gate.observation import Observation, of_record
from ethos_hil.results.gate.pairing import both_know, pair, place_cause
from ethos_hil.results.subject import EARLY
from ethos_hil.results.testing.synthetic_year import nights

ONE, TWO = (of_record(item.record) for item in next(nights(1, count=1, tests=2)))


def at(observation: Observation, **place: str) -> Observation:
    return replace(observation, subject=replace(observation.subject, **place))


def early(observation: Observation) -> Observation:
    """What failed before it was lowered."""
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
    lines = []
    for name, side in (("same", None), ("renamed", None), ("moved", None), ("missing", before), ("new", after),
                       ("unclear", before)):  # fmt: skip
        for entry in getattr(pairing, name):
            both = entry if side is None else (entry,)
            lines.append(f"{name}: {' and '.join(index_of(one, before, after) for one in both)}")
    recorded.check("\n".join(sorted(lines)))


def index_of(observation: Observation, before: Night, after: Night) -> str:
    """Which observation of which side it is."""
    at_all = {
        id(one): f"{side} {at}" for side, ones in (("before", before), ("after", after)) for at, one in enumerate(ones)
    }
    return at_all[id(observation)]


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
