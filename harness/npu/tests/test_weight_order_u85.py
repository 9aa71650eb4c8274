"""Protects the weight order of Ethos-U85: weights that Vela compiled come out as they were put in."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ethos_hil.harness.npu.isa.operations import ScaleLayout
from ethos_hil.harness.npu.tests.encoded import CASES, Encoded, check, compiled, encoded
from ethos_hil.harness.npu.weights import decompress
from ethos_hil.harness.npu.weights.decompress import WeightError
from ethos_hil.harness.npu.weights.weight_order_u85 import WeightOrderU85
from ethos_hil.harness.testing.compiled_graph import compile_graph
from ethos_hil.lowering.testing.tosa_graph import Graph

U85 = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))
CODINGS = {"any coding": (), "MLW": ("--disable-fwd",)}


def order_of(conv: Encoded) -> WeightOrderU85:
    """Return a convolution's order, as one of this generation."""
    assert isinstance(conv.order, WeightOrderU85)
    return conv.order


@pytest.mark.parametrize("flags", CODINGS.values(), ids=CODINGS.keys())
@pytest.mark.parametrize("npu", U85)
def test_weights_come_out_as_they_were_put_in(npu: str, flags: tuple[str, ...]) -> None:
    for name in CASES:
        for conv in check(name, npu, *flags):
            assert not (order_of(conv).fast and flags), name
            assert conv.at.layout is (ScaleLayout.I48 if "16 bit" in name else ScaleLayout.I32), name


def everything() -> Iterator[WeightOrderU85]:
    """The orders of all cases."""
    for npu in U85:
        for name in CASES:
            for flags in CODINGS.values():
                yield from (order_of(conv) for conv in encoded(compiled(name, npu, *flags)[0]))


@pytest.mark.proof
def test_the_cases_have_every_kind_of_order() -> None:
    """Without that, the test above would cover less than it seems to."""
    kinds = Counter((order.depthwise, order.part_kernel, order.sparse, order.fast) for order in everything())
    assert set(kinds) == {
        (False, part_kernel, sparse, fast)
        for part_kernel in (False, True)
        for sparse in (False, True)
        for fast in (False, True)
    } | {(True, False, False, False)}
    assert min(kinds.values()) > 5
    assert {(order.macs, order.ofm_ublock) for order in everything()} == {
        (128, 8),
        (128, 16),
        (256, 8),
        (256, 16),
        (512, 16),
        (1024, 16),
        (1024, 32),
        (2048, 16),
        (2048, 64),
    }
    assert {len(order.ifm_groups) for order in everything()} == {1, 2}  # the last one may be smaller
    assert {order.ifm_block for order in everything()} == {1, 16, 32, 64, 128}
    assert {order.depthwise_gap for order in everything() if order.depthwise} == {0, 2, 6}


CHANGES: dict[str, tuple[str, Callable[[WeightOrderU85], Any]]] = {
    "part_kernel": ("3x3", lambda order: not order.part_kernel),
    "sparse": ("sparse, many blocks", lambda order: False),
    "stride_y": ("depthwise, strided", lambda order: 1),
    "stride_x": ("strided, few inputs", lambda order: 1),
    "dilation_y": ("dilated, large", lambda order: 1),
    "ofm_block": ("point, many blocks", lambda order: order.ofm_block // 2),
    "ofm_ublock": ("depthwise, wide", lambda order: 2 * order.ofm_ublock),
    "ifm_bits": ("16 bit, 3x3, many blocks", lambda order: 8),
    "macs": ("16 bit, linear", lambda order: 512),
    "decoders": ("point", lambda order: 2),
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_matters(field: str) -> None:
    name, change = CHANGES[field]
    (conv,) = check(name, "ethos-u85-256", "--disable-fwd")
    order = order_of(conv)
    other = replace(order, **{field: change(order)})
    assert other != order
    with contextlib.suppress(WeightError):
        streams = conv.compressed * other.decoders
        assert not np.array_equal(decompress.decode(streams, other), conv.tensor())


@pytest.mark.parametrize("flags", CODINGS.values(), ids=CODINGS.keys())
def test_weights_that_dma_copies_in_parts(flags: tuple[str, ...]) -> None:
    convs = check("3x3, split in depth", "ethos-u85-256", *flags, mode="Shared_Sram")
    assert len(convs) > 1
    assert {order_of(conv).fast for conv in convs} == {not flags}


def test_a_stream_in_another_coding_is_refused() -> None:
    (conv,) = check("point", "ethos-u85-512", "--disable-fwd")
    with pytest.raises(WeightError, match="FWD"):
        decompress.decode((conv.compressed[0],), replace(order_of(conv), fast=True))
    (conv,) = check("point", "ethos-u85-512")
    assert order_of(conv).fast
    with pytest.raises(WeightError, match="1 streams where the registers describe 2"):
        decompress.decode(conv.compressed, replace(order_of(conv), fast=False))


@pytest.mark.parametrize("npu", U85)
@pytest.mark.parametrize("kernel", [(3, 3), (4, 4)])
def test_transposed_convolutions_are_one_convolution_for_each_phase(npu: str, kernel: tuple[int, int]) -> None:
    """Each sees every other kernel element in each direction, last to first."""
    graph = Graph()
    values = np.random.default_rng(1).integers(-127, 128, (9, *kernel, 20))
    source = graph.input((1, 6, 6, 20))
    result = graph.rescale(graph.transpose_conv(source, values, np.arange(9)), 0.001)
    program = compile_graph(graph.output(result).serialize(), npu)
    phases = [values[:, y::2, x::2][:, ::-1, ::-1] for y in (0, 1) for x in (0, 1)]
    convs = list(encoded(program))
    assert len(convs) == 4
    for conv, phase in zip(convs, phases, strict=True):
        assert np.array_equal(conv.tensor(), phase)
        assert np.array_equal(conv.bias(), np.arange(9))
