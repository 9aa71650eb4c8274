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
    """Return further checks for upstream's partitioners, which refuse these operators.

    Args:
        leave: aten's names, such as "aten.sigmoid.default".
    """
    from torch.fx.passes.operator_support import OperatorSupportBase

    class NotLeft(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            return _name(node) not in leave

    return [NotLeft()] if leave else []


def require_operators(leave: Sequence[str], method: str, program: torch.export.ExportedProgram) -> None:
    """Check that a method has every operator that it leaves to the CPU: a misspelt one would be delegated.

    Args:
        leave: aten's names.
        method: the method's name, for the message.
        program: the method's program with its delegates.

    Raises:
        UsageError: an operator is not in the program. The message lists those that are.
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
    """Aten's name of the operator that a node calls ("aten.sigmoid.default"), or "" if it calls none."""
    return str(unwrapped(node.target)) if node.op == "call_function" else ""


def _is_computation(name: str) -> bool:
    return name.count(".") == 2 and not name.startswith("quantized_decomposed.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
