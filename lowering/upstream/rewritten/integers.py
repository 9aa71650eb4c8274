"""Operators of integers that upstream takes for floats, fails on, or has no kernel for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ethos_hil.lowering.upstream.rewritten.splice import Choice, Constants


def choose_power(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One of integers, as products: ExecuTorch's kernel computes no powers of integers."""
    value: Any = node.meta["val"]
    exponent: Any = node.args[1]
    if value.is_floating_point() or not isinstance(exponent, int):
        return None

    def power(source: Tensor, exponent: int) -> Tensor:
        square, result = source.to(value.dtype), None
        while exponent:
            if exponent % 2:
                result = square if result is None else result * square
            exponent //= 2
            square = square * square if exponent else square
        import torch

        return torch.ones_like(square) if result is None else result

    return power


def of_integers(compute: Callable[..., Any]) -> Choice:
    """The choice of an operator of which upstream takes floats alone: of integers it is `compute`."""

    def choose(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
        value: Any = node.meta["val"]
        return None if value.is_floating_point() else compute

    return choose


def squared(source: Tensor) -> Tensor:
    import torch

    wide = source.to(torch.result_type(source, 1))
    return wide * wide


def choose_right_shift(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One by a number: of a number whose last bits are cleared, as upstream rounds to the nearest for an Ethos-U55."""
    import torch

    bits: Any = node.args[1]
    dtype = node.meta["val"].dtype
    if not isinstance(bits, int) or not 0 < bits < torch.iinfo(dtype).bits - 1 or dtype is torch.uint8:
        return None
    return lambda source, bits: (source & -(2**bits)) >> bits


def whole_quotient(source: Tensor, other: Any) -> Tensor:
    """Upstream takes a floor_divide of integers apart, and gives a delegate that reads none of its inputs."""
    import torch

    return torch.div(source, other, rounding_mode="floor")


def choose_remainder(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One of integers, with the sign of the divisor whichever sign a kernel gives it: ExecuTorch's gives the other one.

    What upstream makes of 8 and 16 bits computes with floats, on an NPU that has none: they become 32 bits first.
    """
    import torch

    value: Any = node.meta["val"]
    if value.is_floating_point():
        return None
    narrow = value.dtype in (torch.int8, torch.int16, torch.uint8)

    def remainder(*operands: Any) -> Tensor:
        one, other = (part.to(torch.int32) if narrow and isinstance(part, torch.Tensor) else part for part in operands)
        return torch.remainder(torch.remainder(one, other) + other, other).to(value.dtype)

    return remainder
