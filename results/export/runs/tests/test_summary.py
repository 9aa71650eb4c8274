"""The summary for CI jobs: read as GitHub's Markdown, all foreign text is code, and it says how the run went."""

from __future__ import annotations

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


RUNS = {**samples.runs(), "hostile": (samples.hostile(), samples.comparison(samples.HOSTILE))}


@pytest.mark.parametrize("what", RUNS)
def test_a_summary_has_no_markup_but_ours_and_calls_nobody(what: str) -> None:
    parsed = Page(summary.write(*RUNS[what]))
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
