"""Where the nodes come from that upstream's quantiser puts in place of larger operators.

Most of its passes hand the trace of a node on to those they make of it. Some do not (executorch 1.4.1, backends/arm/
_passes): those that replace matmul, einsum and scaled_dot_product_attention by what torch decomposes them into
(get_decomposition_pass.py, decompose_sdpa_pass.py), rsub by sub (scalars_to_attribute_pass.py), and embedding by
index_select (decompose_embedding_pass.py). Nothing computed for such an operator could be mapped to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.patches.replaced import replaced

if TYPE_CHECKING:
    import torch

_TRACE = "from_node"


@contextmanager
def ancestry_kept() -> Iterator[None]:
    """While inside, those passes leave in each node they make a trace to the one it replaces."""
    from executorch.backends.arm._passes.decompose_embedding_pass import DecomposeEmbeddingPass
    from executorch.backends.arm._passes.decompose_sdpa_pass import DecomposeScaledDotProductAttentionPass
    from executorch.backends.arm._passes.get_decomposition_pass import GetDecompositionPass
    from executorch.backends.arm._passes.scalars_to_attribute_pass import ScalarsToAttributePass

    passes = (
        DecomposeEmbeddingPass,
        DecomposeScaledDotProductAttentionPass,
        GetDecompositionPass,
        ScalarsToAttributePass,
    )
    with ExitStack() as stack:
        for each in passes:
            stack.enter_context(replaced(each, "call", _traced(each.call)))
        yield


def _traced(call: Callable[..., Any]) -> Callable[..., Any]:
    def traced(self: Any, module: torch.fx.GraphModule, *arguments: Any) -> Any:
        from torch.fx.traceback import NodeSource, NodeSourceAction

        made: list[torch.fx.Node] = []

        def erased(node: torch.fx.Node) -> None:
            # They go from node to node: what was made since the last one was erased stands in the place of this one.
            trace = node.meta.get(_TRACE) or [NodeSource(node, type(self).__name__, NodeSourceAction.CREATE)]
            for each in made:
                if each.op == "call_function":
                    each.meta.setdefault(_TRACE, list(trace))
            made.clear()

        module._register_create_node_hook(made.append)
        module._register_erase_node_hook(erased)
        try:
            return call(self, module, *arguments)
        finally:
            module._unregister_create_node_hook(made.append)
            module._unregister_erase_node_hook(erased)

    return traced
