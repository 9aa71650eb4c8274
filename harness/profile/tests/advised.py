"""Models that a profile has advice for, and the same after following it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ethos_hil.lowering.model import Method


def _method(make: Callable[[], nn.Module], *shape: int, channels_last: bool = False) -> Method:
    torch.manual_seed(0)
    module = make()
    inputs = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    if channels_last:
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        inputs = inputs.to(memory_format=torch.channels_last)
    return Method(module.eval(), (inputs,), ((inputs,),))


class _Sorted(nn.Module):
    def __init__(self, *, sort: bool) -> None:
        super().__init__()
        self.before, self.after, self.sort = nn.Linear(64, 64), nn.Linear(64, 64), sort

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        return self.after(torch.sort(x)[0] if self.sort else torch.relu(x))


class _Turned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x.permute(0, 2, 1) * 0.5)


def _classifier(pool: nn.Module, features: int) -> nn.Module:
    layers = nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), pool, nn.Flatten(), nn.Linear(features, 10)
    return nn.Sequential(*layers)


channels_first = partial(_method, partial(nn.Conv2d, 3, 8, 3), 1, 3, 64, 64)
channels_last = partial(channels_first, channels_last=True)
"""A convolution of an image in PyTorch's own layout, and in the NPU's."""
sort_between, relu_between = (partial(_method, partial(_Sorted, sort=sort), 1, 64) for sort in (True, False))
"""An operator that the NPU does not have, between two layers that it has; and one that it has."""
permuted, unpermuted = (partial(_method, make, 1, 48, 96) for make in (_Turned, nn.ReLU))
"""A model that asks for a transposition, and the same without it."""
flattened, pooled = (
    partial(_method, partial(_classifier, pool, features), 1, 3, 32, 32, channels_last=True)
    for pool, features in ((nn.AvgPool2d(2), 16 * 7 * 7), (nn.AdaptiveAvgPool2d(1), 16))
)
"""A classifier that flattens a map of several pixels, and the same with a map of one."""
large_activations = partial(
    _method, lambda: nn.Sequential(nn.MaxPool2d(2, 1), nn.MaxPool2d(2, 1)), 1, 16, 96, 96, channels_last=True
)
"""Pointwise work on activations that are larger than weights."""
dense = partial(_method, partial(nn.Linear, 512, 512), 1, 512)
"""A layer with many weights, each used once."""
