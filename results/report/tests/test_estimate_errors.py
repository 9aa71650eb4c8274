"""The report says how far estimates are off, by whom they were counted, and what is not known."""

from __future__ import annotations

from dataclasses import replace

from ethos_hil.base.record import Record
from ethos_hil.results.ledger.ledger_row import rows_of
from ethos_hil.results.ledger.summary import RuleFacts
from ethos_hil.results.ledger.tests.test_record_rows import RECORD
from ethos_hil.results.report.estimates import estimate_errors
from ethos_hil.results.report.report import report
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.tests.profiled import HOSTILE

RULES = {"kernel": RuleFacts("a kernel's cycles", "a fit", "12 operations", 0.02, -0.09)}


def run_of(*records: Record) -> RunResults:
    return RunResults("night", "2026-11-25T02:00:00+00:00", records, ({"created": "2026-11-25T02:00:00+00:00"},))


def virtual(of: Record) -> Record:
    """The same on a virtual board."""
    ops = tuple(replace(op, provenance="modelled") for op in of.ops if op.id != "job")
    metrics = (replace(of.metrics[0], provenance="modelled", samples=()), of.metrics[1])
    return replace(of, ops=ops, metrics=metrics, target=replace(of.target, name="virtual", kind="virtual"))


def test_a_run_that_nobody_counted_says_so_until_somebody_elses_counts_are_given() -> None:
    page = report(run_of(virtual(RECORD)), rules=RULES).decode()
    assert 'id="errors"' in page
    assert "No FVP and no board has counted any of this" in page
    counts = rows_of(RECORD)
    page = report(run_of(virtual(RECORD)), ledger=counts, rules=RULES).decode()
    assert "No FVP and no board" not in page
    assert "kernel: a kernel&#39;s cycles (a fit); validated on 12 operations: median error 2.0%, worst -9.0%" in page
    assert '<th scope="row">pool</th><td>u85</td><td class="n">1</td><td>fvp 1</td><td class="n">1.50 ±50%</td>' in page


def test_counts_of_programs_that_are_not_in_the_run_are_left_out() -> None:
    others = [replace(row, stream="another") for row in rows_of(RECORD)]
    section = estimate_errors([virtual(RECORD)], others, {})
    assert section is not None
    assert section.heading.startswith("3 rows, 0 of them counted")


def test_another_count_is_kept_and_a_run_without_estimates_has_no_section() -> None:
    row = rows_of(RECORD)[-1]
    section = estimate_errors([RECORD], [replace(row, fvp=999)], {})
    assert section is not None
    assert section.heading.startswith("4 rows, 4 of them counted")
    bare = replace(RECORD, profile=None, metrics=())
    assert estimate_errors([bare], [row], {}) is None
    assert 'id="errors"' not in report(run_of(bare)).decode()


def test_names_are_text() -> None:
    ops = tuple(replace(op, npu_op=HOSTILE) for op in RECORD.ops)
    page = report(run_of(replace(RECORD, model=HOSTILE, npu=HOSTILE, ops=ops))).decode()
    assert "<!-- not" not in page.partition('id="errors"')[2]
    assert "\x1b" not in page
