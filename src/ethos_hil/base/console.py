"""Consoles and tables that show text of unknown origin as it is."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ethos_hil.base.plain_text import escape

# The width of piped output; a terminal has its own width.
_PIPED_WIDTH = 200


def console(file: TextIO | None = None) -> Console:
    """Return a console on `file`, or stdout, that colours only on a terminal and does not squeeze tables when piped."""
    terminal = Console(file=file, highlight=False, markup=False, emoji=False)
    if terminal.is_terminal:
        return terminal
    return Console(file=file, highlight=False, markup=False, emoji=False, width=_PIPED_WIDTH)


def plain(text: str) -> Text:
    """Return text of unknown origin for rich: it is shown as it is, without markup, and with escapes for controls.

    In a plain `str` rich would take `[bold]` for markup, on any console.
    """
    return Text(escape(text))


def table_of(*columns: str | Column, padding: tuple[int, int, int, int] = (0, 1, 0, 1), footer: bool = False) -> Table:
    """Return a table without rows. A column is its title, or one of `right`, `whole`, `clipped` and `folded`."""
    return Table(*columns, box=None, pad_edge=False, header_style="bold", padding=padding, show_footer=footer)


def right(*titles: str | Text, no_wrap: bool = True) -> list[Column]:
    """Return columns of numbers."""
    return [Column(title, justify="right", no_wrap=no_wrap) for title in titles]


def whole(*titles: str | Text) -> list[Column]:
    """Return columns whose cells stay on one line."""
    return [Column(title, no_wrap=True) for title in titles]


def clipped(*titles: str | Text, most: int | None = None) -> list[Column]:
    """Return columns whose cells stay on one line, and lose their end where there is no room."""
    return [Column(title, no_wrap=True, overflow="ellipsis", max_width=most) for title in titles]


def folded(*titles: str | Text) -> list[Column]:
    """Return columns whose cells may break anywhere."""
    return [Column(title, overflow="fold") for title in titles]


def add_row(table: Table, *cells: str | Text) -> None:
    """Add a row to a table; a cell that is a `str` is text of unknown origin."""
    table.add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in cells))
