"""Protects the weight order: weights that Vela compiled come out as they were put in.

That of Ethos-U55 and U65 also against a literal walk.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.isa.operations import ScaleLayout
from ethos_hil.harness.npu.tests.encoded import CASES, Encoded, check, compiled, encoded
from ethos_hil.harness.npu.weights import decompress
from ethos_hil.harness.npu.weights.decompress import WeightError
from ethos_hil.harness.npu.weights.weight_order_u55 import WeightOrderU55
from ethos_hil.harness.npu.weights.weight_order_u85 import WeightOrderU85
from ethos_hil.harness.testing.compiled_graph import compile_graph
from ethos_hil.lowering.testing.tosa_graph import Graph

OFM_BLK_DEPTH_M1 = 0x117  # opcode
U55_U65 = tuple(f"ethos-{size}" for size in ("u55-32", "u55-64", "u55-128", "u55-256", "u65-256", "u65-512"))
U85 = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))
CODINGS = {"any coding": (), "MLW": ("--disable-fwd",)}


def order_u55(conv: Encoded) -> WeightOrderU55:
    """Return a convolution's order, as one of an Ethos-U55 or U65."""
    assert isinstance(conv.order, WeightOrderU55)
    return conv.order


def order_u85(conv: Encoded) -> WeightOrderU85:
    """Return a convolution's order, as one of an Ethos-U85."""
    assert isinstance(conv.order, WeightOrderU85)
    return conv.order


@pytest.mark.parametrize("npu", U55_U65)
def test_weights_come_out_as_they_were_put_in(npu: str) -> None:
    for name in CASES:
        for conv in check(name, npu):
            assert order_u55(conv).cores == (2 if npu == "ethos-u65-512" else 1), name
            assert conv.at.layout is ScaleLayout.I40, name


@pytest.mark.parametrize("flags", CODINGS.values(), ids=CODINGS.keys())
@pytest.mark.parametrize("npu", U85)
def test_weights_of_an_ethos_u85_come_out_as_they_were_put_in(npu: str, flags: tuple[str, ...]) -> None:
    for name in CASES:
        for conv in check(name, npu, *flags):
            assert not (order_u85(conv).fast and flags), name
            assert conv.at.layout is (ScaleLayout.I48 if "16 bit" in name else ScaleLayout.I32), name


@pytest.mark.proof
def test_the_cases_have_every_kind_of_order() -> None:
    """Without that, the test above would cover less than it seems to."""
    orders = [order_u55(conv) for npu in U55_U65 for name in CASES for conv in encoded(compiled(name, npu)[0])]
    kinds = {(order.depthwise, order.part_kernel, order.ifm_bits) for order in orders}
    assert kinds == {(False, part_kernel, bits) for part_kernel in (False, True) for bits in (8, 16)} | {
        (True, False, 8),
        (True, False, 16),
    }
    for npu in U55_U65[1:]:  # in parts that DMA copies one after the other
        assert len(list(encoded(compiled("3x3, split in depth", npu)[0]))) > 1
    assert [order.lengths[1] for order in orders if order.cores == 2 and order.ofm_depth == 1] == [0, 0]


def everything() -> Iterator[WeightOrderU85]:
    """The orders of all cases."""
    for npu in U85:
        for name in CASES:
            for flags in CODINGS.values():
                yield from (order_u85(conv) for conv in encoded(compiled(name, npu, *flags)[0]))


@pytest.mark.proof
def test_the_cases_have_every_kind_of_order_of_an_ethos_u85() -> None:
    """Without that, the test above would cover less than it seems to."""
    kinds = Counter((order.depthwise, order.part_kernel, order.sparse, order.fast) for order in everything())
    assert set(kinds) == {
        (False, part_kernel, sparse, fast)
        for part_kernel in (False, True)
        for sparse in (False, True)
        for fast in (False, True)
    } | {(True, False, False, False)}
    assert min(kinds.values()) > 5
    ublocks = {128: {8, 16}, 256: {8, 16}, 512: {16}, 1024: {16, 32}, 2048: {16, 64}}
    assert {(order.macs, order.ofm_ublock) for order in everything()} == {
        (macs, ublock) for macs, sizes in ublocks.items() for ublock in sizes
    }
    assert {len(order.ifm_groups) for order in everything()} == {1, 2}  # the last one may be smaller
    assert {order.ifm_block for order in everything()} == {1, 16, 32, 64, 128}
    assert {order.depthwise_gap for order in everything() if order.depthwise} == {0, 2, 6}


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
    order: Any = conv.order
    other = replace(order, **{field: change(order)})
    assert other != order
    with contextlib.suppress(WeightError):
        count = len(other.lengths)
        assert not np.array_equal(decompress.decode((conv.compressed * count)[:count], other), conv.tensor())


