"""JUnit's XML: it is what the schema says, with stable names, and CI systems read all of it."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from importlib import resources

import pytest
import xmlschema

from ethos_hil.base.plain_text import escape, one_line
from ethos_hil.results.export.exporter import NotExportable
from ethos_hil.results.export.runs import junit
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults

RUNS = samples.runs()
SCHEMA = xmlschema.XMLSchema(str(resources.files(__package__) / "junit.xsd"))


def document(results: RunResults, comparison: RunComparison | None = None) -> ET.Element:
    """The document, which is valid. The schema has no properties in a test case; all else has to be as it says."""
    content = junit.write(results, comparison)
    strict = ET.fromstring(content)
    for case in strict.iter("testcase"):
        for properties in case.findall("properties"):
            case.remove(properties)
    SCHEMA.validate(strict)
    return ET.fromstring(content)


def properties(element: ET.Element) -> dict[str, str]:
    inside = element.find("properties")
    return {} if inside is None else {child.attrib["name"]: child.attrib["value"] for child in inside}


def test_the_schema_refuses_what_is_no_junit() -> None:
    for text in ('<testsuites><testcase name="a"/></testsuites>', '<testsuites x="1"/>',
                 '<testsuite name="a" tests="0" failures="0" errors="0" time="soon"/>',
                 '<testsuite name="a" tests="0" failures="0"/>'):  # fmt: skip
        assert not SCHEMA.is_valid(ET.fromstring(text)), text


@pytest.mark.parametrize("what", RUNS)
def test_a_document_is_what_the_schema_says_and_counts_its_elements(what: str) -> None:
    suite = document(*RUNS[what])[0]
    cases = list(suite.iter("testcase"))
    counts = {tag: sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error", "skipped")}
    assert int(suite.attrib["tests"]) == len(cases)
    assert [int(suite.attrib[name]) for name in ("failures", "errors", "skipped")] == list(counts.values())


def test_nothing_of_numbers_and_digests_is_in_a_name() -> None:
    record = samples.record()
    other = dataclasses.replace(record, metrics=record.metrics[:1], artifact=None, created="", versions={}, run=None)
    cases = [next(document(samples.run(of)).iter("testcase")).attrib for of in (record, other)]
    assert [case.pop("time") for case in cases] == ["0.250", "0.000"]
    assert cases[0] == cases[1]


def test_text_that_xml_lacks_is_escaped_and_markup_stays_text() -> None:
    results = samples.hostile()
    root = document(results)
    first, second = root.iter("testcase")
    assert properties(first)["operator"] == one_line(samples.HOSTILE)
    assert second.findtext("system-out") == "\n".join([escape(samples.HOSTILE)] * 3)
    assert second.find("failure") is not None
    assert one_line(samples.HOSTILE) == second.find("failure").attrib["message"]  # type: ignore[union-attr]
    assert properties(root[0])["run"] == one_line(samples.HOSTILE)


def test_what_gitlab_does_not_read_is_left_out_before_the_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has 30 MB and 250,000 elements, attributes and texts; a night of the suites has half of them."""
    night = samples.large()
    whole = document(night)
    assert len(list(whole.iter("property"))) > 1500 * 20
    assert sum(2 + len(element.attrib) for element in whole.iter()) < junit.MOST_OBJECTS
    loud = samples.run(*[samples.failed(case=str(number), console=("x" * 5000,) * 200) for number in range(700)])
    assert loud.records[0].metrics
    cases = list(document(loud).iter("testcase"))
    assert len(cases) == 700
    assert all(case.find("system-out") is None and case.find("properties") is not None for case in cases)
    many = samples.run(
        *(dataclasses.replace(record, npu=f"{record.npu}-{n}") for n in range(4) for record in night.records)
    )
    assert all(case.find("properties") is None for case in document(many).iter("testcase"))
    monkeypatch.setattr(junit, "MOST_BYTES", 1000)
    with pytest.raises(NotExportable, match="1,500 records are more than GitLab reads"):
        junit.write(night, None)
