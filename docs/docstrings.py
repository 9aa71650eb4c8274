"""Docstrings as this repository writes them, for Sphinx.

A docstring has short sections (`Args:`, `Attributes:`, `Returns:`, `Raises:`), and examples that are indented. Sphinx's
own napoleon reads the words before any colon as a type, which they are not here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TITLES = {
    "Args": "Parameters",
    "Attributes": "Attributes",
    "Returns": "Returns",
    "Raises": "Raises",
    "Yields": "Yields",
}
_SECTION = re.compile(rf"^({'|'.join(TITLES)}):$")
_ITEM = re.compile(r"^(?P<names>[\w*]+(?:, [\w*]+)*): (?P<text>.*)$")


def rendered(lines: list[str]) -> list[str]:
    """A docstring in reStructuredText.

    Args:
        lines: of the docstring, without its indentation.
    """
    return list(_rendered(lines))


def _rendered(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        section = _SECTION.match(lines[at])
        if section:
            body = list(takewhile(lambda line: not line or line.startswith(" "), lines[at + 1 :]))
            at += 1 + len(body)
            yield from ("", f"**{TITLES[section[1]]}**", "", *_body(body), "")
        elif lines[at].startswith(" ") and (at == 0 or not lines[at - 1]):
            example = list(takewhile(lambda line: not line or line.startswith(" "), lines[at:]))
            at += len(example)
            yield from (".. code-block:: python", "", *example, "")
        else:
            yield lines[at]
            at += 1


def _body(lines: list[str]) -> Iterator[str]:
    """A section's text: a list of what it names, or else a paragraph."""
    text = [line.removeprefix("    ") for line in lines]
    if not any(_ITEM.match(line) for line in text):
        yield from text
        return
    for line in text:
        item = _ITEM.match(line)
        if item:
            names = ", ".join(f"``{name}``" for name in item["names"].split(", "))
            yield f"- {names}: {item['text']}"
        else:
            yield f"  {line.strip()}" if line else ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls it."""

    def process(_app: Any, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
        lines[:] = rendered(lines)

    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True}
