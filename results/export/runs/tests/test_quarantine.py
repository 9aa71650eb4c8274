"""A test that may fail for a while is no failure in any format, and is told."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from ethos_hil.results.export.runs import junit, openmetrics, pytorch_benchmark, summary
from ethos_hil.results.export.runs.tests import made

FAILED = made.failed()
RESULTS = made.run(
    FAILED,
    made.record(name="fine"),
    quarantined={FAILED.label: "https://x.org/7", made.record(name="fine").label: "no"},
)


def test_junit_skips_it_with_the_reason_and_runs_the_others() -> None:
    one, fine = ET.fromstring(junit.write(RESULTS, None)).iter("testcase")
    skipped = one.find("skipped")
    assert skipped is not None
    assert skipped.attrib == {
        "type": "quarantined", "message": "output 0 differs (quarantined: https://x.org/7)"
    }  # fmt: skip
    assert [child.tag for child in fine] == ["properties"]


def test_the_summary_has_a_letter_for_it_and_no_failure() -> None:
    text = summary.write(RESULTS, None)
    assert text.startswith("# ethos-hil: nothing failed\n")
    assert "**1 verified**, **1 quarantined**." in text
    assert "| `add` | 1Q |" in text
    assert "## Failures" not in text


def test_the_others_say_that_it_failed() -> None:
    one, *_ = json.loads(pytorch_benchmark.write(RESULTS, None))
    assert (one["metric"]["name"], one["metric"]["extra_info"]["ending"]) == ("FAILURE_REPORT", "quarantined")
    assert 'ethos_hil_records{ending="quarantined"} 1\n' in openmetrics.write(RESULTS, None)
