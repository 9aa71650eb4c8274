"""Batch norms behind the layers of a branch or loop, folded into the weights, as torchao folds those of the main graph.

A branch is given its weights as inputs, and torchao (0.15, `_fuse_conv_bn_`) fails on these: "Expected get_attr node".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from ethos_hil.lowering.upstream.rewritten.splice import constant, value_of, write_out

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Give = Callable[[Tensor], torch.fx.Node]
    """Makes a constant known to a graph, and returns the node that has it there."""

FOLDED_NORMS = (
    "batch norms in branches and loops were folded into the layers in front of them: ExecuTorch's quantiser fails there"
)
_WEIGHTS, _BIAS = 1, 2


def fold_norms(module: torch.fx.GraphModule) -> int:
    """Fold the batch norms of a module's branches and loops, those within branches included.

    One whose weights the model computes is written as a product and a sum instead.

    Returns:
        How many there were.
    """
    known = {node: value for node in module.graph.nodes if (value := value_of(module, node)) is not None}
    return _in_branches(module, known, lambda at, value: constant(module, at, value))


def _in_branches(
    module: torch.fx.GraphModule,
    known: Mapping[torch.fx.Node, Tensor],
    give: Callable[[torch.fx.Node, Tensor], torch.fx.Node],
) -> int:
    """Fold those of the branches of one graph, of whose nodes the constant ones are known.

    `give` makes a constant known to this graph in front of a node.
    """
    import torch

    count = 0
    control = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)
    for node in [node for node in module.graph.nodes if node.target in control]:
        first = 1 if node.target is control[0] else 0
        *carried, handed = node.args[first + 2 :]
        operands = [*(value for group in carried for value in group), *handed]
        fixed = [None] * (len(operands) - len(handed)) + [known.get(value) for value in handed]
        branches = [attrgetter(part.target)(module) for part in node.args[first : first + 2]]

        def hand(wanted: Any, value: Tensor, node: Any = node, branches: Any = branches) -> torch.fx.Node:
            outer = give(node, value)
            node.args = (*node.args[:-1], (*node.args[-1], outer))
            inner = {id(branch): _add_input(branch, outer) for branch in branches}
            return inner[id(wanted)]

        for branch in branches:
            places = branch.graph.find_nodes(op="placeholder")
            inside = {at: value for at, value in zip(places, fixed, strict=False) if value is not None}
            hand_on = lambda at, value, branch=branch, hand=hand: hand(branch, value)  # noqa: E731
            count += _fold(branch, inside, hand_on)
            count += _in_branches(branch, inside, hand_on)
            branch.recompile()
    if count:
        module.recompile()
    return count


def _add_input(branch: torch.fx.GraphModule, outer: torch.fx.Node) -> torch.fx.Node:
    last = branch.graph.find_nodes(op="placeholder")[-1]
    with branch.graph.inserting_after(last):
        added = branch.graph.placeholder(outer.name)
    added.meta = {"val": outer.meta["val"]}
    return added


def _fold(branch: torch.fx.GraphModule, known: Mapping[torch.fx.Node, Tensor], give: Any) -> int:
    import torch
    from torch.nn.utils.fusion import fuse_conv_bn_weights

    aten, count = torch.ops.aten, 0
    for norm in branch.graph.find_nodes(op="call_function", target=aten.batch_norm.default):
        layer: Any = norm.args[0]
        if layer.op != "call_function" or not _is_layer(layer) or norm.args[5]:
            continue
        count += 1
        transposed = "transpose" in str(layer.target)
        bias = layer.args[_BIAS] if len(layer.args) > _BIAS else None
        parts = [layer.args[_WEIGHTS], bias, norm.args[3], norm.args[4], norm.args[1], norm.args[2]]
        values = [None if part is None else known.get(part) for part in parts]
        missing = any(part is not None and value is None for part, value in zip(parts, values, strict=True))
        groups = layer.args[6] if transposed and len(layer.args) > 6 else 1
        if missing or groups > 1:
            write_out(branch, norm, _written)
            continue
        weights, added, mean, variance, scale, offset = (cast("Tensor", value) for value in values)
        folded = fuse_conv_bn_weights(weights, added, mean, variance, norm.args[7], scale, offset, transposed)
        with torch.no_grad():
            given = [give(layer, part.detach().clone()) for part in folded]
        with branch.graph.inserting_before(norm):
            new = branch.graph.call_function(layer.target, (layer.args[0], *given, *layer.args[3:]), layer.kwargs)
        new.meta = dict(layer.meta)
        norm.replace_all_uses_with(new)
        branch.graph.erase_node(norm)
    if count:
        branch.graph.eliminate_dead_code()
    return count


def _is_layer(node: torch.fx.Node) -> bool:
    name = str(node.target)
    source: Any = node.args[0]
    return name.startswith("aten.conv") or (name == "aten.linear.default" and source.meta["val"].dim() == 2)


def _written(
    source: Tensor, scale: Any, offset: Any, mean: Tensor, variance: Tensor, training: bool, momentum: float,
    epsilon: float, enabled: bool,
) -> Tensor:  # fmt: skip
    import torch

    shape = (-1, *[1] * (source.dim() - 2))
    factor = torch.rsqrt(variance + epsilon) * (1 if scale is None else scale)
    shift = (0 if offset is None else offset) - mean * factor
    return source * factor.reshape(shape) + shift.reshape(shape)
