"""Where the nodes come from that upstream's quantiser puts in place of larger operators.

Most passes of the quantiser copy the trace of a node to the nodes they make of it. Some do not (executorch 1.4.1,
backends/arm/_passes). They replace matmul, einsum, index_copy and scaled_dot_product_attention by what torch
decomposes them into (get_decomposition_pass.py, decompose_sdpa_pass.py), rsub by sub (scalars_to_attribute_pass.py),
and embedding by index_select (decompose_embedding_pass.py). Without a trace, an NPU operation that computes such an
operator cannot be mapped to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_TRACE = "from_node"
_TAKEN_APART = (
    "aten.einsum.", "aten.embedding.", "aten.index_copy.", "aten.matmul.", "aten.rsub.",
    "aten.scaled_dot_product_attention.",
)  # fmt: skip


def traced(call: Callable[..., Any]) -> Callable[..., Any]:
    """A pass's `call` that leaves, in each node it makes, a trace to the node that it replaces."""

    def traced_call(self: Any, module: torch.fx.GraphModule, *arguments: Any) -> Any:
        from torch.fx.traceback import NodeSource, NodeSourceAction

        made: list[torch.fx.Node] = []

        def erased(node: torch.fx.Node) -> None:
            # The passes go from node to node. What was made since the last erasure stands in the place of this node.
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

    return traced_call


def without_origin(graphs: Iterable[torch.fx.GraphModule]) -> tuple[str, ...]:
    """The operators of float graphs whose traces upstream loses, by aten's names, each once, sorted."""
    names = {str(node.target) for part in graphs for node in part.graph.nodes if node.op == "call_function"}
    return tuple(sorted(name for name in names if name.startswith(_TAKEN_APART)))
