"""Protects the decoder of plain MLW streams: it says what Vela's decoder says, or leaves the stream to that one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ethosu import mlw_codec

from ethos_hil.harness.npu.weights import codec, weight_coding


def encoded(values: np.ndarray) -> bytes:
    """A stream of weights."""
    return bytes(mlw_codec.encode([int(value) for value in values]))


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
    plain = weight_coding.parse(encoded(values), len(values))
    assert plain is not None or name not in PLAIN
    assert plain is None or plain.weights().tolist() == values.tolist()


def test_slices_of_all_kinds_in_one_stream() -> None:
    """Weights that Vela stores in one way and another: a slice of a few coded ones between long plain ones."""
    values = RNG.integers(-127, 128, 50_000)
    values[20_000:20_300] = np.round(RNG.laplace(0, 9, 300))
    values[values == 0] = 1
    plain = weight_coding.parse(encoded(values), len(values))
    assert plain is not None
    assert any(piece.coded for piece in plain.slices)
    assert len(plain.slices) > 2
    assert plain.weights().tolist() == values.tolist()


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
        (expected,) = codec.decode([(stream, count)])
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
        assert weight_coding.parse(encoded(whole), len(whole)) is None


@pytest.mark.parametrize("count", [0, 1, 2999, 3001, 1 << 40])
def test_another_number_of_weights_is_left(count: int) -> None:
    assert weight_coding.parse(encoded(RNG.integers(-127, 128, 3000)), count) is None


def test_no_damage_does_harm() -> None:
    """Damaged streams are left, or decoded as Vela's decoder does."""
    draw, decoded = random.Random(1), 0
    streams = [(encoded(SPREAD[name][:700]), min(700, len(SPREAD[name]))) for name in PLAIN]
    for _ in range(400):
        stream, count = draw.choice(streams)
        damaged = bytearray(stream)
        for _ in range(draw.choice([1, 1, 3])):
            damaged[draw.choice([draw.randrange(8), draw.randrange(len(damaged))])] = draw.randrange(256)
        if draw.random() < 0.2:
            del damaged[draw.randrange(len(damaged)) :]
        plain = weight_coding.parse(bytes(damaged), count)
        if plain is not None:
            (expected,) = codec.decode([(bytes(damaged), count)])
            assert isinstance(expected, np.ndarray)
            assert plain.weights().tolist() == expected.tolist()
            decoded += 1
    assert decoded > 100


def test_every_cut_is_left() -> None:
    stream = encoded(RNG.integers(-127, 128, 3000))
    assert weight_coding.parse(stream, 3000) is not None
    assert all(weight_coding.parse(stream[:length], 3000) is None for length in range(0, 3000, 7))
