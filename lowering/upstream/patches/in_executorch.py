"""What is replaced in ExecuTorch while a model is lowered, its passes' tracing included.

ExecuTorch's passes, which trace a whole graph again, with what the last traces found out.

A pass of ExecuTorch 1.4.1 (exir/pass_base.py, `_ExportPassBase`) calls every operator of a graph with fake tensors,
and makes a new graph of the calls. The Arm backend runs forty such passes, of which each changes a few nodes. A fake
tensor has a shape, a type and no values. So an operator gives an equal one whenever it is called with equal fake
tensors and equal other arguments. Here what it gave is given again in the next trace, to as many nodes as asked for it
in the last one. Two nodes of one graph never share an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.conditions.process import VELA, tell
from ethos_hil.lowering.native.worker import ToolRaised
from ethos_hil.lowering.vela.compiler import call_vela

if TYPE_CHECKING:
    import torch

    Nodes = set[torch.fx.Node]


_PLAIN = frozenset({int, float, bool, str, type(None)})
_MOST = 100_000
"""Calls that are remembered. Each holds its fake tensors."""


class _Unknown(Exception):
    """Something among the arguments, of which it is not known whether it decides the result."""


class _Calls:
    """The results of calls, for one lowering."""

    def __init__(self) -> None:
        from executorch.exir.delegate import executorch_call_delegate
        from executorch.exir.dialects.edge._ops import EdgeOpOverload
        from executorch.exir.lowered_backend_module import LoweredBackendModule
        from executorch.exir.pass_base import ProxyValue
        from torch._ops import OpOverload
        from torch._subclasses.fake_tensor import FakeTensor
        from torch.fx.immutable_collections import immutable_list
        from torch.fx.proxy import Proxy
        from torch.nn import Parameter

        self._results: dict[tuple[Any, ...], list[Any]] = {}
        self._tensors: dict[int, tuple[Any, tuple[Any, ...]]] = {}
        self._modules: list[Any] = []
        """Modules and parameters, which live as long as their ids are in use."""
        self._operators = (EdgeOpOverload, OpOverload)
        self._value, self._proxy, self._fake = ProxyValue, Proxy, FakeTensor
        self._lists = (list, tuple, immutable_list)
        self._delegate = executorch_call_delegate
        self._kept = (Parameter, LoweredBackendModule)
        """What a pass gives on as it is, and the new graph refers to."""

    def data(self, argument: Any) -> Any:
        """Return an argument with the values of its proxies."""
        kind = type(argument)
        if kind is self._value:
            return argument.data
        if kind in _PLAIN:
            return argument
        if kind in self._lists:
            return argument if _PLAIN.issuperset(map(type, argument)) else kind(map(self.data, argument))
        return self._other(argument)

    def node(self, tracer: Any, argument: Any) -> Any:
        """Return an argument with the nodes of its proxies, as torch.fx makes arguments of a node."""
        kind = type(argument)
        if kind is self._value and type(argument.proxy_or_node) is self._proxy:
            return argument.proxy_or_node.node
        if kind in _PLAIN:
            return argument
        if kind in self._lists:
            if not _PLAIN.issuperset(map(type, argument)):
                argument = [self.node(tracer, item) for item in argument]
            return tuple(argument) if kind is tuple else list(argument)
        return tracer.create_arg(argument) if kind in self._kept else self._other(argument)

    def key(self, argument: Any) -> Any:
        """Return what is equal for arguments with which an operator gives equal fake tensors."""
        kind = type(argument)
        if kind is self._fake:
            return self._tensor(argument)
        if kind in _PLAIN:
            return kind, argument
        if kind in self._lists:
            kinds = tuple(map(type, argument))
            if _PLAIN.issuperset(kinds):
                return kind, kinds if len(set(kinds)) > 1 else kinds[:1], tuple(argument)
            return kind, tuple(map(self.key, argument))
        if kind in self._kept:
            self._modules.append(argument)
            return kind, id(argument)
        return kind, self._other(argument)

    def _tensor(self, tensor: Any) -> Any:
        """Return what is equal for equal fake tensors."""
        if tensor.constant is not None:
            raise _Unknown
        known = self._tensors.get(id(tensor))
        if known is None:
            import torch

            if tensor.layout is not torch.strided or not all(type(size) is int for size in tensor.shape):
                raise _Unknown
            key = (
                tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.device,
                tensor.requires_grad, tensor.is_conj(), tensor.is_neg(), id(tensor.fake_mode),
            )  # fmt: skip
            known = self._tensors[id(tensor)] = tensor, key  # the tensor lives as long as its id is in use
        return known[1]

    def _other(self, argument: Any) -> Any:
        import torch

        if type(argument) in self._kept or isinstance(
            argument, torch.dtype | torch.device | torch.layout | torch.memory_format
        ):
            return argument
        raise _Unknown

    def result(self, callback: Any, target: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return what an operator gives for these arguments, in the trace that `callback` makes.

        Raises:
            _Unknown: that cannot be remembered.
        """
        import torch
        from torch.utils import _pytree as pytree

        if target is not self._delegate and not (isinstance(target, self._operators) and not target._schema.is_mutable):
            raise _Unknown
        key = (
            target, id(callback.fake_tensor_mode), torch.is_grad_enabled(),
            tuple(map(self.key, arguments)), tuple((name, self.key(value)) for name, value in named.items()),
        )  # fmt: skip
        asked: dict[Any, int] = vars(callback.tracer).setdefault("ethos_hil_asked", {})
        number = asked[key] = asked.get(key, -1) + 1
        known = self._results.setdefault(key, [])
        if number < len(known):
            return known[number]
        result = callback.interpreter.call_function(target, arguments, named)
        if len(known) == number and len(self._results) < _MOST and self._is_fake(result):
            inputs = (leaf for leaf in pytree.tree_leaves((arguments, named)) if type(leaf) is self._fake)
            given = {value.untyped_storage()._cdata for value in inputs}
            storages = {leaf.untyped_storage()._cdata for leaf in pytree.tree_leaves(result)}
            if given.isdisjoint(storages):  # it is not a view
                known.append(result)
        return result

    def _is_fake(self, result: Any) -> bool:
        """Return whether a result is a fake tensor without symbols and values."""
        if isinstance(result, list | tuple):
            return all(map(self._is_fake, result))
        return (
            type(result) is self._fake and result.constant is None and all(type(size) is int for size in result.shape)
        )


