"""Protects weights and scales: each is decoded once, in any order, errors appear where they belong, and weights that
Vela compiled come out as they were put in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ethos_hil.harness.npu.isa.operations import ScaleLayout
from ethos_hil.harness.npu.isa.weight_order import WeightOrder
from ethos_hil.harness.npu.tests.encoded import CASES, check, mlw
from ethos_hil.harness.npu.tests.test_weight_coding import some_weights
from ethos_hil.harness.npu.weights import decompress, weight_coding
from ethos_hil.harness.npu.weights.decompress import Compressed, WeightError
from ethos_hil.harness.npu.weights.weight_order_u55 import WeightOrderU55
from ethos_hil.harness.npu.weights.weight_order_u85 import WeightOrderU85

POINT: dict[str, Any] = {"height": 1, "width": 1, "dilation_y": 1, "dilation_x": 1, "part_kernel": False, "ifm_bits": 8}
DEEP: dict[str, Any] = {**POINT, "depthwise": False, "ofm_depth": 100, "ifm_depth": 70, "ofm_block": 32}
ORDER = WeightOrderU55(**DEEP, ofm_ublock=8, ifm_ublock=8)
FLAT = WeightOrderU85(
    **{**DEEP, "depthwise": True}, ofm_ublock=16, sparse=False, stride_y=1, stride_x=1, macs=512, decoders=2
)
CORES = replace(ORDER, cores=2)


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    decompress.forget()
    yield
    decompress.forget()


def key(seed: int, order: WeightOrder = ORDER) -> tuple[Compressed, WeightOrder]:
    """Return streams for an order."""
    return tuple(mlw(some_weights(length, seed + n)) for n, length in enumerate(order.lengths)), order


def expected(seed: int, order: WeightOrder = ORDER) -> np.ndarray:
    """The weights in them."""
    return order.restore([some_weights(length, seed + n).astype(np.int16) for n, length in enumerate(order.lengths)])


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the number of streams in each batch that the codec gets."""
    counted: list[int] = []

    class Counted(weight_coding.Batch):
        def start(self) -> None:
            counted.append(len(self._streams))
            super().start()

    monkeypatch.setattr(weight_coding, "Batch", Counted)
    return counted


def test_weights_are_decoded_once(batches: list[int]) -> None:
    compressed, order = key(77)
    first = decompress.decode(compressed, order)
    assert np.array_equal(first, expected(77))
    assert decompress.decode(tuple(bytes(bytearray(stream)) for stream in compressed), order) is first
    assert batches == [1]
    assert not first.flags.writeable


def test_prefetched_weights_are_one_batch(batches: list[int]) -> None:
    keys = [key(1), key(2, CORES), key(4)]
    decompress.prefetch([*keys, keys[0]])
    for (compressed, order), seed in reversed(list(zip(keys, (1, 2, 4), strict=True))):
        assert np.array_equal(decompress.decode(compressed, order), expected(seed, order))
    assert batches == [4]
    decompress.prefetch(keys)
    assert batches == [4]


def test_plain_weights_need_no_process(batches: list[int]) -> None:
    values = [np.random.default_rng(core).integers(-127, 128, length) for core, length in enumerate(CORES.lengths)]
    plain = tuple(map(mlw, values)), CORES
    for prefetched in (True, False):
        decompress.forget()
        if prefetched:
            decompress.prefetch([plain])
        weights = CORES.restore([value.astype(np.int8) for value in values])
        assert np.array_equal(decompress.decode(*plain), weights)
    assert batches == []


def test_prefetched_weights_that_nothing_uses_are_dropped(batches: list[int]) -> None:
    for seed in range(5):
        decompress.prefetch([key(seed), key(seed + 1)])
    assert batches == [2, 1, 1, 1, 1]
    assert set(decompress._pending) == {key(4), key(5)}
    assert np.array_equal(decompress.decode(*key(0)), expected(0))
    assert batches == [2, 1, 1, 1, 1, 1]


def test_a_batch_is_limited_too(batches: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "MOST_WEIGHTS", 2 * ORDER.lengths[0])
    decompress.prefetch([key(1), key(2), key(3)])
    assert batches == [2]
    assert np.array_equal(decompress.decode(*key(3)), expected(3))


