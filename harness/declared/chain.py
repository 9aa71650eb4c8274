"""Modules in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn


class Chain(nn.Module):
    """Modules in a row: the first gets all inputs, each other one the result of the one before."""

    def __init__(self, steps: Sequence[nn.Module]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(self, *inputs: Tensor) -> Any:
        """Return the last one's result."""
        first, *others = self.steps
        result = first(*inputs)
        for step in others:
            result = step(result)
        return result
