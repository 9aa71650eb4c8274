"""How much each layer's quantisation costs, in PyTorch: the error of the layer alone, and the error up to it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.upstream.ethosu import collect_calls, identifier
from ethos_hil.lowering.user_code.user_function import Sources

if TYPE_CHECKING:
    import torch


def decibels(signal: float, noise: float) -> float:
    """Return the SQNR of a signal: 10 log10 of its energy to that of the noise; inf where one of them is zero."""
    return 10 * math.log10(signal / noise) if signal and noise else math.inf


@dataclass(frozen=True)
class LayerError:
    """The quantisation error of one call of the float model.

    Attributes:
        aten: the operator.
        module: path of the module that calls it; "" for the model itself.
        source: the user's line; "" when unknown.
        alone_db: SQNR of its output where its inputs are the float model's: what this layer alone loses, in dB.
        so_far_db: SQNR of its output where all layers before it are quantised, too.
    """

    aten: str
    module: str
    source: str
    alone_db: float
    so_far_db: float


@dataclass(frozen=True)
class LostLayer:
    """The layer at which a quantised answer is lost.

    Attributes:
        error: its errors.
        node: its node in the float graph.
        values: the float values of that node and of those around it, by name.
        step: the difference between neighbouring values of its output; 0 where that is not known.
    """

    error: LayerError
    node: torch.fx.Node
    values: Mapping[str, torch.Tensor]
    step: float


@dataclass
class _Sums:
    signal: float = 0.0
    alone: float = 0.0
    so_far: float = 0.0


class LayerErrors:
    """Compares a float and a quantised module layer by layer, over any number of inputs.

    Layers are matched by the node of the float graph that ExecuTorch's quantiser says a node descends from. A batch
    norm that is folded into a convolution belongs to it. Branches of control flow are not looked into.
    """

    def __init__(self, floating: torch.fx.GraphModule, quantised: torch.fx.GraphModule, sources: Sources) -> None:
        """Match the layers of the two modules, which stem from one exported program."""
        self._floating, self._quantised = floating, quantised
        self._calls = collect_calls(floating, sources)
        last = {identifier(node): node for node in quantised.graph.nodes if node.op == "call_function"}
        self._pairs = {
            last_of.name: (key, _counterpart(node, last).name)
            for node in floating.graph.nodes
            if _is_layer(node) and (key := identifier(node)) in self._calls and (last_of := last.get(key))
        }
        self._sums = {key: _Sums() for key, _ in self._pairs.values()}
        self._last: list[torch.Tensor] = []

    def add(self, inputs: Sequence[np.ndarray]) -> None:
        """Count the errors for one input set."""
        import torch

        self._last = tensors = [torch.from_numpy(np.array(array)) for array in inputs]
        with torch.no_grad():
            wanted = _values(self._floating, tensors, {name for _, name in self._pairs.values()})
            for alone in (True, False):
                given = {name: wanted[other] for name, (_, other) in self._pairs.items()} if alone else {}
                values = _values(self._quantised, tensors, set(self._pairs), given)
                for name, (key, other) in self._pairs.items():
                    self._count(self._sums[key], wanted[other], values[name], alone=alone)

    @staticmethod
    def _count(sums: _Sums, wanted: Any, value: Any, *, alone: bool) -> None:
        if getattr(wanted, "shape", None) != getattr(value, "shape", None) or not wanted.is_floating_point():
            return
        noise = float(((wanted - value).double() ** 2).sum())
        if alone:
            sums.signal += float((wanted.double() ** 2).sum())
            sums.alone += noise
        else:
            sums.so_far += noise

    def worst_first(self) -> list[LayerError]:
        """Return the layers that lose anything, the one that loses most first."""
        rows = [self._error(key) for key, sums in self._sums.items() if sums.signal and (sums.alone or sums.so_far)]
        return sorted(rows, key=lambda row: row.alone_db)

    def _error(self, key: str) -> LayerError:
        call, sums = self._calls[key], self._sums[key]
        alone, so_far = decibels(sums.signal, sums.alone), decibels(sums.signal, sums.so_far)
        return LayerError(call.aten, call.module, call.source, alone, so_far)

    def lost_at(self, limit: float) -> LostLayer | None:
        """Return the layer at which the answer is lost: back from the outputs by way of layers whose output is below a
        limit, always to the worst one before, it is the last on this way. The largest error of a layer alone need not
        be there: a difference of large numbers loses what each of them has kept.

        Args:
            limit: SQNR in dB, of a layer's output with all layers before it quantised.

        Returns:
            The layer, with the values around it for the inputs that were added last; None if no layer is below it.
        """
        by_name = {other: (self._error(key), name) for name, (key, other) in self._pairs.items()}
        bad = {name: error for name, (error, _) in by_name.items() if error.so_far_db < limit}
        at, before = None, _worst_before(next(iter(self._floating.graph.find_nodes(op="output"))), bad, by_name)
        while before is not None:
            at, before = before, _worst_before(before, bad, by_name)
        if at is None:
            return None
        near = _around(at)
        values = _values(self._floating, self._last, {node.name for node in near})
        error, name = by_name[at.name]
        return LostLayer(error, at, values, _step(next(n for n in self._quantised.graph.nodes if n.name == name)))


def _is_layer(node: torch.fx.Node) -> bool:
    """Tell whether a call returns one tensor. What returns several (a split, a maximum with its place) only picks
    values; the quantiser says that its parts, and their rounding, descend from it, too.
    """
    import torch

    return node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor)


def _counterpart(node: torch.fx.Node, surviving: dict[str, Any]) -> torch.fx.Node:
    """Return the node whose value the quantised module's has to equal: behind a batch norm that it took in."""
    users = list(node.users)
    if len(users) == 1 and "batch_norm" in str(users[0].target) and identifier(users[0]) not in surviving:
        return users[0]
    return node


