"""Convolutions and linear layers whose weights are not constants of what is delegated. The NPU takes constants only.

The model computes them; or they are those of a branch, which is delegated by itself on Ethos-U55 and U65. Upstream's
partitioner (executorch 1.5.1) takes such operators all the same, and its passes fail: "unsupported param type". On an
Ethos-U85 they fail, too, at convolutions with groups in a branch, at a branch within a branch, and at a branch of which
only a part is delegated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.partition_checks import TAG, check, name_of
from ethos_hil.lowering.upstream.state import state_inputs

if TYPE_CHECKING:
    import torch

_WEIGHTED = frozenset({"aten.convolution.default", "aten.conv_transpose2d.input", "aten.linear.default"})
_WEIGHTS, _GROUPS = 1, 8
"""The arguments that have the weights, and the number of groups of a convolution."""


def leave_computed(make: Any, spec: Any, further: list[Any]) -> Any:
    """Return a partitioner of upstream's that leaves such operators to the CPU.

    Args:
        make: makes the partitioner from a compile spec and further checks.
        spec: upstream's compile spec.
        further: our other checks. Those for this are appended.
    """
    from executorch.exir.graph_module import get_cond_while_submodules

    whole = spec.tosa_spec.support_extension("cf")
    computed: set[Any] = set()
    of_branches: set[Any] = set()

    further += [
        check("ConstantWeights", lambda node: node not in computed),
        check("InWholeBranches" if whole else "OwnWeights", lambda node: node not in of_branches),
    ]
    partitioner = make(spec, further)
    partition, ask = partitioner.partition, partitioner.ops_to_not_decompose

    def find(program: torch.export.ExportedProgram) -> None:
        outer, *branches = graphs(program.graph_module)
        names = set(program.graph_signature.user_inputs)
        given = {node for node in outer.graph.nodes if node.name in names}
        computed.update(_weighted(outer, given | set(state_inputs(program))))
        inner = {part for branch in branches for part in graphs(branch)[1:]}
        for branch in branches:
            # Where branches are delegated with what has their weights, some are not taken all the same.
            left = (node for node in _of_outside(branch) if not (whole and branch not in inner and _is_plain(node)))
            of_branches.update(left)

    def find_and_partition(program: torch.export.ExportedProgram) -> Any:
        find(program)
        done = partition(program)
        alone = [
            node
            for _, branch, choice in get_cond_while_submodules(program.graph_module)
            if TAG not in choice.meta
            for node in _of_outside(branch)
        ]
        if of_branches.issuperset(alone):
            return done
        # A branch that is not delegated as a whole leaves the other one to be delegated by itself.
        of_branches.update(alone)
        for part in graphs(program.graph_module):
            for node in part.graph.nodes:
                node.meta.pop(TAG, None)
        return partition(program)

    def find_and_ask(program: torch.export.ExportedProgram) -> Any:
        find(program)
        return ask(program)

    partitioner.partition, partitioner.ops_to_not_decompose = find_and_partition, find_and_ask
    return partitioner


def _of_outside(branch: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """The operators of a branch whose weights are given to it, or computed from what is."""
    return _weighted(branch, {node for node in branch.graph.nodes if node.op == "placeholder"})


def _is_plain(node: torch.fx.Node) -> bool:
    """Whether upstream takes the weights of an operator in a branch: as they are given, in one convolution."""
    weights: Any = node.args[_WEIGHTS]
    while weights.op == "call_function" and "quantize_per" in str(weights.target):
        weights = weights.args[0]
    groups: Any = node.args[_GROUPS] if name_of(node) == "aten.convolution.default" else 1
    return bool(weights.op == "placeholder" and (groups == 1 or weights.meta["val"].shape[1] == 1))


def _weighted(part: torch.fx.GraphModule, varying: set[torch.fx.Node]) -> Iterator[torch.fx.Node]:
    """The operators of a graph whose weights are computed from one of these nodes."""
    for node in part.graph.nodes:
        if not varying.isdisjoint(node.all_input_nodes):
            varying.add(node)
        if name_of(node) in _WEIGHTED and node.args[_WEIGHTS] in varying:
            yield node
