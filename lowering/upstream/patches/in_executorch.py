"""What is replaced in ExecuTorch while a model is lowered, but for its passes' tracing (`retracing`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.conditions.process import VELA, tell
from ethos_hil.lowering.native.worker import ToolRaised
from ethos_hil.lowering.upstream.names.operators import unwrap

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
# "Unsupported input dtype torch.float32" (executorch 1.4.1). So does what upstream fills a slice with steps up with.


def tables_first(registered: dict[type, Any], program: Any) -> dict[type, Any]:
    """Upstream's dictionary of inserted passes, copied, with one more insertion.

    Args:
        registered: the insertions that the Arm pass manager knows of, by the class of the pass they go with.
        program: the partition's ExportedProgram that is to be compiled in this order.
    """
    from executorch.backends.arm._passes import DecomposeStridedSliceCopyPass, InsertTableOpsPass
    from executorch.backends.arm._passes.arm_pass_manager import PassInsertions

    copied = {
        name: PassInsertions([*insertions.before_passes], [*insertions.after_passes])
        for name, insertions in registered.items()
    }
    insertions = copied.setdefault(DecomposeStridedSliceCopyPass, PassInsertions())
    insertions.before_passes.append(InsertTableOpsPass(program))
    return copied


# Functions of one number that upstream's quantiser does not know, each as one look-up table.
#
# A quantised function of one number has 256 answers: TOSA's TABLE. Upstream makes one of each operator in its own list
# (executorch 1.5.1, backends/arm/_passes/insert_table_ops.py) and leaves others in float, on the CPU, in several
# operators. The list is extended in each of the four places where upstream has it.

TABLES_OF = (
    "aten.erfc", "aten.exp2", "aten.frac", "aten.log2", "aten.log_sigmoid", "aten.mish", "aten.square",
    "aten.threshold", "aten.trunc", "ethos_hil.hardshrink", "ethos_hil.softplus", "ethos_hil.softshrink",
)  # fmt: skip
"""The operators. What they take beside the numbers is constant."""


@functools.cache
def table_operators() -> dict[str, Any]:
    """The operators by their names ("aten.mish.default"); registers those that are ours.

    Upstream's passes call an operator with fake tensors of the integers that it is quantised to, which aten's softplus,
    softshrink and hardshrink refuse. Ours take them, and are aten's otherwise: what is not delegated becomes them.
    """
    import torch

    def ours(operator: Any) -> Callable[..., Any]:
        def compute(numbers: torch.Tensor, *rest: Any) -> torch.Tensor:
            result: torch.Tensor = operator(numbers, *rest) if numbers.is_floating_point() else numbers.clone()
            return result

        return compute

    if not hasattr(torch.ops.ethos_hil, "softplus"):
        for name, rest in (
            ("softplus", "Scalar beta, Scalar threshold"),
            ("softshrink", "Scalar s"),
            ("hardshrink", "Scalar s"),
        ):
            torch.library.define(f"ethos_hil::{name}", f"(Tensor numbers, {rest}) -> Tensor")
            aten = getattr(torch.ops.aten, name).default
            torch.library.impl(f"ethos_hil::{name}", "CompositeImplicitAutograd", ours(aten))
    found = {name: getattr(getattr(torch.ops, name.partition(".")[0]), name.partition(".")[2]) for name in TABLES_OF}
    return {f"{name}.default": packet.default for name, packet in found.items()}


def _edges() -> frozenset[Any]:
    from executorch.exir.dialects._ops import ops

    edges = []
    for name in table_operators():
        space, operator, overload = name.split(".")
        edges.append(getattr(getattr(getattr(ops.edge, space), operator), overload))
    return frozenset(edges)


def with_functions(known: dict[tuple[Any, ...], Any]) -> dict[tuple[Any, ...], Any]:
    """Upstream's patterns of operators that are quantised, and ours."""
    return {**known, **{(operator,): None for operator in table_operators().values()}}


def with_edge_functions(known: set[Any]) -> set[Any]:
    """Upstream's operators that become tables, or are delegated, and ours."""
    return known | _edges()


def table_of(upstream: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Upstream's `TableOps.__getitem__`, which gives the function of a node; of ours, it is the operator itself."""

    def function_of(self: Any, node: torch.fx.Node) -> Any:
        if node.target not in _edges():
            return upstream(self, node)
        operator, rest, named = unwrap(node.target), node.args[1:], node.kwargs
        return lambda numbers: operator(numbers, *rest, **named).flatten()

    return function_of


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


def any_order(upstream: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Upstream's `get_memory_format`; of an order that torch has no memory format for, it says "as the input"."""

    def format_of(order: Sequence[int] | None) -> Any:
        try:
            return upstream(order)
        except AssertionError:
            import torch

            return torch.preserve_format

    return format_of


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
