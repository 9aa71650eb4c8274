"""Max pools that leave out their stride, which upstream cannot lower.

A model without such pools is not changed, so its program is byte for byte what upstream alone makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.lowering.upstream.export import graphs

if TYPE_CHECKING:
    import torch

COMPLETED_POOLS = (
    "max pools without a stride were given the default they have, their kernel size: ExecuTorch's Arm partitioner "
    "fails on them"
)


def prepare(floating: torch.fx.GraphModule) -> tuple[str, ...]:
    """Rewrites a module in place, so that upstream can lower it and it computes the same.

    Args:
        floating: the module of a float exported program.

    Returns:
        A sentence for each kind of change that was made.
    """
    return (COMPLETED_POOLS,) if _complete_pools(floating) else ()


def _complete_pools(floating: torch.fx.GraphModule) -> int:
    """Gives max pools without a stride the default stride, the kernel's size. Returns how many there were.

    Upstream's partitioner fails on functional.max_pool2d(x, 2) with an IndexError (executorch 1.4.1,
    backends/arm/operator_support/pool_2d_support.py).
    """
    import torch

    count = 0
    for module in graphs(floating):
        lacking = [node for node in module.graph.nodes if node.target == torch.ops.aten.max_pool2d.default
                   and (len(node.args) < 3 or not node.args[2])]  # fmt: skip
        for node in lacking:
            kernel = node.args[1]
            node.args = (node.args[0], kernel, kernel, *node.args[3:])
        if lacking:
            module.recompile()
        count += len(lacking)
    return count
