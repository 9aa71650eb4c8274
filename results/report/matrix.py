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
"""The part of a value that fills the height at least, so that a change of one cycle is not a cliff."""


def sparkline(lines: Mapping[str, Sequence[float]]) -> Markup:
    """Return the steps of some series, each against its own first value, and in words what they were and are.

    Args:
        lines: values, oldest first, by name; none is empty.
    """
    ratios = {name: [value / values[0] if values[0] else 1.0 for value in values] for name, values in lines.items()}
    low = min(min(values) for values in ratios.values())
    high = max(max(values) for values in ratios.values())
    spread = max(high - low, _LEAST)
    middle = (high + low) / 2
    texts, parts = [], []
    for at, (name, values) in enumerate(ratios.items()):
        moved = min(values) < max(values)
        width = _SPARK_WIDTH / max(1, len(values))
        points = ((number * width, _SPARK_HEIGHT / 2 - (value - middle) / spread * (_SPARK_HEIGHT - 3) + (at - 1) * 0.6)
                  for number, value in enumerate(values))  # fmt: skip
        parts.append(element("path", d=steps(points, _SPARK_WIDTH), class_="moved" if moved else None))
        first, last = lines[name][0], lines[name][-1]
        texts.append(f"{name} {amount(first)} to {amount(last)}" if moved else f"{name} {amount(first)} throughout")
    runs = max(map(len, lines.values()))
    return picture(_SPARK_WIDTH, _SPARK_HEIGHT, f"{runs} runs: {', '.join(texts)}", *parts, class_="spark")


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


def matrix(tests: Sequence[Accounted], trends: Series, moved: Moved, names: Names) -> Matrix:
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
    matrix_rows = (_row(*names, cells, columns, trends, moved) for names, cells in rows.items())
    return Matrix(
        columns=columns,
        shown=tuple((column.profile or "model", _place(column, columns)) for column in columns),
        rows=tuple(sorted(matrix_rows, key=lambda row: row.calm)),
        standings=tuple(standing for standing in Standing if any(test.standing is standing for test in tests)),
        trends=any(len(values) > 1 for values in trends.values()),
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
    seen: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    variants: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for test in tests:
        place = _profile_and_npu(test)
        seen.setdefault(place, Counter())[_row_of(test, names)] += 1
        if test.record.memory_mode:
            variants.setdefault(place, set()).add((test.record.memory_mode, test.record.target.name))
    several = {place for place, rows in seen.items() if max(rows.values()) > 1}
    placed = []
    for test in tests:
        profile, npu = place = _profile_and_npu(test)
        known = (test.record.memory_mode, test.record.target.name) if test.record.memory_mode else None
        mode, target = known or min(variants.get(place, [("", "")]))
        order = _ORDER.index(profile) if profile in _ORDER else len(_ORDER)
        column = MatrixColumn(order, profile, npu, mode if place in several or several_modes else "",
                              target if place in several else "")  # fmt: skip
        placed.append((column, test))
    return placed


def _profile_and_npu(entry: Accounted) -> tuple[str, str]:
    test = entry.record.test
    return (test.profile if test is not None else "", entry.record.npu)


def _place(column: MatrixColumn, columns: Sequence[MatrixColumn]) -> str:
    """Return what tells a column apart: the NPU, the memory mode, and the target where it is not the same for all."""
    alike = [other for other in columns if (other.profile, other.npu) == (column.profile, column.npu)]
    modes, targets = {other.memory_mode for other in columns} - {""}, {other.target for other in alike}
    parts = (column.npu.removeprefix("ethos-"), column.memory_mode if len(modes) > 1 else "",
             column.target if len(targets) > 1 else "")  # fmt: skip
    return " ".join(part for part in parts if part)


def _row(
    operator: str, case: str, tests: Mapping[MatrixColumn, Accounted], columns: Sequence[MatrixColumn], trends: Series,
    moved: Moved,
) -> MatrixRow:  # fmt: skip
    cells = tuple(
        (tests[column], *moved.get(tests[column].subject, ("", False))) if column in tests else None
        for column in columns
    )
    lines = {}
    for column, test in tests.items():
        values = trends.get(test.subject, ())
        if len(values) > 1:
            lines[_place(column, columns) or test.record.target.name] = values
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


def operators(tests: Sequence[Accounted], names: Names) -> tuple[OperatorTests, ...]:
    """Return the tests of the suites by operator. What has a page of its own is there."""
    by_operator: dict[str, list[Accounted]] = {}
    for test in tests:
        if test.record.test is not None and not has_page(test.record):
            by_operator.setdefault(test.record.test.operator, []).append(test)
    return tuple(_operator(name, mine, names) for name, mine in sorted(by_operator.items()))


def _operator(name: str, tests: Sequence[Accounted], names: Names) -> OperatorTests:
    tally = Counter(test.standing for test in tests)
    source = tests[0].record.test.source.rpartition(":")[0] if tests[0].record.test is not None else ""
    letters = tuple((standing.letter, tally[standing]) for standing in Standing if tally[standing])
    return OperatorTests(name, source, letters, tuple(_test_line(test, names) for test in tests))


def _test_line(test: Accounted, names: Names) -> tuple[Accounted, str, str]:
    record = test.record
    npu = record.npu or record.target.name  # or what computed its answer
    place = dict.fromkeys((npu, *names.where(test.subject), names.more(test.subject)))
    return test, " ".join(part.removeprefix("ethos-") for part in place if part), _ops(record)


def _ops(record: Record) -> str:
    """Return the operations with their cycles, then what is on the CPU; of a failure its message."""
    if record.failure is not None:
        return f"{record.failure.kind}: {record.failure.message}"
    ops = [f"{op.npu_op} {amount(op.cycles)}".strip() for op in record.ops[:_MOST_OPS]]
    if len(record.ops) > _MOST_OPS:
        ops.append(f"{len(record.ops) - _MOST_OPS} more")
    lines = dict.fromkeys(op.source for op in record.ops if op.source)
    where = f" — {', '.join(list(lines)[:3])}" if lines else ""
    calls = record.artifact.cpu_calls if record.artifact is not None else ()
    left = dict.fromkeys(short_operator(call.operator) for call in calls if call.kind == "operator")
    cpu = f"; CPU: {', '.join(left)}" if left else ""
    return f"{', '.join(ops)}{where}{cpu}"
