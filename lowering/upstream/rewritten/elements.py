"""Elements that are picked by their places, written with slices, transposes and embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ethos_hil.lowering.upstream.rewritten.constants import values_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ethos_hil.lowering.upstream.rewritten.splice import Constants

_BAG_DEFAULTS = (None, None, None, False, 0, False, None, False, None)
"""The arguments of aten.embedding_bag that need not be given: its third is the mode."""
_SUM = 0


def choose_embedding_bag(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """Bags of one size, as rows of indices have: a sum, mean or maximum of embeddings.

    ExecuTorch has no kernel of it. What a padding index leaves out of a mean or maximum is only known from the indices.
    """
    import torch

    given: tuple[Any, ...] = (*node.args, *_BAG_DEFAULTS[len(node.args) :])
    table, indices, offsets, _, mode, _, weights, last, padding = given
    if offsets not in constants or any(use.args[1] != 0 and use.users for use in node.users):
        return None
    module = cast("torch.fx.GraphModule", node.graph.owning_module)
    starts = values_of(module, constants, [offsets])[offsets].tolist()
    count, size = len(starts) - bool(last), indices.meta["val"].numel()
    if not count or starts != [size // count * number for number in range(len(starts))] or size % count or not size:
        return None
    if padding is not None and (mode != _SUM or table not in constants):
        return None

    def embedding_bag(table: Tensor, indices: Tensor, *rest: Any) -> tuple[Tensor]:
        from torch.nn import functional

        if padding is not None:
            table = table * torch.arange(table.shape[0]).ne(padding).to(table.dtype)[:, None]
        rows = functional.embedding(indices.reshape(count, -1), table)
        if weights is not None:
            rows = rows * rest[4].reshape(count, -1, 1)
        reductions: Any = (torch.sum, torch.mean, torch.amax)
        return (reductions[mode](rows, 1),)

    return embedding_bag


def channel_shuffle(source: Tensor, groups: int) -> Tensor:
    batch, channels, *rest = source.shape
    return source.reshape(batch, groups, channels // groups, *rest).transpose(1, 2).reshape(source.shape)


def take(source: Tensor, places: Tensor) -> Tensor:
    """What aten.take computes."""
    return source.reshape(-1)[places]


def choose_diagonal(node: torch.fx.Node, constants: Constants) -> Callable[..., Any] | None:
    """One with elements, as every so many elements of the matrix in a row. ExecuTorch has no kernel of it."""
    return diagonal if node.meta["val"].numel() and node.args[0].meta["val"].dim() > 1 else None  # type: ignore[union-attr]


def diagonal(source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """What aten.diagonal computes."""
    matrices = source.movedim((dim1, dim2), (-2, -1))
    rows, columns = matrices.shape[-2:]
    below, right = max(0, -offset), max(0, offset)
    count = min(rows - below, columns - right)
    first, step = below * columns + right, columns + 1
    return matrices.flatten(-2)[..., first : first + (count - 1) * step + 1 : step]


def repeated(source: Tensor, axis: int, times: int) -> Tensor:
    """Not as a concatenation with itself, of which upstream may keep one part."""
    return source if times == 1 else source.repeat([times if at == axis else 1 for at in range(source.dim())])
