"""TOML files that somebody else wrote: reading one ends soon and says what is wrong, whatever is in it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from ethos_hil.base.regular_file import read_text

_MOST = 10 << 20
"""Largest size of such a file, bytes."""
DEEPEST = 16
"""How deep arrays and tables may be nested, and how many parts a key may have. tomllib takes time and memory by the
square of the parts, 31 s and 6 GB for 50,000, and recurses into arrays. No file of ours needs more than five."""
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_TOKEN = re.compile(
    rf"""(?P<key>(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEEPEST}}})"""
    r"""|"{3}(?:[^"\\]|\\.|"(?!""))*+"{3}|'{3}(?:[^']|'(?!''))*+'{3}"""
    r"""|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|\#[^\n]*+|(?P<opens>[\[{])|(?P<closes>[\]}])""",
    re.DOTALL,
)
"""What has to be known of a text to see how deep it is: brackets outside of strings and comments."""


class BadToml(ValueError):
    """A file is not TOML. The message names the file and what is wrong."""


def read_toml(path: Path, name: str | None = None) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file, and what it says.

    Args:
        path: the file.
        name: what messages call it; by default its path.

    Raises:
        OSError: it cannot be read.
        BadToml: it is not TOML, or is nested too deeply.
    """
    try:
        text = read_text(path, most=_MOST)
        _check_depth(text)
        return text, tomllib.loads(text)
    except ValueError as error:
        raise BadToml(f"{path if name is None else name} is not TOML: {error}") from error


def _check_depth(text: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += bool(token["opens"]) - bool(token["closes"])
        what = f"a key has more than {DEEPEST} parts" if token["key"] else ""
        if depth > DEEPEST:
            what = f"arrays or tables are nested more than {DEEPEST} deep"
        if what:
            raise ValueError(f"{what} (at line {text.count(chr(10), 0, token.start()) + 1})")
