"""Rows from several places as one ledger: what is there twice counts once, and what contradicts itself is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ethos_hil.results.ledger.ledger_row import COUNTED, SEVERAL, LedgerRow

_ESTIMATES = ("vela_op", "vela_npu")
_OF_MODEL = ("modelled", "rule", "timing_model")
_OF_COUNT = ("target", "simulator", "firmware", "timing_adapters", "counter", "method", "source", "held_out")
"""What tells counts of one operation apart: who counted, with what, and how."""

Place = tuple[str, ...]
"""Which operation of which program, compiled how."""


@dataclass(frozen=True)
class Contradiction:
    """Two rows that say different things of the same count, estimate or model; both are kept."""

    one: LedgerRow
    other: LedgerRow
    field: str

    def __str__(self) -> str:
        """Return one line that names both numbers."""
        values = [f"{getattr(row, self.field):,}" for row in (self.one, self.other)]
        row = f" {self.one.row}" if self.one.row else ""
        return (
            f"{self.one.case}{row} for {self.one.npu} {self.one.memory_mode}: {self.field} is {values[0]} and "
            f"{values[1]}, from the same versions and target"
        )


@dataclass(frozen=True)
class Merged:
    """One ledger.

    Attributes:
        rows: of all places, in the order in which they came.
        repeated: how many rows were there already.
        updated: how many had estimates of an older timing model, or lacked some, and have the newer ones now.
        contradictions: in the order in which they were found.
    """

    rows: tuple[LedgerRow, ...]
    repeated: int = 0
    updated: int = 0
    contradictions: tuple[Contradiction, ...] = ()


def merge(rows: Iterable[LedgerRow]) -> Merged:
    """Return rows with each count once.

    Two rows are of one count if the operation, the target, the versions and the way of counting are equal. Counts that
    differ by no more than their spreads are equal. Of two timing models the newer one's cycles stay.
    """
    counts: dict[tuple[object, ...], list[LedgerRow]] = {}
    repeated = updated = 0
    contradictions: list[Contradiction] = []
    for row in rows:
        same = counts.setdefault(_identity(row), [])
        contradiction: Contradiction | None = None
        for at, other in enumerate(same):
            contradiction = _contradiction(other, row)
            if contradiction is None:
                same[at] = _both(other, row)
                updated += same[at] != other
                repeated += same[at] == other
                break
        else:
            same.append(row)
            contradictions += [contradiction] if contradiction is not None else []
    return Merged(tuple(row for same in counts.values() for row in same), repeated, updated, tuple(contradictions))


def join(rows: Sequence[LedgerRow]) -> tuple[LedgerRow, ...]:
    """Return rows, each with what others say of the same operation of the same program, and it does not: a board's
    count beside the FVP's, and the cycles by the newest timing model there is.

    Operations that share a count take the sum of what is said of each. What was published keeps what it says: it was
    modelled with the memories of its own run.
    """
    newest: dict[tuple[Place, str], LedgerRow] = {}
    for row in filter(_ours, rows):
        for name in ("modelled", *COUNTED):
            if getattr(row, name) is not None:
                before = newest.setdefault((place(row), name), row)
                if row.created > before.created:
                    newest[place(row), name] = row
    return tuple(_complete(row, newest) if _ours(row) else row for row in rows)


def _ours(row: LedgerRow) -> bool:
    """Return whether it is known which program it is of, with the memories of its system configuration."""
    return bool(row.stream) and not row.source


def place(row: LedgerRow) -> Place:
    """Return which operation it is, so that rows of several targets stand side by side."""
    return (row.stream, row.row, row.npu, row.memory_mode, row.system_config, row.case if not row.stream else "")


def _complete(row: LedgerRow, newest: dict[tuple[Place, str], LedgerRow]) -> LedgerRow:
    changes: dict[str, object] = {}
    for name in COUNTED:
        other = newest.get((place(row), name))
        if other is not None and getattr(row, name) is None and row.provenance:
            changes[name] = getattr(other, name)
    return replace(row, **changes, **_newer_model(row, newest))  # type: ignore[arg-type]


def _newer_model(row: LedgerRow, newest: dict[tuple[Place, str], LedgerRow]) -> dict[str, object]:
    """Return the modelled cycles that are newer than the row's own; the sum of all operations that share its count."""
    rows = [newest.get((place(replace(row, row=name)), "modelled")) for name in row.row.split("+")]
    parts = [part for part in rows if part is not None]
    newer = row.modelled is None or all(part.created > row.created for part in parts)
    models, rules = {part.timing_model for part in parts}, {part.rule for part in parts}
    if len(parts) < len(rows) or len(models) > 1 or not newer:
        return {}
    return {
        "modelled": sum(part.modelled or 0 for part in parts),
        "timing_model": models.pop(),
        "rule": rules.pop() if len(rules) == 1 else SEVERAL,
    }


def _identity(row: LedgerRow) -> tuple[object, ...]:
    return (*place(row), row.case, row.vela, row.provenance, *(getattr(row, name) for name in _OF_COUNT))


def _contradiction(row: LedgerRow, other: LedgerRow) -> Contradiction | None:
    """Return what two rows of one count cannot both be right about."""
    for name in (*COUNTED, *_ESTIMATES, "modelled"):
        values = getattr(row, name), getattr(other, name)
        if None in values or (name == "modelled" and row.timing_model != other.timing_model):
            continue
        if abs(values[0] - values[1]) > (row.spread + other.spread if name in COUNTED else 0):
            return Contradiction(row, other, name)
    return None


def _both(row: LedgerRow, other: LedgerRow) -> LedgerRow:
    """Return what two rows that agree say together. The first one stays where the other adds nothing."""
    changes = {name: getattr(other, name) for name in _ESTIMATES if getattr(row, name) is None}
    newer = row.timing_model != other.timing_model and other.created > row.created
    if other.modelled is not None and (row.modelled is None or newer):
        changes |= {name: getattr(other, name) for name in (*_OF_MODEL, "created")}
    elif other.rule and not row.rule and row.timing_model == other.timing_model:
        changes["rule"] = other.rule
    return replace(row, **changes)
