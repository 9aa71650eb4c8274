"""The cycles that belong to each operation.

A cycle belongs to the kernel that runs in it (the earlier one where two overlap), else to a transfer that does and was
issued before the next kernel, else to that kernel. Shares sum to the total, and those of the first operations to the
time when the last of these ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ethos_hil.harness.npu.isa.operations import Dma, Op


def shares_of(ops: Sequence[Op], times: Sequence[tuple[int, int]]) -> list[int]:
    """Return the cycles of each operation, which has run from `times[i][0]` to `times[i][1]`."""
    shares = [0] * len(ops)
    gaps: list[tuple[int, int, int]] = []  # begin, end, the kernel after the gap, or the last operation
    at = 0
    for index, (op, (begin, end)) in enumerate(zip(ops, times, strict=True)):
        if isinstance(op, Dma):
            continue
        if begin > at:
            gaps.append((at, begin, index))
        shares[index] += max(0, end - max(begin, at))
        at = max(at, end)
    last = max((end for _, end in times), default=0)
    if last > at:
        gaps.append((at, last, len(ops) - 1))
    copies = [(begin, end, index) for index, (op, (begin, end)) in enumerate(zip(ops, times, strict=True))
              if isinstance(op, Dma)]  # fmt: skip
    first = 0
    for begin, end, owner in gaps:
        while first < len(copies) and copies[first][1] <= begin:
            first += 1
        for index, cycles in _split_gap(copies, first, begin, end, owner):
            shares[index] += cycles
    return shares


def _split_gap(
    copies: Sequence[tuple[int, int, int]], first: int, begin: int, end: int, owner: int
) -> Iterator[tuple[int, int]]:
    """Yield the owners of a gap between kernels, with their cycles: the transfers in it, and the operation that
    follows.
    """
    for start, stop, index in copies[first:]:
        if start >= end or index > owner:  # one that is issued later has not made this kernel wait
            break
        if start > begin:
            yield index, start - begin
            begin = start
        yield index, min(stop, end) - begin
        begin = min(stop, end)
    if begin < end:
        yield owner, end - begin
