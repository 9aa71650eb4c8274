"""Protects feature maps, and which bytes parts of them share, against addresses computed element by element."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from ethos_hil.harness.npu.isa.feature_map import BRICK, FeatureMap, Layout, RegionMemory
from ethos_hil.harness.npu.timing.overlap import Box, Runs, common_byte, runs

SIZE = 1 << 16


def address(feature_map: FeatureMap, y: int, x: int, c: int) -> int:
    """Return the address of an element, by the definition of the formats."""
    width, upper_left, upper_right = feature_map.split
    tile = 0
    if x >= width:
        x, tile = x - width, 1
    if y >= (upper_right if tile else upper_left):
        y, tile = y - (upper_right if tile else upper_left), tile + 2
    at = feature_map.bases[tile] + y * feature_map.stride_y + x * feature_map.stride_x
    if feature_map.layout is Layout.BRICKS:
        return at + c // BRICK * feature_map.stride_c + c % BRICK * feature_map.size
    return at + c * feature_map.size


def random_map(generator: random.Random, bits: int, layout: Layout, tiles: int) -> FeatureMap:
    """A map whose elements do not overlap."""
    height, width = generator.randint(2, 7), generator.randint(2, 7)
    depth = generator.choice([1, 3, 15, 16, 17, 32, 37, 48])
    size = bits // 8
    bricks = -(-depth // BRICK)
    if layout is Layout.BRICKS:
        stride_x, stride_c = BRICK * size, BRICK * size * (width + generator.randint(0, 2))
        stride_y = stride_c * (bricks + generator.randint(0, 1))
    else:
        stride_x, stride_c = size * (depth + generator.randint(0, 3)), 0
        stride_y = stride_x * (width + generator.randint(0, 2))
    split = (
        generator.randint(1, width - 1) if tiles > 2 else width,
        generator.randint(1, height - 1) if tiles > 1 else height,
        generator.randint(1, height - 1) if tiles > 1 else height,
    )
    start = generator.randrange(0, 64, size)
    first, second, third, fourth = (start + i * stride_y * height for i in generator.sample(range(4), 4))
    bases = (first, second, third, fourth)
    return FeatureMap(1, height, width, depth, layout, bits, True, 0, bases, stride_y, stride_x, stride_c, split)


@pytest.mark.parametrize("tiles", [1, 2, 4])
@pytest.mark.parametrize("layout", [Layout.NHWC, Layout.BRICKS], ids=lambda layout: layout.name)
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_maps_are_read_and_written_where_they_are(bits: int, layout: Layout, tiles: int) -> None:
    generator = random.Random(bits * 10 + tiles)
    rng = np.random.default_rng(bits)
    for _ in range(6):
        feature_map = random_map(generator, bits, layout, tiles)
        memory = RegionMemory({1: rng.integers(0, 256, SIZE).astype(np.uint8)})
        places = {
            at: address(feature_map, *at) for at in np.ndindex(feature_map.height, feature_map.width, feature_map.depth)
        }
        loaded = feature_map.load(memory)
        for at, place in places.items():
            raw = memory[1][place : place + feature_map.size].tobytes()
            assert int(loaded[at]) == int.from_bytes(raw, "little", signed=True)
        written = RegionMemory({1: memory[1].copy()})
        values = rng.integers(*feature_map.limits, feature_map.shape, endpoint=True).astype(feature_map.dtype)
        feature_map.store(written, values)
        expected = memory[1].copy()
        for at, place in places.items():
            expected[place : place + feature_map.size] = np.frombuffer(values[at].tobytes(), np.uint8)
        assert np.array_equal(written[1], expected)
        begin, end = feature_map.extent(whole_bricks=False)
        assert begin == min(places.values())
        assert end == max(places.values()) + feature_map.size
        begin, whole_end = feature_map.extent(whole_bricks=True)
        assert begin == min(places.values())
        assert end <= whole_end <= end + (BRICK - 1) * feature_map.size


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("layout", [Layout.NHWC, Layout.BRICKS], ids=lambda layout: layout.name)
def test_a_map_may_be_transposed_on_its_way(layout: Layout, axes: tuple[int, int, int]) -> None:
    """The stored map is an ordinary one; the values read and written have its axes in another order."""
    stored = random_map(random.Random(str(axes)), 16, layout, 4)
    back = np.argsort(axes)
    height, width, depth = (stored.shape[axis] for axis in back)
    transposed = replace(stored, height=height, width=width, depth=depth, axes=axes)
    assert transposed.stored_shape == stored.shape
    assert transposed.extent(whole_bricks=True) == stored.extent(whole_bricks=True)
    values = np.random.default_rng(0).integers(-99, 99, transposed.shape).astype(np.int16)
    memory, other = RegionMemory({1: np.zeros(SIZE, np.uint8)}), RegionMemory({1: np.zeros(SIZE, np.uint8)})
    transposed.store(memory, values)
    stored.store(other, values.transpose(axes))
    assert np.array_equal(memory[1], other[1])
    assert np.array_equal(transposed.load(memory), values)


def test_a_chain_touches_no_memory() -> None:
    chain = FeatureMap(2, 3, 4, 5, Layout.CHAIN, 32, True, 0, (0, 0, 0, 0), 0, 0, 0, (1, 1, 1))
    memory = RegionMemory({})
    values = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    chain.store(memory, values)
    assert np.array_equal(chain.load(memory), values)
    assert chain.extent(whole_bricks=True) == (0, 0)
    assert chain.as_view(memory) is None
    assert list(runs(chain, Box.whole(chain))) == []


def test_a_map_may_run_backwards() -> None:
    feature_map = FeatureMap(1, 3, 4, 2, Layout.NHWC, 8, True, 0, (60, 0, 0, 0), -16, -3, 0, (4, 3, 3))
    memory = RegionMemory({1: np.arange(64, dtype=np.uint8)})
    assert feature_map.load(memory)[2, 3].tolist() == [60 - 32 - 9, 60 - 32 - 8]
    assert feature_map.extent(whole_bricks=False) == (60 - 32 - 9, 62)


# --- Which bytes parts of maps have, and share.


def any_part(generator: random.Random) -> tuple[FeatureMap, Box]:
    """Any layout, element size, tiling, transposition and direction, and a part that is not empty."""
    layout = generator.choice([Layout.NHWC, Layout.BRICKS])
    stored = random_map(generator, generator.choice([8, 16, 32]), layout, generator.choice([1, 2, 4]))
    axes = generator.choice(((0, 1, 2), (1, 0, 2), (2, 0, 1)))
    height, width, depth = shape = tuple(stored.shape[axis] for axis in np.argsort(axes))
    direction = generator.choice([1, 1, 1, -1])
    feature_map = replace(
        stored,
        height=height,
        width=width,
        depth=depth,
        axes=axes,
        bases=tuple(generator.randint(6000, 8000) for _ in range(4)),  # type: ignore[arg-type]
        stride_y=direction * stored.stride_y,
        stride_x=direction * stored.stride_x * generator.choice([1, 2]),
        reverse=generator.choice([None, None, 0, 1, 2]),
    )
    begins = [generator.randrange(size) for size in shape]
    ends = [generator.randint(begin + 1, size) for begin, size in zip(begins, shape, strict=True)]
    return feature_map, Box(*itertools.chain(*zip(begins, ends, strict=True)))


def addresses(feature_map: FeatureMap, part: Box) -> set[int]:
    """Every byte of a part of a map, element by element."""
    places = set()
    for position in itertools.product(range(part.y, part.y_end), range(part.x, part.x_end), range(part.c, part.c_end)):
        turned = list(position)
        if feature_map.reverse is not None:
            turned[feature_map.reverse] = feature_map.shape[feature_map.reverse] - 1 - turned[feature_map.reverse]
        at = address(feature_map, *(turned[axis] for axis in feature_map.axes))
        places |= set(range(at, at + feature_map.size))
    return places


def test_parts_of_maps_share_bytes_where_their_addresses_do() -> None:
    generator, outcomes = random.Random(0), set()
    for _ in range(400):
        parts = [any_part(generator) for _ in range(2)]
        pairs = itertools.product(*(runs(*part) for part in parts))
        shared = {byte for some, more in pairs if (byte := common_byte(some, more)) is not None}
        common = addresses(*parts[0]) & addresses(*parts[1])
        assert bool(shared) == bool(common)
        assert shared <= common
        outcomes.add(bool(common))
    assert outcomes == {True, False}
    one, next_one = Runs(0, 8, (), ()), Runs(8, 8, (), ())
    assert common_byte(one, next_one) is common_byte(next_one, one) is None


def test_runs_cover_what_a_part_covers() -> None:
    generator = random.Random(1)
    for _ in range(200):
        part, covered = any_part(generator), set()
        for some in runs(*part):
            starts = some.starts()
            assert (int(starts[0]), int(starts[-1]) + some.length) == (some.begin, some.end)
            covered |= {byte for start in starts.tolist() for byte in range(start, start + some.length)}
        assert covered == addresses(*part)
