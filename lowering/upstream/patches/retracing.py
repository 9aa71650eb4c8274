"""ExecuTorch's passes, which trace a whole graph again, with what the last traces found out.

A pass of ExecuTorch 1.4.1 (exir/pass_base.py, `_ExportPassBase`) calls every operator of a graph with fake tensors,
and makes a new graph of the calls. The Arm backend runs forty such passes, of which each changes a few nodes. A fake
tensor has a shape, a type and no values. So an operator gives an equal one whenever it is called with equal fake
tensors and equal other arguments. Here what it gave is given again in the next trace, to as many nodes as asked for it
in the last one. Two nodes of one graph never share an object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from typing import Any

Function = Callable[..., Any]

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
        from torch.fx.proxy import _COPY_META_FIELDS, Proxy
        from torch.fx.traceback import get_current_meta
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
        self._copied = ("stack_trace", *_COPY_META_FIELDS)
        self._current_meta = get_current_meta

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

    def meta(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the meta of a new node: what is given, and what torch's tracer copies of the node that is traced."""
        current = self._current_meta()
        return {
            **{field: copy(current[field]) for field in self._copied if field in current and field not in given},
            **given,
        }

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


def without_texts(by_executorch: Function) -> Function:
    """ExecuTorch's method that traces a node. It keeps the node as a text for messages; here that is its name."""

    from torch.fx import Interpreter

    def run_node(self: Any, node: Any) -> Any:
        self.node, self.callback.node_debug_str = node, node.name
        return Interpreter.run_node(self, node)

    return run_node


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
        found: list[Any] = []
        with suppress(_Unknown):
            arguments, named = tuple(map(known.data, args)), {name: known.data(value) for name, value in kwargs.items()}
            found.append(known.result(self, target, arguments, named))
        if not found:  # not where _Unknown is caught: it would be a cause of the errors of this call
            return by_executorch(self, kind, target, args, kwargs, meta)
        (result,) = found
        of_node = (
            tuple(known.node(self.tracer, value) for value in args),
            {name: known.node(self.tracer, value) for name, value in kwargs.items()},
        )
        name = None
        if isinstance(target, torch._ops.OpOverload):
            name = self.tracer.graph._target_to_str(target.overloadpacket.__name__)
        # Arguments that come with a new node are searched for symbols, and here there are none.
        node = self.tracer.graph.create_node(kind, target, name=name)
        node.args, node.kwargs = of_node
        node.meta.update(known.meta(meta.data))
        if type(result) is known._fake:
            node.meta["val"], node.meta["tensor_meta"] = result, None
        else:
            self.tracer.set_metadata(node, result)
        return known._value(result, self.tracer.proxy(node))

    return fx