def remembered_calls(by_executorch: Function) -> Function:
    """ExecuTorch's method `_fx`, which calls an operator and makes a node of the call."""
    calls: list[_Calls] = []

    def fx(self: Any, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meta: Any) -> Any:
        import torch

        if not calls:
            calls.append(_Calls())
        known = calls[0]
        if kind != "call_function":
            return by_executorch(self, kind, target, args, kwargs, meta)
        try:
            arguments, named = tuple(map(known.data, args)), {name: known.data(value) for name, value in kwargs.items()}
            result = known.result(self, target, arguments, named)
        except _Unknown:
            return by_executorch(self, kind, target, args, kwargs, meta)
        of_node = (
            tuple(known.node(self.tracer, value) for value in args),
            {name: known.node(self.tracer, value) for name, value in kwargs.items()},
        )
        name = None
        if isinstance(target, torch._ops.OpOverload):
            name = self.tracer.graph._target_to_str(target.overloadpacket.__name__)
        node = self.tracer.create_node(kind, target, *of_node, name, None)
        node.meta.update(meta.data)
        if type(result) is known._fake:
            node.meta["val"], node.meta["tensor_meta"] = result, None
        else:
            self.tracer.set_metadata(node, result)
        return known._value(result, self.tracer.proxy(node))

    return fx


# The parts of a partition that is split, in an order that is the same in every process.
#
# A partition that depends on itself, as in an attention, is split into connected parts by upstream's partitioner
# (executorch 1.4.1, backends/arm/tosa/partitioner.py). They are numbered in the order of a set of nodes: by their
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
# Most passes of the quantiser copy the trace of a node to the nodes they make of it. Some do not (executorch 1.4.1,
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
            RuntimeError: Vela's back end refuses the program.
            ToolRaised: Vela raises another exception.
            VelaCrash: Vela's process ends.
        """
        tell(VELA)
        try:
            return int(call_vela(arguments).header["status"])
        except ToolRaised as error:
            if error.name == "RuntimeError":
                raise RuntimeError(" ".join(error.text.split())) from None  # the reason is in its second line
            raise


def vela_elsewhere(_: Any) -> VelaElsewhere:
    """Return what takes the place of Vela's module."""
    return VelaElsewhere()


Function = Callable[..., Any]


def observe(function: Function, watching: Callable[[Function], Function]) -> Function:
    """What `watching` makes of upstream's function: one that calls it and notes what goes in and comes out."""
    return watching(function)
