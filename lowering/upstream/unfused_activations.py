"""ReLUs whose quantisation keeps ExecuTorch from merging them into the layer before them.

Its Arm quantiser quantises a convolution and the ReLU behind it as one, with no quantisation between the two. Its
partitioner and its passes merge them only where the ReLU's output has the smallest integer as zero point
(executorch 1.4.1, FuseQuantizedActivationPass). Where a concatenation shares its range, as at the skip connections of a
U-Net, the zero point is another one, and both layers stay on the CPU, in float.

The same quantisation between the two changes no bit: rounding and saturating never change the order of two numbers, so
`quantise(relu(x))` is `quantise(relu(dequantise(quantise(x))))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs

if TYPE_CHECKING:
    import torch

UNFUSED_ACTIVATIONS = (
    "activations that share the range of a concatenation got a quantisation of their own inputs, of the same scale: "
    "ExecuTorch's Arm backend would leave them and the layers before them to the CPU; no number changes"
)


def separate(quantised: torch.nn.Module) -> int:
    """Quantise the inputs of such activations, in place. Return how many there were.

    Args:
        quantised: the module of a quantised exported program.
    """
    import torch

    aten, decomposed = torch.ops.aten, torch.ops.quantized_decomposed
    layers = {
        aten.conv1d.default, aten.conv2d.default, aten.conv_transpose1d.default, aten.conv_transpose2d.input,
        aten.convolution.default, aten.linear.default,
    }  # fmt: skip
    count = 0
    for module in graphs(quantised):
        found = [node for node in module.graph.nodes if _clamps_at_zero(node) and node.args[0].target in layers]
        for node in found:
            users = list(node.users)
            if len(node.args[0].users) > 1 or len(users) != 1:
                continue
            (user,) = users
            if user.target != decomposed.quantize_per_tensor.default or user.args[2] == user.args[3]:
                continue
            with module.graph.inserting_before(node):
                given = node.args[0]
                integers = module.graph.call_function(user.target, (given, *user.args[1:]))
                floats = module.graph.call_function(
                    decomposed.dequantize_per_tensor.default, (integers, *user.args[1:])
                )
            for each in (integers, floats):
                each.meta = dict(user.meta)
            floats.meta["val"] = given.meta.get("val")
            node.replace_input_with(given, floats)
            count += 1
        if found:
            module.recompile()
    return count


def _clamps_at_zero(node: Any) -> bool:
    import torch

    aten = torch.ops.aten
    if node.target in (aten.relu.default, aten.relu_.default, aten.relu6.default, aten.relu6_.default):
        return True
    return node.target in (aten.hardtanh.default, aten.hardtanh_.default) and len(node.args) > 1 and node.args[1] == 0
