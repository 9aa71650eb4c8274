"""The matrix of a run: a row for each case of an operator or model, a column for each profile and NPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.results.account import Accounted
from ethos_hil.results.report.sparkline import sparkline
from ethos_hil.results.report.wording import amount
from ethos_hil.results.standing import Standing

_ORDER = ("MI", "FP", "BI", "INT", "U55_BI", "U65_BI", "U85_BI")


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
    """How a case stands in a column: its standing, and its cycles where there are some."""

    standing: Standing
    cycles: str


@dataclass(frozen=True)
class MatrixRow:
    """A case with its cells, one for each column; `letters` are those of its cells.

    Attributes:
        operator, case: its names.
        cells: None where it was not asked for.
        letters: see there.
        trend: its cycles in the runs before; empty where there is no history.
    """

    operator: str
    case: str
    cells: tuple[MatrixCell | None, ...]
    letters: str
    trend: Markup


@dataclass(frozen=True)
class Matrix:
    """Columns, rows, and in how many cells each standing is.

    Attributes:
        columns, rows: see there.
        shown: the names of the columns: profile and NPU, and what else tells them apart.
        standings: those that are in it.
        trends: whether rows have one.
    """

    columns: tuple[MatrixColumn, ...]
    shown: tuple[tuple[str, str], ...]
    rows: tuple[MatrixRow, ...]
    standings: tuple[Standing, ...]
    trends: bool


Series = Mapping[tuple[str, str, str, str], Sequence[float]]
"""Cycles of the last runs, oldest first, by label, NPU, memory mode and target."""


def matrix(asked: Sequence[Accounted], trends: Series) -> Matrix:
    """Return the matrix of a run."""
    placed = _placed(asked)
    columns = tuple(sorted({column for column, _ in placed}))
    rows: dict[tuple[str, str], dict[MatrixColumn, Accounted]] = {}
    for column, each in placed:
        rows.setdefault(_row_of(each), {})[column] = each
    return Matrix(
        columns=columns,
        shown=tuple((column.profile or "model", _place(column, columns)) for column in columns),
        rows=tuple(_row(*names, found, columns, trends) for names, found in rows.items()),
        standings=tuple(each for each in Standing if any(one.standing is each for one in asked)),
        trends=bool(trends),
    )


def _row_of(asked: Accounted) -> tuple[str, str]:
    test = asked.record.test
    return (test.operator, test.case) if test is not None else (asked.record.model, asked.record.method)


def _placed(asked: Sequence[Accounted]) -> list[tuple[MatrixColumn, Accounted]]:
    """Return the column of each question: its profile and NPU, and memory mode and target where a row needs them too.

    What failed before it had a mode and a target is in the first column of its profile and NPU.
    """
    seen: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    for each in asked:
        seen.setdefault(_profile_and_npu(each), Counter())[_row_of(each)] += 1
    several = {place for place, rows in seen.items() if max(rows.values()) > 1}
    variants: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for each in asked:
        if _profile_and_npu(each) in several and each.record.memory_mode:
            found = variants.setdefault(_profile_and_npu(each), [])
            found += [
                variant for variant in [(each.record.memory_mode, each.record.target.name)] if variant not in found
            ]
    placed = []
    for each in asked:
        profile, npu = place = _profile_and_npu(each)
        first = min(variants.get(place, [("", "")]))
        variant = (each.record.memory_mode, each.record.target.name) if each.record.memory_mode else first
        mode, target = variant if place in several else ("", "")
        order = _ORDER.index(profile) if profile in _ORDER else len(_ORDER)
        placed.append((MatrixColumn(order, profile, npu, mode, target), each))
    return placed


def _profile_and_npu(asked: Accounted) -> tuple[str, str]:
    test = asked.record.test
    return (test.profile if test is not None else "", asked.record.npu)


def _place(column: MatrixColumn, columns: Sequence[MatrixColumn]) -> str:
    """Return what tells a column apart: the NPU, and memory mode and target where they are not the same for all."""
    alike = [each for each in columns if (each.profile, each.npu) == (column.profile, column.npu)]
    modes, targets = {each.memory_mode for each in alike}, {each.target for each in alike}
    parts = (column.npu.removeprefix("ethos-"), column.memory_mode if len(modes) > 1 else "",
             column.target if len(targets) > 1 else "")  # fmt: skip
    return " ".join(part for part in parts if part)


def _row(
    operator: str, case: str, found: Mapping[MatrixColumn, Accounted], columns: Sequence[MatrixColumn], trends: Series
) -> MatrixRow:
    cells = tuple(_cell(found[column]) if column in found else None for column in columns)
    lines = {}
    for column, each in found.items():
        record = each.record
        values = trends.get((each.label, record.npu, record.memory_mode, record.target.name))
        if values:
            lines[column.npu.removeprefix("ethos-") or column.target] = values
    letters = "".join(sorted({cell.standing.letter for cell in cells if cell is not None}))
    return MatrixRow(operator, case, cells, letters, sparkline(lines) if lines else Markup())


def _cell(asked: Accounted) -> MatrixCell:
    cycles = asked.record.metric("npu_cycles")
    return MatrixCell(asked.standing, amount(cycles.value) if cycles is not None else "")
