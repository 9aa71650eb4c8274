"""How much each layer's quantisation costs, in PyTorch: the error of the layer alone, and the error up to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
            if node.op == "call_function" and (key := identifier(node)) in self._calls and (last_of := last.get(key))
        }
        self._sums = {key: _Sums() for key, _ in self._pairs.values()}

    def add(self, inputs: Sequence[np.ndarray]) -> None:
        """Count the errors for one input set."""
        import torch

        tensors = [torch.from_numpy(np.array(array)) for array in inputs]
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
        rows = [
            LayerError(
                call.aten,
                call.module,
                call.source,
                decibels(sums.signal, sums.alone),
                decibels(sums.signal, sums.so_far),
            )
            for key, sums in self._sums.items()
            if (call := self._calls[key]) and sums.signal and (sums.alone or sums.so_far)
        ]
        return sorted(rows, key=lambda row: row.alone_db)


def _counterpart(node: torch.fx.Node, surviving: dict[str, Any]) -> torch.fx.Node:
    """Return the node whose value the quantised module's has to equal: behind a batch norm that it took in."""
    users = list(node.users)
    if len(users) == 1 and "batch_norm" in str(users[0].target) and identifier(users[0]) not in surviving:
        return users[0]
    return node


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
