"""Models that a profile has advice for, and the same after following it."""

from __future__ import annotations

from collections.abc import Callable

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


def channels_first() -> Method:
    """A convolution of an image in PyTorch's own layout."""
    return _method(lambda: nn.Conv2d(3, 8, 3), 1, 3, 64, 64)


def channels_last() -> Method:
    """The same in the NPU's layout."""
    return _method(lambda: nn.Conv2d(3, 8, 3), 1, 3, 64, 64, channels_last=True)


class _Sorted(nn.Module):
    def __init__(self, *, sort: bool) -> None:
        super().__init__()
        self.before, self.after, self.sort = nn.Linear(64, 64), nn.Linear(64, 64), sort

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        return self.after(torch.sort(x)[0] if self.sort else torch.relu(x))


def sort_between() -> Method:
    """An operator that the NPU does not have, between two layers that it has."""
    return _method(lambda: _Sorted(sort=True), 1, 64)


def relu_between() -> Method:
    """The same with one that it has."""
    return _method(lambda: _Sorted(sort=False), 1, 64)


def large_activations() -> Method:
    """Pointwise work on activations that are larger than weights."""
    return _method(lambda: nn.Sequential(nn.MaxPool2d(2, 1), nn.MaxPool2d(2, 1)), 1, 16, 96, 96, channels_last=True)


def dense() -> Method:
    """A layer with many weights, each used once."""
    return _method(lambda: nn.Linear(512, 512), 1, 512)


class _Turned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x.permute(0, 2, 1) * 0.5)


def permuted() -> Method:
    """A model that asks for a transposition."""
    return _method(_Turned, 1, 48, 96)


def unpermuted() -> Method:
    """The same without it."""
    return _method(nn.ReLU, 1, 48, 96)


def _classifier(pool: nn.Module, features: int) -> Method:
    def classifier() -> nn.Module:
        layers = nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), pool, nn.Flatten(), nn.Linear(features, 10)
        return nn.Sequential(*layers)

    return _method(classifier, 1, 3, 32, 32, channels_last=True)


def flattened() -> Method:
    """A classifier that flattens a map of several pixels."""
    return _classifier(nn.AvgPool2d(2), 16 * 7 * 7)


def pooled() -> Method:
    """The same with a map of one pixel."""
    return _classifier(nn.AdaptiveAvgPool2d(1), 16)
