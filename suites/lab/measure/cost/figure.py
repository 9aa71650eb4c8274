"""A number that the benchmark measures, with the limit that it must keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.terminal.progress import Live

SHORT = "falls short"


@dataclass(frozen=True)
class Figure:
    """One number.

    Attributes:
        what: what it is the number of.
        value: in `unit`.
        unit: "ms", "s", "KiB", or "times" for a ratio.
        provenance: how it was found, as "wall, median of 7".
        at_most, at_least: the limit, which is good enough itself; None of both when it is for information only.
    """

    what: str
    value: float
    unit: str
    provenance: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def has_limit(self) -> bool:
        """Whether there is a limit to keep."""
        return self.at_most is not None or self.at_least is not None

    @property
    def short(self) -> bool:
        """Whether it falls short of its limit. NaN always does."""
        too_large = self.at_most is not None and not self.value <= self.at_most
        return too_large or (self.at_least is not None and not self.value >= self.at_least)

    @property
    def limit(self) -> str:
        """The limit as text."""
        if self.at_most is not None:
            return f"at most {shown(self.at_most, self.unit)}"
        return "" if self.at_least is None else f"at least {shown(self.at_least, self.unit)}"


Measure = Callable[[Live], Iterator[Figure | RenderableType]]
"""Measures a part of the benchmark: its figures, and tables for people that say more."""


def table(title: str, figures: Sequence[Figure]) -> Table:
    """Return a table with a row for each figure. Rows that fall short say so, and are red on a terminal."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column(title)
    grid.add_column("measured now", justify="right")
    for column in ("threshold", "", "provenance"):
        grid.add_column(column)
    for figure in figures:
        short = SHORT if figure.short else ""
        cells = (figure.what, shown(figure.value, figure.unit), figure.limit, short, figure.provenance)
        grid.add_row(*(Text(cell, style="bold red" if figure.short else "") for cell in cells))
    return grid


def shown(value: float, unit: str) -> str:
    """Return a value as text, with three digits or more."""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f} {unit}"
