"""The tests of the suites: a matrix of cases by profile and NPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.verdict import Standing
from ethos_hil.results.gate.account import Accounted
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
    upstream: str = ""


MatrixCell = tuple[Accounted, str, bool]
"""A test in a column; what is different from the other side of the comparison, "+2.5 %" or "new", "" for nothing; and
whether that is for the worse."""


@dataclass(frozen=True)
class MatrixRow:
    """A case with its cells, one for each column; `letters` are those of its cells.

    Attributes:
        operator, case: its names.
        cells: None where it was not asked for.
        letters: see there.
        calm: whether it is right and as before.
    """

    operator: str
    case: str
    cells: tuple[MatrixCell | None, ...]
    letters: str
    calm: bool


@dataclass(frozen=True)
class Matrix:
    """Columns, rows, and in how many cells each standing is.

    Attributes:
        columns, rows: see there. Rows with something to look at come first.
        shown: the names of the columns: profile and NPU, and what else tells them apart.
        standings: those that are in it.
    """

    columns: tuple[MatrixColumn, ...]
    shown: tuple[tuple[str, str], ...]
    rows: tuple[MatrixRow, ...]
    standings: tuple[Standing, ...]


Moved = Mapping[Subject, tuple[str, bool]]
"""What is different, in words, and whether it is for the worse."""


def matrix(tests: Sequence[Accounted], moved: Moved, names: Names) -> Matrix:
    """Return the matrix of a run."""
    placed = _assign_columns(tests, names)
    columns = tuple(sorted({column for column, _ in placed}))
    rows: dict[tuple[str, str], dict[MatrixColumn, Accounted]] = {}
    for column, test in placed:
        operator, case = row = _row_of(test, names)
        number = 1
        while column in rows.get(row, ()):  # nothing but its number tells it from another one
            number += 1
            row = operator, f"{case} #{number}".strip()
        rows.setdefault(row, {})[column] = test
    matrix_rows = (_row(*names, cells, columns, moved) for names, cells in rows.items())
    return Matrix(
        columns=columns,
        shown=tuple((column.profile or "model", _place(column, columns)) for column in columns),
        rows=tuple(sorted(matrix_rows, key=lambda row: row.calm)),
        standings=tuple(standing for standing in Standing if any(test.standing is standing for test in tests)),
    )


def _row_of(entry: Accounted, names: Names) -> tuple[str, str]:
    record, test, more = entry.record, entry.record.test, names.more(entry.subject)
    if test is None:
        return record.model, more or record.method
    return test.operator, f"{test.case} ({more})".strip() if more else test.case


def _assign_columns(tests: Sequence[Accounted], names: Names) -> list[tuple[MatrixColumn, Accounted]]:
    """Return the column of each question.

    Memory modes are in all columns where there are several in the matrix, so that cycles of two modes never stand side
    by side as if they were of one; a target is where a row needs it. What failed before it had a mode and a target is
    in the first column of its profile and NPU.
    """
    several_modes = len({test.record.memory_mode for test in tests} - {""}) > 1
    seen: dict[_Place, Counter[tuple[str, str]]] = {}
    variants: dict[_Place, set[tuple[str, str]]] = {}
    for test in tests:
        place = _profile_and_npu(test)
        seen.setdefault(place, Counter())[_row_of(test, names)] += 1
        if test.record.memory_mode:
            variants.setdefault(place, set()).add((test.record.memory_mode, test.record.target.name))
    several = {place for place, rows in seen.items() if max(rows.values()) > 1}
    placed = []
    for test in tests:
        profile, npu, upstream = place = _profile_and_npu(test)
        known = (test.record.memory_mode, test.record.target.name) if test.record.memory_mode else None
        mode, target = known or min(variants.get(place, [("", "")]))
        order = _ORDER.index(profile) if profile in _ORDER else len(_ORDER)
        column = MatrixColumn(order, profile, npu, mode if place in several or several_modes else "",
                              target if place in several else "", upstream)  # fmt: skip
        placed.append((column, test))
    return placed


_Place = tuple[str, str, str]


def _profile_and_npu(entry: Accounted) -> _Place:
    """Return the profile, the NPU, and what lowered it."""
    test = entry.record.test
    return (test.profile if test is not None else "", entry.record.npu, entry.subject.upstream)


def _place(column: MatrixColumn, columns: Sequence[MatrixColumn]) -> str:
    """Return what tells a column apart: the NPU, the memory mode, and the target where it is not the same for all."""
    alike = [other for other in columns if (other.profile, other.npu) == (column.profile, column.npu)]
    modes, targets = {other.memory_mode for other in columns} - {""}, {other.target for other in alike}
    parts = (column.npu.removeprefix("ethos-"), column.memory_mode if len(modes) > 1 else "",
             column.target if len(targets) > 1 else "", column.upstream)  # fmt: skip
    return " ".join(part for part in parts if part)


def _row(
    operator: str, case: str, tests: Mapping[MatrixColumn, Accounted], columns: Sequence[MatrixColumn],
    moved: Moved,
) -> MatrixRow:  # fmt: skip
    cells = tuple(
        (tests[column], *moved.get(tests[column].subject, ("", False))) if column in tests else None
        for column in columns
    )
    letters = "".join(sorted({cell[0].standing.letter for cell in cells if cell is not None}))
    calm = not any(cell is not None and (cell[0].standing.red or cell[1]) for cell in cells)
    return MatrixRow(operator, case, cells, letters, calm)
