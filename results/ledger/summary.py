"""How far estimates are from counts: the median and the worst ratio of each class of operations."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from ethos_hil.base.plain_text import one_line
from ethos_hil.results.ledger.ledger_row import NETWORK, NUMBERS, SEVERAL, LedgerRow, place
from ethos_hil.results.table import as_csv


@dataclass(frozen=True)
class RuleFacts:
    """A rule of the timing model. Errors are modelled over counted, less one: 0.03 is 3 % too many cycles.

    Attributes:
        title: what it says, in a few words.
        source: where it comes from: a manual, a header, Vela's code, a fit.
        validated_on: what it was held against, "12 single operations on an FVP"; "" where it was not.
        median: the median of the errors' sizes; `worst` is the error that is farthest from 0. None where not known.
    """

    title: str
    source: str
    validated_on: str = ""
    median: float | None = None
    worst: float | None = None


Rules = Mapping[str, RuleFacts]
"""Facts by the id of the rule, as `OpCost.rule` has it."""
UNKNOWN = "no rule is known"


def confidence(rule: str, rules: Rules) -> str:
    """Return one line: which rule a modelled number comes from, and how far it is to be trusted."""
    facts = rules.get(rule)
    if not rule:
        return f"{UNKNOWN}, so nothing says how far the modelled cycles are off"
    if rule == SEVERAL:
        return f"{rule}: operations that share one count, and do not follow one rule"
    if facts is None:
        return one_line(f"{rule}: nothing is known of this rule here")
    if not facts.validated_on:
        return one_line(f"{rule}: {facts.title} ({facts.source}); not validated")
    errors = [f"{word} {value:{sign}.1%}" for word, value, sign in
              (("median error", facts.median, ""), ("worst", facts.worst, "+")) if value is not None]  # fmt: skip
    figures = f": {', '.join(errors)}" if errors else ""
    return one_line(f"{rule}: {facts.title} ({facts.source}); validated on {facts.validated_on}{figures}")


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
        against: how many are held against which provenance: "measured", "fvp", or "vela_op" where no one counted.
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
    """Sum up the rows of a ledger, which `join` has completed.

    A count that several cases or firmwares gave alike, for one program, counts once.
    """
    unique = _once(rows)
    counted = [row for row in unique if row.reference is not None]
    places = {place(part) for row in counted for part in (row, *_parts(row))}
    others = [row for row in unique if row.reference is None and place(row) not in places]
    usable = [row for row in counted if row.reference and any(getattr(row, name) is not None for name in ESTIMATES)]
    models = Counter(row.timing_model for row in unique if row.modelled is not None)
    return LedgerSummary(
        by,
        _groups(usable, by, lambda row: {name: (getattr(row, name), row.reference) for name in ESTIMATES}),
        _groups(others, by, lambda row: {name: (row.modelled, getattr(row, name)) for name in ("vela_op", "vela_npu")}),
        len(counted) + len(others),
        len(counted),
        len(counted) - len(usable),
        dict(sorted(models.items())),
        tuple(sorted({row.rule for row in unique if row.modelled is not None and row.operation != NETWORK})),
    )


def spread_of(ratios: Sequence[tuple[float, LedgerRow]]) -> RatioSpread:
    """Return the median and the worst of some ratios; of an even number the median is the mean of the middle two."""
    values = [ratio for ratio, _ in ratios]
    worst, row = max(ratios, key=lambda pair: _distance(pair[0]))
    return RatioSpread(len(values), statistics.median(values), statistics.median(map(_distance, values)), worst, row)


def _distance(ratio: float) -> float:
    return max(ratio, 1 / ratio) - 1 if ratio > 0 else math.inf


def _parts(row: LedgerRow) -> Iterable[LedgerRow]:
    """Return a row for each of several operations that share a count."""
    return (replace(row, row=name) for name in row.row.split("+")) if "+" in row.row else ()


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
    groups = (_group(name, where, members, pairs) for (name, where), members in sorted(grouped.items(), key=_order))
    return tuple(group for group in groups if group.ratios)


def _group(name: str, where: str, rows: Sequence[LedgerRow], pairs: _Pairs) -> LedgerGroup:
    ratios: dict[str, list[tuple[float, LedgerRow]]] = {}
    for row in rows:
        for estimate, (cycles, base) in pairs(row).items():
            if cycles is not None and base:
                ratios.setdefault(estimate, []).append((cycles / base, row))
    return LedgerGroup(
        name,
        where,
        len(rows),
        sum(row.held_out for row in rows),
        dict(sorted(Counter(row.provenance or "vela" for row in rows).items())),
        {estimate: spread_of(samples) for estimate, samples in ratios.items()},
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


NOTHING_COUNTED = (
    "No FVP and no board has counted any of this, so nothing here says how far an estimate is off: it is the timing "
    "model against the compiler."
)
NOT_COUNTED = "Not counted by anybody: the timing model against the compiler."
OVER_COUNT: Mapping[str, str] = {name: f"{title} / counted" for name, title in ESTIMATES.items()}
OVER_VELA: Mapping[str, str] = {
    "vela_op": "modelled / Vela",
    "vela_npu": "modelled / Vela without memories",
}
"""What is divided by what, by the name in `LedgerGroup.ratios`."""


def heading(summary: LedgerSummary) -> str:
    """Return the line that says how many rows there are, who counted them, and by how many timing models."""
    text = f"{summary.rows:,} rows, {summary.references:,} of them counted by an FVP or a board"
    if summary.without_ratio:
        text += f", {summary.without_ratio:,} of these without a ratio"
    models = ", ".join(f"{name or 'not named'} ({count:,})" for name, count in summary.timing_models.items())
    return f"{text}; modelled by timing model {models}" if models else text


def trust(summary: LedgerSummary, rules: Rules) -> tuple[str, ...]:
    """Return a line for each rule of the timing model that decides some of the cycles, and how well it is validated."""
    return tuple(confidence(name, rules) for name in summary.rules)


SCHEMA_VERSION = 2


def document(summary: LedgerSummary, rows: Sequence[LedgerRow], rules: Rules) -> dict[str, Any]:
    """Return everything for JSON.

    Args:
        summary: of the rows.
        rows: as `ethos_hil.results.ledger.ledger_row.join` returns them.
        rules: what is known of the timing model's rules.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "by": summary.by,
        "rows": summary.rows,
        "references": summary.references,
        "without_ratio": summary.without_ratio,
        "timing_models": dict(summary.timing_models),
        "rules": {name: confidence(name, rules) for name in summary.rules},
        "counted": [_group_json(group, summary.by, rules) for group in summary.counted],
        "estimated": [_group_json(group, summary.by, rules) for group in summary.estimated],
        "ledger": [asdict(row) for row in rows],
    }


