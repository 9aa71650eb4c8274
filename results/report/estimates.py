"""How far estimates are from counts: cycles of the NPU by who says them, for each model and each class of operators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.base.wording import TIMES, amount, count_of
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.ledger.ledger_row import LedgerRow, join, merge, rows_of
from ethos_hil.results.ledger.summary import (
    NOT_COUNTED,
    NOTHING_COUNTED,
    OVER_COUNT,
    OVER_VELA,
    LedgerGroup,
    RatioSpread,
    Rules,
    heading,
    summarise,
    trust,
)
from ethos_hil.results.report.model_page import is_model
from ethos_hil.results.subject import Names, Subject

PROVENANCES = ("vela", "modelled", "fvp", "measured")
"""Whence cycles of the NPU come, the more real the later."""
EMPTY: Mapping[str, str] = {
    "vela": "no estimate of Vela's",
    "modelled": "not run on a virtual board",
    "fvp": "not run on an FVP",
    "measured": "not run on a board",
}
"""Why a cell is empty, where another one of its column is not."""
COUNTED = ("fvp", "measured")
"""Provenances of cycles that something counted."""
COLUMNS: Mapping[str, str] = {"vela": "Vela's estimate", "modelled": "modelled", "fvp": "FVP", "measured": "board"}


EstimateCell = tuple[str, str, str]
"""Cycles of one provenance; how many times those of the most real one of the row, "" for that one itself; and why
there are none."""


@dataclass(frozen=True)
class EstimateRow:
    """A model, or a class of operators.

    Attributes:
        name, npu: of what.
        of: how many tests it sums.
        cells: one for each provenance of the tables.
        spread: the smallest and largest ratio of Vela's estimate to the most real count of one test, "" for one
            test.
    """

    name: str
    npu: str
    of: str
    cells: tuple[EstimateCell, ...]
    spread: str


@dataclass(frozen=True)
class Estimates:
    """The rows for models and those for classes of operators.

    Attributes:
        models, operators: see there.
        heads: the columns: provenances that any row has.
        counted: whether an FVP or a board counted any of it; if not, no one knows how good the estimates are.
    """

    models: tuple[EstimateRow, ...]
    operators: tuple[EstimateRow, ...]
    heads: tuple[str, ...]
    counted: bool


_Cycles = dict[str, float]
"""Cycles by provenance."""


def estimates(tests: Sequence[Accounted], names: Names) -> Estimates:
    """Return both tables. Only verified answers count."""
    points: dict[Subject, tuple[Accounted, _Cycles]] = {}
    for entry in tests:
        if entry.standing is Standing.VERIFIED:
            anywhere = replace(entry.subject, target="", soc="", runner="")  # each target has a count of its own
            _, cycles = points.setdefault(anywhere, (entry, {}))
            cycles.update(_cycles(entry))
    models: dict[tuple[str, str], list[_Cycles]] = {}
    operators: dict[tuple[str, str], list[_Cycles]] = {}
    for entry, cycles in points.values():
        if not cycles:
            continue
        test, npu = entry.record.test, entry.record.npu
        if entry.record.bench is not None and entry.record.bench.group:
            operators.setdefault((entry.record.bench.group, npu), []).append(cycles)
        elif is_model(entry.record) or test is None:
            name = test.operator if test is not None else names.name(entry.subject)
            models.setdefault((name, npu), []).append(cycles)
        else:
            operators.setdefault((test.operator, npu), []).append(cycles)
    there = {
        name for rows in (models, operators) for points_of in rows.values() for point in points_of for name in point
    }
    shown = tuple(provenance for provenance in PROVENANCES if provenance in there)
    return Estimates(
        tuple(_rows(models, shown)),
        tuple(_rows(operators, shown)),
        tuple(COLUMNS[provenance] for provenance in shown),
        any(provenance in COUNTED for provenance in shown),
    )


def _cycles(test: Accounted) -> Iterator[tuple[str, float]]:
    """Yield cycles of the whole program by provenance."""
    for name, provenances in (("npu_cycles_estimate", ("vela",)), ("npu_cycles", PROVENANCES)):
        metric = test.record.metric(name)
        if metric is not None and metric.provenance in provenances:
            yield metric.provenance, metric.value


def _rows(groups: Mapping[tuple[str, str], Sequence[_Cycles]], shown: Sequence[str]) -> Iterator[EstimateRow]:
    for (name, npu), points in sorted(groups.items()):
        # Sums are only of tests that have all that any of the row's has: else they are of different things.
        names = {provenance for point in points for provenance in point}
        whole = [point for point in points if point.keys() == names] or list(points)
        real = max(names, key=PROVENANCES.index)
        sums = {provenance: sum(point.get(provenance, 0.0) for point in whole) for provenance in names}
        cells = tuple(_cell(provenance, sums, real) for provenance in shown)
        yield EstimateRow(name, npu.removeprefix("ethos-"), count_of(len(whole), "test"), cells, _spread(whole, real))


def _cell(provenance: str, sums: _Cycles, real: str) -> EstimateCell:
    if provenance not in sums:
        return "", "", EMPTY[provenance]
    ratio = f"{TIMES}{sums[provenance] / sums[real]:.2f}" if provenance != real and sums[real] else ""
    return amount(sums[provenance]), ratio, ""


def _spread(points: Iterable[_Cycles], real: str) -> str:
    ratios = [point["vela"] / point[real] for point in points if "vela" in point and point.get(real)]
    return f"{TIMES}{min(ratios):.2f} to {TIMES}{max(ratios):.2f}" if real != "vela" and len(ratios) > 1 else ""


ErrorTable = tuple[str, tuple[LedgerGroup, ...], Mapping[str, str]]
"""What ratios are of, and are not; classes of operations with their families; and what is divided by what."""


@dataclass(frozen=True)
class EstimateErrors:
    """The ledger of a run.

    Attributes:
        heading: how many rows there are, and who counted them.
        tables: of those that were counted, and of the others.
        trust: a line for each rule that modelled cycles come from.
        counted: whether an FVP or a board counted anything.
    """

    heading: str
    tables: tuple[ErrorTable, ...]
    trust: tuple[str, ...]
    counted: bool


def estimate_errors(records: Iterable[Record], ledger: Sequence[LedgerRow], rules: Rules) -> EstimateErrors | None:
    """Return the ledger of a run, None where no two say how many cycles something takes.

    Args:
        records: of the run.
        ledger: counts of others, for the operations that are in the run too.
        rules: what is known of the timing model's rules.
    """
    own = [row for record in records for row in rows_of(record)]
    streams = {row.stream for row in own if row.stream}
    rows = merge([*own, *(row for row in ledger if row.stream in streams)])
    summary = summarise(join(rows))
    tables: list[ErrorTable] = []
    if summary.counted:
        tables.append(("Estimates over what an FVP or a board counted.", summary.counted, OVER_COUNT))
    if summary.estimated:
        tables.append((NOT_COUNTED if summary.counted else NOTHING_COUNTED, summary.estimated, OVER_VELA))
    if not tables:
        return None
    return EstimateErrors(heading(summary), tuple(tables), trust(summary, rules), bool(summary.counted))


def ratio_cells(ratio: RatioSpread | None) -> tuple[str, str, str]:
    """Return the median, the worst, and where that is; all "" for None."""
    if ratio is None:
        return "", "", ""
    row = ratio.worst_row
    where = f"{row.case} {row.row} for {row.npu}, of {count_of(ratio.count, 'row')}"
    error = f" ±{ratio.error:.0%}" if math.isfinite(ratio.error) else ""
    return f"{ratio.median:,.2f}{error}", f"{ratio.worst:,.2f}", where
