"""How far estimates are from counts: the median and the worst ratio of each class of operations."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ethos_hil.results.ledger.ledger_row import NETWORK, NUMBERS, LedgerRow
from ethos_hil.results.ledger.merge import place

ALL = "all operations"
NO_RULE = "no rule"
HELD_OUT, PUBLISHED, OWN = "published, held out", "published", "not published"
"""Where rows come from; the timing model may have been fitted to those that are published and not held out."""
ESTIMATES: Mapping[str, str] = {
    "vela_op": "Vela",
    "vela_npu": "Vela without memories",
    "modelled": "modelled",
}
"""What is held against a count, by the field of a row."""


class Grouping(StrEnum):
    """What rows are grouped by."""

    CLASS = "class"
    NPU = "npu"
    RULE = "rule"
    CASE = "case"
    SOURCE = "source"


@dataclass(frozen=True)
class RatioSpread:
    """Ratios of one estimate to what it is held against.

    Attributes:
        count: how many there are.
        median: of them.
        error: the median of their distances from 1; 2 and 1 / 2 are both 1 away. A median near 1 does not say that
            most of them are.
        worst: the one that is farthest from 1, above or below; `worst_row` is its row.
    """

    count: int
    median: float
    error: float
    worst: float
    worst_row: LedgerRow


@dataclass(frozen=True)
class LedgerGroup:
    """Rows that are alike.

    Attributes:
        name: the class, NPU, rule or case.
        where: the NPU or its family, the memory mode, and what is looked at.
        rows: how many there are; `held_out` of these were kept out of the fit of the timing model.
        against: how many are held against which provenance: "measured", "fvp", or "vela_op" where nobody counted.
        ratios: by the estimate's field, for those that there are.
    """

    name: str
    where: str
    rows: int
    held_out: int
    against: Mapping[str, int]
    ratios: Mapping[str, RatioSpread]


@dataclass(frozen=True)
class LedgerSummary:
    """A ledger, summed up.

    Attributes:
        by: what its groups are.
        counted: groups of rows that an FVP or a board has counted: estimates over counts.
        estimated: groups of the others: modelled cycles over Vela's estimates, which says who is higher and not who is
            right.
        rows: how many rows were looked at; `references` of them were counted.
        without_ratio: rows that were counted, but with no cycles or with nothing to hold against them.
        timing_models: how many rows have modelled cycles of which timing model.
        rules: the timing model's rules that decide modelled cycles of operations; "" where none is known.
    """

    by: Grouping
    counted: tuple[LedgerGroup, ...]
    estimated: tuple[LedgerGroup, ...]
    rows: int
    references: int
    without_ratio: int
    timing_models: Mapping[str, int]
    rules: tuple[str, ...]


def summarise(rows: Iterable[LedgerRow], by: Grouping = Grouping.CLASS) -> LedgerSummary:
    """Sum up the rows of a ledger, which `joined` has completed.

    A count that several cases or firmwares gave alike, for one program, counts once.
    """
    found = _once(rows)
    counted = [row for row in found if row.reference is not None]
    places = {place(part) for row in counted for part in (row, *_parts(row))}
    others = [row for row in found if row.reference is None and place(row) not in places]
    usable = [row for row in counted if row.reference and any(getattr(row, name) is not None for name in ESTIMATES)]
    models = Counter(row.timing_model for row in found if row.modelled is not None)
    return LedgerSummary(
        by,
        _groups(usable, by, lambda row: {name: (getattr(row, name), row.reference) for name in ESTIMATES}),
        _groups(others, by, lambda row: {name: (row.modelled, getattr(row, name)) for name in ("vela_op", "vela_npu")}),
        len(counted) + len(others),
        len(counted),
        len(counted) - len(usable),
        dict(sorted(models.items())),
        tuple(sorted({row.rule for row in found if row.modelled is not None and row.operation != NETWORK})),
    )


def spread_of(ratios: Sequence[tuple[float, LedgerRow]]) -> RatioSpread:
    """Return the median and the worst of some ratios; of an even number the median is the mean of the middle two."""
    values = [ratio for ratio, _ in ratios]
    worst, row = max(ratios, key=lambda each: _distance(each[0]))
    return RatioSpread(len(values), statistics.median(values), statistics.median(map(_distance, values)), worst, row)


def _distance(ratio: float) -> float:
    return max(ratio, 1 / ratio) - 1 if ratio > 0 else math.inf


def _parts(row: LedgerRow) -> Iterable[LedgerRow]:
    """Return a row for each of several operations that share a count."""
    return (replace(row, row=each) for each in row.row.split("+")) if "+" in row.row else ()


def _once(rows: Iterable[LedgerRow]) -> list[LedgerRow]:
    once: dict[tuple[object, ...], LedgerRow] = {}
    for row in rows:
        numbers = [getattr(row, name) for name in NUMBERS]
        key = (
            (*place(row), row.operation, row.target, row.timing_adapters, row.source, *numbers)
            if row.stream
            else (row,)
        )
        once.setdefault(key, row)
    return list(once.values())


_Pairs = Callable[[LedgerRow], Mapping[str, tuple[int | None, int | None]]]
"""Returns an estimate and what it is held against, by a name."""


def _groups(rows: Sequence[LedgerRow], by: Grouping, pairs: _Pairs) -> tuple[LedgerGroup, ...]:
    grouped: dict[tuple[str, str], list[LedgerRow]] = {}
    for row in rows:
        for key in _keys(row, by):
            grouped.setdefault(key, []).append(row)
    made = (_group(name, where, found, pairs) for (name, where), found in sorted(grouped.items(), key=_order))
    return tuple(group for group in made if group.ratios)


def _group(name: str, where: str, rows: Sequence[LedgerRow], pairs: _Pairs) -> LedgerGroup:
    ratios: dict[str, list[tuple[float, LedgerRow]]] = {}
    for row in rows:
        for estimate, (one, other) in pairs(row).items():
            if one is not None and other:
                ratios.setdefault(estimate, []).append((one / other, row))
    return LedgerGroup(
        name,
        where,
        len(rows),
        sum(row.held_out for row in rows),
        dict(sorted(Counter(row.provenance or "vela" for row in rows).items())),
        {estimate: spread_of(found) for estimate, found in ratios.items()},
    )


def _keys(row: LedgerRow, by: Grouping) -> list[tuple[str, str]]:
    kind = "networks" if row.operation == NETWORK else "operations"
    where = ", ".join(filter(None, (row.memory_mode, kind)))
    if by is Grouping.CLASS:
        return [(name, row.family) for name in (row.operation, *([ALL] if row.operation != NETWORK else []))]
    if by is Grouping.NPU:
        return [(row.npu, where)]
    if by is Grouping.CASE:
        return [(row.case, f"{row.npu}, {where}")]
    if by is Grouping.SOURCE:
        return [(HELD_OUT if row.held_out else PUBLISHED if row.source else OWN, f"{row.family}, {kind}")]
    return [(row.rule or NO_RULE, row.family)] if row.operation != NETWORK and row.modelled is not None else []


def _order(group: tuple[tuple[str, str], object]) -> tuple[object, ...]:
    """Return what groups are sorted by: networks stand first, then all operations, then their classes."""
    name, where = group[0]
    return ({NETWORK: 0, ALL: 1}.get(name, 2), name, where)
