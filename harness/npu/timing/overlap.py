"""Whether two feature maps, or parts of them, share a byte of memory.

Extents are not enough: the slices of a concatenation along the channels interleave, so their extents overlap although
no byte belongs to both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.npu.isa.feature_map import BRICK, FeatureMap, Layout

Array = npt.NDArray[Any]

MAX_RUNS = 1 << 21  # above it only extents are compared; operations of real networks stay far below


@dataclass(frozen=True)
class Box:
    """Part of a feature map: rows [y, y_end), columns [x, x_end), channels [c, c_end), in the map's own axes."""

    y: int
    y_end: int
    x: int
    x_end: int
    c: int
    c_end: int

    @property
    def empty(self) -> bool:
        """Whether the part has no elements."""
        return self.y >= self.y_end or self.x >= self.x_end or self.c >= self.c_end

    @classmethod
    def whole(cls, feature_map: FeatureMap) -> Box:
        """Return all of a map."""
        return cls(0, feature_map.height, 0, feature_map.width, 0, feature_map.depth)


@dataclass(frozen=True)
class Runs:
    """Equally long runs of bytes: base + any multiples, below their counts, of the strides + [0, length)."""

    base: int
    length: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def begin(self) -> int:
        """First byte."""
        return self.base + sum((n - 1) * s for n, s in zip(self.counts, self.strides, strict=True) if s < 0)

    @property
    def end(self) -> int:
        """Byte after the last one."""
        steps = sum((n - 1) * s for n, s in zip(self.counts, self.strides, strict=True) if s > 0)
        return self.base + steps + self.length

    def starts(self) -> Array:
        """Return where each run starts, ascending; if there are too many, only the first byte of the extent."""
        if np.prod(self.counts, dtype=float) > MAX_RUNS:
            return np.array([self.begin])
        starts = np.array([self.base])
        for count, stride in zip(self.counts, self.strides, strict=True):
            starts = (starts[:, None] + np.arange(count) * stride).ravel()
        starts.sort()
        return starts


def runs(feature_map: FeatureMap, box: Box) -> Iterator[Runs]:
    """Yield the bytes of a part of a map; nothing for a chain, which is not in memory."""
    if feature_map.layout is Layout.CHAIN or box.empty:
        return
    spans = [(box.y, box.y_end), (box.x, box.x_end), (box.c, box.c_end)]
    backwards = feature_map.reverse
    if backwards is not None:
        size = feature_map.shape[backwards]
        begin, end = spans[backwards]
        spans[backwards] = size - end, size - begin
    (y, y_end), (x, x_end), (c, c_end) = (spans[axis] for axis in feature_map.axes)
    for tile in feature_map.tiles():
        top, bottom = max(y, tile.y), min(y_end, tile.y_end)
        left, right = max(x, tile.x), min(x_end, tile.x_end)
        if top >= bottom or left >= right:
            continue
        corner = tile.base + (top - tile.y) * feature_map.stride_y + (left - tile.x) * feature_map.stride_x
        plane = [(bottom - top, feature_map.stride_y), (right - left, feature_map.stride_x)]
        if feature_map.layout is Layout.NHWC:
            yield _join(corner + c * feature_map.size, (c_end - c) * feature_map.size, plane)
            continue
        for brick, count, lane, lanes in _bricks(c, c_end):
            base = corner + brick * feature_map.stride_c + lane * feature_map.size
            yield _join(base, lanes * feature_map.size, [*plane, (count, feature_map.stride_c)])


def _bricks(c: int, c_end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the bricks that hold channels [c, c_end): first brick, number of equal ones, first lane, lanes."""
    if c % BRICK:
        end = min(c_end, c - c % BRICK + BRICK)
        yield c // BRICK, 1, c % BRICK, end - c
        c = end
    whole = (c_end - c) // BRICK
    if whole:
        yield c // BRICK, whole, 0, BRICK
        c += whole * BRICK
    if c < c_end:
        yield c // BRICK, 1, 0, c_end - c


def _join(base: int, length: int, axes: list[tuple[int, int]]) -> Runs:
    rest = []
    for count, stride in sorted(((n, s) for n, s in axes if n > 1), key=lambda axis: abs(axis[1])):
        if stride == length:
            length *= count
        else:
            rest.append((count, stride))
    return Runs(base, length, tuple(n for n, _ in rest), tuple(s for _, s in rest))


def common_byte(runs: Runs, other: Runs) -> int | None:
    """Return the lowest address that both have, or None."""
    if runs.end <= other.begin or other.end <= runs.begin:
        return None
    if not runs.counts and not other.counts:
        return max(runs.base, other.base)
    first, second = runs.starts(), other.starts()
    first_length = runs.length if first.size > 1 else runs.end - runs.begin
    second_length = other.length if second.size > 1 else other.end - other.begin
    # A run of the second overlaps the runs of the first that start before its end and end after its start.
    low = np.searchsorted(first, second - first_length, side="right")
    high = np.searchsorted(first, second + second_length, side="left")
    meeting = np.flatnonzero(low < high)
    if not meeting.size:
        return None
    at = meeting[0]
    return int(max(first[low[at]], second[at]))
