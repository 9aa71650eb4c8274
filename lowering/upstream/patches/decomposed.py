"""Programs that torch traces anew though nothing of them is to be decomposed.

ExecuTorch 1.4.1 (exir/program/_program.py, `_gen_edge_manager_for_partitioners`) decomposes a program three times: by
an empty table, by a table without the operators that the backend wants, and by a table of all. torch 2.13 traces the
whole program each time (torch/export/exported_program.py, `run_decompositions`). If the program is a result of such a
trace, and the table has none of its operators, what comes out is what went in, and the program itself is returned.
That is so for a program of one graph, without state that changes, symbolic sizes and constants in the graph: of any
other it is left to torch.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_traced: weakref.WeakKeyDictionary[Any, list[tuple[Any, ...]]] = weakref.WeakKeyDictionary()
"""The nodes of each program that was traced, with their arguments, as they were then."""


def decomposed_once(by_torch: Callable[..., Any]) -> Callable[..., Any]:
    """torch's method `run_decompositions`, which traces a program only where that can change it."""

    def run_decompositions(
        self: torch.export.ExportedProgram, decomp_table: Collection[Any] | None = None, *rest: Any, **named: Any
    ) -> torch.export.ExportedProgram:
        if decomp_table is not None and not rest and not named and _unchanged(self):
            targets = {node.target for node in self.graph.nodes if node.op == "call_function"}
            if not any(target in decomp_table for target in targets):
                _note_trace(self)
                return self
        result: torch.export.ExportedProgram = by_torch(self, decomp_table, *rest, **named)
        if _plain(result):
            _traced[result] = _state(result)
        return result

    return run_decompositions


def _note_trace(program: torch.export.ExportedProgram) -> None:
    """Write into each node where it comes from, as a trace does: TOSA's locations quote it."""
    from torch.fx.traceback import NodeSource, NodeSourceAction

    for node in program.graph.nodes:
        if node.op == "call_function":
            for stage in ("ExportedProgram.module()", "Interpreter_PropagateUnbackedSymInts"):
                node.meta["from_node"] = [NodeSource(node, stage, NodeSourceAction.CREATE)]


def _state(program: torch.export.ExportedProgram) -> list[tuple[Any, ...]]:
    return [(node, node.op, node.args, node.kwargs) for node in program.graph.nodes]


def _unchanged(program: torch.export.ExportedProgram) -> bool:
    """Return whether a program is a trace's result, but for the operators of its nodes."""
    return _plain(program) and _traced.get(program) == _state(program)


def _plain(program: torch.export.ExportedProgram) -> bool:
    """Return whether tracing a program can do no more than decompose its operators."""
    import torch

    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate or program.range_constraints:
        return False
    for node in program.graph.nodes:
        if node.op not in ("placeholder", "call_function", "output"):
            return False
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
            return False
    return True
