"""A test that may fail for a while is no failure in any format, and is told."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from ethos_hil.results.export.runs import junit, openmetrics, summary
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.testing.quarantine import in_quarantine

REASON = "flaky since Monday (issue/9, until 2026-12-01)"
FAILED = samples.failed()
RESULTS = in_quarantine(samples.run(FAILED, samples.record(name="fine")), FAILED.label)
FIXED = in_quarantine(samples.run(samples.record(name="fine")), "*fine*")


def test_junit_skips_it_with_the_reason_and_runs_the_others() -> None:
    flaky, fine = ET.fromstring(junit.write(RESULTS, None)).iter("testcase")
    skipped = flaky.find("skipped")
    assert skipped is not None
    assert skipped.attrib == {
        "type": "quarantined", "message": f"output 0 differs (quarantined: {REASON})"
    }  # fmt: skip
    assert [child.tag for child in fine] == ["properties"]


def test_the_summary_has_a_letter_for_it_and_no_failure() -> None:
    text = summary.write(RESULTS, None)
    assert text.startswith("# ethos-hil: green\n")
    assert "**1 verified**, **1 quarantined**." in text
    assert "| `add` | 1Q |" in text
    assert "## Failures" not in text


def test_openmetrics_counts_it_by_its_ending() -> None:
    assert 'ethos_hil_records{ending="quarantined"} 1\n' in openmetrics.write(RESULTS, None)


def test_one_that_is_fixed_is_red_in_all_of_them() -> None:
    message = "fixed: it is verified, and in quarantine until 2026-12-01 (issue/9)"
    (failure,) = ET.fromstring(junit.write(FIXED, None)).iter("failure")
    assert failure.attrib["message"] == message
    text = summary.write(FIXED, None)
    assert text.startswith("# ethos-hil: red: 1\n")
    assert message in text
    assert "ethos_hil_gate_passed 0\n" in openmetrics.write(FIXED, None)
