"""An account of a run without a plan: attempts at one test are one test, and others are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ethos_hil.results.gate.account import take_account
from ethos_hil.results.record import BenchInfo, Failure, Record, RunInfo
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.standing import Standing
from ethos_hil.results.testing.seeded_edits import with_models
from ethos_hil.results.testing.synthetic_year import nights
from ethos_hil.results.verdict import FailureKind, Verdict

NIGHT: list[Record] = with_models([item.record for item in next(nights(1, count=1, tests=12))])
ONE = NIGHT[0]


def early(record: Record, kind: FailureKind = FailureKind.COMPILE) -> Record:
    """The record of an attempt that ended before anything had a place."""
    failure = Failure(kind, "no")
    return replace(
        record, verdict=Verdict.FAILED, failure=failure, artifact=None, memory_mode="", system_config="", metrics=(),
        method="", inputs_sha256="", run=RunInfo("again", attempt=2),
    )  # fmt: skip


def stands(*records: Record) -> list[Standing]:
    return [each.standing for each in take_account(RunResults("run", "", records)).tests]


def test_what_stopped_before_it_had_a_place_is_an_attempt_at_the_only_test_of_its_name() -> None:
    assert stands(ONE, early(ONE)) == [Standing.FAILED]
    assert stands(ONE, early(ONE, FailureKind.LINK)) == [Standing.VERIFIED]


def test_where_there_are_two_it_is_a_test_of_its_own() -> None:
    elsewhere = replace(ONE, memory_mode="Sram_Only" if ONE.memory_mode != "Sram_Only" else "Shared_Sram")
    assert stands(ONE, elsewhere, early(ONE)) == [Standing.VERIFIED, Standing.VERIFIED, Standing.FAILED]


def test_another_npu_is_another_test() -> None:
    other = replace(early(ONE), npu="ethos-u85-2048" if ONE.npu != "ethos-u85-2048" else "ethos-u55-32")
    assert stands(ONE, other) == [Standing.VERIFIED, Standing.FAILED]


REFUSED = {FailureKind.NOT_AVAILABLE: True, FailureKind.LICENCE: True, FailureKind.USAGE: True,
           FailureKind.COMPILE: False, FailureKind.CAPABILITY: False}  # fmt: skip
"""Kinds of a refused point, and whether a night is red for it: a tool or a name is missing."""


@pytest.mark.parametrize("part", ["sweep: net", ""])
@pytest.mark.parametrize("kind", REFUSED)
def test_a_point_that_was_refused_is_red_in_a_night_where_the_point_is_not_to_blame(
    kind: FailureKind, part: str
) -> None:
    point = replace(early(ONE, kind), test=None, bench=BenchInfo("grid", "net", "net"), run=RunInfo("r", part=part))
    (found,) = take_account(RunResults("run", "", (point,))).tests
    assert found.standing is Standing.REFUSED
    assert found.red == (f"{kind}: no" if part and REFUSED[kind] else "")


def test_a_known_defect_has_its_reason_and_nothing_else_has() -> None:
    assert ONE.test is not None
    declared = replace(ONE, test=replace(ONE.test, defect="vela-x"))
    for record, reason in ((early(declared), "vela-x"), (declared, ""), (early(ONE), ""), (NIGHT[-1], "")):
        (found,) = take_account(RunResults("run", "", (record,))).tests
        assert found.reason == reason
