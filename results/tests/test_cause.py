"""The cause of a change: what can move a number and what cannot, what is known of it, and the words for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.gate.change import Cause
from ethos_hil.results.gate.compare import compare_runs, first_cause, is_known, words
from ethos_hil.results.gate.observation import FACTS, Observation, of_record
from ethos_hil.results.testing.synthetic_year import nights

FACT = {cause: f"{cause} 1" for cause in FACTS}
ONE = replace(of_record(next(nights(1, count=1, tests=1))[0].record), facts=FACT, versions={}, flags=(), lowering="")


def with_facts(**facts: str) -> Observation:
    return replace(ONE, facts={**FACT, **{Cause[name]: text for name, text in facts.items()}})


def test_a_fact_is_a_cause_only_of_what_it_can_move_and_no_cause_is_known_without_it(recorded: Recorded) -> None:
    """Else a new firmware is blamed for a larger .pte, and a number of an earlier version's record, which does not say
    which firmware it ran on, moved by itself. What PyTorch answers in floating point depends on the machine too.
    """
    lines = []
    for provenance in ("compiled", "vela", "modelled", "measured", "reported", "computed"):
        lines.append(f"{provenance}: {'' if is_known(ONE, ONE, provenance) else 'not '}known")
        for cause in FACTS:
            other, silent = with_facts(**{cause.name: "another"}), with_facts(**{cause.name: ""})
            found = first_cause(ONE, other, provenance)[0] or "nothing"
            known = is_known(ONE, silent, provenance), is_known(silent, ONE, provenance)
            lines.append(f"  {cause}: the cause is {found}, known without it {known}")
    recorded.check("\n".join(lines))


PLAIN, STRICT = with_facts(TARGET=""), with_facts(TARGET="rules: waits")
"""Someone turned the board's rules off, or the FVP's timing adapters on."""
LATER, UNKNOWN = with_facts(STREAM="2", PROGRAM="2", FIRMWARE="2"), with_facts(STREAM="", PROGRAM="", FIRMWARE="2")
SIDES = {
    "the first of several": (ONE, LATER), "not known now": (ONE, UNKNOWN), "not known before": (UNKNOWN, ONE),
    "the same": (ONE, ONE), "rules off": (STRICT, PLAIN), "rules on": (PLAIN, STRICT), "no rules": (PLAIN, PLAIN),
}  # fmt: skip


def test_the_first_fact_that_differs_is_the_cause_and_one_that_is_not_known_is_none(recorded: Recorded) -> None:
    for provenance in ("modelled", "compiled"):
        lines = (f"{what}: {first_cause(*sides, provenance)}" for what, sides in SIDES.items())
        recorded.check("\n".join(lines), provenance)


OLD = {"executorch": "1.0", "torch": "2.9", "ethos-u-vela": "5.0", "qemu": "9"}
NEW = {"executorch": "1.1", "torch": "2.10", "ethos-u-vela": "5.1", "qemu": "10", "ethos-hil": "0.9"}
ARGUMENTS = (("", "--x"), ("--x", ""), ("--a --b", "--a --c"), ("--a --b --b", "--b --a"), ("--a --b", "--b --a"))
TOLD: dict[str, tuple[Observation, ...]] = {
    **{
        f"Vela's arguments, {old!r} and {new!r}": tuple(
            replace(ONE, flags=tuple(flags.split()), lowering=f"of {flags}") for flags in (old, new)
        )
        for old, new in ARGUMENTS
    },
    "other tools": (replace(ONE, versions=OLD), replace(ONE, versions=NEW)),
    "other tools and arguments": (replace(ONE, versions=OLD), replace(ONE, versions=NEW, flags=("--x",))),
    "the same": (ONE, ONE),
    "another lowering": (ONE, replace(ONE, lowering="b")),
    "another firmware and timing model": (ONE, with_facts(FIRMWARE="b", TIMING_MODEL="c")),
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
