"""Pools that upstream cannot lower as they are, or lowers to another size.

A model without such pools is not changed, so its program is byte for byte what upstream alone makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import CompileError
from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.user_code.source import Sources

if TYPE_CHECKING:
    import torch

COMPLETED_POOLS = (
    "max pools without a stride were given the default they have, their kernel size: ExecuTorch's Arm partitioner "
    "fails on them"
)
FLOORED_POOLS = (
    "pools whose ceil_mode adds no window were given none: ExecuTorch's Arm backend takes windows that begin in the "
    "padding behind the input for windows of theirs"
)


def complete_pools(floating: torch.fx.GraphModule) -> tuple[str, ...]:
    """Gives max pools without a stride the default stride, the kernel's size. Returns a note, if there were any.

    Upstream's partitioner fails on functional.max_pool2d(x, 2) with an IndexError (executorch 1.4.1,
    backends/arm/operator_support/pool_2d_support.py).
    """
    import torch

    found = False
    for module in graphs(floating):
        lacking = [node for node in module.graph.nodes if node.target == torch.ops.aten.max_pool2d.default
                   and (len(node.args) < 3 or not node.args[2])]  # fmt: skip
        for node in lacking:
            kernel = node.args[1]
            node.args = (node.args[0], kernel, kernel, *node.args[3:])
        if lacking:
            module.recompile()
            found = True
    return (COMPLETED_POOLS,) if found else ()


def floor_pools(floating: torch.fx.GraphModule, sources: Sources) -> tuple[str, ...]:
    """Takes ceil_mode from pools to which it adds no window. Returns a note, if there were any.

    PyTorch leaves out a last window that begins behind the input and its padding on the left. Upstream's backend
    (executorch 1.4.1, adjust_pooling_pad_if_needed) has it.

    Args:
        floating: the module of a float exported program.
        sources: names the line of a pool.

    Raises:
        CompileError: ceil_mode adds a window along one axis, and such a one is left out along the other.
    """
    import torch

    places = {torch.ops.aten.max_pool2d.default: 5, torch.ops.aten.avg_pool2d.default: 4}
    found = False
    for module in graphs(floating):
        for node in module.graph.nodes:
            at = places.get(node.target)
            if at is None or len(node.args) <= at or not node.args[at]:
                continue
            axes = [_axis(node, axis, dilated=at == 5) for axis in (0, 1)]
            if not any(left_out for left_out, _ in axes):
                continue
            if any(added for _, added in axes):
                line = sources.locate(node.meta.get("stack_trace"))
                raise CompileError(
                    f"{node.target}{f' at {line}' if line else ''}: ceil_mode adds a window along one axis, and along "
                    "the other one that begins in the padding, which PyTorch leaves out and ExecuTorch's Arm backend "
                    "does not",
                    hint="leave out ceil_mode, and pad the input to whole windows (functional.pad)",
                )
            node.args = (*node.args[:at], False, *node.args[at + 1 :])
            found = True
        if found:
            module.recompile()
    return (FLOORED_POOLS,) if found else ()


def _axis(node: Any, axis: int, *, dilated: bool) -> tuple[bool, bool]:
    """Whether a pool with ceil_mode leaves out a window along an axis, and whether it has one that floor_mode lacks."""
    source, kernel, stride, padding, *rest = node.args
    size = int(source.meta["val"].shape[axis - 2])
    kernel, padding = _item(kernel, axis), _item(padding, axis)
    stride = _item(stride, axis) if stride else kernel
    dilation = _item(rest[0], axis) if dilated else 1
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    ceiled, floored = -(-room // stride) + 1, room // stride + 1
    left_out = (ceiled - 1) * stride >= size + padding
    return left_out, not left_out and ceiled > floored


def _item(given: Sequence[int] | int, axis: int) -> int:
    if isinstance(given, int):
        return given
    return given[axis] if len(given) > 1 else given[0]
