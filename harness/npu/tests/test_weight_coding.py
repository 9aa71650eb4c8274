"""Protects the decoders of plain MLW streams and of FWD coding: they say what Vela's says, and no stream does harm."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ethos_hil.harness.npu.tests.encoded import mlw
from ethos_hil.harness.npu.weights import weight_coding
from ethos_hil.harness.npu.weights.weight_coding import CorruptStream

RNG = np.random.default_rng(0)
SPREAD = {
    "8 bits": RNG.integers(-127, 128, 70_000),
    "9 bits": RNG.integers(-255, 256, 3001),
    "5 bits": RNG.integers(-15, 16, 3001),
    "two weights": RNG.choice([-3, 100], 999),
    "some weights": RNG.choice(np.arange(1, 97, 3), 5000),
    "more than a palette has": RNG.choice(np.arange(1, 200, 5), 5000),
    "one weight": RNG.integers(-127, 128, 1),
}
PLAIN = ("8 bits", "9 bits", "5 bits", "two weights", "some weights")


@pytest.mark.parametrize("name", SPREAD)
def test_weights_without_a_shape(name: str) -> None:
    values = SPREAD[name]
    plain = weight_coding.parse(mlw(values), len(values))
    assert plain is not None or name not in PLAIN
    assert plain is None or plain.weights().tolist() == values.tolist()


@pytest.mark.parametrize("divisor", range(6))
@pytest.mark.parametrize("truncated", [0, 1])
def test_numbers_of_variable_width(divisor: int, truncated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written down bit by bit, with any units and remainders, as Vela's decoder reads them."""
    monkeypatch.setattr(weight_coding, "MOST_CODED", 1)
    draw = random.Random(divisor)
    for count in (1, 11, 12, 13, 100):
        header = [(6, 3), (count - 1, 15), (divisor, 3), (truncated, 1), (1, 1), (3, 5), (0, 5), (6, 3)]
        # Units of 0 or 1 in the most part, so that no number is too large; enough bits for all chunks.
        chunks = [(draw.choice([0, 1, 0x111, 0x421]), 12) for _ in range(3)] + [(0, 12)] * 30
        text = sum_of_bits(header) | sum_of_bits(chunks) << 36
        bits = weight_coding._Bits(text.to_bytes(100, "little"))
        piece = next(weight_coding._slices(bits, count))
        whole = text & ((1 << bits.at) - 1) | 7 << bits.at
        stream = whole.to_bytes(-(-(bits.at + 3) // 8), "little")
        (expected,) = weight_coding.decode([(stream, count)])
        assert isinstance(expected, np.ndarray)
        assert piece.palette.weights(np.array(piece.coded, np.uint16)).tolist() == expected.tolist()


def sum_of_bits(fields: list[tuple[int, int]]) -> int:
    """Fields of (value, width), the first lowest."""
    text = at = 0
    for value, width in fields:
        text |= value << at
        at += width
    return text


def test_streams_with_more_to_them_are_left() -> None:
    for values in (np.zeros(500), RNG.integers(-127, 128, 5000) * (RNG.random(5000) < 0.5), RNG.laplace(0, 9, 5000)):
        whole = np.round(values).clip(-255, 255)
        assert weight_coding.parse(mlw(whole), len(whole)) is None


def test_no_damage_does_harm() -> None:
    """Damaged streams are left, or decoded as Vela's decoder does."""
    draw, decoded = random.Random(1), 0
    streams = [(mlw(SPREAD[name][:700]), min(700, len(SPREAD[name]))) for name in PLAIN]
    for _ in range(400):
        stream, count = draw.choice(streams)
        damaged = bytearray(stream)
        for _ in range(draw.choice([1, 1, 3])):
            damaged[draw.choice([draw.randrange(8), draw.randrange(len(damaged))])] = draw.randrange(256)
        if draw.random() < 0.2:
            del damaged[draw.randrange(len(damaged)) :]
        plain = weight_coding.parse(bytes(damaged), count)
        if plain is not None:
            (expected,) = weight_coding.decode([(bytes(damaged), count)])
            assert isinstance(expected, np.ndarray)
            assert plain.weights().tolist() == expected.tolist()
            decoded += 1
    assert decoded > 100


# --- Protects the decoder of FWD coding: it decodes every kind of stream, and none can do harm.


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
