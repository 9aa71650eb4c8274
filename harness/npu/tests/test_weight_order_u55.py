"""Protects the weight order of Ethos-U55 and U65: against a literal walk, and against streams that Vela compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
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
from ethos_hil.harness.testing.compiled_graph import compile_graph
from ethos_hil.lowering.testing.tosa_graph import Graph

OFM_BLK_DEPTH_M1 = 0x117  # opcode
U55_U65 = tuple(f"ethos-{size}" for size in ("u55-32", "u55-64", "u55-128", "u55-256", "u65-256", "u65-512"))


def order_of(conv: Encoded) -> WeightOrderU55:
    """Return a convolution's order, as one of these generations."""
    assert isinstance(conv.order, WeightOrderU55)
    return conv.order


@pytest.mark.parametrize("npu", U55_U65)
def test_weights_come_out_as_they_were_put_in(npu: str) -> None:
    for name in CASES:
        for conv in check(name, npu):
            assert order_of(conv).cores == (2 if npu == "ethos-u65-512" else 1), name
            assert conv.at.layout is ScaleLayout.I40, name


@pytest.mark.proof
def test_the_cases_have_every_kind_of_order() -> None:
    """Without that, the test above would cover less than it seems to."""
    orders = [order_of(conv) for npu in U55_U65 for name in CASES for conv in encoded(compiled(name, npu)[0])]
    kinds = {(order.depthwise, order.part_kernel, order.ifm_bits) for order in orders}
    assert kinds == {(False, part_kernel, bits) for part_kernel in (False, True) for bits in (8, 16)} | {
        (True, False, 8),
        (True, False, 16),
    }
    for npu in U55_U65[1:]:  # in parts that DMA copies one after the other
        assert len(list(encoded(compiled("3x3, split in depth", npu)[0]))) > 1
    assert [order.lengths[1] for order in orders if order.cores == 2 and order.ofm_depth == 1] == [0, 0]


CHANGES: dict[str, tuple[str, Callable[[WeightOrderU55], Any]]] = {
    "part_kernel": ("3x3", lambda order: not order.part_kernel),
    "dilation_y": ("dilated, large", lambda order: 1),
    "ofm_block": ("point, many blocks", lambda order: 8),
    "ofm_ublock": ("point, many blocks", lambda order: 4),
    "ifm_bits": ("16 bit, point, deep", lambda order: 8),
    "cores": ("linear", lambda order: 1),
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_matters(field: str) -> None:
    name, change = CHANGES[field]
    (conv,) = check(name, "ethos-u65-512")
    order = order_of(conv)
    other = replace(order, **{field: change(order)})
    assert other != order
    with contextlib.suppress(WeightError):
        assert not np.array_equal(decompress.decode(conv.compressed[: other.cores], other), conv.tensor())


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
