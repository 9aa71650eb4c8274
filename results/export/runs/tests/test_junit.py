"""JUnit's XML: it is what the schema says, with stable names, and CI systems read all of it."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from importlib import resources

import pytest
import xmlschema

from ethos_hil.base.plain_text import escape, one_line
from ethos_hil.base.record import RunInfo
from ethos_hil.base.verdict import FailureKind
from ethos_hil.results.export.exporter import NotExportable
from ethos_hil.results.export.runs import junit
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.run_results import RunResults

SCHEMA = xmlschema.XMLSchema(str(resources.files(__package__) / "junit.xsd"))


def document(results: RunResults) -> ET.Element:
    """The document, which is valid. The schema has no properties in a test case; all else has to be as it says."""
    content = junit.write(results, None)
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


@pytest.mark.parametrize(
    ("ending", "element", "kind"),
    [
        ("verified", None, ""), ("compiled-only", "skipped", "compiled-only"),
        ("unverified", "failure", "no-reference"),
        ("skipped", "skipped", "capability"), ("failed", "failure", "mismatch"), ("internal", "error", "internal"),
        ("known defect", "skipped", "known defect"),
    ],
)  # fmt: skip
def test_each_verdict_is_an_element(ending: str, element: str | None, kind: str) -> None:
    suite = document(samples.run(samples.endings()[ending]))[0]
    (case,) = suite.iter("testcase")
    children = [child for child in case if child.tag not in ("properties", "system-out")]
    assert [child.tag for child in children] == ([] if element is None else [element])
    assert [child.attrib["type"] for child in children] == ([] if element is None else [kind])
    counts = {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")}
    plural = {"failure": "failures", "error": "errors"}.get(element or "", element)
    assert counts == {"tests": "1"} | {name: str(int(name == plural)) for name in ("failures", "errors", "skipped")}


def test_a_failure_says_what_the_suites_say_and_has_the_console() -> None:
    (case,) = document(samples.run(samples.endings()["failed"])).iter("testcase")
    assert case.findtext("failure", "").splitlines() == [
        "mismatch: output 0 differs", "hint: look there", "starts at: starts at npu00001",
        "declared at: suites/ops/test_a.py:13",
    ]  # fmt: skip
    assert case.findtext("system-out") == "first\n\\x1b[31mlast"


def test_numbers_and_digests_are_properties_and_nothing_of_them_is_in_a_name() -> None:
    record = samples.record()
    (case,) = document(samples.run(record)).iter("testcase")
    values = properties(case)
    assert values["npu_cycles (cycles, modelled)"] == "16777217"
    assert values["target_seconds (s, host)"] == "0.25"
    assert (values["npu"], values["memory_mode"], values["target"]) == ("ethos-u55-128", "Shared_Sram", "virtual")
    assert values["stream_sha256 of instruction 1"] == "56" * 32
    assert case.attrib == {"classname": "suites.ops.test_a", "name": "test_add_same_U55_BI[ethos-u55-128]",
                           "time": "0.250"}  # fmt: skip
    other = dataclasses.replace(record, metrics=record.metrics[:1], artifact=None, created="", versions={}, run=None)
    (again,) = document(samples.run(other)).iter("testcase")
    assert [again.attrib[name] for name in ("classname", "name")] == [
        case.attrib[name] for name in ("classname", "name")
    ]
    assert again.attrib["time"] == "0.000"


def test_the_suite_says_which_run_it_is() -> None:
    root = document(samples.run(samples.record(), samples.endings()["failed"]))
    (suite,) = root
    assert suite.attrib == {
        "name": "ethos-hil", "tests": "2", "failures": "1", "errors": "0", "skipped": "0", "time": "0.500",
        "timestamp": "2026-11-25T10:02:51+00:00", "hostname": "vm",
    }  # fmt: skip
    assert properties(suite) == {"run": "20261125T100247Z-c394cb", "commit": "f0" * 20, "version of torch": "2.13.0",
                                 "version of ethos-u-vela": "5.1.0"}  # fmt: skip


@pytest.mark.parametrize(
    ("label", "place", "name"),
    [
        ("suites/ops/test_a.py::test_add", "suites.ops.test_a", "test_add"),
        ("test_a.py::TestB::test_add[a::b/c.py-[1]]", "test_a.TestB", "test_add[a::b/c.py-[1]]"),
        ("suites/models/digits.py:digits", "suites.models.digits", "digits"),
        ("/home/me/net.py:net", "home.me.net", "net"),
        ("package.module:net", "package.module", "net"),
        ("net.pte", "model", "net.pte"),
        (":net", "model", ":net"),
        ("net.py:", "model", "net.py:"),
        ("::net", "tests", "net"),
    ],
)
def test_names_are_those_of_pytest(label: str, place: str, name: str) -> None:
    record = samples.record()
    assert record.test is not None
    if "::" in label:
        record = dataclasses.replace(record, test=dataclasses.replace(record.test, id=label))
    else:
        record = dataclasses.replace(record, test=None, model=label)
    (case,) = document(samples.run(record)).iter("testcase")
    assert (case.attrib["classname"], case.attrib["name"]) == (place, f"{name}[ethos-u55-128]")


def test_an_attempt_that_was_repeated_is_in_the_case_of_the_last() -> None:
    lost = samples.failed(FailureKind.NOT_LAUNCHED, "no board", run=RunInfo("run", attempt=1))
    (case,) = document(samples.run(lost, samples.record(run=RunInfo("run", attempt=2)))).iter("testcase")
    assert [child.tag for child in case] == ["properties", "flakyFailure"]
    assert (case[1].attrib["type"], case[1].attrib["message"]) == ("not-launched", "no board")
    again = dataclasses.replace(lost, run=RunInfo("run", attempt=2))
    (case,) = document(samples.run(lost, again)).iter("testcase")
    assert [child.tag for child in case] == ["properties", "failure", "rerunFailure"]


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


def test_the_gates_cases_of_two_schemes_have_names_of_their_own() -> None:
    """And that of a model with one scheme has the name that it had."""
    changed = samples.comparison(changes=1)
    subject = dataclasses.replace(changed.changes[0].subject, label="net.py:net", scheme="a8w8")
    changes = [dataclasses.replace(changed.changes[0], subject=dataclasses.replace(subject, scheme=scheme))
             for scheme in ("a8w8", "a16w8")]  # fmt: skip
    documents = [ET.fromstring(junit.write(samples.run(), dataclasses.replace(changed, changes=tuple(some))))
                 for some in (changes, changes[:1])]  # fmt: skip
    names = [[case.attrib["name"] for case in root.iter("testcase")] for root in documents]
    place = "ethos-u55-128, Shared_Sram, virtual"
    assert names == [[f"gate net.py:net [{place}, a8w8]", f"gate net.py:net [{place}, a16w8]"],
                     [f"gate net.py:net [{place}]"]]  # fmt: skip
