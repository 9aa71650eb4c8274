"""What readers of others find in a run's formats: JUnit's XML, OpenMetrics, a summary in Markdown, and tables."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import random
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import duckdb
import pytest
import xmlschema
from markdown_it import MarkdownIt
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ethos_hil.base.plain_text import cut, escape, one_line
from ethos_hil.base.record import Metric, RunInfo
from ethos_hil.results.compaction.columns import COLUMNS
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.export.exporter import NotExportable
from ethos_hil.results.export.runs import junit, openmetrics, summary, tables
from ethos_hil.results.export.runs.summary import code, head
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.history import History
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.store import StoredRecord

# JUnit's XML: it is what the schema says, with stable names, and CI systems read all of it.


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


# OpenMetrics, read by the parser of Prometheus' own client library.


def families(results: RunResults, comparison: RunComparison | None = None) -> dict[str, Family]:
    groups = list(text_string_to_metric_families(openmetrics.write(results, comparison)))
    assert len({family.name for family in groups}) == len(groups)
    return {family.name: family for family in groups}


def test_the_parser_refuses_what_is_not_openmetrics() -> None:
    text = openmetrics.write(samples.run(samples.record()), None)
    unit = "# UNIT ethos_hil_npu_cycles "
    changes = (("# EOF\n", ""), (f"{unit}cycles", f"{unit}s"), ('npu="', "npu="))
    for broken in (text.replace(old, new, 1) for old, new in changes):
        assert broken != text
        with pytest.raises(ValueError):
            list(text_string_to_metric_families(broken))


@pytest.mark.parametrize("what", RUNS)
def test_the_parser_reads_every_number_of_a_run(what: str) -> None:
    """Two units of one name, and names that are ours, are families of their own; of two answers the last counts."""
    results, comparison = RUNS[what]
    last = {(of.name, metric.name, metric.provenance, metric.unit): metric.value
            for of in results.records for metric in of.metrics}  # fmt: skip
    samples_of = [sample for family in families(results, comparison).values() for sample in family.samples]
    numbers = [sample.value for sample in samples_of if "provenance" in sample.labels]
    assert set(numbers) <= set(last.values())
    assert len(numbers) >= len({key[1:] for key in last})


def test_foreign_text_stays_a_label() -> None:
    by_name = families(samples.hostile(), samples.comparison(samples.HOSTILE))
    verified = by_name["ethos_hil_verified"].samples
    assert [sample.labels["npu"] for sample in verified] == [escape(samples.HOSTILE)] * 2
    assert not [name for name in by_name if not name.startswith("ethos_hil_")]
    numbers = {
        sample.value for family in by_name.values() for sample in family.samples if "provenance" in sample.labels
    }
    assert numbers == set(samples.NUMBERS)


# The summary for CI jobs: read as GitHub's Markdown, all foreign text is code.


GITHUB = MarkdownIt("gfm-like", {"linkify": False}).enable("strikethrough")
OURS = {"h1", "h2", "h3", "p", "strong", "em", "ul", "li", "code", "table", "thead", "tbody", "tr", "th", "td", "br"}
MENTION = re.compile(r"(?<![\w`])@[A-Za-z]|(?<!\w)#\d")


class Page(HTMLParser):
    """What a browser would show: the tags, the text outside code, and each piece of code."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.plain: list[str] = []
        self.code: list[str] = []
        self._inside = 0
        self.feed(GITHUB.render(text))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "code":
            self._inside += 1
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag == "code"

    def handle_comment(self, data: str) -> None:
        self.tags.add("comment")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.code[-1] += data
        else:
            self.plain.append(data)


ALPHABET = "a`|\\ *_<>&#@;[]()!~$:'\"\n\u202e\x00é=-"


