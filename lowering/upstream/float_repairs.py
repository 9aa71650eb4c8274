"""What a float model writes in a form that upstream cannot lower, or does not quantise.

A model without such operators is not changed, so its program is byte for byte what upstream alone makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.lowering.upstream.circular import concatenate_circular
from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.extremes import take_apart
from ethos_hil.lowering.upstream.lone_norms import LONE_NORMS, write_as_convolutions
from ethos_hil.lowering.upstream.pools import complete_pools, floor_pools
from ethos_hil.lowering.user_code.source import Sources

if TYPE_CHECKING:
    import torch

RELU6 = (
    "relu6 was written as hardtanh from 0 to 6, as nn.ReLU6 is: ExecuTorch's Arm quantiser leaves the other form in "
    "float, on the CPU"
)


def prepare(floating: torch.fx.GraphModule, sources: Sources, *, quantised: bool, as_upstream: bool) -> tuple[str, ...]:
    """Rewrites a module in place, so that upstream can lower it and it computes the same.

    Args:
        floating: the module of a float exported program.
        sources: names lines of the model.
        quantised: whether it is quantised next; else what only upstream's quantisers miss stays as it is.
        as_upstream: rewrite only what upstream fails on, or gives another size or type.

    Returns:
        A sentence for each kind of change that was made.

    Raises:
        CompileError: it has a pool that upstream would give another size.
    """
    notes = (
        *complete_pools(floating),
        *floor_pools(floating, sources),
        *take_apart(floating),
        *concatenate_circular(floating),
    )
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