def test_a_prefetched_error_is_raised_on_use() -> None:
    good, short, wrong = key(1), ((mlw(some_weights(10)),), ORDER), ((b"", b""), ORDER)
    decompress.prefetch([short, good, wrong])
    assert np.array_equal(decompress.decode(*good), expected(1))
    for _ in range(2):
        with pytest.raises(WeightError, match=f"decodes to 10 weights where .* describe {ORDER.lengths[0]}"):
            decompress.decode(*short)
        with pytest.raises(WeightError, match="2 streams where the registers describe 1"):
            decompress.decode(*wrong)


def test_too_many_weights_are_refused_before_allocation(batches: list[int]) -> None:
    huge = replace(ORDER, ofm_depth=1 << 16, ifm_depth=1 << 16)
    decompress.prefetch([((b"",), huge)])
    with pytest.raises(WeightError, match="describe 4294967296 weights"):
        decompress.decode((b"",), huge)
    fast = replace(FLAT, depthwise=False, fast=True, ofm_depth=1 << 16, ifm_depth=1 << 16, ofm_block=64)
    with pytest.raises(WeightError, match="describe 4294967296 weights"):
        decompress.decode((bytes(32),), fast)
    assert not batches


@pytest.mark.parametrize("order", [ORDER, FLAT])
def test_an_unreasonable_kernel_is_refused_at_once(order: WeightOrder, batches: list[int]) -> None:
    huge = replace(order, ofm_depth=1, ifm_depth=1, height=300, width=300)
    with pytest.raises(WeightError, match="a kernel of 300 x 300"):
        decompress.decode((b"",) * len(huge.lengths), huge)
    huge = replace(order, height=1 << 16, width=1 << 16)
    with pytest.raises(WeightError, match="weights"):
        decompress.decode((b"",) * len(huge.lengths), huge)
    assert not batches


@pytest.mark.parametrize(("low", "high", "dtype"), [(-128, 127, np.int8), (-129, 127, np.int16), (-128, 128, np.int16)])
def test_the_smallest_type_that_fits(low: int, high: int, dtype: type) -> None:
    values = np.zeros(ORDER.lengths[0], np.int64)
    values[:2] = low, high
    decoded = decompress.decode((mlw(values),), ORDER)
    assert decoded.dtype == dtype
    assert (decoded.min(), decoded.max()) == (low, high)


def test_the_cache_forgets_the_oldest_first() -> None:
    cache = decompress._Cache(limit=1000)
    for number in range(5):
        cache.put(((bytes([number]),), ORDER), np.zeros(400, np.int8))
    assert [cache.get(((bytes([number]),), ORDER)) is not None for number in range(5)] == [False] * 3 + [True] * 2
    assert cache.used == 802


def records(rows: Sequence[tuple[int, int, int]], layout: ScaleLayout) -> np.ndarray:
    """A scale buffer, padded; all bits that mean nothing are set."""
    bias_bytes, multiplier_bytes, bits = layout.value
    unused = (1 << 8 * multiplier_bytes) - (1 << bits)
    packed = b"".join(
        bias.to_bytes(bias_bytes, "little", signed=True)
        + (multiplier | unused).to_bytes(multiplier_bytes, "little")
        + bytes([shift | 0xC0])
        + b"\xff" * (9 - bias_bytes - multiplier_bytes)
        for bias, multiplier, shift in rows
    )
    return np.frombuffer(packed + bytes(2), np.uint8)


@pytest.mark.parametrize("layout", ScaleLayout)
def test_scale_buffer(layout: ScaleLayout) -> None:
    bias_bytes, _, bits = layout.value
    most = 1 << 8 * bias_bytes - 1
    rows = [(-most, (1 << bits) - 1, 63), (most - 1, 0, 0), (-1, 1 << bits - 1, 31)]
    decoded = decompress.decode_scales([records(rows, layout)], 3, layout)
    assert [tuple(int(v) for v in row) for row in zip(*decoded, strict=True)] == rows
    assert {array.dtype for array in decoded} == {np.dtype(np.int64)}


