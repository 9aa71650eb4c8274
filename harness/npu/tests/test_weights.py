"""Protects weights: decoding, their order, and that no stream, however damaged, takes the process with it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from ethosu import mlw_codec

from harness.npu import codec, weights
from harness.npu.weight_order import WeightOrder
from harness.npu.weights import ScaleLayout, WeightError
from lowering.errors import ToolError


def encoded(values: np.ndarray) -> bytes:
    """A stream of weights."""
    return bytes(mlw_codec.encode(values.ravel().tolist()))


def some_weights(count: int, seed: int = 0) -> np.ndarray:
    """Weights with runs of zeros and both extremes of 9 bits."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-255, 256, count) * (rng.random(count) < 0.6)
    values[: count // 3] = 0
    return values


def test_the_worker_decodes_as_the_python_function_does() -> None:
    streams = [encoded(some_weights(count, count)) for count in (1, 16, 1000, 40000)]
    for stream, decoded in zip(streams, codec.decode(streams), strict=True):
        assert isinstance(decoded, np.ndarray)
        assert decoded.tolist() == list(mlw_codec.decode(bytearray(stream)))


def test_large_batches_are_shared_and_keep_their_order() -> None:
    streams = [encoded(some_weights(30000, seed)) for seed in range(18)]
    assert sum(map(len, streams)) > codec.PARALLEL_BYTES
    together = codec.decode(streams)
    alone = [codec.decode([stream])[0] for stream in streams[::5]]
    for one, other in zip(together[::5], alone, strict=True):
        assert np.array_equal(one, other)  # type: ignore[arg-type]


def test_no_streams_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec.subprocess, "run", None)
    assert codec.decode([]) == []


