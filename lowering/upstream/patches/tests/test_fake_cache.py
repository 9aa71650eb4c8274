"""What quantising gives for fake tensors is kept by torch's cache, and is what it gives without."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.ao.quantization.fx import _decomposed  # noqa: F401  it registers the operators

from ethos_hil.lowering.upstream.patches.patch import apply
from ethos_hil.lowering.upstream.patches.table import SPEED

PATCHES = [patch for patch in SPEED if patch.name == "quantised fakes"]
RANGE = -128, 127, torch.int8


def per_tensor(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.quantized_decomposed.quantize_per_tensor.default(x, 0.5, 0, *RANGE)


def back_per_tensor(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.quantized_decomposed.dequantize_per_tensor.default(x.to(torch.int8), 0.5, 0, *RANGE)


def per_channel(x: torch.Tensor) -> torch.Tensor:
    scales, points = torch.ones(2), torch.zeros(2, dtype=torch.int64)
    return torch.ops.quantized_decomposed.quantize_per_channel.default(x, scales, points, 0, *RANGE)


def back_per_channel(x: torch.Tensor) -> torch.Tensor:
    scales, points = torch.ones(2), torch.zeros(2, dtype=torch.int64)
    return torch.ops.quantized_decomposed.dequantize_per_channel.default(x.to(torch.int8), scales, points, 0, *RANGE)


def left_out() -> int:
    """How many calls torch did not keep because the operator is not its own."""
    return FakeTensorMode.cache_bypasses["non-builtin"]


@pytest.mark.parametrize("quantised", [per_tensor, back_per_tensor, per_channel, back_per_channel])
def test_a_second_call_is_answered_by_the_cache_as_torch_would_answer_it(
    quantised: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    FakeTensorMode.cache_clear()
    with FakeTensorMode() as mode:
        mode.cache_crosscheck_enabled = True  # torch itself compares what the cache gives
        x, other = torch.empty(2, 3), torch.empty(2, 5)
        with apply(PATCHES):
            first = quantised(x)
            hits = FakeTensorMode.cache_hits
            second = quantised(x)
            assert FakeTensorMode.cache_hits > hits
            assert not left_out()
        plain = quantised(other)
        assert left_out()  # without the patch, torch keeps none
    assert second.untyped_storage()._cdata != first.untyped_storage()._cdata
    for answer in (first, second):
        assert (answer.shape, answer.dtype) == (x.shape, plain.dtype)
        assert answer.is_contiguous()


def test_what_torch_refuses_to_keep_it_still_refuses() -> None:
    with FakeTensorMode(), apply(PATCHES):
        x = torch.empty(2, 3)
        before = FakeTensorMode.cache_bypasses["unsafe view"]
        torch.ops.aten._unsafe_view.default(x, [3, 2])
        assert FakeTensorMode.cache_bypasses["unsafe view"] == before + 1
