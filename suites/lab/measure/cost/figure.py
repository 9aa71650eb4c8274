"""A number that the benchmark measures, with the threshold it must meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

SCHEMA_VERSION = 1
SHORT = "falls short"


class Direction(StrEnum):
    """The side of the limit on which a value must be."""

    AT_MOST = "at most"
    AT_LEAST = "at least"


@dataclass(frozen=True)
class Threshold:
    """How good a value must be.

    Attributes:
        direction: the side of the limit.
        limit: in the value's unit; the limit itself is good enough.
    """

    direction: Direction
    limit: float

    def met_by(self, value: float) -> bool:
        """Return whether a value is good enough. NaN never is."""
        return value <= self.limit if self.direction is Direction.AT_MOST else value >= self.limit


def at_most(limit: float) -> Threshold:
    """Return the threshold of a value that must not exceed a limit."""
    return Threshold(Direction.AT_MOST, limit)


def at_least(limit: float) -> Threshold:
    """Return the threshold of a value that must reach a limit."""
    return Threshold(Direction.AT_LEAST, limit)


@dataclass(frozen=True)
class Figure:
    """One number.

    Attributes:
        what: what it is the number of.
        value: in `unit`.
        unit: "ms", "s", "KiB", or "times" for a ratio.
        provenance: how it was found, as "wall, median of 7".
        threshold: how good it must be; None when it is for information only.
    """

    what: str
    value: float
    unit: str
    provenance: str
    threshold: Threshold | None = None

    @property
    def short(self) -> bool:
        """Whether it falls short of its threshold."""
        return self.threshold is not None and not self.threshold.met_by(self.value)


@dataclass(frozen=True)
class BenchPart:
    """What one part of the benchmark measured.

    Attributes:
        figures: its numbers.
        details: tables that say more, for people.
        data: the same for programs.
    """

    figures: tuple[Figure, ...]
    details: tuple[RenderableType, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


def table(title: str, figures: Sequence[Figure]) -> Table:
    """Return a table with a row for each figure. Rows that fall short say so, and are red on a terminal."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column(title)
    grid.add_column("measured now", justify="right")
    for column in ("threshold", "", "provenance"):
        grid.add_column(column)
    for figure in figures:
        limit = f"{figure.threshold.direction} {shown(figure.threshold.limit, figure.unit)}" if figure.threshold else ""
        cells = (figure.what, shown(figure.value, figure.unit), limit, SHORT if figure.short else "", figure.provenance)
        grid.add_row(*(Text(cell, style="bold red" if figure.short else "") for cell in cells))
    return grid


def shown(value: float, unit: str) -> str:
    """Return a value as text, with three digits or more."""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f} {unit}"


def to_json(parts: Mapping[str, BenchPart]) -> dict[str, Any]:
    """Return the figures and data of all parts for programs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "figures": [
            {"part": name, **asdict(figure), "short": figure.short}
            for name, part in parts.items()
            for figure in part.figures
        ],
        "details": {name: part.data for name, part in parts.items() if part.data},
    }
