"""Circular padding, as of `nn.Conv2d(padding_mode="circular")`, for which the firmware has no kernels.

PyTorch makes it of an empty tensor into which parts are copied; upstream quantises and delegates none of that. It is a
concatenation of the end, the whole and the beginning, which the NPU can copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs

if TYPE_CHECKING:
    import torch

CONCATENATED = (
    "circular padding was written as a concatenation, which the NPU can copy: PyTorch copies parts into an empty tensor"
)
_MODE = 2
"""Number of the argument in aten's signature."""


def concatenate_circular(floating: torch.fx.GraphModule) -> tuple[str, ...]:
    """Makes slices and concatenations of circular paddings. Returns a note, if there were any.

    Args:
        floating: the module of a float exported program.
    """
    import torch

    found = False
    for module in graphs(floating):
        for node in [each for each in module.graph.nodes if each.target is torch.ops.aten.pad.default]:
            if len(node.args) > _MODE and node.args[_MODE] == "circular":
                _rewrite(module, node)
                found = True
        if found:
            module.recompile()
    return (CONCATENATED,) if found else ()


def _rewrite(module: torch.fx.GraphModule, node: Any) -> None:
    import torch

    aten = torch.ops.aten

    def call(target: Any, *arguments: Any) -> Any:
        made = module.graph.call_function(target, arguments)
        values = torch.fx.node.map_arg(arguments, lambda each: each.meta["val"])
        made.meta = {**node.meta, "val": target(*values)}
        return made

    made = node.args[0]
    dimensions = made.meta["val"].dim()
    with module.graph.inserting_before(node):
        for number, (before, after) in enumerate(zip(node.args[1][::2], node.args[1][1::2], strict=True)):
            axis = dimensions - 1 - number
            size = made.meta["val"].shape[axis]
            if before < 0 or after < 0:  # a negative amount is cut off, before the other one is taken from what is left
                made = call(aten.slice.Tensor, made, axis, max(0, -before), size - max(0, -after))
                size = made.meta["val"].shape[axis]
            parts = [made]
            if before > 0:
                parts.insert(0, call(aten.slice.Tensor, made, axis, size - before, size))
            if after > 0:
                parts.append(call(aten.slice.Tensor, made, axis, 0, after))
            if len(parts) > 1:
                made = call(aten.cat.default, parts, axis)
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)
