"""Which row of a delegate map a place in the command stream belongs to."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from ethos_hil.lowering.artifact import NpuOp


def row_at(rows: Sequence[NpuOp], offset: int) -> int | None:
    """The index of the row that covers a byte offset of the command stream; None behind the last row.

    A row covers the stream from the end of the row before it up to its own last operation.

    Args:
        rows: a delegate's `npu_ops`, in stream order.
        offset: in bytes from the start of the register command stream.
    """
    index = bisect.bisect_left(rows, offset, key=lambda row: row.end_offset)
    return index if index < len(rows) else None