def test_a_corrupt_stream_is_told_from_its_neighbours() -> None:
    good = encoded(some_weights(500))
    results = codec.decode([good, b"", good[: len(good) // 2], good, b"\0" * 64, good])
    kinds = [type(result) for result in results]
    assert kinds == [np.ndarray, np.ndarray, codec.CorruptStream, np.ndarray, codec.CorruptStream, np.ndarray]
    assert all(np.array_equal(results[i], results[0]) for i in (3, 5))  # type: ignore[arg-type]
    assert results[1].size == 0  # type: ignore[union-attr]


def test_flipped_bits_end_in_weights_or_an_error() -> None:
    generator = random.Random(3)
    good = encoded(some_weights(300))
    damaged = []
    for _ in range(40):
        stream = bytearray(good)
        at = generator.randrange(len(stream) * 8)
        stream[at // 8] ^= 1 << at % 8
        damaged.append(bytes(stream))
    results = codec.decode(damaged)
    assert {type(result) for result in results} == {np.ndarray, codec.CorruptStream}
    original = codec.decode([good])[0]
    same = [np.array_equal(result, original) for result in results if isinstance(result, np.ndarray)]  # type: ignore[arg-type]
    assert sum(same) < len(same) // 2  # bits of padding change nothing


def test_a_decoder_that_does_not_answer_is_a_corrupt_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(codec, "WORKER", sleeper)
    monkeypatch.setattr(codec, "TIMEOUT_SECONDS", 0.2)
    assert isinstance(codec.decode([b"x"])[0], codec.CorruptStream)


def test_a_missing_decoder_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="not installed"):
        codec.decode([b"x"])


def test_a_decoder_without_the_expected_functions_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise AttributeError('undefined symbol: mlw_decode')\n")
    monkeypatch.setattr(codec, "WORKER", broken)
    with pytest.raises(ToolError, match="mlw_decode"):
        codec.decode([b"x"])


# --- the order, against a literal walk through the nesting of the stream


def walk(order: WeightOrder, tensor: np.ndarray) -> list[int]:
    """The stream of a weight tensor (ofm, height, width, ifm), element by element."""
    stream = []
    for ofm_block in range(0, order.ofm_depth, order.ofm_block):
        ofm_in_block = min(order.ofm_block, order.ofm_depth - ofm_block)
        for ifm_block in range(0, 1 if order.depthwise else order.ifm_depth, order.ifm_block):
            in_block = order.ifm_block
            if order.depthwise:
                in_block = order.ifm_ublock
            elif order.part_kernel:
                in_block = min(in_block, order.ifm_depth - ifm_block)
            for y, x, height, width in order.subkernels():
                count = -(-height * width // order.element_step) * order.element_step
                outer = in_block if order.part_kernel else 1
                inner = 1 if order.part_kernel else in_block
                for ifm_outer in range(0, outer, order.ifm_ublock):
                    for ofm in range(0, ofm_in_block, order.ofm_ublock):
                        for element in range(count):
                            for ifm_inner in range(0, inner, order.ifm_ublock):
                                for z in range(order.ofm_ublock):
                                    for i in range(1 if order.depthwise else order.ifm_ublock):
                                        at = (
                                            ofm_block + ofm + z,
                                            y + element // width,
                                            x + element % width,
                                            ifm_block + ifm_outer + ifm_inner + i,
                                        )
                                        inside = element < height * width and ofm + z < ofm_in_block
                                        inside = inside and at[3] < order.ifm_depth
                                        stream.append(int(tensor[at]) if inside else 0)
    return stream


ORDERS = {
    "depth first": WeightOrder(False, False, 21, 37, 3, 3, 1, 1, 16, 8, 8, 8),
    "depth first, 16 bit": WeightOrder(False, False, 21, 37, 3, 3, 1, 1, 16, 8, 8, 16),
    "part kernel": WeightOrder(False, True, 21, 37, 3, 3, 1, 1, 16, 8, 8, 8),
    "part kernel, 16 bit": WeightOrder(False, True, 21, 9, 3, 3, 1, 1, 16, 8, 8, 16),
    "part kernel, large": WeightOrder(False, True, 9, 5, 9, 10, 1, 1, 8, 8, 8, 8),
    "part kernel, dilated": WeightOrder(False, True, 9, 5, 5, 6, 2, 1, 8, 8, 8, 8),
    "depth first, large": WeightOrder(False, False, 9, 5, 17, 1, 1, 2, 8, 8, 8, 8),
    "micro-blocks of four": WeightOrder(False, True, 10, 20, 3, 3, 1, 1, 12, 4, 8, 8),
    "depthwise": WeightOrder(True, False, 21, 1, 3, 3, 1, 1, 16, 8, 8, 8),
    "depthwise, large": WeightOrder(True, False, 21, 1, 9, 9, 1, 1, 16, 4, 8, 8),
    "point": WeightOrder(False, False, 100, 70, 1, 1, 1, 1, 32, 8, 8, 8),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_order(order: WeightOrder) -> None:
    shape = (order.ofm_depth, order.height, order.width, order.ifm_depth)
    tensor = np.random.default_rng(0).integers(-128, 128, shape)
    stream = np.array(walk(order, tensor), np.int16)
    assert order.lengths == (stream.size,)
    assert np.array_equal(order.restore([stream]), tensor)


def test_a_stream_of_another_length_is_refused() -> None:
    order = ORDERS["depthwise"]
    with pytest.raises(WeightError, match=f"decodes to 10 weights where the registers describe {order.lengths[0]}"):
        weights.decode((encoded(some_weights(10)),), order)


def test_weights_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    order = ORDERS["point"]
    stream = encoded(some_weights(order.lengths[0], seed=77))
    first = weights.decode((stream,), order)
    monkeypatch.setattr(codec, "decode", None)
    assert weights.decode((bytes(stream),), order) is first
    assert not first.flags.writeable


def test_the_cache_forgets_the_oldest_first() -> None:
    cache = weights._Cache(limit=1000)
    order = ORDERS["point"]
    for key in range(5):
        cache.put(((bytes([key]),), order), np.zeros(400, np.int8))
    assert [cache.get(((bytes([key]),), order)) is not None for key in range(5)] == [False, False, False, True, True]
    assert cache.used == 802


def test_scale_buffer() -> None:
    buffer = bytearray()
    rows = [(-(1 << 39), (1 << 32) - 1, 63), ((1 << 39) - 1, 0, 0), (-1, 1 << 30, 31)]
    for bias, multiplier, shift in rows:
        buffer += bias.to_bytes(5, "little", signed=True) + multiplier.to_bytes(4, "little") + bytes([shift])
    decoded = weights.decode_scales([np.frombuffer(bytes(buffer) + bytes(2), np.uint8)], 3, ScaleLayout.I40)
    assert [tuple(int(v) for v in row) for row in zip(*decoded, strict=True)] == rows