@pytest.mark.parametrize("seed", range(30))
def test_any_text_is_code_in_a_sentence_and_in_a_cell(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        text = "".join(chance.choices(ALPHABET, k=chance.randrange(1, 12))).strip()
        shown = one_line(text)
        if not shown:
            continue
        for markdown in (f"x {code(text)} y", "\n".join([*head(("a", "b")), summary.row(["x", code(text)])])):
            parsed = Page(markdown)
            assert parsed.code == [shown], markdown
            assert parsed.tags <= OURS
            assert not MENTION.search("".join(parsed.plain)), markdown


def test_the_guard_sees_what_is_no_code() -> None:
    parsed = Page("x @team <b>x</b> <!-- y -->\n\n| a |\n|---|\n| b|c`d |\n")
    assert MENTION.search("".join(parsed.plain))
    assert parsed.tags - OURS == {"b", "comment"}
    assert html.unescape("&#124;") == "|"


FOREIGN = {**RUNS, "hostile": (samples.hostile(), samples.comparison(samples.HOSTILE))}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_summary_has_no_markup_but_ours_and_calls_nobody(what: str) -> None:
    parsed = Page(summary.write(*FOREIGN[what]))
    assert parsed.tags <= OURS
    plain = "".join(parsed.plain)
    assert not MENTION.search(plain)
    assert "example.org" not in plain
    assert (cut(one_line(samples.HOSTILE), 200) in parsed.code) is (what == "hostile")


def test_it_is_cut_at_a_line_before_github_shows_nothing_of_it() -> None:
    operators = [samples.record(name=f"{number:05}" + "é|" * 95) for number in range(2_000)]
    content = summary.write(samples.run(*operators), samples.comparison()).encode()
    assert summary.MOST - 3_000 < len(content) <= summary.MOST
    *_, before, blank, last = content.decode().splitlines()
    assert re.fullmatch(r"_The rest, [\d,]+ lines, is left out: a job summary may have 1 MiB\._", last)
    assert (before[-1], blank) == ("|", "")


# The table of points: one definition with a history's, in CSV and in Parquet.


OF_A_METRIC = ("metric", "value", "unit", "provenance", "samples")


def table(results: RunResults) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tables.points_csv(results, None).decode())))


def parquet(results: RunResults, folder: Path) -> list[dict[str, object]]:
    path = folder / "points.parquet"
    path.write_bytes(tables.points_parquet(results, None))
    with duckdb.connect() as database:
        relation = database.read_parquet(str(path))
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def test_the_rows_are_those_of_a_history(tmp_path: Path) -> None:
    records = (samples.record(), samples.record(name="sub", run=None), samples.failed())
    results = samples.run(*records)
    name = results.name
    compact_records([StoredRecord(name, results.created, record) for record in records], tmp_path / "history")
    expected = History(tmp_path / "history").rows("SELECT * EXCLUDE series FROM points ORDER BY number")
    assert len(expected) == 12
    assert parquet(results, tmp_path) == expected
    columns = [*(column for column in COLUMNS if column != "metrics"), *OF_A_METRIC]
    assert list(expected[0]) == list(table(results)[0]) == columns
    for row, same in zip(table(results), expected, strict=True):
        for column in columns:
            assert row[column] == cell(same[column]), column


def cell(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def test_a_record_is_of_the_run_that_it_names() -> None:
    rows = table(samples.run(samples.record(run=None), samples.record(name="sub", run=RunInfo("another"))))
    assert [row["run"] for row in rows[::4]] == ["20261125T100247Z-c394cb", "another"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_cell_is_a_formula(start: str) -> None:
    """Neither as a program reads the file, nor as a spreadsheet does that takes quotes for nothing."""
    text = f'{start}cmd|" /C calc"!A0'
    record = samples.record(model=text, npu=text, memory_mode=text, test=None,
                      metrics=(Metric(text, -1, text, text, (-1, 2)),))  # fmt: skip
    for row in table(samples.run(record)):
        for column, cell in row.items():
            if column != "value":
                assert not cell.startswith(start), column
        assert row["label"] == row["npu"] == row["metric"] == f"'{text}"
        assert (row["value"], row["samples"]) == ("-1.0", "'-1.0 2.0")


def test_text_is_escaped_in_csv_and_kept_in_parquet(tmp_path: Path) -> None:
    results = samples.hostile()
    row, *_ = rows = table(results)
    assert [float(each["value"]) for each in rows[: len(samples.NUMBERS)]] == list(samples.NUMBERS), "they are exact"
    assert row["npu"] == f"'{escape(samples.HOSTILE, keep='')}"
    assert not {char for char in tables.points_csv(results, None).decode() if not char.isprintable()} - {"\n"}
    cells = parquet(results, tmp_path)[0]
    assert cells["npu"] == samples.HOSTILE.replace("\udc80", "\\udc80")
    assert cells["value"] == 0
