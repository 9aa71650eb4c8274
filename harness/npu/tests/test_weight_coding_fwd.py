"""Protects the decoder of FWD coding: it decodes every kind of stream, and none can do harm."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ethos_hil.harness.npu.weights import weight_coding
from ethos_hil.harness.npu.weights.codec import CorruptStream


def folded(value: int) -> int:
    """A table entry: the sign lowest."""
    return abs(value) << 1 | (value < 0)


def encoded(values: list[int], *, adjustment: int = 0, table: list[int] | None = None) -> bytes:
    """A stream of raw weights, or of indices into a table, written down bit by bit."""
    raw, small = table is None, table is not None and len(table) <= 4
    header = raw | small << 1 | (adjustment & 0xFF) << 104
    for number, entry in enumerate(table or []):
        header |= folded(entry) << 112 + 9 * number
    bits = 8 if raw else 2 if small else 4
    payload = 0
    for number, value in enumerate(values):
        coded = (value + adjustment) & 0xFF if table is None else table.index(value)
        payload |= coded << bits * number
    size = -(-len(values) * bits // 256) * 32
    return header.to_bytes(32, "little") + payload.to_bytes(size, "little")


@pytest.mark.parametrize("count", [0, 1, 3, 31, 32, 33, 64, 127, 1000])
@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [("raw", -128, 127), ("below", -255, 0), ("above", 0, 255), ("small", -2, 1), ("large", -200, 201)],
)
def test_every_kind_of_stream(kind: str, low: int, high: int, count: int) -> None:
    rng = np.random.default_rng(count)
    table = {"small": [-255, 0, 3, 255], "large": [int(v) for v in np.linspace(low, high, 16)]}.get(kind)
    values = [int(v) for v in (rng.integers(low, high + 1, count) if table is None else rng.choice(table, count))]
    adjustment = {"below": 127, "above": -128}.get(kind, 0)
    decoded = weight_coding.decode_fwd(encoded(values, adjustment=adjustment, table=table), count)
    assert decoded.tolist() == values


REFUSED = {
    "empty": (b"", 0, "0 bytes are too few"),
    "header cut off": (bytes(31), 0, "31 bytes are too few"),
    "no payload": (bytes([1]) + bytes(31), 1, "32 bytes where 1 weights in FWD coding take 64"),
    "payload cut off": (encoded([1] * 33)[:-32], 33, "64 bytes where 33 weights in FWD coding take 96"),
    "too much payload": (encoded([1] * 33), 32, "96 bytes where 32 weights in FWD coding take 64"),
    "far too many weights": (encoded([1] * 33), 1 << 40, "1099511627776 weights in FWD coding take"),
    "reserved bit": (bytes([1, 1]) + bytes(62), 1, "0101.* no known meaning"),
    "last reserved bit": (bytes([1]) + bytes(11) + b"\x80" + bytes(51), 1, "no known meaning"),
    "raw and small": (bytes([3]) + bytes(63), 1, "03.* no known meaning"),
    "adjusted table": (bytes(13) + b"\x01" + bytes(50), 1, "01, which has no known meaning"),
}


@pytest.mark.parametrize(("stream", "count", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_malformed_stream_is_refused(stream: bytes, count: int, message: str) -> None:
    with pytest.raises(CorruptStream, match=message):
        weight_coding.decode_fwd(stream, count)


def test_damaged_streams_end_in_weights_or_an_error() -> None:
    generator = random.Random(1)
    good = encoded([generator.choice((-3, 0, 5, 9, 70)) for _ in range(100)], table=[-3, 0, 5, 9, 70])
    outcomes = set()
    for _ in range(2000):
        stream = bytearray(good)
        for _ in range(generator.randint(1, 4)):
            at = generator.randrange(len(stream) * 8)
            stream[at // 8] ^= 1 << at % 8
        if generator.random() < 0.2:
            del stream[generator.randrange(len(stream)) :]
        try:
            decoded = weight_coding.decode_fwd(bytes(stream), 100)
        except CorruptStream:
            outcomes.add("error")
        else:
            assert decoded.shape == (100,)
            assert np.abs(decoded.astype(np.int32)).max() <= 255
            outcomes.add("weights")
    assert outcomes == {"error", "weights"}