def _worst_before(node: torch.fx.Node, bad: Mapping[str, LayerError], layers: Collection[str]) -> torch.fx.Node | None:
    """Return the worst of the layers that a node's arguments come from, if it is a bad one."""
    found: list[torch.fx.Node] = []
    seen: set[torch.fx.Node] = set()
    waiting = list(node.all_input_nodes)
    while waiting:
        other = waiting.pop()
        if other.name in layers:
            found += [other] if other.name in bad else []
        elif other not in seen:
            seen.add(other)
            waiting += other.all_input_nodes
    return min(found, key=lambda other: bad[other.name].so_far_db, default=None)


_AROUND = 3


def _around(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return a node, those that it is computed from, and its users: over a few steps each way."""
    near, edge = [node], [node]
    for step in (lambda other: other.all_input_nodes, lambda other: list(other.users)):
        edge = [node]
        for _ in range(_AROUND):
            edge = [other for inner in edge for other in step(inner) if other not in near and other.op != "output"]
            near += dict.fromkeys(edge)
    return near


def _step(node: torch.fx.Node) -> float:
    """Return the step that a node's output is quantised with."""
    waiting = list(node.users)
    for user in waiting:
        if "quantize_per_tensor" in str(user.target) and "dequantize" not in str(user.target):
            return float(str(user.args[1]))
        if len(user.users) == 1 and len(waiting) < _AROUND:
            waiting += user.users
    return 0.0


def _values(
    module: torch.fx.GraphModule,
    inputs: Sequence[torch.Tensor],
    names: set[str],
    given: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the values of some nodes of a graph; those in `given` get other values in their place."""
    import torch

    values: dict[str, Any] = {}

    class ValueListener(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            value = super().run_node(n)
            if n.name in names:
                values[n.name] = value.detach().clone() if isinstance(value, torch.Tensor) else value
                return (given or {}).get(n.name, value)
            return value

    ValueListener(module, garbage_collect_values=True).run(*inputs)
    return values
