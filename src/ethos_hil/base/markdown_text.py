"""Text of unknown origin in Markdown, and tables of it.

Names and messages come from models, files and targets. In a job summary or a comment they must neither be markup nor
call anybody: GitHub and GitLab notify who is named behind an @. So they are code, in which neither does anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ethos_hil.base.plain_text import cut, one_line


def code(text: str, length: int = 200) -> str:
    """Return a text as code on one line, that may stand in a sentence or in a cell of a table; "" for an empty one."""
    shown = cut(one_line(text), length)
    if not shown:
        return ""
    if "|" in shown:
        # In a cell it would have to be escaped, and elsewhere not. An entity is never markup.
        plain = "".join(one if one.isalnum() or one == " " else f"&#{ord(one)};" for one in shown)
        return f"<code>{plain}</code>"
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    blank = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def row(cells: Iterable[str]) -> str:
    """Return a row of a table. The cells are Markdown."""
    return f"| {' | '.join(cells)} |"


def head(titles: Sequence[str], *, right: Sequence[str] = ()) -> list[str]:
    """Return the two lines that a table begins with.

    Args:
        titles: of the columns.
        right: those of columns of numbers, which are flush right.
    """
    return [row(titles), f"|{'|'.join('---:' if title in right else '---' for title in titles)}|"]
