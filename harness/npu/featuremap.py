"""Feature maps: shape, format and place of a tensor in memory, and moving it from and to numpy.

NHWC: base + y*stride_y + x*stride_x + c*size. Bricks (NHCWB16): base + y*stride_y + (c/16)*stride_c + x*stride_x +
(c%16)*size. A map may be cut into up to four tiles, each with its own base.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Memory = Mapping[int, npt.NDArray[np.uint8]]
"""Region number -> its bytes. Every access was checked against the sizes before anything here runs."""

BRICK = 16  # channels in a brick


class Layout(IntEnum):
    """Format field of the precision registers."""

    NHWC = 0
    BRICKS = 1


DTYPES: dict[tuple[int, bool], np.dtype[Any]] = {
    (8, False): np.dtype(np.uint8),
    (8, True): np.dtype(np.int8),
    (16, False): np.dtype("<u2"),
    (16, True): np.dtype("<i2"),
    (32, True): np.dtype("<i4"),
}
_WHOLE_BRICK = {1: np.dtype(np.complex128)}  # a 16-byte type that numpy moves in one go


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows [y, y_end) and columns [x, x_end) of a feature map, stored from `base` on."""

    y: int
    y_end: int
    x: int
    x_end: int
    base: int


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A tensor of `height` x `width` x `depth` elements of `bits` in a region; see the module for addresses.

    `split`: width of tiles 0 and 2, height of tile 0, height of tile 1. Tiles 0, 1, 2, 3 are upper left, upper right,
    lower left, lower right.
    """

    region: int
    height: int
    width: int
    depth: int
    layout: Layout
    bits: int
    signed: bool
    zero_point: int
    bases: tuple[int, int, int, int]
    stride_y: int
    stride_x: int
    stride_c: int
    split: tuple[int, int, int]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, depth."""
        return self.height, self.width, self.depth

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.height * self.width * self.depth

    @property
    def size(self) -> int:
        """Bytes per element."""
        return self.bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return DTYPES[self.bits, self.signed]

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value an element can have."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.signed else (0, (1 << self.bits) - 1)

    @property
    def one_tile(self) -> bool:
        """Whether bases 1 to 3 are not used."""
        return self.split[0] >= self.width and self.split[1] >= self.height

    @property
    def bricks(self) -> int:
        """Number of bricks in the depth."""
        return -(-self.depth // BRICK)

    def tiles(self) -> Iterator[Tile]:
        """The tiles that hold something."""
        left, upper_left, upper_right = self.split
        for first, x, x_end, upper in (
            (0, 0, min(left, self.width), upper_left),
            (1, left, self.width, upper_right),
        ):
            if x >= x_end:
                continue
            yield Tile(0, min(upper, self.height), x, x_end, self.bases[first])
            if upper < self.height:
                yield Tile(upper, self.height, x, x_end, self.bases[first + 2])

    def extent(self, *, whole_bricks: bool) -> tuple[int, int]:
        """First byte and byte after the last one; `whole_bricks` counts the unused lanes of the last brick too.

        The first may be negative where strides are (a reversed output); the caller refuses what leaves the region.
        """
        low, high = [], []
        for tile in self.tiles():
            rows = (tile.y_end - tile.y - 1) * self.stride_y
            columns = (tile.x_end - tile.x - 1) * self.stride_x
            for brick, lanes in self._brick_ends(whole_bricks):
                steps = (rows, columns, brick * self.stride_c if self.layout is Layout.BRICKS else 0)
                low.append(tile.base + sum(step for step in steps if step < 0))
                high.append(tile.base + sum(step for step in steps if step > 0) + lanes * self.size)
        return min(low), max(high)

    def _brick_ends(self, whole_bricks: bool) -> list[tuple[int, int]]:
        """The bricks that can end the map: number and used lanes."""
        if self.layout is Layout.NHWC:
            return [(0, self.depth)]
        rest = self.depth % BRICK
        if whole_bricks or not rest:
            return [(0, BRICK), (self.bricks - 1, BRICK)]
        return [(0, min(BRICK, self.depth)), (max(0, self.bricks - 2), min(BRICK, self.depth)), (self.bricks - 1, rest)]

    def plain(self, memory: Memory) -> Array | None:
        """The map as a (height, width, depth) view of memory, or None where no single view can be."""
        if not self.one_tile or (self.layout is Layout.BRICKS and self.depth > BRICK):
            return None
        return np.ndarray(
            self.shape,
            self.dtype,
            memory[self.region],
            self.bases[0],
            (self.stride_y, self.stride_x, self.size),
        )

    def load(self, memory: Memory) -> Array:
        """The map's values, shape (height, width, depth), in its own type; may be a view of memory."""
        view = self.plain(memory)
        if view is not None:
            return view
        if self.one_tile:
            return self._load_tile(memory, Tile(0, self.height, 0, self.width, self.bases[0]))
        values = np.empty(self.shape, self.dtype)
        for tile in self.tiles():
            values[tile.y : tile.y_end, tile.x : tile.x_end] = self._load_tile(memory, tile)
        return values

    def store(self, memory: Memory, values: Array) -> None:
        """Writes `values`, shape (height, width, depth), already within the range of the map's type."""
        for tile in self.tiles():
            self._store_tile(memory, tile, values[tile.y : tile.y_end, tile.x : tile.x_end])

    def _load_tile(self, memory: Memory, tile: Tile) -> Array:
        height, width = tile.y_end - tile.y, tile.x_end - tile.x
        if self.layout is Layout.NHWC:
            return self._rows(memory, tile)
        move = _WHOLE_BRICK.get(self.size)
        if move is not None:
            bricks: Array = np.ndarray(
                (height, width, self.bricks),
                move,
                memory[self.region],
                tile.base,
                (self.stride_y, self.stride_x, self.stride_c),
            )
            lanes = np.ascontiguousarray(bricks).view(self.dtype).reshape(height, width, self.bricks * BRICK)
        else:
            lanes = np.ascontiguousarray(self._lanes(memory, tile, self.bricks)).reshape(height, width, -1)
        return lanes[:, :, : self.depth]

    def _store_tile(self, memory: Memory, tile: Tile, values: Array) -> None:
        if self.layout is Layout.NHWC:
            self._rows(memory, tile)[...] = values
            return
        whole, rest = divmod(self.depth, BRICK)
        height, width = values.shape[:2]
        if whole:
            lanes = values[:, :, : whole * BRICK].reshape(height, width, whole, BRICK)
            self._lanes(memory, tile, whole)[...] = lanes
        if rest:
            self._lanes(memory, tile, whole + 1, rest)[:, :, whole] = values[:, :, whole * BRICK :]

    def _rows(self, memory: Memory, tile: Tile) -> Array:
        return np.ndarray(
            (tile.y_end - tile.y, tile.x_end - tile.x, self.depth),
            self.dtype,
            memory[self.region],
            tile.base,
            (self.stride_y, self.stride_x, self.size),
        )

    def _lanes(self, memory: Memory, tile: Tile, bricks: int, lanes: int = BRICK) -> Array:
        return np.ndarray(
            (tile.y_end - tile.y, tile.x_end - tile.x, bricks, lanes),
            self.dtype,
            memory[self.region],
            tile.base,
            (self.stride_y, self.stride_x, self.stride_c, self.size),
        )