def _group_json(group: LedgerGroup, by: Grouping, rules: Rules) -> dict[str, Any]:
    ratios = {
        name: {"count": ratio.count, "median": ratio.median, "error": ratio.error, "worst": ratio.worst,
               "worst_case": ratio.worst_row.case, "worst_row": ratio.worst_row.row, "worst_npu": ratio.worst_row.npu}
        for name, ratio in group.ratios.items()
    }  # fmt: skip
    trust = {"confidence": confidence(group.name, rules)} if by is Grouping.RULE else {}
    return {"name": group.name, "where": group.where, "rows": group.rows, "held_out": group.held_out,
            "against": dict(group.against), "ratios": ratios, **trust}  # fmt: skip


def csv_table(rows: Sequence[LedgerRow]) -> str:
    """Return a line for each row, with the provenance of what it is held against and the ratios to that."""
    names = [item.name for item in fields(LedgerRow)]
    columns = [*names, "reference", *(f"{name}_ratio" for name in ESTIMATES)]
    return as_csv(columns, ([*(getattr(row, name) for name in names), row.provenance, *_ratios(row)] for row in rows))


def _ratios(row: LedgerRow) -> list[str]:
    values = [getattr(row, name) for name in ESTIMATES]
    return [f"{value / row.reference:.4f}" if value is not None and row.reference else "" for value in values]
