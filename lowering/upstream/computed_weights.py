"""Convolutions and linear layers whose weights are not constants of what is delegated. The NPU takes constants only.

The model computes them; or they are those of a branch, which is delegated by itself on Ethos-U55 and U65. Upstream's
partitioner (executorch 1.5.1) takes such operators all the same, and its passes fail: "unsupported param type".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.names.operators import unwrap
from ethos_hil.lowering.upstream.state import state_inputs

if TYPE_CHECKING:
    import torch

_WEIGHTED = frozenset({"aten.convolution.default", "aten.conv_transpose2d.input", "aten.linear.default"})
_WEIGHTS = 1
"""The argument that has the weights."""


def leave_computed(make: Any, spec: Any, further: list[Any]) -> Any:
    """Return a partitioner of upstream's that leaves such operators to the CPU.

    Args:
        make: makes the partitioner from a compile spec and further checks.
        spec: upstream's compile spec.
        further: our other checks. The one for this is appended.
    """
    from torch.fx.passes.operator_support import OperatorSupportBase

    computed: set[Any] = set()
    of_branches: set[Any] = set()

    class ConstantWeights(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            return node not in computed

    class OwnWeights(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            return node not in of_branches

    further += [ConstantWeights(), OwnWeights()]
    partitioner = make(spec, further)
    partition, ask = partitioner.partition, partitioner.ops_to_not_decompose

    def find(program: torch.export.ExportedProgram) -> None:
        outer, *branches = graphs(program.graph_module)
        given = {node for node in outer.graph.nodes if node.name in program.graph_signature.user_inputs}
        computed.update(_weighted(outer, given | set(state_inputs(program))))
        if not spec.tosa_spec.support_extension("cf"):  # otherwise branches are delegated with what has their weights
            for branch in branches:
                of_branches.update(_weighted(branch, {node for node in branch.graph.nodes if node.op == "placeholder"}))

    def find_and_partition(program: torch.export.ExportedProgram) -> Any:
        find(program)
        return partition(program)

    def find_and_ask(program: torch.export.ExportedProgram) -> Any:
        find(program)
        return ask(program)

    partitioner.partition, partitioner.ops_to_not_decompose = find_and_partition, find_and_ask
    return partitioner


def _weighted(part: torch.fx.GraphModule, varying: set[torch.fx.Node]) -> Iterator[torch.fx.Node]:
    """The operators of a graph whose weights are computed from one of these nodes."""
    for node in part.graph.nodes:
        if not varying.isdisjoint(node.all_input_nodes):
            varying.add(node)
        if str(unwrap(node.target)) in _WEIGHTED and node.args[_WEIGHTS] in varying:
            yield node
