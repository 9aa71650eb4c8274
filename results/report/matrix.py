"""The matrix of a run: a row for each case of an operator or model, a column for each profile and NPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report.sparkline import sparkline
from ethos_hil.results.report.wording import amount
from ethos_hil.results.subject import Names, Subject

_ORDER = ("MI", "FP", "BI", "INT", *(family.suffix for family in FAMILIES))


@dataclass(frozen=True, order=True)
class MatrixColumn:
    """A profile on one NPU. Memory mode and target are "" where no row needs them; `order` is the profile's place."""

    order: int
    profile: str
    npu: str
    memory_mode: str
    target: str


@dataclass(frozen=True)
class MatrixCell:
    """How a case stands in a column.

    Attributes:
        standing: see there.
        cycles: where there are some.
        moved: what is different from the other side of the comparison, "+2.5 %" or "new"; "" for nothing.
        worse: whether that is for the worse.
    """

    standing: Standing
    cycles: str
    moved: str = ""
    worse: bool = False


@dataclass(frozen=True)
class MatrixRow:
    """A case with its cells, one for each column; `letters` are those of its cells.

    Attributes:
        operator, case: its names.
        cells: None where it was not asked for.
        letters: see there.
        trend: its cycles in the runs before; empty where there is no history.
        calm: whether it is right and as before.
    """

    operator: str
    case: str
    cells: tuple[MatrixCell | None, ...]
    letters: str
    trend: Markup
    calm: bool


@dataclass(frozen=True)
class Matrix:
    """Columns, rows, and in how many cells each standing is.

    Attributes:
        columns, rows: see there. Rows with something to look at come first.
        shown: the names of the columns: profile and NPU, and what else tells them apart.
        standings: those that are in it.
        trends: whether rows have one.
    """

    columns: tuple[MatrixColumn, ...]
    shown: tuple[tuple[str, str], ...]
    rows: tuple[MatrixRow, ...]
    standings: tuple[Standing, ...]
    trends: bool


Series = Mapping[Subject, Sequence[float]]
"""Cycles of the last runs, oldest first."""
Moved = Mapping[Subject, tuple[str, bool]]
"""What is different, in words, and whether it is for the worse."""


def matrix(asked: Sequence[Accounted], trends: Series, moved: Moved, names: Names) -> Matrix:
    """Return the matrix of a run."""
    placed = _placed(asked, names)
    columns = tuple(sorted({column for column, _ in placed}))
    rows: dict[tuple[str, str], dict[MatrixColumn, Accounted]] = {}
    for column, each in placed:
        operator, case = row = _row_of(each, names)
        number = 1
        while column in rows.get(row, ()):  # nothing but its number tells it from another one
            number += 1
            row = operator, f"{case} #{number}".strip()
        rows.setdefault(row, {})[column] = each
    made = (_row(*names, found, columns, trends, moved) for names, found in rows.items())
    return Matrix(
        columns=columns,
        shown=tuple((column.profile or "model", _place(column, columns)) for column in columns),
        rows=tuple(sorted(made, key=lambda row: row.calm)),
        standings=tuple(each for each in Standing if any(one.standing is each for one in asked)),
        trends=any(len(values) > 1 for values in trends.values()),
    )


def _row_of(asked: Accounted, names: Names) -> tuple[str, str]:
    record, test, more = asked.record, asked.record.test, names.more(asked.subject)
    if test is None:
        return record.model, more or record.method
    return test.operator, f"{test.case} ({more})".strip() if more else test.case


def _placed(asked: Sequence[Accounted], names: Names) -> list[tuple[MatrixColumn, Accounted]]:
    """Return the column of each question.

    Memory modes are in all columns where there are several in the matrix, so that cycles of two modes never stand side
    by side as if they were of one; a target is where a row needs it. What failed before it had a mode and a target is
    in the first column of its profile and NPU.
    """
    several_modes = len({each.record.memory_mode for each in asked} - {""}) > 1
    seen: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    variants: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for each in asked:
        place = _profile_and_npu(each)
        seen.setdefault(place, Counter())[_row_of(each, names)] += 1
        if each.record.memory_mode:
            variants.setdefault(place, set()).add((each.record.memory_mode, each.record.target.name))
    several = {place for place, rows in seen.items() if max(rows.values()) > 1}
    placed = []
    for each in asked:
        profile, npu = place = _profile_and_npu(each)
        known = (each.record.memory_mode, each.record.target.name) if each.record.memory_mode else None
        mode, target = known or min(variants.get(place, [("", "")]))
        order = _ORDER.index(profile) if profile in _ORDER else len(_ORDER)
        column = MatrixColumn(order, profile, npu, mode if place in several or several_modes else "",
                              target if place in several else "")  # fmt: skip
        placed.append((column, each))
    return placed


def _profile_and_npu(asked: Accounted) -> tuple[str, str]:
    test = asked.record.test
    return (test.profile if test is not None else "", asked.record.npu)


def _place(column: MatrixColumn, columns: Sequence[MatrixColumn]) -> str:
    """Return what tells a column apart: the NPU, the memory mode, and the target where it is not the same for all."""
    alike = [each for each in columns if (each.profile, each.npu) == (column.profile, column.npu)]
    modes, targets = {each.memory_mode for each in columns} - {""}, {each.target for each in alike}
    parts = (column.npu.removeprefix("ethos-"), column.memory_mode if len(modes) > 1 else "",
             column.target if len(targets) > 1 else "")  # fmt: skip
    return " ".join(part for part in parts if part)


def _row(
    operator: str, case: str, found: Mapping[MatrixColumn, Accounted], columns: Sequence[MatrixColumn], trends: Series,
    moved: Moved,
) -> MatrixRow:  # fmt: skip
    cells = tuple(_cell(found[column], moved) if column in found else None for column in columns)
    lines = {}
    for column, each in found.items():
        values = trends.get(each.subject, ())
        if len(values) > 1:
            lines[_place(column, columns) or each.record.target.name] = values
    letters = "".join(sorted({cell.standing.letter for cell in cells if cell is not None}))
    calm = not any(cell is not None and (cell.standing.red or cell.moved) for cell in cells)
    return MatrixRow(operator, case, cells, letters, sparkline(lines) if lines else Markup(), calm)


def _cell(asked: Accounted, moved: Moved) -> MatrixCell:
    cycles = asked.record.metric("npu_cycles")
    told, worse = moved.get(asked.subject, ("", False))
    return MatrixCell(asked.standing, amount(cycles.value) if cycles is not None else "", told, worse)
