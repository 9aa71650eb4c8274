"""A table in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> str:
    """Return a table.

    Args:
        head: what is above the columns.
        rows: the cells; a bar in one is escaped.
        right: those of `head` whose columns are numbers.
    """
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---:' if name in right else '---' for name in head)}|"]
    lines += [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
