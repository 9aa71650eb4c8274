"""Protects rounding. The modes differ only for rare values, so these are constructed, not drawn at random."""

from __future__ import annotations

import csv
import struct
from dataclasses import replace
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu.compute.pooling import keeps_values
from ethos_hil.harness.npu.isa.scaling import (
    INT64_MAX,
    Rounding,
    Scale,
    divide_half_away,
    exact_in_floats,
    largest_scaled,
    scale,
    scale_channels,
)
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import reference

VECTORS = Path(__file__).parent / "data" / "rounding_vectors.csv"
OFM_PRECISION = 0x114
COLUMNS = {Rounding.NATURAL: "natural", Rounding.DOUBLE: "dbl", Rounding.TRUNCATE: "truncate"}


def vectors() -> list[dict[str, int]]:
    """Return values, scales and results of a model that was checked against TOSA and TensorFlow Lite Micro."""
    with VECTORS.open() as file:
        return [{key: int(value) for key, value in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize("rounding", COLUMNS, ids=lambda rounding: rounding.name)
def test_vectors(rounding: Rounding) -> None:
    rows = vectors()
    assert len(rows) > 50
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    by_channel = scale_channels(columns["v"], columns["mult"], columns["shift"], rounding)
    assert np.array_equal(by_channel, columns[COLUMNS[rounding]])
    for row in rows:
        result = scale(np.array([row["v"]]), Scale(row["mult"], row["shift"], rounding))
        assert int(result[0]) == row[COLUMNS[rounding]], row


@pytest.mark.parametrize("wrong", list(Rounding), ids=lambda rounding: rounding.name)
@pytest.mark.parametrize("right", list(Rounding), ids=lambda rounding: rounding.name)
def test_a_mode_in_place_of_another_is_seen(right: Rounding, wrong: Rounding) -> None:
    """By the modes' definitions, no two of them agree on all values and scales of the vectors."""
    rows = vectors()
    results = [scale(np.array([row["v"]]), Scale(row["mult"], row["shift"], wrong)) for row in rows]
    expected = [exact(row["v"], Scale(row["mult"], row["shift"], right)) for row in rows]
    assert ([int(result[0]) for result in results] == expected) == (right is wrong)


def exact(value: int, by: Scale) -> int:
    """Scale by the definition, in rational arithmetic."""
    product = Fraction(value * by.multiplier)
    if by.rounding is Rounding.TRUNCATE:
        return int(product / 2**by.shift)
    if by.rounding is Rounding.FLOOR:
        return floor(product / 2**by.shift)
    if by.rounding is Rounding.AWAY:
        magnitude = floor(abs(product) / 2**by.shift + (Fraction(1, 2) if by.shift else 0))
        return magnitude if value >= 0 else -magnitude
    if by.rounding is Rounding.DOUBLE and by.shift > 31 - by.early_bits:
        early = 1 << (30 - by.early_bits)
        product += early if value >= 0 else -early
    return floor(product / 2**by.shift + (Fraction(1, 2) if by.shift else 0))


def saturated(value: int, by: Scale) -> int:
    """Results beyond 64 bits saturate; no operation stores more than 32."""
    return max(-INT64_MAX - 1, min(INT64_MAX, exact(value, by)))


ENDS = (-INT64_MAX - 1, -INT64_MAX, -(1 << 62), -(1 << 32), -1, 0, 1, (1 << 32) - 1, 1 << 62, INT64_MAX)
NARROW = [0, 1, -1, (1 << 31) - 1, -(1 << 31)]


@pytest.mark.parametrize("early_bits", [0, 15, 20])
@pytest.mark.parametrize("rounding", list(Rounding), ids=lambda rounding: rounding.name)
def test_scaling_is_exact(rounding: Rounding, early_bits: int) -> None:
    """At half-way values, and with products beyond 63 bits, which only operations on 32-bit values need."""
    rng = np.random.default_rng(early_bits)
    for shift in (0, 1, 10, 11, 12, 16, 17, 30, 31, 32, 33, 40, 47, 48, 62, 63):
        drawn = map(int, (rng.integers(1 << 30, 1 << 31), rng.integers(1 << 32)))
        for multiplier in (0, 1, 3, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, *drawn):
            by = Scale(multiplier, shift, rounding, early_bits)
            wide = rng.integers(-(1 << 63), INT64_MAX, 12, endpoint=True) >> rng.integers(0, 40, 12)
            halves = [((2 * k + 1) << shift) // (2 * max(multiplier, 1)) for k in (-200, -3, -1, 0, 1, 2, 127, 4000)]
            narrow = [*NARROW, *(v + d for v in halves if abs(v) < 1 << 30 for d in (-1, 0, 1))]
            ties = [((2 * k + 1) << shift) // (2 * max(multiplier, 1)) for k in (-(1 << 30), -2, 1, 1 << 30)]
            for values in (narrow, [*ENDS, *map(int, wide), *(v for v in ties if abs(v) <= INT64_MAX)]):
                assert scale(np.array(values, np.int64), by).tolist() == [saturated(v, by) for v in values]


def test_mean_rounds_ties_away_from_zero() -> None:
    sums, counts = np.array([7, -7, 6, -6, 5, -5, 0, 1, -1, 2, -2]), np.array([2, 2, 4, 4, 4, 4, 9, 3, 3, 3, 3])
    assert divide_half_away(sums, counts).tolist() == [4, -4, 2, -2, 1, -1, 0, 0, 0, 1, -1]


# --- whole programs at half-way values, and the proof that they reveal a wrong mode


Program = tuple[bytes, CompiledGraph, np.ndarray]
EVERY = np.arange(-128, 128, dtype=np.int8).reshape(1, 4, 64, 1)


def half_way_conv(npu: str) -> Program:
    """Return a 1x1 convolution whose sums scale to k + 1/2, of both signs, with shifts above 31."""
    graph = Graph()
    scales = [(1 << 30, 33), (1 << 30, 34), (1 << 30, 35), (3 << 29, 36), (1185020362, 33), (1638001653, 39)]
    weights = np.array([1, 2, 3, 5, 3, 127]).reshape(6, 1, 1, 1)
    sums = graph.conv(graph.input((1, 4, 64, 1)), weights, np.array([0, 1, -1, 2, 0, -5]))
    return finished(graph, graph.rescale(sums, scales, zero_out=3), npu)


def half_way_pool(npu: str) -> Program:
    """Return a mean of two with every pair of neighbouring values."""
    graph = Graph()
    pool = graph.average_pool(graph.input((1, 2, 255, 1)), (2, 1), zeros=(5, 5))
    return finished(graph, pool, npu, np.stack([EVERY.ravel()[:-1], EVERY.ravel()[1:]]).reshape(1, 2, 255, 1))


def half_way_rescale(npu: str) -> Program:
    """Return a rescale of all int8 values, times 1/4 by a shift above 31."""
    graph = Graph()
    wide = graph.rescale(graph.input((1, 4, 64, 1)), 1.0, dtype="int32")
    return finished(graph, graph.rescale(wide, [(1 << 30, 33)]), npu)


def half_way_add(npu: str) -> Program:
    """Return a sum of every int8 value with itself, scaled by 1/4 at the end."""
    graph = Graph()
    source = graph.input((1, 4, 64, 1))
    wide = [graph.rescale(source, 2.0**20 * factor, dtype="int32") for factor in (0.5, 0.25)]
    return finished(graph, graph.rescale(graph.binary("ADD", *wide), 2 / 3 / 2**20), npu)


def finished(graph: Graph, result: Value, npu: str, values: np.ndarray = EVERY) -> Program:
    tosa = graph.output(result).serialize()
    return tosa, compile_graph(tosa, npu), values


PROGRAMS = {"conv": half_way_conv, "pool": half_way_pool, "rescale": half_way_rescale, "add": half_way_add}


@pytest.mark.parametrize("npu", EthosU.names())
@pytest.mark.parametrize("name", PROGRAMS)
def test_half_way_values_equal_the_reference(name: str, npu: str) -> None:
    tosa, compiled, values = PROGRAMS[name](npu)
    assert compiled.run([values])[0] == reference(tosa, [values])


# A pool's sums cannot tell DOUBLE from NATURAL: the reciprocals that Vela emits leave no tie.
SABOTAGES = [(name, wrong) for name in PROGRAMS for wrong in (Rounding.DOUBLE, Rounding.TRUNCATE)]
SABOTAGES.remove(("pool", Rounding.DOUBLE))


@pytest.mark.parametrize(("name", "wrong"), SABOTAGES)
def test_half_way_values_reveal_another_rounding_mode(name: str, wrong: Rounding) -> None:
    """Sabotage: with another mode in place of NATURAL, the comparison above fails."""
    tosa, compiled, values = PROGRAMS[name]("ethos-u55-128")
    stream = bytearray(compiled.stream)
    for offset, code, parameter, payload in commands(compiled.stream):
        if payload is None and code == OFM_PRECISION:
            assert parameter >> 14 in (Rounding.NATURAL, Rounding.DOUBLE)
            struct.pack_into("<H", stream, offset + 2, parameter & 0x3FFF | wrong << 14)
    assert replace(compiled, stream=bytes(stream)).run([values])[0] != reference(tosa, [values])


# --- scaling in floating point: it is used only where it equals scaling in integers, and there it does


def scales(rounding: Rounding) -> list[Scale]:
    """Multipliers of all sizes with all shifts, and operands' early shifts."""
    rng = np.random.default_rng(rounding)
    multipliers = [1, 2, 3, (1 << 31) - 1, (1 << 32) - 1, *map(int, rng.integers(1 << 30, 1 << 31, 5))]
    return [Scale(m, shift, rounding, early) for m in multipliers for shift in range(64) for early in (0, 15, 20)]


def values_around_ties(by: Scale, largest: int) -> np.ndarray:
    """Return the extremes, zero, and values that scale to next to half-way between two results."""
    halves = (2 * np.arange(-40, 41, dtype=np.float64) + 1) * 2.0 ** (by.shift - 1) / by.multiplier
    near = np.concatenate([np.floor(halves), np.ceil(halves)])
    near = near[np.abs(near) <= largest]
    edges = [-largest, 1 - largest, -1, 0, 1, largest - 1, largest]
    return np.unique(np.concatenate([near, np.array(edges, np.float64)])).astype(np.int64)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_floats_equal_integers(rounding: Rounding) -> None:
    tried = 0
    for by in scales(rounding):
        room = (1 << 53) - (1 << by.shift) - (1 << 31) - 1
        largest = min(room // by.multiplier, (1 << 32) - 1)
        if largest < 1 or not exact_in_floats(largest, by):
            continue
        values = values_around_ties(by, largest)
        exact = scale(values, by)
        assert np.array_equal(scale(values.astype(np.float64), by), exact), by
        assert int(np.abs(exact).max()) <= largest_scaled(largest, by), by
        tried += 1
    assert tried > 1000


def test_floats_are_refused_where_they_would_round() -> None:
    """The value is one above the limit: the sum before the shift is odd and beyond 2**53."""
    by = Scale((1 << 31) - 1, 31, Rounding.NATURAL)
    largest = (1 << 53) // by.multiplier + 1
    assert not exact_in_floats(largest, by)
    assert exact_in_floats(largest // 2, by)
    assert not exact_in_floats(1, Scale(1, 53))


@pytest.mark.parametrize("rounding", list(Rounding), ids=lambda rounding: rounding.name)
def test_wide_products_are_exact_per_channel(rounding: Rounding) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-(1 << 63), INT64_MAX, (20, 64), endpoint=True) >> rng.integers(0, 60, (20, 64))
    multipliers, shifts = rng.integers(0, 1 << 32, 64), np.arange(64)
    result = scale_channels(values, multipliers, shifts, rounding)
    for channel, column in enumerate(values.T.tolist()):
        by = Scale(int(multipliers[channel]), channel, rounding)
        assert result[:, channel].tolist() == [saturated(v, by) for v in column]


@pytest.mark.parametrize("rounding", list(Rounding), ids=lambda rounding: rounding.name)
def test_keeps_values_agrees_with_scaling_every_value(rounding: Rounding) -> None:
    """Checked against scaling every value of 9 bits. The rule may only be too careful where half-way values decide."""
    values = np.arange(-512, 513, dtype=np.int64)
    kept = set()
    for shift in (0, 1, 8, 9, 10, 11, 30, 31, 40):
        for beyond in (-3, -1, 0, 1, 3, 1 << 19, 1 << 20, 1 << 21):
            if (1 << shift) + beyond <= 0:
                continue
            by = Scale((1 << shift) + beyond, shift, rounding)
            is_kept = bool(np.array_equal(scale(values, by), values))
            if keeps_values(by, 512):
                assert is_kept, by
                kept.add(beyond)
    assert 0 in kept
    assert (len(kept) > 3) == (rounding in (Rounding.NATURAL, Rounding.DOUBLE))
