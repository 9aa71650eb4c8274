"""What a float model writes in a form that upstream cannot lower, or does not quantise.

A model without such operators is not changed, so its program is byte for byte what upstream alone makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.lone_norms import LONE_NORMS, write_as_convolutions

if TYPE_CHECKING:
    import torch

COMPLETED_POOLS = (
    "max pools without a stride were given the default they have, their kernel size: ExecuTorch's Arm partitioner "
    "fails on them"
)
RELU6 = (
    "relu6 was written as hardtanh from 0 to 6, as nn.ReLU6 is: ExecuTorch's Arm quantiser leaves the other form in "
    "float, on the CPU"
)


def prepare(floating: torch.fx.GraphModule, *, quantised: bool, as_upstream: bool) -> tuple[str, ...]:
    """Rewrites a module in place, so that upstream can lower it and it computes the same.

    Args:
        floating: the module of a float exported program.
        quantised: whether it is quantised next; else what only upstream's quantisers miss stays as it is.
        as_upstream: rewrite only what upstream fails on.

    Returns:
        A sentence for each kind of change that was made.
    """
    notes = (COMPLETED_POOLS,) if _complete_pools(floating) else ()
    if not quantised or as_upstream:
        return notes
    rewrites = ((_write_relu6, RELU6), (write_as_convolutions, LONE_NORMS))
    return (*notes, *(note for rewrite, note in rewrites if rewrite(floating)))


def _write_relu6(floating: torch.fx.GraphModule) -> int:
    """Writes functional.relu6 as the hardtanh that it is. Returns how many there were.

    Upstream's quantiser knows hardtanh only (executorch 1.4.1, backends/arm/quantizer/quantization_annotator.py).
    """
    import torch

    aten = torch.ops.aten
    forms = {aten.relu6.default: aten.hardtanh.default, aten.relu6_.default: aten.hardtanh_.default}
    count = 0
    for module in graphs(floating):
        found = [node for node in module.graph.nodes if node.target in forms]
        for node in found:
            node.target, node.args = forms[node.target], (node.args[0], 0.0, 6.0)
        if found:
            module.recompile()
        count += len(found)
    return count


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
