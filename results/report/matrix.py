"""The tests of the suites: a matrix of cases by profile and NPU, and a table of each operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.base.wording import amount, short_operator
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report.chart import element, picture, steps
from ethos_hil.results.report.model_page import has_page
from ethos_hil.results.subject import Names, Subject

_SPARK_WIDTH, _SPARK_HEIGHT = 90.0, 16.0
_LEAST = 0.02
"""The part of a value that fills the height at least, so that a change of one cycle is no cliff."""


def sparkline(lines: Mapping[str, Sequence[float]]) -> Markup:
    """Return the steps of some series, each against its own first value, and in words what they were and are.

    Args:
        lines: values, oldest first, by name; none is empty.
    """
    ratios = {name: [value / values[0] if values[0] else 1.0 for value in values] for name, values in lines.items()}
    low = min(min(each) for each in ratios.values())
    high = max(max(each) for each in ratios.values())
    spread = max(high - low, _LEAST)
    middle = (high + low) / 2
    told, parts = [], []
    for at, (name, values) in enumerate(ratios.items()):
        moved = min(values) < max(values)
        width = _SPARK_WIDTH / max(1, len(values))
        points = ((number * width, _SPARK_HEIGHT / 2 - (value - middle) / spread * (_SPARK_HEIGHT - 3) + (at - 1) * 0.6)
                  for number, value in enumerate(values))  # fmt: skip
        parts.append(element("path", d=steps(points, _SPARK_WIDTH), class_="moved" if moved else None))
        first, last = lines[name][0], lines[name][-1]
        told.append(f"{name} {amount(first)} to {amount(last)}" if moved else f"{name} {amount(first)} throughout")
    runs = max(map(len, lines.values()))
    return picture(_SPARK_WIDTH, _SPARK_HEIGHT, f"{runs} runs: {', '.join(told)}", *parts, class_="spark")


_ORDER = ("MI", "FP", "BI", "INT", *(family.suffix for family in FAMILIES))


@dataclass(frozen=True, order=True)
class MatrixColumn:
    """A profile on one NPU. Memory mode and target are "" where no row needs them; `order` is the profile's place."""

    order: int
    profile: str
    npu: str
    memory_mode: str
    target: str


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
    cells = tuple(
        (found[column], *moved.get(found[column].subject, ("", False))) if column in found else None
        for column in columns
    )
    lines = {}
    for column, each in found.items():
        values = trends.get(each.subject, ())
        if len(values) > 1:
            lines[_place(column, columns) or each.record.target.name] = values
    letters = "".join(sorted({cell[0].standing.letter for cell in cells if cell is not None}))
    calm = not any(cell is not None and (cell[0].standing.red or cell[1]) for cell in cells)
    return MatrixRow(operator, case, cells, letters, sparkline(lines) if lines else Markup(), calm)


_MOST_OPS = 30
"""Operations that are named in a row."""


@dataclass(frozen=True)
class OperatorTests:
    """The tests of one operator.

    Attributes:
        operator: its name.
        source: where its cases are declared.
        tally: how they stand: letter and number.
        tests: each with its place, and its operations with their cycles and what is on the CPU.
    """

    operator: str
    source: str
    tally: tuple[tuple[str, int], ...]
    tests: tuple[tuple[Accounted, str, str], ...]


def operators(asked: Sequence[Accounted], names: Names) -> tuple[OperatorTests, ...]:
    """Return the tests of the suites by operator. What has a page of its own is there."""
    found: dict[str, list[Accounted]] = {}
    for each in asked:
        if each.record.test is not None and not has_page(each.record):
            found.setdefault(each.record.test.operator, []).append(each)
    return tuple(_operator(name, mine, names) for name, mine in sorted(found.items()))


def _operator(name: str, asked: Sequence[Accounted], names: Names) -> OperatorTests:
    tally = Counter(each.standing for each in asked)
    source = asked[0].record.test.source.rpartition(":")[0] if asked[0].record.test is not None else ""
    letters = tuple((each.letter, tally[each]) for each in Standing if tally[each])
    return OperatorTests(name, source, letters, tuple(_test_line(each, names) for each in asked))


def _test_line(asked: Accounted, names: Names) -> tuple[Accounted, str, str]:
    record = asked.record
    npu = record.npu or record.target.name  # or what computed its answer
    place = dict.fromkeys((npu, *names.where(asked.subject), names.more(asked.subject)))
    return asked, " ".join(each.removeprefix("ethos-") for each in place if each), _ops(record)


def _ops(record: Record) -> str:
    """Return the operations with their cycles, then what is on the CPU; of a failure its message."""
    if record.failure is not None:
        return f"{record.failure.kind}: {record.failure.message}"
    told = [f"{op.npu_op} {amount(op.cycles)}".strip() for op in record.ops[:_MOST_OPS]]
    if len(record.ops) > _MOST_OPS:
        told.append(f"{len(record.ops) - _MOST_OPS} more")
    lines = dict.fromkeys(op.source for op in record.ops if op.source)
    where = f" — {', '.join(list(lines)[:3])}" if lines else ""
    calls = record.artifact.cpu_calls if record.artifact is not None else ()
    left = dict.fromkeys(short_operator(call.operator) for call in calls if call.kind == "operator")
    cpu = f"; CPU: {', '.join(left)}" if left else ""
    return f"{', '.join(told)}{where}{cpu}"
