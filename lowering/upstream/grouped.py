"""Transposed convolutions with groups whose weights upstream cannot quantise per channel.

Upstream (executorch 1.4.1, backends/arm/quantizer/quantization_annotator.py) gives such weights a scale for each input
channel, and derives the bias's scales, one for each output channel, from them. Where these are not as many, quantising
fails. One scale for all weights is what works; upstream's passes then split the groups, and the NPU computes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.user_code.source import Sources

if TYPE_CHECKING:
    import torch

_GROUPS = 6
"""Number of the argument in aten's signature."""


class GroupedFinder:
    """Finds these convolutions, for upstream's quantiser.

    Args:
        modules: only in these, and in what they contain; by default everywhere.
    """

    def __init__(self, modules: frozenset[str] | None = None) -> None:
        self._modules = modules

    def find_nodes(self, model: torch.fx.GraphModule) -> Iterator[Any]:
        """The nodes of a graph."""
        for node in model.graph.nodes:
            if _is_grouped(node) and (self._modules is None or within(node, self._modules)):
                yield node


def within(node: Any, modules: frozenset[str]) -> bool:
    """Whether a node of the float program belongs to one of the modules, by their paths."""
    return any(path in modules for path, _ in (node.meta.get("nn_module_stack") or {}).values())


def grouped_notes(floating: torch.fx.GraphModule, sources: Sources) -> tuple[str, ...]:
    """A note that names the lines of these convolutions; none if there are none."""
    found = [node for part in graphs(floating) for node in GroupedFinder().find_nodes(part)]
    if not found:
        return ()
    lines = dict.fromkeys(sources.locate(node.meta.get("stack_trace")) or node.name for node in found)
    return (
        f"the weights of transposed convolutions with groups have one scale (at {', '.join(lines)}): ExecuTorch's "
        "quantiser gives them a scale for each input channel, and fails on the bias",
    )


def _is_grouped(node: Any) -> bool:
    if str(node.target) != "aten.conv_transpose2d.input" or len(node.args) <= _GROUPS or node.args[2] is None:
        return False
    groups, weights = node.args[_GROUPS], node.args[1].meta.get("val")
    return groups != 1 and weights is not None and weights.shape[0] != weights.shape[1] * groups
