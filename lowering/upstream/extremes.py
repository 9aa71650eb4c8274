"""Maxima and minima of a dimension whose indices a model uses.

Upstream's quantiser (executorch 1.4.1, backends/arm/_passes/convert_minmax_pass.py) refuses them where the values are
used as well; where only the indices are, it takes the values for them. A model without such calls is not changed.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs

if TYPE_CHECKING:
    import torch

TAKEN_APART = (
    "maxima and minima whose indices are used were taken apart, into amax and argmax: ExecuTorch's quantiser takes the "
    "values for the indices"
)


def take_apart(floating: torch.fx.GraphModule) -> tuple[str, ...]:
    """Makes amax and argmax (amin, argmin) of each such call. Returns a note, if there were any.

    Args:
        floating: the module of a float exported program.
    """
    import torch

    aten = torch.ops.aten
    parts = {
        aten.max.dim: (aten.amax.default, aten.argmax.default),
        aten.min.dim: (aten.amin.default, aten.argmin.default),
    }
    found = False
    for module in graphs(floating):
        for node in [each for each in module.graph.nodes if each.target in parts]:
            picked = {each.args[1]: each for each in node.users if each.target is operator.getitem}
            if 1 not in picked or not picked[1].users:
                continue
            values, indices = parts[node.target]
            source, dimension, *keep = node.args
            # The values come last: the delegate map goes by the last call of one origin.
            _replace(module, node, picked[1], indices, (source, dimension, *keep))
            if 0 in picked:
                _replace(module, node, picked[0], values, (source, [dimension], *keep))
            module.graph.erase_node(node)
            found = True
        if found:
            module.recompile()
    return (TAKEN_APART,) if found else ()


def _replace(module: torch.fx.GraphModule, node: Any, picked: Any, target: Any, arguments: tuple[Any, ...]) -> None:
    with module.graph.inserting_before(node):
        made = module.graph.call_function(target, arguments)
    made.meta = {**node.meta, "val": picked.meta.get("val")}
    picked.replace_all_uses_with(made)
    module.graph.erase_node(picked)