def test_a_scale_buffer_that_is_too_short_is_refused() -> None:
    buffer = records([(1, 2, 3)] * 3, ScaleLayout.I40)
    with pytest.raises(WeightError, match="29 bytes of scales for 3 channels"):
        decompress.decode_scales([buffer[:29]], 3, ScaleLayout.I40)


# --- The order of weights that Vela compiled. ---

U55_U65 = tuple(f"ethos-{size}" for size in ("u55-32", "u55-64", "u55-128", "u55-256", "u65-256", "u65-512"))
U85 = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))
CODINGS = {"any coding": (), "MLW": ("--disable-fwd",)}


@pytest.mark.parametrize("npu", U55_U65)
def test_weights_come_out_as_they_were_put_in(npu: str) -> None:
    for name in CASES:
        for conv in check(name, npu):
            assert conv.order.cores == (2 if npu == "ethos-u65-512" else 1), name
            assert conv.at.layout is ScaleLayout.I40, name


@pytest.mark.parametrize("flags", CODINGS.values(), ids=CODINGS.keys())
@pytest.mark.parametrize("npu", U85)
def test_weights_of_an_ethos_u85_come_out_as_they_were_put_in(npu: str, flags: tuple[str, ...]) -> None:
    for name in CASES:
        for conv in check(name, npu, *flags):
            assert not (conv.order.fast and flags), name
            assert conv.at.layout is (ScaleLayout.I48 if "16 bit" in name else ScaleLayout.I32), name


U65_512, U85_256 = ("ethos-u65-512",), ("ethos-u85-256", "--disable-fwd")
CHANGES: list[tuple[tuple[str, ...], str, str, Callable[[Any], Any]]] = [
    (U65_512, "part_kernel", "3x3", lambda order: not order.part_kernel),
    (U65_512, "dilation_y", "dilated, large", lambda order: 1),
    (U65_512, "ofm_block", "point, many blocks", lambda order: 8),
    (U65_512, "ofm_ublock", "point, many blocks", lambda order: 4),
    (U65_512, "ifm_bits", "16 bit, point, deep", lambda order: 8),
    (U65_512, "cores", "linear", lambda order: 1),
    (U85_256, "part_kernel", "3x3", lambda order: not order.part_kernel),
    (U85_256, "sparse", "sparse, many blocks", lambda order: False),
    (U85_256, "stride_y", "depthwise, strided", lambda order: 1),
    (U85_256, "stride_x", "strided, few inputs", lambda order: 1),
    (U85_256, "dilation_y", "dilated, large", lambda order: 1),
    (U85_256, "ofm_block", "point, many blocks", lambda order: order.ofm_block // 2),
    (U85_256, "ofm_ublock", "depthwise, wide", lambda order: 2 * order.ofm_ublock),
    (U85_256, "ifm_bits", "16 bit, 3x3, many blocks", lambda order: 8),
    (U85_256, "macs", "16 bit, linear", lambda order: 512),
    (U85_256, "decoders", "point", lambda order: 2),
]


@pytest.mark.parametrize(("target", "field", "name", "change"), CHANGES)
def test_every_field_matters(target: tuple[str, ...], field: str, name: str, change: Callable[[Any], Any]) -> None:
    (conv,) = check(name, *target)
    other = replace(conv.order, **{field: change(conv.order)})
    assert other != conv.order
    with contextlib.suppress(WeightError):
        count = len(other.lengths)
        assert not np.array_equal(decompress.decode((conv.compressed * count)[:count], other), conv.tensor())


def test_a_stream_in_another_coding_is_refused() -> None:
    (conv,) = check("point", "ethos-u85-512", "--disable-fwd")
    with pytest.raises(WeightError, match="FWD"):
        decompress.decode((conv.compressed[0],), replace(conv.order, fast=True))
    (conv,) = check("point", "ethos-u85-512")
    assert conv.order.fast
    with pytest.raises(WeightError, match="1 streams where the registers describe 2"):
        decompress.decode(conv.compressed, replace(conv.order, fast=False))
