"""The tables of docs/on-the-cpu.md, from the reasons that a run gives (lowering/upstream/reasons).

They are kept in the page, between two comments, so that they are read in a checkout. `python docs/on_the_cpu.py` renews
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ethos_hil.lowering.upstream.reasons import by_operator, rules
from ethos_hil.lowering.upstream.reasons.rule import U85, CpuRule, Example
from ethos_hil.suites.lab.shared import markdown_table

PAGE = Path(__file__).parent / "on-the-cpu.md"
_BEGIN, _END = "<!-- made by docs/on_the_cpu.py -->", "<!-- until here -->"
_WORDS = {
    "executorch": "ExecuTorch", "operator": "it", "npu": "an Ethos-U55 or U65", "quantizer": "your quantizer",
    "unmatched": "filter", "there": "...",
}  # fmt: skip
_HEAD = ("what a run says", "what would help", "instead of", "write")


def tables() -> str:
    """Return all tables, with their headings."""
    return "\n".join((
        "## Operators that ExecuTorch does not know\n", _by_operator(by_operator.OPERATORS),
        "## Limits of Ethos-U55 and Ethos-U65\n", _by_rule(rules.U55_RULES),
        "## Limits on every NPU\n", _by_rule((*rules.ANY_RULES, rules.TYPES, rules.MIXED)),
        "## What was asked, and what a quantizer decided\n",
        _by_rule((*rules.ASKED, rules.LEFT_OUT, rules.NOT_FOUND, rules.FOREIGN, rules.FOREIGN_LEFT, rules.GIVEN)),
    ))  # fmt: skip


def renewed(page: str) -> str:
    """Return a page's text with its tables as they are made now."""
    before, rest = page.split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{tables()}\n{_END}{rest.split(_END)[1]}"


def _by_operator(known: Iterable[CpuRule]) -> str:
    rows = [
        (", ".join(f"`{name.removeprefix('aten.')}`" for name in rule.operators), rule.remedy, *cells)
        for rule in known
        for cells in _cells(rule)
    ]
    return markdown_table(("operator", *_HEAD[1:]), _once(rows))


def _by_rule(known: Iterable[CpuRule]) -> str:
    rows = [(_plain(rule.why), _plain(rule.remedy), *cells) for rule in known for cells in _cells(rule)]
    return markdown_table(_HEAD, _once(rows))


def _once(rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Rows without what the row above says already, but for the lines of code."""
    said: tuple[str, ...] = ()
    for row in rows:
        yield ("", "", *row[2:]) if row[:2] == said else row
        said = row[:2]


def _cells(rule: CpuRule) -> Iterator[tuple[str, str]]:
    if not rule.examples:
        yield "", ""
    for example in rule.examples:
        yield f"`{example.before}`", f"`{example.after}`{_where(example)}"


def _where(example: Example) -> str:
    if example.other:
        return f" for {example.other}"
    return (" (Ethos-U85)" if example.npu == U85 else "") + ("" if example.alike else ", which is not the same")


def _plain(text: str) -> str:
    """Return a sentence with its values by their names."""
    return re.sub(r"{(\w+)}", lambda value: _WORDS.get(value[1], f"*{value[1]}*"), text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
