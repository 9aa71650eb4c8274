"""Protects the weight order: weights that Vela compiled come out as they were put in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ethos_hil.harness.npu.isa.operations import ScaleLayout
from ethos_hil.harness.npu.tests.encoded import CASES, check
from ethos_hil.harness.npu.weights import decompress
from ethos_hil.harness.npu.weights.decompress import WeightError

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
