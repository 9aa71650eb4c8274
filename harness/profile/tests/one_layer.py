"""Models of one layer, whose input has a known number of elements."""

from __future__ import annotations

import torch
from torch import nn

from ethos_hil.lowering.model import Method


def _relu(size: int) -> Method:
    torch.manual_seed(0)
    inputs = (torch.linspace(-1, 1, size).reshape(1, size),)
    return Method(nn.ReLU(), inputs, (inputs,))


def relu_of_1000() -> Method:
    """A ReLU of 1,000 elements."""
    return _relu(1000)


def relu_of_2000() -> Method:
    """A ReLU of 2,000 elements."""
    return _relu(2000)
