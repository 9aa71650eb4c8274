"""Consoles and tables that show text of unknown origin as it is."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.table import Table
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


def add_row(table: Table, *cells: str | Text) -> None:
    """Add a row to a table; a cell that is a `str` is text of unknown origin."""
    table.add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in cells))
