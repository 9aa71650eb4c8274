"""Layers that torch lacks: TensorFlow's "same" padding, which most models for microcontrollers were trained with, and
a residual connection.
"""

from __future__ import annotations

from torch import Tensor, nn


def same(size: tuple[int, int], kernel: tuple[int, int], stride: int) -> list[nn.Module]:
    """Return the layer to put before a convolution without padding, so that its output has ceil(size / stride)
    elements.

    If the padding is odd, its larger half is below and to the right, which PyTorch's own padding does not support.

    Args:
        size: height and width of the input.
        kernel: height and width of the convolution's kernel.
        stride: stride of the convolution.

    Returns:
        A list with the layer; empty if none is needed.
    """
    (above, below), (left, right) = (_halves(*axis, stride) for axis in zip(size, kernel, strict=True))
    return [nn.ZeroPad2d((left, right, above, below))] if any((left, right, above, below)) else []


def _halves(size: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class Residual(nn.Module):
    """body(x) + shortcut(x)."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return an image of the shape of body(x)."""
        return self.body(x) + self.shortcut(x)
