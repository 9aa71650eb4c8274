"""Consoles and tables that show text of unknown origin as it is."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ethos_hil.base.plain_text import escaped

# The width of piped output; a terminal has its own width.
_PIPED_WIDTH = 200


def console(file: TextIO | None = None) -> Console:
    """Return a console on `file`, or stdout, that colours only on a terminal and does not squeeze tables when piped."""
    made = Console(file=file, highlight=False, markup=False, emoji=False)
    if made.is_terminal:
        return made
    return Console(file=file, highlight=False, markup=False, emoji=False, width=_PIPED_WIDTH)


def plain(text: str) -> Text:
    """Return text of unknown origin for rich: it is shown as it is, without markup, and with escapes for controls.

    In a plain `str` rich would take `[bold]` for markup, on any console.
    """
    return Text(escaped(text))


def table_of(*columns: str | Column, **more: Any) -> Table:
    """Return a table in our form, without lines. A column that is a `str` wraps its text; `more` is for rich."""
    return Table(*columns, box=None, pad_edge=False, header_style="bold", **more)


def fixed(title: str, **more: Any) -> Column:
    """Return a column whose text is not wrapped."""
    return Column(title, no_wrap=True, **more)


def shortened(title: str) -> Column:
    """Return a column whose text is cut where the terminal is narrow."""
    return fixed(title, overflow="ellipsis")


def number(title: str) -> Column:
    """Return a column of numbers."""
    return fixed(title, justify="right")


def add_row(table: Table, *cells: str | Text) -> None:
    """Add a row to a table; a cell that is a `str` is text of unknown origin."""
    table.add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in cells))
