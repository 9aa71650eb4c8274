"""Calls that give what they are given: a concatenation of one tensor, a pad by nothing, a shape that is undone again.

Upstream (executorch 1.5.1) delegates them. Where a partition has nothing else on the way from an input to an output,
its TOSA program has no operator there, and Vela refuses it ("does not have any writers").
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def drop_identities(module: torch.fx.GraphModule) -> int:
    """Leave out calls that give what they are given."""
    count = 0
    for node in list(module.graph.nodes):
        source = _source(node)
        if source is None:
            continue
        node.replace_all_uses_with(source)
        module.graph.erase_node(node)
        count += 1
    if count:
        module.graph.eliminate_dead_code()
    return count


def _source(node: Any) -> Any:
    """The node that has the same elements in the same shape; None where there is none."""
    import torch

    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor):
        return None
    given = _given(node)
    there = given.meta.get("val") if given is not node else None
    same = isinstance(there, torch.Tensor) and there.shape == value.shape and there.dtype == value.dtype
    return given if same else None


def _given(node: Any) -> Any:
    """What a call gives again if it has the same shape; the node itself if that says nothing."""
    import torch

    aten = torch.ops.aten
    match node.target:
        case operator.getitem if node.args[0].target in (aten.split.Tensor, aten.chunk.default):
            return node.args[0].args[0] if len(node.args[0].meta["val"]) == 1 else node
        case aten.cat.default:
            return node.args[0][0] if len(node.args[0]) == 1 else node
        case (
            aten.slice.Tensor
            | aten.alias.default
            | aten.detach.default
            | aten.pixel_shuffle.default
            | aten.pixel_unshuffle.default
        ):
            return node.args[0]
        case (
            aten.mean.dim
            | aten.sum.dim_IntList
            | aten.amax.default
            | aten.amin.default
            | aten.logsumexp.default
            | aten.gather.default
            | aten.index_select.default
        ):
            return node if node.args[0].meta["val"].dim() else node.args[0]
        case aten.pad.default | aten.constant_pad_nd.default:
            return node if any(node.args[1]) else node.args[0]
        case aten.flip.default:
            return node if node.args[1] else node.args[0]
        case aten.clone.default:
            return node if node.kwargs else node.args[0]
        case aten.dropout.default | aten.feature_dropout.default:
            return node if node.args[2] else node.args[0]
        case aten.permute.default:
            rank = node.meta["val"].dim()
            return node.args[0] if [axis % rank for axis in node.args[1]] == list(range(rank)) else node
        case aten.transpose.int:
            rank = max(1, node.meta["val"].dim())
            return node.args[0] if node.args[1] % rank == node.args[2] % rank else node
    return _unshaped(node)


def _unshaped(node: Any) -> Any:
    """The earliest node of a chain of calls that may only change the shape which has the shape of the last one."""
    import torch

    aten = torch.ops.aten
    shapes = (
        aten.view.default, aten.reshape.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
        aten.unsqueeze.default, aten.flatten.using_ints, aten.unflatten.int, aten.expand.default,
    )  # fmt: skip
    wanted, found, at = node.meta["val"].shape, node, node
    while at.op == "call_function" and at.target in shapes:
        at = at.args[0]
        if at.meta["val"].shape == wanted:
            found = at
    return found