def test_a_block_that_two_cores_cannot_share_is_a_fault() -> None:
    program, _, _ = compiled("linear", "ethos-u65-512")
    words = np.frombuffer(program.stream, "<u4").copy()
    (at,) = (i for i, word in enumerate(words) if word & 0xFFFF == OFM_BLK_DEPTH_M1)
    words[at] = OFM_BLK_DEPTH_M1
    with pytest.raises(Fault, match="OFM_BLK_DEPTH_M1 is 0: 2 cores cannot share it"):
        replace(program, stream=words.tobytes()).program()


@pytest.mark.parametrize("npu", U55_U65)
def test_a_transposed_convolution_has_a_rotated_kernel(npu: str) -> None:
    graph = Graph()
    values = np.random.default_rng(1).integers(-127, 128, (9, 4, 4, 20))
    source = graph.input((1, 6, 6, 20))
    result = graph.rescale(graph.transpose_conv(source, values, np.arange(9)), 0.001)
    (conv,) = encoded(compile_graph(graph.output(result).serialize(), npu))
    assert np.array_equal(conv.tensor(), values[:, ::-1, ::-1])


@pytest.mark.parametrize("flags", CODINGS.values(), ids=CODINGS.keys())
def test_weights_that_dma_copies_in_parts(flags: tuple[str, ...]) -> None:
    convs = check("3x3, split in depth", "ethos-u85-256", *flags, mode="Shared_Sram")
    assert len(convs) > 1
    assert {order_u85(conv).fast for conv in convs} == {not flags}


def test_a_stream_in_another_coding_is_refused() -> None:
    (conv,) = check("point", "ethos-u85-512", "--disable-fwd")
    with pytest.raises(WeightError, match="FWD"):
        decompress.decode((conv.compressed[0],), replace(order_u85(conv), fast=True))
    (conv,) = check("point", "ethos-u85-512")
    assert order_u85(conv).fast
    with pytest.raises(WeightError, match="1 streams where the registers describe 2"):
        decompress.decode(conv.compressed, replace(order_u85(conv), fast=False))


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


# --- the order, against a literal walk through the nesting of the stream


def walk(order: WeightOrderU55, tensor: np.ndarray) -> list[int]:
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
    "depth first": WeightOrderU55(False, False, 21, 37, 3, 3, 1, 1, 16, 8, 8, 8),
    "depth first, 16 bit": WeightOrderU55(False, False, 21, 37, 3, 3, 1, 1, 16, 8, 8, 16),
    "part kernel": WeightOrderU55(False, True, 21, 37, 3, 3, 1, 1, 16, 8, 8, 8),
    "part kernel, 16 bit": WeightOrderU55(False, True, 21, 9, 3, 3, 1, 1, 16, 8, 8, 16),
    "part kernel, large": WeightOrderU55(False, True, 9, 5, 9, 10, 1, 1, 8, 8, 8, 8),
    "part kernel, dilated": WeightOrderU55(False, True, 9, 5, 5, 6, 2, 1, 8, 8, 8, 8),
    "depth first, large": WeightOrderU55(False, False, 9, 5, 17, 1, 1, 2, 8, 8, 8, 8),
    "micro-blocks of four": WeightOrderU55(False, True, 10, 20, 3, 3, 1, 1, 12, 4, 8, 8),
    "depthwise": WeightOrderU55(True, False, 21, 1, 3, 3, 1, 1, 16, 8, 8, 8),
    "depthwise, large": WeightOrderU55(True, False, 21, 1, 9, 9, 1, 1, 16, 4, 8, 8),
    "point": WeightOrderU55(False, False, 100, 70, 1, 1, 1, 1, 32, 8, 8, 8),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_restore_inverts_the_literal_walk(order: WeightOrderU55) -> None:
    shape = (order.ofm_depth, order.height, order.width, order.ifm_depth)
    tensor = np.random.default_rng(0).integers(-128, 128, shape)
    stream = np.array(walk(order, tensor), np.int16)
    assert order.lengths == (stream.size,)
    assert np.array_equal(order.restore([stream]), tensor)
