"""What the zoo's networks share: blocks of convolutions, and weights with which values neither vanish nor explode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn


def block(inputs: int, outputs: int, stride: int = 1, act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), act())


def separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU6(),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


def scale(network: nn.Module) -> None:
    """Draw the weights of convolutions and dense layers so that a signal keeps its size (He et al., 2015)."""
    for module in network.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")


def settle(network: nn.Module, inputs: Sequence[torch.Tensor]) -> None:
    """Give a network with random weights values that neither vanish nor explode: its batch norms get the averages over
    one call with `inputs`, and layers whose weights start at zero get others.
    """
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d) and not module.weight.any():
            nn.init.normal_(module.weight, std=0.05)
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    if norms := [module for module in network.modules() if isinstance(module, kinds)]:
        for norm in norms:
            norm.momentum = None  # the plain average of all calls
            norm.reset_running_stats()
        network.train()
        for module in network.modules():
            if isinstance(module, nn.Dropout):
                module.eval()
        with torch.no_grad():
            network(*inputs)
    network.eval()
