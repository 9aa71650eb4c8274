"""The cause of a change: what can move a number and what cannot, what is known of it, and the words for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.gate.change import Cause
from ethos_hil.results.gate.compare import can_move, compare_runs, first_cause, is_known, words
from ethos_hil.results.gate.observation import FACTS, Observation, of_record
from ethos_hil.results.testing.synthetic_year import nights

FACT = {cause: f"{cause} 1" for cause in FACTS}
ONE = replace(of_record(next(nights(1, count=1, tests=1))[0].record), facts=FACT, versions={}, flags=(), lowering="")

NOT_MOVED = {
    "compiled": {Cause.TIMING_MODEL, Cause.FIRMWARE, Cause.TARGET},
    "vela": {Cause.PROGRAM, Cause.TIMING_MODEL, Cause.FIRMWARE, Cause.TARGET},
    "modelled": set(),
    "measured": {Cause.TIMING_MODEL},
    "reported": {Cause.TIMING_MODEL},
}
"""Facts that a number of a provenance does not depend on: else a new firmware is blamed for a larger .pte."""


def with_facts(**facts: str) -> Observation:
    return replace(ONE, facts={**FACT, **{Cause[name]: text for name, text in facts.items()}})


@pytest.mark.parametrize("provenance", NOT_MOVED)
def test_a_fact_is_a_cause_only_of_what_it_can_move(provenance: str) -> None:
    for cause in FACTS:
        moves = cause not in NOT_MOVED[provenance]
        assert can_move(cause, provenance) is moves
        other = with_facts(**{cause.name: "another"})
        assert first_cause(ONE, other, provenance)[0] is (cause if moves else Cause.NONE)


def test_the_first_fact_that_differs_is_the_cause_and_one_that_is_not_known_is_none() -> None:
    later = with_facts(STREAM="2", PROGRAM="2", FIRMWARE="2")
    assert first_cause(ONE, later, "modelled")[0] is Cause.STREAM
    unknown = with_facts(STREAM="", PROGRAM="", FIRMWARE="2")
    assert first_cause(ONE, unknown, "modelled")[0] is first_cause(unknown, ONE, "modelled")[0] is Cause.FIRMWARE
    assert first_cause(ONE, ONE, "modelled") == (Cause.NONE, "")


def test_a_target_that_says_nothing_of_itself_is_another_one_than_one_that_does() -> None:
    """Someone turned the board's rules off, or the FVP's timing adapters on."""
    plain, strict = with_facts(TARGET=""), with_facts(TARGET="rules: waits")
    assert first_cause(strict, plain, "modelled") == (Cause.TARGET, "another target: rules: waits became none")
    assert first_cause(plain, strict, "modelled") == (Cause.TARGET, "another target: none became rules: waits")
    assert first_cause(plain, strict, "compiled") == first_cause(plain, plain, "modelled") == (Cause.NONE, "")


@pytest.mark.parametrize("provenance", NOT_MOVED)
def test_a_number_moved_without_a_cause_only_where_all_that_decides_it_is_known(provenance: str) -> None:
    """Else a record of an earlier version, which does not say which firmware it ran on, is called unstable."""
    assert is_known(ONE, ONE, provenance)
    for cause in (Cause.PROGRAM, Cause.TIMING_MODEL, Cause.FIRMWARE):
        silent = with_facts(**{cause.name: ""})
        enough = cause in NOT_MOVED[provenance]
        assert is_known(ONE, silent, provenance) is is_known(silent, ONE, provenance) is enough
    assert is_known(ONE, with_facts(TARGET=""), provenance), "a target that no one can set says nothing"


def test_what_pytorch_answers_in_floating_point_depends_on_the_machine_too() -> None:
    assert not is_known(ONE, ONE, "computed")


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
def test_a_failure_that_nothing_else_explains_is_its_own_cause_and_a_long_one_is_cut(more: int) -> None:
    record = next(nights(1, count=1, tests=1))[0].record
    message = "timeout: " + "x" * (291 + more)
    failed = replace(
        record, verdict=Verdict.FAILED, failure=Failure(FailureKind.TIMEOUT, message.removeprefix("timeout: "))
    )
    (change,) = compare_runs([of_record(record)], [of_record(failed)]).changes
    assert change.cause is Cause.NONE
    assert change.detail == message[:300] + (" ... (1 bytes left out)" if more else "")
    (change,) = compare_runs([of_record(record)], [replace(of_record(failed), record=None)]).changes
    assert change.detail == "nothing that the records name is different"
    other = replace(failed, firmware_sha256="5" * 64)
    (change,) = compare_runs([of_record(record)], [of_record(other)]).changes
    assert change.cause is Cause.FIRMWARE
