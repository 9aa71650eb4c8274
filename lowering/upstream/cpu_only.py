"""Operators that a method's author leaves to the CPU, though the NPU could take them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.errors import UsageError
from ethos_hil.lowering.upstream.delegated_operators import delegated
from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.names.operators import unwrapped

if TYPE_CHECKING:
    import torch


def checks(leave: Sequence[str]) -> list[Any]:
    """What upstream's partitioners are to ask besides, so that they take none of these operators."""
    from torch.fx.passes.operator_support import OperatorSupportBase

    class NotLeft(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            return _name(node) not in leave

    return [NotLeft()] if leave else []


def insist(leave: Sequence[str], method: str, program: torch.export.ExportedProgram) -> None:
    """Says so when a method has no operator of a name: a misspelt one would be delegated.

    Raises:
        UsageError: with the operators there are.
    """
    there = {_name(node) for part in graphs(program.graph_module) for node in part.graph.nodes}
    for name in leave:
        if name not in there:
            known = sorted({*delegated(program), *filter(_is_computation, there)})
            close = difflib.get_close_matches(name, known, n=1)
            suggestion = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"{method} leaves {name!r} to the CPU, and has no such operator",
                hint=f"{suggestion}it has: {_listed(known)}",
            )


def _name(node: torch.fx.Node) -> str:
    """Aten's name of an edge operator ("aten.sigmoid.default"); "" for what is none."""
    return str(unwrapped(node.target)) if node.op == "call_function" else ""


def _is_computation(name: str) -> bool:
    return name.count(".") == 2 and not name.startswith("quantized_decomposed.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
