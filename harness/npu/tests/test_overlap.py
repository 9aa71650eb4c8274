"""Protects the comparison of feature maps byte by byte, against sets of addresses."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from ethos_hil.harness.npu.isa.feature_map import BRICK, STRAIGHT, FeatureMap, Layout
from ethos_hil.harness.npu.tests.test_feature_map import address
from ethos_hil.harness.npu.timing.overlap import Box, common_byte, runs

Rng = np.random.Generator


def feature_map(shape: tuple[int, int, int], **changes: object) -> FeatureMap:
    """An int8 map in NHWC at address 0, without gaps, unless `changes` say otherwise."""
    height, width, depth = shape
    layout, split = (Layout.NHWC, 8, True, 0), (width, height, height)
    plain = FeatureMap(1, height, width, depth, *layout, (0, 0, 0, 0), width * depth, depth, 0, split)
    return replace(plain, **changes)  # type: ignore[arg-type]


def addresses(source: FeatureMap, box: Box) -> set[int]:
    """Every byte of a part of a map, element by element."""
    places = set()
    spans = (range(box.y, box.y_end), range(box.x, box.x_end), range(box.c, box.c_end))
    for position in itertools.product(*spans):
        turned = [
            size - 1 - at if axis == source.reverse else at
            for axis, (at, size) in enumerate(zip(position, source.shape, strict=True))
        ]
        y, x, c = (turned[axis] for axis in source.axes)
        at = address(source, y, x, c)
        places |= set(range(at, at + source.size))
    return places


def shared(source: FeatureMap, part: Box, other: FeatureMap, other_part: Box) -> int | None:
    """The first byte that two parts share, as `runs` and `common_byte` see it."""
    pairs = itertools.product(runs(source, part), runs(other, other_part))
    places = [byte for some, more in pairs if (byte := common_byte(some, more)) is not None]
    return min(places, default=None)


def random_box(rng: Rng, shape: tuple[int, int, int]) -> Box:
    """A part of a map, never empty."""
    ends = []
    for size in shape:
        begin = int(rng.integers(0, size))
        ends += [begin, int(rng.integers(begin + 1, size + 1))]
    return Box(*ends)


def random_map(rng: Rng) -> FeatureMap:
    """Any layout, element size, tiling, transposition, and direction."""
    shape = tuple(int(n) for n in rng.integers(1, (5, 5, 40)))
    size = int(rng.choice([1, 2, 4]))
    axes = ((0, 1, 2), (1, 0, 2), (2, 0, 1))[rng.integers(3)]
    height, width, depth = (shape[axis] for axis in axes)
    bricks = bool(rng.integers(2))
    pixel = (BRICK if bricks else depth) * size
    stride_x = pixel * int(rng.integers(1, 3))
    stride_c = stride_x * width + 16 * int(rng.integers(2))
    stride_y = stride_c * -(-depth // BRICK) if bricks else stride_x * width + int(rng.integers(3))
    if rng.integers(4) == 0:
        stride_y, stride_x = -stride_y, -stride_x
    split = tuple(int(rng.integers(1, n + 1)) for n in (width, height, height))
    bases = tuple(int(rng.integers(2000, 2600)) for _ in range(4))
    return feature_map(
        (shape[0], shape[1], shape[2]),
        layout=Layout.BRICKS if bricks else Layout.NHWC,
        bits=size * 8,
        bases=bases,
        stride_y=stride_y,
        stride_x=stride_x,
        stride_c=stride_c if bricks else 0,
        split=split,
        axes=axes,
        reverse=(None, None, 0, 1, 2)[rng.integers(5)],
    )


def test_parts_of_maps_share_bytes_where_their_addresses_do() -> None:
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(400):
        source, other = random_map(rng), random_map(rng)
        part, other_part = random_box(rng, source.shape), random_box(rng, other.shape)
        common = addresses(source, part) & addresses(other, other_part)
        place = shared(source, part, other, other_part)
        assert (place is not None) == bool(common)
        assert place is None or place in common
        outcomes.add(bool(common))
    assert outcomes == {True, False}


def test_runs_cover_what_a_box_covers() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        source = random_map(rng)
        part = random_box(rng, source.shape)
        covered: set[int] = set()
        for some in runs(source, part):
            starts = some.starts()
            assert (int(starts[0]), int(starts[-1]) + some.length) == (some.begin, some.end)
            for start in starts.tolist():
                covered |= set(range(start, start + some.length))
        assert covered == addresses(source, part)


def test_interleaved_slices_share_nothing() -> None:
    low = feature_map((4, 4, 8), stride_y=64, stride_x=16)
    high = feature_map((4, 4, 8), stride_y=64, stride_x=16, bases=(8, 8, 8, 8))
    assert shared(low, Box.whole(low), high, Box.whole(high)) is None
    assert shared(low, Box.whole(low), low, Box(3, 4, 3, 4, 7, 8)) == 3 * 64 + 3 * 16 + 7


def test_a_chain_has_no_bytes() -> None:
    chain = feature_map((4, 4, 8), layout=Layout.CHAIN)
    assert list(runs(chain, Box.whole(chain))) == []
    assert chain.axes == STRAIGHT
