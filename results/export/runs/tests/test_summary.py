"""The summary for CI jobs: read as GitHub's Markdown, all foreign text is code, and it says how the run went."""

from __future__ import annotations

import dataclasses
import html
import random
import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.results.export.runs import summary
from ethos_hil.results.export.runs.summary import code, head, row
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.gate.change import RunComparison, Word
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.store import Skipped
from ethos_hil.results.subject import subject_of

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
        self.rows: list[list[str]] = []
        self._inside = 0
        self._cell = False
        self.feed(GITHUB.render(text))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "code":
            self._inside += 1
            self.code.append("")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag == "code"
        self._cell = self._cell and tag not in ("td", "th")

    def handle_comment(self, data: str) -> None:
        self.tags.add("comment")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.code[-1] += data
        else:
            self.plain.append(data)
        if self._cell:
            self.rows[-1][-1] += data


def page(results: RunResults, comparison: RunComparison | None = None) -> Page:
    return Page(summary.write(results, comparison))


ALPHABET = "a`|\\ *_<>&#@;[]()!~$:'\"\n\u202e\x00é=-"


@pytest.mark.parametrize("seed", range(30))
def test_any_text_is_code_in_a_sentence_and_in_a_cell(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        text = "".join(chance.choices(ALPHABET, k=chance.randrange(1, 12))).strip()
        shown = one_line(text)
        if not shown:
            continue
        for markdown in (f"x {code(text)} y", "\n".join([*head(("a", "b")), row(["x", code(text)])])):
            parsed = Page(markdown)
            assert parsed.code == [shown], markdown
            assert parsed.tags <= OURS
            assert not MENTION.search("".join(parsed.plain)), markdown


def test_the_guard_sees_what_is_no_code() -> None:
    parsed = Page("x @team <b>x</b> <!-- y -->\n\n| a |\n|---|\n| b|c`d |\n")
    assert MENTION.search("".join(parsed.plain))
    assert parsed.tags - OURS == {"b", "comment"}
    assert html.unescape("&#124;") == "|"


def test_it_begins_with_how_the_run_went() -> None:
    lines = summary.write(samples.run(*samples.endings().values()), None).splitlines()
    assert lines[0] == "# ethos-hil: red: 3"
    assert lines[2] == (
        "`20261125T100247Z-c394cb`, started at `2026-11-25T10:02:51+00:00`: **1 verified**, "
        "**2 failed** (1 mismatch, 1 internal), **1 unverified**, **1 known defect**, **1 skipped**, "
        "**1 compiled-only**."
    )
    assert summary.write(samples.run(samples.record()), None).startswith("# ethos-hil: green\n")


def test_a_comparison_is_told_by_cause_with_what_moved() -> None:
    changed = samples.comparison("ethos-u-vela 5.1.0 became 5.2.0", changes=40)
    text = summary.write(samples.run(samples.record()), changed)
    assert text.startswith("# ethos-hil: red: 40; the gate fails\n")
    assert "Against `night1`: **40 regressed**, **1 missing**, 4,000 unchanged. The gate fails for 40 changes." in text
    assert "- `ethos-u-vela 5.1.0 became 5.2.0: 5.1.0 became 5.2.0`" in text
    assert "### 40 regressed by stream: `ethos-u-vela 5.1.0 became 5.2.0`" in text
    assert "### 1 missing\n" in text
    assert "And 10 more." in text
    rows = [cells for cells in page(samples.run(samples.record()), changed).rows if cells[0] == "regressed"]
    assert len(rows) == 30
    moved = "Conv2D ethos-u-vela 5.1.0 became 5.2.0:12 7 → 9"
    place = ["regressed", "ethos-u-vela 5.1.0 became 5.2.0 0", "ethos-u55-128, Shared_Sram", "npu_cycles (modelled)"]
    assert rows[0] == [*place, "1,000", "1,010", "+1.00 %", f"{moved * 3}and 2 more"]
    passing = RunComparison("a", "b", (), {Word.UNCHANGED: 7}, 1)
    text = summary.write(samples.run(samples.record()), passing)
    assert text.startswith("# ethos-hil: green; the gate passes\n")
    assert "Against `a`: 7 unchanged. The gate passes." in text
    assert "## Changes" not in text


def test_failures_have_kind_message_and_line() -> None:
    rows = page(samples.run(*samples.endings().values())).rows
    begin = rows.index(["what", "NPU", "target", "kind", "message", "line"])
    assert rows[begin + 1 : begin + 4] == [
        ["suites/ops/test_a.py::test_add_alone_U55_BI", "ethos-u55-128", "virtual", "no-reference",
         "nothing says what is right", "suites/ops/test_a.py:13"],
        ["suites/ops/test_a.py::test_sub_same_U55_BI", "ethos-u55-128", "virtual", "mismatch", "output 0 differs",
         "net.py:12"],
        ["net.py:net", "ethos-u55-128", "virtual", "internal", "TypeError: none", ""],
    ]  # fmt: skip


def test_the_table_has_a_letter_for_each_end() -> None:
    more = (samples.record(profile="MI", npu=""), samples.record(profile="BI", npu=""), samples.record(case="other"))
    text = summary.write(samples.run(*samples.endings().values(), *more), None)
    lines = text.split("## Operators and models\n\n")[1].splitlines()
    assert lines[0] == "|  | `MI` | `BI` | `U55_BI` | `ethos-u55-128` |"
    assert lines[2:6] == [
        "| `add` | 1V | 1V | 2V 1U 1S 1C |  |",
        "| `flawed` |  |  | 1D |  |",
        "| `net.py:net` |  |  |  | 1F |",
        "| `sub` |  |  | 1F |  |",
    ]
    assert "V verified, F failed, U unverified, D known defect, S skipped, C compiled-only" in lines


def test_what_was_not_read_is_told() -> None:
    results = samples.run(samples.record(), skipped=(Skipped("records-1.jsonl:2", "not a complete record"),))
    assert "- `records-1.jsonl:2 cannot be read: not a complete record`" in summary.write(results, None)


def test_foreign_text_is_no_markup_and_calls_nobody() -> None:
    parsed = page(samples.hostile(), samples.comparison(samples.HOSTILE))
    assert parsed.tags <= OURS
    assert cut(one_line(samples.HOSTILE), 200) in parsed.code
    assert not MENTION.search("".join(parsed.plain))
    assert "example.org" not in "".join(parsed.plain)


def test_it_is_cut_at_a_line_before_github_shows_nothing_of_it() -> None:
    operators = [samples.record(name=f"{number:05}" + "é|" * 95) for number in range(2_000)]
    content = summary.write(samples.run(*operators), samples.comparison()).encode()
    assert summary.MOST - 3_000 < len(content) <= summary.MOST
    *_, before, blank, last = content.decode().splitlines()
    assert re.fullmatch(r"_The rest, [\d,]+ lines, is left out: a job summary may have 1 MiB\._", last)
    assert (before[-1], blank) == ("|", "")


def test_two_schemes_of_a_model_are_told_apart() -> None:
    record = samples.failed(test=None, model="net.py:net")
    assert record.artifact is not None
    other = dataclasses.replace(record, artifact=dataclasses.replace(record.artifact, scheme="a16w8"))
    changed = samples.comparison(changes=1)
    worse = dataclasses.replace(changed.changes[0], subject=subject_of(other))
    rows = page(samples.run(record, other), dataclasses.replace(changed, changes=(worse,))).rows
    assert [cells[0] for cells in rows if "mismatch" in cells] == ["net.py:net (a8w8)", "net.py:net (a16w8)"]
    assert [cells[1] for cells in rows if cells[0] == "regressed"] == ["net.py:net (a16w8)"]
