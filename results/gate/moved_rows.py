"""The operations behind a number of cycles that moved."""

from __future__ import annotations

from ethos_hil.base.record import Record
from ethos_hil.results.comparison import RowChange, RowDifference, npu_differences


def moved_rows(before: Record | None, after: Record | None) -> tuple[RowDifference, ...]:
    """Return the operations whose cycles differ, the largest difference first; none where a record is not at hand."""
    if before is None or after is None:
        return ()
    found = [row for row in npu_differences(before.ops, after.ops) if row.change is not RowChange.UNCHANGED]
    return tuple(sorted(found, key=lambda row: -abs(row.delta)))
