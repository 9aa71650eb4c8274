"""Matrix products with an addend or a mask. Those of constant weights are linear layers, quantised per channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ethos_hil.lowering.upstream.rewritten.splice import Constants, Number


def choose_addmm(node: torch.fx.Node, constants: Constants) -> Callable[..., Any]:
    if node.args[2] not in constants:
        return addmm
    weights: Any = node.args[2]
    addend: Any = node.args[0]
    whole = addend in constants and addend.meta["val"].shape in ((weights.meta["val"].shape[1],), (1,), ())
    return linear if whole else linear_and_addition


def addmm(addend: Tensor, first: Tensor, second: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return plus(times(first @ second, alpha), addend, beta)


def linear(addend: Tensor, first: Tensor, second: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    from torch.nn import functional

    bias = None if beta == 0 else times(addend, beta).expand(second.shape[1])
    return functional.linear(first, times(second.t(), alpha), bias)


def linear_and_addition(
    addend: Tensor, first: Tensor, second: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    from torch.nn import functional

    return plus(functional.linear(first, times(second.t(), alpha)), addend, beta)


def choose_addmv(node: torch.fx.Node, constants: Constants) -> Callable[..., Any]:
    constant = node.args[1] in constants

    def addmv(addend: Tensor, matrix: Tensor, vector: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        from torch.nn import functional

        row = vector.unsqueeze(0)
        product = functional.linear(row, times(matrix, alpha)) if constant else times(row @ matrix.t(), alpha)
        return plus(product.squeeze(0), addend, beta)

    return addmv


def choose_mv(node: torch.fx.Node, constants: Constants) -> Callable[..., Any]:
    constant = node.args[0] in constants

    def mv(matrix: Tensor, vector: Tensor) -> Tensor:
        from torch.nn import functional

        row = vector.unsqueeze(0)
        return (functional.linear(row, matrix) if constant else row @ matrix.t()).squeeze(0)

    return mv


def bilinear(one: Tensor, other: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """What aten.bilinear computes, as a linear layer of all products."""
    from torch.nn import functional

    return functional.linear((one.unsqueeze(-1) * other.unsqueeze(-2)).flatten(-2), weights.flatten(1), bias)


def choose_cumsum(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """A running sum of what another operator computes, as a product with a triangle of ones.

    Upstream (executorch 1.5.1, DecomposeCumsumPass) makes a convolution of it, with weights of the type that it finds
    its input in: in float between two tables, which TOSA refuses. A kernel of more than 64 elements is not
    for an Ethos-U55.
    """
    import torch

    source: Any = node.args[0]
    if source.op != "call_function" or not source.meta["val"].is_floating_point() or not source.meta["val"].dim():
        return None

    def cumsum(values: Tensor, dimension: int, **_: Any) -> Tensor:
        size = values.shape[dimension]
        ones = torch.tril(torch.ones(size, size))
        return torch.nn.functional.linear(values.movedim(dimension, -1), ones).movedim(-1, dimension)

    return cumsum


def choose_attention(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One whose queries or keys are constants, as in DETR: upstream takes it apart after it has folded constants, and
    fails on their scaling. And one whose heads or batches are repeated, for which upstream asks for enable_gqa.
    """
    given: Any = node.args[:3]
    repeated = len({tuple(part.meta["val"].shape[:-2]) for part in given}) > 1 and not node.kwargs.get("enable_gqa")
    return attention if repeated or constants.intersection(given[:2]) else None


def joined(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Two matrices whose product is the sum of the products of a batch."""
    return first.transpose(0, 1).reshape(first.shape[1], -1), second.reshape(-1, second.shape[2])


def times(value: Tensor, factor: Number) -> Tensor:
    return value if factor == 1 else value * factor


def plus(product: Tensor, addend: Tensor, beta: Number) -> Tensor:
    """beta 0: torch does not read the addend, which may be NaN."""
    return product if beta == 0 else product + times(addend, beta)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What aten.scaled_dot_product_attention computes, with the mask apart."""
    import torch

    mask = attn_mask if mask is None else mask
    rank = max(query.dim(), key.dim())
    query, key, value = (part[(None,) * (rank - part.dim())] for part in (query, key, value))
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (part.repeat_interleave(times, -3) for part in (key, value))
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.transpose(-2, -1)
    if causal or is_causal:
        kept = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        scores = scores.masked_fill(kept.logical_not(), float("-inf"))
    elif mask is not None and mask.dtype is torch.bool:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    elif mask is not None:
        scores = scores + mask
    return torch.softmax(scores, -1) @ value
