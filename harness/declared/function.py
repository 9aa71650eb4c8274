"""A function as a module."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Function(nn.Module):
    """A declared function as a module."""

    def __init__(self, function: Any, **options: Any) -> None:
        super().__init__()
        self.function = function
        self.options = options

    def forward(self, *inputs: Tensor) -> Any:
        """Return the function's result."""
        return self.function(*inputs, **self.options)
