"""Feature maps: shape, format and place of a tensor in memory, and its conversion from and to numpy.

NHWC: base + y*stride_y + x*stride_x + c*size. Bricks (NHCWB16): base + y*stride_y + (c/16)*stride_c + x*stride_x +
(c%16)*size. A map may be cut into up to four tiles, each with its own base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass

Array = npt.NDArray[Any]

BRICK = 16  # channels in a brick
STRAIGHT = (0, 1, 2)


class RegionMemory(dict[int, npt.NDArray[np.uint8]]):
    """The bytes of each region, by region number. Callers check every access against the sizes first.

    Attributes:
        chains: values that an operation passes to later ones without storing them, by chain number (Ethos-U85).
    """

    def __init__(self, regions: Mapping[int, npt.NDArray[np.uint8]]) -> None:
        super().__init__(regions)
        self.chains: dict[int, Array] = {}


class Layout(IntEnum):
    """How a feature map is stored: the format field of the precision registers, or CHAIN for not in memory at all."""

    NHWC = 0
    BRICKS = 1
    CHAIN = 2


DTYPES: dict[tuple[int, bool], np.dtype[Any]] = {
    (8, False): np.dtype(np.uint8),
    (8, True): np.dtype(np.int8),
    (16, False): np.dtype("<u2"),
    (16, True): np.dtype("<i2"),
    (32, True): np.dtype("<i4"),
    (64, True): np.dtype("<i8"),
}
ACCUMULATORS = -1  # number of the chain for sums that one operation leaves in the accumulators for the next


@dataclass(frozen=True)
class Tile:
    """Rows [y, y_end) and columns [x, x_end) of a feature map, stored from `base` on."""

    y: int
    y_end: int
    x: int
    x_end: int
    base: int


@dataclass(frozen=True)
class FeatureMap:
    """A tensor of `height` x `width` x `depth` elements of `bits` in a region; the module has the address formulas.

    Attributes:
        split: width of tiles 0 and 2, height of tile 0, height of tile 1. Tiles 0, 1, 2, 3 are upper left, upper right,
            lower left, lower right.
        axes: the map's axes that are stored as height, width and depth, if the map is transposed on its way to memory
            (addresses and tiles are those of the stored map).
        reverse: the axis along which the map is stored backwards.
        region: with Layout.CHAIN, the chain's number; a chain has no addresses.
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
    axes: tuple[int, int, int] = STRAIGHT
    reverse: int | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, depth."""
        return self.height, self.width, self.depth

    @property
    def stored_shape(self) -> tuple[int, int, int]:
        """Height, width, depth in memory."""
        shape = self.shape
        return shape if self.axes == STRAIGHT else (shape[self.axes[0]], shape[self.axes[1]], shape[self.axes[2]])

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
        """Smallest and largest value of an element."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.signed else (0, (1 << self.bits) - 1)

    @property
    def one_tile(self) -> bool:
        """Whether bases 1 to 3 are not used."""
        height, width, _ = self.stored_shape
        return self.split[0] >= width and self.split[1] >= height

    @property
    def is_accumulators(self) -> bool:
        """Whether the values stay in the accumulators instead of being stored."""
        return self.layout is Layout.CHAIN and self.region == ACCUMULATORS

    @property
    def is_straight(self) -> bool:
        """Whether the map is stored as it is, neither transposed nor reversed."""
        return self.axes == STRAIGHT and self.reverse is None

    def move_to(self, base: int) -> FeatureMap:
        """Return the same map with tile 0 at `base`. dataclasses.replace would take three times as long."""
        return FeatureMap(
            self.region,
            self.height,
            self.width,
            self.depth,
            self.layout,
            self.bits,
            self.signed,
            self.zero_point,
            (base, *self.bases[1:]),
            self.stride_y,
            self.stride_x,
            self.stride_c,
            self.split,
            self.axes,
            self.reverse,
        )

    def _from_stored(self, stored: Array) -> Array:
        values = stored.transpose(np.argsort(self.axes))
        return values if self.reverse is None else np.flip(values, self.reverse)

    def tiles(self) -> Iterator[Tile]:
        """Yield the tiles that are not empty, in the stored map's coordinates."""
        height, width, _ = self.stored_shape
        left, upper_left, upper_right = self.split
        for first, x, x_end, upper in ((0, 0, min(left, width), upper_left), (1, left, width, upper_right)):
            if x >= x_end:
                continue
            yield Tile(0, min(upper, height), x, x_end, self.bases[first])
            if upper < height:
                yield Tile(upper, height, x, x_end, self.bases[first + 2])

    def extent(self, *, whole_bricks: bool) -> tuple[int, int]:
        """Return the first byte and the byte after the last one.

        `whole_bricks` includes the unused lanes of the last brick. The first byte may be negative where strides are (a
        reversed output); the caller refuses what leaves the region. A chain has no addresses: (0, 0).
        """
        if self.layout is Layout.CHAIN:
            return 0, 0
        if self.one_tile and self.stride_y >= 0 and self.stride_x >= 0 and self.stride_c >= 0:  # most maps
            height, width, _ = self.stored_shape
            across = (height - 1) * self.stride_y + (width - 1) * self.stride_x
            deep = max(brick * self.stride_c + lanes * self.size for brick, lanes in self._brick_ends(whole_bricks))
            return self.bases[0], self.bases[0] + across + deep
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
        """Return the bricks that can end the map: number and used lanes."""
        depth = self.stored_shape[2]
        if self.layout is Layout.NHWC:
            return [(0, depth)]
        last, rest = (depth - 1) // BRICK, depth % BRICK
        if whole_bricks or not rest:
            return [(0, BRICK), (last, BRICK)]
        return [(0, min(BRICK, depth)), (max(0, last - 1), min(BRICK, depth)), (last, rest)]

    def as_view(self, memory: RegionMemory) -> Array | None:
        """Return the map as a (height, width, depth) view of memory, or None where one view cannot hold it."""
        view = self.viewer()
        return None if view is None else view(memory)

    def viewer(self) -> Callable[[RegionMemory], Array] | None:
        """Return the function from a memory to `as_view`, which takes a third of the time, or None."""
        if not self.one_tile or self.layout is Layout.CHAIN:
            return None
        shape = self.stored_shape
        if self.layout is Layout.BRICKS and shape[2] > BRICK:
            return None
        region, base, dtype = self.region, self.bases[0], self.dtype
        strides = (self.stride_y, self.stride_x, self.size)
        if self.is_straight:
            return lambda memory: np.ndarray(shape, dtype, memory[region], base, strides)
        return lambda memory: self._from_stored(np.ndarray(shape, dtype, memory[region], base, strides))

    def load(self, memory: RegionMemory) -> Array:
        """Return the map's values, shape (height, width, depth), in the map's dtype; they may be a view of memory."""
        if self.layout is Layout.CHAIN:
            return memory.chains[self.region]
        view = self.as_view(memory)
        if view is not None:
            return view
        stored = self._load_stored(memory)
        return stored if self.is_straight else self._from_stored(stored)

    def store(self, memory: RegionMemory, values: Array) -> None:
        """Write `values`, shape (height, width, depth), already within the range of the map's type."""
        if self.layout is Layout.CHAIN:
            memory.chains[self.region] = values
            return
        if self.reverse is not None:
            values = np.flip(values, self.reverse)
        if self.axes != STRAIGHT:
            values = values.transpose(self.axes)
        for tile in self.tiles():
            self._store_tile(memory, tile, values[tile.y : tile.y_end, tile.x : tile.x_end])

    def _load_stored(self, memory: RegionMemory) -> Array:
        height, width, depth = self.stored_shape
        if self.one_tile:
            return self._load_tile(memory, Tile(0, height, 0, width, self.bases[0]), depth)
        values = np.empty((height, width, depth), self.dtype)
        for tile in self.tiles():
            values[tile.y : tile.y_end, tile.x : tile.x_end] = self._load_tile(memory, tile, depth)
        return values

    def _load_tile(self, memory: RegionMemory, tile: Tile, depth: int) -> Array:
        if self.layout is Layout.NHWC:
            return self._rows(memory, tile, depth)
        values = np.empty((tile.y_end - tile.y, tile.x_end - tile.x, depth), self.dtype)
        for stored, wanted in self._bricks(memory, tile, values):
            np.copyto(wanted, stored)
        return values

    def _store_tile(self, memory: RegionMemory, tile: Tile, values: Array) -> None:
        if self.layout is Layout.NHWC:
            self._rows(memory, tile, values.shape[2])[...] = values
            return
        for stored, given in self._bricks(memory, tile, np.ascontiguousarray(values)):
            np.copyto(stored, given)

    def _rows(self, memory: RegionMemory, tile: Tile, depth: int) -> Array:
        return np.ndarray(
            (tile.y_end - tile.y, tile.x_end - tile.x, depth),
            self.dtype,
            memory[self.region],
            tile.base,
            (self.stride_y, self.stride_x, self.size),
        )

    def _bricks(self, memory: RegionMemory, tile: Tile, values: Array) -> Iterator[tuple[Array, Array]]:
        """Yield pairs of views, in memory and in `values` (contiguous): the whole bricks of a tile, then the last,
        partial one.

        A brick's lanes are moved as one element, which numpy does several times faster than lane by lane.
        """
        height, width, depth = values.shape
        whole, rest = divmod(depth, BRICK)
        for brick, count, lanes in ((0, whole, BRICK), (whole, 1, rest)):
            if not count or not lanes:
                continue
            run = np.dtype((np.void, lanes * self.size))
            shape = (height, width, count)
            at, strides = tile.base + brick * self.stride_c, (self.stride_y, self.stride_x, self.stride_c)
            stored: Array = np.ndarray(shape, run, memory[self.region], at, strides)
            width_bytes = BRICK * self.size
            yield stored, np.ndarray(shape, run, values, brick * width_bytes, (*values.strides[:2], width_bytes))


def chain(number: int, shape: tuple[int, int, int], bits: int, signed: bool, zero_point: int) -> FeatureMap:
    """Return a map that one operation passes on to later ones without a place in memory."""
    height, width, depth = shape
    nowhere, split = (0, 0, 0, 0), (width, height, height)
    return FeatureMap(number, height, width, depth, Layout.CHAIN, bits, signed, zero_point, nowhere, 0, 0, 0, split)
