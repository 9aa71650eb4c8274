"""Reductions, norms and distances, written with those that upstream's quantiser knows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.patches.in_executorch import table_operators

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ethos_hil.lowering.upstream.rewritten.splice import Choice, Constants, Number


def logsumexp(source: Tensor, axes: Any, keepdim: bool = False) -> Tensor:
    import torch

    most = source.amax(axes, True)
    total = torch.log(torch.exp(source - most).sum(axes, True)) + most
    return total if keepdim else total.squeeze(axes)


def logaddexp(one: Tensor, other: Tensor) -> Tensor:
    import torch

    softplus = table_operators()["ethos_hil.softplus.default"]
    total: Tensor = torch.maximum(one, other) + softplus(-(one - other).abs(), 1, 20)
    return total


def root_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def root(*given: Any, **named: Any) -> Tensor:
        import torch

        return torch.sqrt(function(*given, **named))

    return root


def in_a_row(variance: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A variance whose result without axes is that of a row: upstream gives it one axis, on which others then fail."""

    def of_row(source: Tensor, *given: Any, **named: Any) -> Tensor:
        result = variance(source, *given, **named)
        if result.dim():
            return result
        import torch

        axes = [] if "default" in str(variance) else given[:1]
        rest = given[len(axes) :]
        unbiased = rest[0] if rest else True
        named = {"correction": named.get("correction", int(unbiased)), "keepdim": False}
        row: Tensor = torch.ops.aten.var.correction(source.reshape(1, -1), [1], **named)
        return row.reshape(())

    return of_row


def choose_variance(variance: Callable[..., Tensor]) -> Choice:
    """The choice of a variance without axes."""
    return lambda node, constants: None if node.meta["val"].dim() else in_a_row(variance)


def with_mean(variance: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """What `variance` computes, or its root, and the mean."""

    def of_both(source: Tensor, axes: list[int] | None = None, *given: Any, **named: Any) -> tuple[Tensor, Tensor]:
        axes = list(range(source.dim())) if axes is None else axes
        keepdim = named.get("keepdim", given[1] if len(given) > 1 else False)
        return variance(source, axes, *given, **named), source.mean(axes, keepdim)

    return of_both


_KNOWN_ORDERS = (1, 2)
"""Of norms that upstream takes apart itself."""


def choose_vector_norm(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One of another order than 1 and 2, for which upstream fails; and one of a value without axes."""
    source: Any = node.args[0]
    order: Any = node.args[1] if len(node.args) > 1 else 2
    if not source.meta["val"].dim():
        return lambda value, *_: value.abs() if order else (value != 0).to(value.dtype)
    return None if order in _KNOWN_ORDERS else vector_norm


def vector_norm(source: Tensor, order: Number, axes: Any = None, keepdim: bool = False, **_: Any) -> Tensor:
    """What aten.linalg_vector_norm computes."""
    if order in _KNOWN_ORDERS:
        import torch

        known: Tensor = torch.linalg.vector_norm(source, order, axes, keepdim)
        return known
    axes = list(range(source.dim())) if axes is None else axes
    if order == 0:
        return (source != 0).to(source.dtype).sum(axes, keepdim)
    sizes = source.abs()
    if math.isinf(order):
        return sizes.amax(axes, keepdim) if order > 0 else sizes.amin(axes, keepdim)
    total: Tensor = sizes.pow(order).sum(axes, keepdim).pow(1 / order)
    return total


def distance(one: Tensor, other: Tensor, order: Number = 2) -> Tensor:
    """What aten.dist computes."""
    return vector_norm(one - other, order)


def pairwise_distance(
    one: Tensor, other: Tensor, order: Number = 2, epsilon: Number = 1e-6, keepdim: bool = False
) -> Tensor:
    """What aten.pairwise_distance computes."""
    return vector_norm(one - other + epsilon, order, [-1], keepdim)


LARGEST_DISTANCES = 2**18
"""Elements of all differences between the rows of two matrices, at most: they are all in memory."""


def choose_cdist(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One with a difference for each pair of rows, where there is space for that. ExecuTorch has no kernel of it."""
    shapes = [given.meta["val"].shape for given in node.all_input_nodes]
    first, second = shapes if len(shapes) > 1 else shapes * 2
    if math.prod(node.meta["val"].shape) * first[-1] > LARGEST_DISTANCES or not second[-1]:
        return None

    def cdist(one: Tensor, other: Tensor, order: Number = 2, *_: Any) -> Tensor:
        return vector_norm(one.unsqueeze(-2) - other.unsqueeze(-3), order, [-1])

    return cdist
