"""Operators that are left to the CPU because the user asked for it, though the NPU could take them; and those that
upstream's partitioner takes, and then cannot lower.

An entry names an operator ("aten.sigmoid.default", or "aten.sigmoid" for all its overloads; also one of the float
model, for all that it becomes), a line of the model ("net.py:12", all operators that it calls), or a module ("head.0",
all operators in it and below).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.base.suggestion import did_you_mean
from ethos_hil.base.wording import list_of
from ethos_hil.lowering.upstream.cpu_calls import Locate, Site
from ethos_hil.lowering.upstream.export import lowered_parts, operator_calls
from ethos_hil.lowering.upstream.names.operators import unwrap

if TYPE_CHECKING:
    import torch

_LINE = re.compile(r".+:\d+$")
_MOST_LISTED = 40


def checks(leave: Sequence[str], locate: Locate, misplaced: Collection[str]) -> list[Any]:
    """Return further checks for upstream's partitioners, which refuse what is left to the CPU.

    Args:
        leave: entries as above.
        locate: names the line and module of a node.
        misplaced: names of nodes that cannot be delegated either, see `keep_reasons` of
            `ethos_hil.lowering.upstream.cpu_calls`.
    """
    from torch.fx.passes.operator_support import OperatorSupportBase

    class NotLeft(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            return not self._is_left(node)

        def _is_left(self, node: torch.fx.Node) -> bool:
            name = _name(node)
            if not _is_computation(name):
                return False
            if node.name in misplaced or any(_names(entry, name, locate(node)) for entry in leave):
                return True
            # A convolution that is quantised together with the activation behind it has no quantised output of its
            # own. Upstream's partitioner takes it, and then fails to lower it (executorch 1.4.1).
            return any(_is_quantised(user) and self._is_left(user) for user in node.users)

    class NotIntegerSum(OperatorSupportBase):
        """Upstream (executorch 1.4.1, DecomposeCumsumPass) makes a running sum a convolution, whatever its type."""

        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            return _name(node) != "aten.cumsum.default" or _value(node.args[0]).dtype.is_floating_point

    class PicksOthers(OperatorSupportBase):
        """Resizes to the nearest element for which upstream picks other elements than PyTorch.

        PyTorch picks element floor(o * in / out) for output o. Upstream (executorch 1.4.1, backends/arm/_passes/
        rewrite_upsample.py) has TOSA's RESIZE pick the one nearest to the half-pixel centre, which is the same only for
        whole factors.
        """

        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            if _name(node) != "aten.upsample_nearest2d.vec":
                return True
            before, after = _value(node.args[0]).shape, _value(node).shape
            factors: Any = node.args[2] if len(node.args) > 2 else None
            return all(
                picks_alike(int(before[axis]), int(after[axis]), factors[axis - 2] if factors else None)
                for axis in (2, 3)
            )

    return [NotLeft(), NotIntegerSum(), PicksOthers()]


@dataclass(frozen=True)
class Leavable:
    """What a method has that can be left to the CPU."""

    operators: frozenset[str]
    lines: frozenset[str]
    modules: frozenset[str]

    @classmethod
    def of(cls, program: torch.export.ExportedProgram, locate: Locate) -> Leavable:
        """Return what a program with its delegates has, inside of them and outside."""
        everywhere = operator_calls(program.graph_module, *lowered_parts(program))
        nodes = [node for node in everywhere if _is_computation(_name(node))]
        sites = list(map(locate, nodes))
        return cls(
            frozenset((*map(_name, nodes), *(site.origin for site in sites if site.origin))),
            frozenset(site.line for site in sites if site.line),
            frozenset(module for site in sites for module in _outer(site.module)),
        )

    def has(self, entry: str) -> bool:
        """Whether an entry names something of it."""
        if _LINE.match(entry):
            return any(_is_line(entry, line) for line in self.lines)
        return entry in self.modules or any(_is_operator(entry, operator) for operator in self.operators)


def require_known(leave: Sequence[str], known: Mapping[str, Leavable], what: str) -> None:
    """Check that every entry names something: what is misspelt would be delegated.

    Args:
        leave: the entries.
        known: of each method, what it has.
        what: who asks for it, for the message.

    Raises:
        UsageError: an entry names nothing in any method. The message lists what there is.
    """
    for entry in leave:
        if any(choice.has(entry) for choice in known.values()):
            continue
        kind = "line" if _LINE.match(entry) else "operator" if entry.startswith("aten.") else "operator or module"
        operators, lines, modules = (
            sorted({name for choice in known.values() for name in getattr(choice, field)})
            for field in ("operators", "lines", "modules")
        )
        offered = lines if kind == "line" else operators if kind == "operator" else [*operators, *modules]
        suggestion = did_you_mean(entry, offered)
        raise UsageError(
            f"{what} leaves {entry!r} to the CPU, and has no such {kind}",
            hint=f"{suggestion}it has: {list_of(offered, _MOST_LISTED) or 'none'}",
        )


def _names(entry: str, operator: str, site: Site) -> bool:
    """Whether an entry names a node, by its operator, by the one that it is a part of, by its line or module."""
    operators = any(_is_operator(entry, name) for name in (operator, site.origin))
    return operators or _is_line(entry, site.line) or entry in _outer(site.module)


def _is_operator(entry: str, operator: str) -> bool:
    return operator == entry or operator.startswith(f"{entry}.")


def _is_line(entry: str, line: str) -> bool:
    return bool(line) and (line == entry or entry.endswith(f"/{line}"))


def _outer(module: str) -> Iterator[str]:
    """The path of a module, and those of the modules that it is in."""
    parts = module.split(".") if module else []
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _name(node: torch.fx.Node) -> str:
    """Aten's name of the operator that a node calls ("aten.sigmoid.default"), or "" if it calls none."""
    return str(unwrap(node.target)) if node.op == "call_function" else ""


def _value(node: Any) -> torch.Tensor:
    """The shape and type of what a node gives."""
    return node.meta["val"]


def _is_quantised(node: torch.fx.Node) -> bool:
    """Whether the result of a node is quantised."""
    return any(_name(user).startswith("quantized_decomposed.quantize") for user in node.users)


def _is_computation(name: str) -> bool:
    return name.count(".") == 2 and not name.startswith("quantized_decomposed.")


def picks_alike(size: int, produced: int, factor: float | None = None) -> bool:
    """Return whether upstream picks PyTorch's elements along one axis.

    Args:
        size: elements of the input.
        produced: elements of the output.
        factor: the scale factor, if the model gives one.
    """
    at = np.arange(produced, dtype=np.int64)
    step = np.float32(1.0 / factor) if factor else np.float32(size) / np.float32(produced)
    pytorchs = np.minimum(np.floor(at.astype(np.float32) * step).astype(np.int64), size - 1)
    # Upstream's scale is 2 made / 2 size, its offset size - made; RESIZE rounds half up, and stays inside.
    position = 2 * size * at + size - produced
    tosas = np.clip((position + produced) // (2 * produced), 0, size - 1)
    return bool((pytorchs == tosas).all())
