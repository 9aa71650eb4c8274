"""The range found in numbers is the one that torchao finds, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchao.quantization.pt2e.observer import HistogramObserver

from ethos_hil.lowering.upstream.patches.in_torchao import search
from ethos_hil.lowering.upstream.patches.patch import apply
from ethos_hil.lowering.upstream.patches.table import SPEED

UPSTREAM = HistogramObserver._non_linear_param_search
DRAWN: dict[str, Callable[[int], torch.Tensor]] = {
    "even": lambda count: torch.rand(count) * 2 - 1,
    "normal": torch.randn,
    "half zero": lambda count: torch.randn(count).relu(),
    "long tail": lambda count: torch.randn(count).exp(),
    "outlier": lambda count: torch.cat([torch.zeros(count), torch.tensor([50.0])]),
    "two outliers": lambda count: torch.cat([torch.ones(count), torch.tensor([-9.0, 50.0])]),
    "one value": lambda count: torch.full((count,), 3.0),
}


@pytest.mark.parametrize("count", [5, 1000])
@pytest.mark.parametrize("name", DRAWN)
def test_the_range_is_torchaos(name: str, count: int) -> None:
    torch.manual_seed(count)
    observer = HistogramObserver(dtype=torch.int8, quant_min=-128, quant_max=127, eps=2**-16)
    for _ in range(3):
        observer(DRAWN[name](count))
    assert [bound.item() for bound in search(observer)] == [bound.item() for bound in UPSTREAM(observer)]


def test_it_is_used_only_inside() -> None:
    def current() -> Any:
        return HistogramObserver._non_linear_param_search

    with apply(SPEED):
        assert current() is search
    assert current() is UPSTREAM
