"""Which test of one run is which of another: renamed, moved, or known by halves, and never two for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ethos_hil.results.gate.change import Cause
from ethos_hil.results.gate.observation import Observation, of_record
from ethos_hil.results.gate.pairing import Pairing, both_know, pair, place_cause
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


def kinds(pairing: Pairing) -> dict[str, int]:
    names = ("same", "renamed", "moved", "missing", "new", "unclear")
    return {name: len(getattr(pairing, name)) for name in names if getattr(pairing, name)}


def test_a_test_is_itself_whatever_it_says() -> None:
    other = replace(ONE, verdict="failed: mismatch", question="another")
    pairing = pair([ONE, TWO], [TWO, other], {})
    assert (pairing.same, kinds(pairing)) == (((TWO, TWO), (ONE, other)), {"same": 2})


def test_a_renamed_test_is_known_by_its_question_inputs_and_place() -> None:
    named = at(ONE, label="another")
    assert kinds(pair([ONE], [named], {})) == {"renamed": 1}
    assert kinds(pair([ONE], [at(named, case="wide")], {})) == {"renamed": 1}
    for change in (replace(named, question="x"), replace(named, inputs="x"), at(named, npu="ethos-u85-2048")):
        assert kinds(pair([ONE], [change], {})) == {"missing": 1, "new": 1}
    unknown = replace(ONE, question=""), replace(named, question="")
    assert kinds(pair(unknown[:1], unknown[1:], {})) == {"missing": 1, "new": 1}, "two failures have nothing in common"
    assert kinds(pair([ONE], [named, at(ONE, label="a third")], {})) == {"missing": 1, "new": 2}
    assert kinds(pair([ONE, at(ONE, label="a third")], [named], {})) == {"missing": 2, "new": 1}


def test_an_alias_says_which_test_it_was_unless_that_one_is_still_there() -> None:
    named = replace(at(ONE, label="another"), question="edited")
    aliases = {"another": ONE.subject.label}
    assert pair([ONE], [named], aliases).same == ((ONE, named),)
    assert kinds(pair([ONE], [named], {})) == {"missing": 1, "new": 1}
    assert kinds(pair([ONE], [ONE, named], aliases)) == {"same": 1, "new": 1}
    assert kinds(pair([ONE], [named], {ONE.subject.label: ONE.subject.label})) == {"missing": 1, "new": 1}
    elsewhere = at(named, npu="ethos-u85-2048")
    assert kinds(pair([ONE], [elsewhere], aliases)) == {"missing": 1, "new": 1}, "it is one of another place"


PLACES = {
    "memory_mode": Cause.MEMORY_MODE, "system_config": Cause.SYSTEM_CONFIG, "target": Cause.PLACE, "soc": Cause.PLACE,
    "runner": Cause.PLACE, "method": Cause.PLACE, "npu": Cause.NPU, "scheme": Cause.SCHEME,
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_a_test_at_another_place_is_known_by_its_name(name: str) -> None:
    here, there = (at(ONE, **{name: place}) for place in ("here", "there"))
    pairing = pair([here], [there], {})
    assert (pairing.moved, kinds(pairing)) == (((here, there),), {"moved": 1})
    text = f"another {name.replace('_', ' ')}: here became there"
    assert place_cause(here.subject, there.subject) == (PLACES[name], text)
    both = at(there, npu="ethos-u85-2048", memory_mode="x")
    assert kinds(pair([here], [both], {})) == {"moved": 1}, "and by its name alone"
    nowhere = replace(here.subject, **{name: ""})
    assert place_cause(nowhere, here.subject)[1] == text.replace("here became there", "none became here")
    assert place_cause(here.subject, nowhere)[1] == text.replace("there", "none")
    assert place_cause(here.subject, here.subject) == (Cause.NONE, "")


def test_one_of_several_places_is_paired_with_the_one_that_differs_least() -> None:
    old = [at(ONE, memory_mode="a", npu="one"), at(ONE, memory_mode="a", npu="two")]
    new = [at(ONE, memory_mode="b", npu="one"), at(ONE, memory_mode="b", npu="two")]
    assert set(pair(old, new, {}).moved) == set(zip(old, new, strict=True))
    assert kinds(pair(old, new[:1], {})) == {"moved": 1, "missing": 1}
    three = [at(ONE, memory_mode="b"), at(ONE, memory_mode="c")]
    assert kinds(pair([at(ONE, memory_mode="a")], three, {})) == {"missing": 1, "new": 2}
    cases = [at(ONE, case="wide", npu="one", memory_mode="a"), at(ONE, case="deep", npu="two", memory_mode="b")]
    assert kinds(pair(cases[:1], cases[1:], {})) == {"missing": 1, "new": 1}, "another case is another question"


def test_what_failed_early_and_may_be_any_of_several_is_unclear() -> None:
    several = [at(ONE, memory_mode=mode) for mode in ("a", "b")]
    assert kinds(pair([early(ONE)], several, {})) == {"unclear": 1, "new": 2}
    assert kinds(pair([early(ONE)], [*several, TWO], {})) == {"unclear": 1, "new": 3}
    assert kinds(pair([early(ONE), TWO], several, {})) == {"unclear": 1, "missing": 1, "new": 2}
    assert kinds(pair([early(ONE)], [TWO], {})) == {"missing": 1, "new": 1}
    right = replace(early(ONE), verdict="verified")
    assert kinds(pair([right], several, {})) == {"missing": 1, "new": 2}, "a right answer knew its place"
    failed = replace(at(ONE, memory_mode="c"), verdict="failed: mismatch")
    assert kinds(pair([failed], several, {})) == {"missing": 1, "new": 2}, "and so did a wrong one"
    candidates = [at(observation, npu=npu) for observation, npu in zip(several, ("one", "two"), strict=True)]
    assert kinds(pair([early(at(ONE, npu="three"))], candidates, {})) == {"missing": 1, "new": 2}


def test_what_failed_early_is_paired_with_the_nearest_by_its_question_and_then_by_its_place() -> None:
    near, far = at(ONE, memory_mode="a", soc="x"), at(ONE, memory_mode="b", soc="y")
    placed = at(early(ONE), soc="x")
    assert pair([placed], [far, near], {}).same == ((placed, near),)
    same_question = replace(early(ONE), question=ONE.question)
    other = replace(near, question="another")
    assert pair([same_question], [other, far], {}).same == ((same_question, far),)
    nearer = replace(at(early(ONE), soc="x"), question=ONE.question)
    assert pair([nearer], [other, at(far, soc="x")], {}).same == ((nearer, at(far, soc="x")),)
    two = [placed, at(early(ONE), soc="y")]
    assert set(pair(two, [far, near], {}).same) == {(placed, near), (two[1], far)}
    assert kinds(pair([near, far], [early(ONE)], {})) == {"missing": 2, "new": 1}


def test_a_subject_of_both_sides_knows_what_either_knows() -> None:
    whole = replace(ONE.subject, system_config="fast", runner="r", scheme="a8w8", case="wide")
    nothing = replace(whole, memory_mode="", system_config="", target="none", soc="", runner="", scheme="", case="")
    assert both_know(whole, nothing) == both_know(nothing, whole) == whole
    moved = replace(whole, npu="ethos-u85-2048", memory_mode="x")
    assert both_know(whole, moved) == moved, "what is known now is not what it was"
