"""What is replaced in ExecuTorch while a model is lowered, but for its passes' tracing (`retracing`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.conditions.process import VELA, tell
from ethos_hil.lowering.native.worker import ToolRaised

if TYPE_CHECKING:
    import torch

    Nodes = set[torch.fx.Node]

# The parts of a partition that is split, in an order that is the same in every process.
#
# A partition that depends on itself, as in an attention, is split into connected parts by upstream's partitioner
# (executorch 1.5.1, backends/arm/tosa/partitioner.py). They are numbered in the order of a set of nodes: by their
# addresses in memory. These differ from process to process, and with them the order of delegates, and the program.


def parts_in_order(upstream: Callable[[Nodes], list[Nodes]]) -> Callable[[Nodes], list[Nodes]]:
    """Return a function that gives the parts of a partition in the order of their first nodes."""

    def components(nodes: Nodes) -> list[Nodes]:
        groups = upstream(nodes)
        graph = next(iter(nodes)).graph
        place = {node: number for number, node in enumerate(graph.nodes)}
        return sorted(groups, key=lambda part: min(place[node] for node in part))

    return components


# An order of the Arm passes in which look-ups become TABLEs before average pools are rewritten.
#
# In upstream's order the two collide. An average pool, or a mean that becomes one, is fed by sigmoid, tanh, exp or the
# like. These promote integers to float until they are TABLEs, so the pool finds a float input, and lowering fails with
# "Unsupported input dtype torch.float32" (executorch 1.4.1).


def tables_first(registered: dict[type, Any], program: Any) -> dict[type, Any]:
    """Upstream's dictionary of inserted passes, copied, with one more insertion.

    Args:
        registered: the insertions that the Arm pass manager knows of, by the class of the pass they go with.
        program: the partition's ExportedProgram that is to be compiled in this order.
    """
    from executorch.backends.arm._passes import DecomposeAvgPool2dPass, InsertTableOpsPass
    from executorch.backends.arm._passes.arm_pass_manager import PassInsertions

    copied = {
        name: PassInsertions([*insertions.before_passes], [*insertions.after_passes])
        for name, insertions in registered.items()
    }
    copied.setdefault(DecomposeAvgPool2dPass, PassInsertions()).before_passes.append(InsertTableOpsPass(program))
    return copied


# Where the nodes come from that upstream's quantiser puts in place of larger operators.
#
# Most passes of the quantiser copy the trace of a node to the nodes they make of it. Some do not (executorch 1.5.1,
# backends/arm/_passes). They replace matmul, einsum, index_copy and scaled_dot_product_attention by what torch
# decomposes them into (get_decomposition_pass.py, decompose_sdpa_pass.py), rsub by sub (scalars_to_attribute_pass.py),
# and embedding by index_select (decompose_embedding_pass.py). Without a trace, an NPU operation that computes such an
# operator cannot be mapped to it.

_TRACE = "from_node"
_TAKEN_APART = (
    "aten.einsum.", "aten.embedding.", "aten.index_copy.", "aten.matmul.", "aten.rsub.",
    "aten.scaled_dot_product_attention.",
)  # fmt: skip


def traced(call: Callable[..., Any]) -> Callable[..., Any]:
    """A pass's `call` that leaves, in each node it makes, a trace to the node that it replaces."""

    def traced_call(self: Any, module: torch.fx.GraphModule, *arguments: Any) -> Any:
        from torch.fx.traceback import NodeSource, NodeSourceAction

        nodes: list[torch.fx.Node] = []

        def on_erase(node: torch.fx.Node) -> None:
            # The passes go from node to node. What was made since the last erasure stands in the place of this node.
            trace = node.meta.get(_TRACE) or [NodeSource(node, type(self).__name__, NodeSourceAction.CREATE)]
            for new in nodes:
                if new.op == "call_function":
                    new.meta.setdefault(_TRACE, list(trace))
            nodes.clear()

        module._register_create_node_hook(nodes.append)
        module._register_erase_node_hook(on_erase)
        try:
            return call(self, module, *arguments)
        finally:
            module._unregister_create_node_hook(nodes.append)
            module._unregister_erase_node_hook(on_erase)

    return traced_call


def without_origin(graphs: Iterable[torch.fx.GraphModule]) -> tuple[str, ...]:
    """The operators of float graphs whose traces upstream loses, by aten's names, each once, sorted."""
    names = {str(node.target) for part in graphs for node in part.graph.nodes if node.op == "call_function"}
    return tuple(sorted(name for name in names if name.startswith(_TAKEN_APART)))


class VelaElsewhere:
    """What upstream takes for Vela's module. It has the one function that upstream calls."""

    def main(self, arguments: Sequence[str]) -> int:
        """Call Vela's command line.

        Raises:
            RuntimeError: Vela's back end refuses the program; its cause is a VelaRefusal.
            ToolRaised: Vela raises another exception.
            VelaCrash: Vela's process ends.
        """
        # late: this module is known to each process
        from ethos_hil.lowering.vela.compiler import VelaRefusal, call_vela

        tell(VELA)
        try:
            return int(call_vela(arguments).header["status"])
        except ToolRaised as error:
            if error.name == "RuntimeError":
                reason = " ".join(error.text.split())  # it is in the second line
                raise RuntimeError(reason) from VelaRefusal(f"Vela refuses the program: {reason}")
            raise


def vela_elsewhere(_: Any) -> VelaElsewhere:
    """Return what takes the place of Vela's module."""
    return VelaElsewhere()


Function = Callable[..., Any]


def observe(function: Function, watching: Callable[[Function], Function]) -> Function:
    """What `watching` makes of upstream's function: one that calls it and notes what goes in and comes out."""
    return watching(function)
