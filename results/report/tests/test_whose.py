"""Whose change something is, as far as the records say."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from ethos_hil.base.record import Record, RunInfo
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.results.compaction.columns import row_of
from ethos_hil.results.report.failures import of_failure
from ethos_hil.results.report.tests import samples
from ethos_hil.results.since import FACTS, PastNight, Since
from ethos_hil.results.store import StoredRecord


def whose(**now: Any) -> str:
    """Of a test that was verified before, and fails now with something else different."""
    before: Record = replace(samples.suite_of(1)[0], run=RunInfo("n1", "c" * 40))
    row = row_of(0, StoredRecord("n1", "", before))
    since = Since(None, PastNight("n1", datetime(2026, 11, 1)), 0, {name: str(row[name]) for name in FACTS})
    return of_failure(samples.failed(replace(before, **now), FailureKind.MISMATCH, "wrong"), since)


def test_a_failure_is_of_what_differs_from_the_last_good_run() -> None:
    record = samples.suite_of(1)[0]
    assert record.artifact is not None
    assert whose(artifact=replace(record.artifact, question="e" * 64)) == "the model was edited"
    assert whose(versions={**record.versions, "ethos-u-vela": "5.2.0"}) == (
        "an upstream version (ethos-u-vela 5.0.0 became 5.2.0)"
    )
    assert whose(firmware_sha256="7" * 64) == "our code (the firmware changed)"
    assert whose(run=RunInfo("n2", "d" * 40)) == "our code (the commit changed)"
    assert whose() == "not known (model, versions, firmware and commit are those of n1)"


def test_a_target_that_did_not_start_is_nobodys_code() -> None:
    failure = Failure(FailureKind.NOT_LAUNCHED, "no")
    record = replace(samples.failed(samples.suite_of(1)[0], FailureKind.NOT_LAUNCHED, "no"), failure=failure)
    assert of_failure(record, Since(None, None, 0)) == "the board, target or machine"
