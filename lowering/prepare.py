"""Rewriting float operators that upstream cannot lower, or leaves to the CPU, into equal ones that it can.

A model without such operators is not touched, so its program stays byte for byte what upstream alone makes of it.
Nodes that take an operator's place keep its trace: the delegate map still names the user's batch_norm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def prepare(floating: torch.fx.GraphModule, example_inputs: tuple[torch.Tensor, ...]) -> torch.fx.GraphModule:
    """The same function, in operators upstream lowers.

    Args:
        floating: the module of a float exported program, without guards; it may be changed.
        example_inputs: its positional arguments.
    """
    import torch

    _complete_pools(floating)
    if not _replace_batch_norms(floating):
        return floating
    # Exporting again gives the new nodes the shapes the quantiser wants.
    return torch.export.export(floating, example_inputs).module(check_guards=False)


def _complete_pools(floating: torch.fx.GraphModule) -> None:
    """Writes out the stride of max pools that leave it to its default, the kernel's size.

    Without it upstream's partitioner fails on functional.max_pool2d(x, 2) with an IndexError, in pool_2d_support.py.
    """
    import torch

    for node in floating.graph.nodes:
        if node.target == torch.ops.aten.max_pool2d.default and (len(node.args) < 3 or not node.args[2]):
            kernel = node.args[1]
            node.args = (node.args[0], kernel, kernel, *node.args[3:])
    floating.recompile()


def _replace_batch_norms(floating: torch.fx.GraphModule) -> int:
    """Turns batch norms that follow no convolution into depthwise 1x1 convolutions; returns how many.

    PT2E folds a batch norm into the convolution before it. Alone, Arm's quantiser passes it over, and it would run in
    float on the CPU between a dequantise and a quantise.
    """
    import torch

    count = 0
    for node in list(floating.graph.nodes):
        if node.target == torch.ops.aten.batch_norm.default and not node.args[5] and not _is_folded(node):
            count += _replace_batch_norm(floating, node, count)
    if count:
        floating.graph.eliminate_dead_code()
        floating.recompile()
    return count


def _is_folded(node: Any) -> bool:
    producer = node.args[0]
    name = str(producer.target).split(".")
    return len(name) > 1 and name[0] == "aten" and name[1] in _CONVOLUTIONS and len(producer.users) == 1


def _replace_batch_norm(floating: torch.fx.GraphModule, node: Any, number: int) -> bool:
    """Replaces one batch norm (inference) of rank 2 to 4; whether it did."""
    import torch

    value = node.args[0].meta.get("val")
    if value is None or not 2 <= value.dim() <= 4 or not all(isinstance(size, int) for size in value.shape):
        return False
    tensors = [None if entry is None else _constant(floating, entry) for entry in node.args[1:5]]
    weight, bias, mean, variance = tensors
    if mean is None or variance is None:
        return False
    with torch.no_grad():
        scale = torch.rsqrt(variance + node.args[7])
        scale = scale if weight is None else scale * weight
        shift = -mean * scale if bias is None else bias - mean * scale
    channels = scale.numel()
    names = (f"_batch_norm_{number}_scale", f"_batch_norm_{number}_shift")
    floating.register_buffer(names[0], scale.detach().reshape(channels, 1, 1, 1).clone())
    floating.register_buffer(names[1], shift.detach().clone())
    graph, shape = floating.graph, list(value.shape)
    with graph.inserting_before(node):
        x = node.args[0]
        if len(shape) != 4:
            x = graph.call_function(torch.ops.aten.reshape.default, (x, [*shape, *[1] * (4 - len(shape))]))
            x.meta = dict(node.meta)
        constants = [graph.get_attr(name) for name in names]
        x = graph.call_function(torch.ops.aten.conv2d.default, (x, *constants, [1, 1], [0, 0], [1, 1], channels))
        x.meta = dict(node.meta)
        if len(shape) != 4:
            x = graph.call_function(torch.ops.aten.reshape.default, (x, shape))
            x.meta = dict(node.meta)
    node.replace_all_uses_with(x)
    graph.erase_node(node)
    return True


def _constant(floating: torch.fx.GraphModule, node: Any) -> torch.Tensor | None:
    """The value of a parameter or buffer node, or None when it is computed."""
    if node.op != "get_attr":
        return None
    value: Any = floating
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value.detach() if hasattr(value, "detach") else None
