"""Rows from several places as one ledger: what is there twice counts once, and rows are completed by one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ethos_hil.results.ledger.ledger_row import COUNTED, SEVERAL, LedgerRow

_ESTIMATES = ("vela_op", "vela_npu")
_OF_MODEL = ("modelled", "rule", "timing_model")
_OF_COUNT = (*COUNTED, "target", "simulator", "firmware", "timing_adapters", "counter", "method", "source", "held_out")
"""What tells counts of one operation apart: how many, who counted, with what, and how."""

Place = tuple[str, ...]
"""Which operation of which program, compiled how."""


def merge(rows: Iterable[LedgerRow]) -> tuple[LedgerRow, ...]:
    """Return rows with each count once, the newest of equal ones, in the order in which they came.

    Two rows are of one count if the operation, the number, the target, the versions and the way of counting are equal.
    What the newest one does not say, an older one does.
    """
    merged: dict[tuple[object, ...], LedgerRow] = {}
    for row in rows:
        key = (*place(row), row.case, row.vela, row.provenance, *(getattr(row, name) for name in _OF_COUNT))
        other = merged.get(key, row)
        newer, older = (row, other) if row.created > other.created else (other, row)
        merged[key] = _both(newer, older)
    return tuple(merged.values())


def _both(newer: LedgerRow, older: LedgerRow) -> LedgerRow:
    lacking = [name for name in _ESTIMATES if getattr(newer, name) is None]
    if newer.modelled is None:
        lacking += _OF_MODEL
    return replace(newer, **{name: getattr(older, name) for name in lacking})


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
