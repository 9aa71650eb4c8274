"""Tensors without elements, which TOSA does not have: Vela and tosa_reference_model end their process on some."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.errors import CompileError
from ethos_hil.lowering.upstream.export import graphs

if TYPE_CHECKING:
    import torch

Locate = Callable[["torch.fx.Node"], str | None]
"""Gives the user's line that a node comes from."""


def refuse_empty(module: torch.fx.GraphModule, locate: Locate) -> None:
    """Check that no tensor of a partition's graph has a dimension of 0.

    Args:
        module: the graph.
        locate: names the user's lines.

    Raises:
        CompileError: one has. The message names the operation and the line.
    """
    for part in graphs(module):
        for node in part.graph.nodes:
            if node.op in ("placeholder", "call_function"):
                for value in _values(node.meta.get("val")):
                    if 0 in value.shape:
                        raise _refusal(node, value, locate)


def lowered_parts(program: torch.export.ExportedProgram) -> list[torch.fx.GraphModule]:
    """The graphs of a program that were handed to a backend."""
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    return [
        each.original_module.graph_module
        for each in program.graph_module.modules()
        if isinstance(each, LoweredBackendModule)
    ]


def _values(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [each for inner in value for each in _values(inner)]
    return [value] if hasattr(value, "shape") else []


def _refusal(node: torch.fx.Node, value: Any, locate: Locate) -> CompileError:
    # What reads an input tells more than the input: its operation has a line.
    shown = next(iter(node.users), node) if node.op == "placeholder" else node
    what = f"input {node.name} of" if shown is not node else "the result of"
    lines = (locate(each) for each in (shown, *shown.all_input_nodes, *shown.users))
    line = next(filter(None, lines), None)
    place = f" at {line}" if line else ""
    shape = ", ".join(map(str, value.shape))
    name = str(getattr(shown.target, "_op", shown.target))
    return CompileError(
        f"{what} {name}{place} has no elements: its shape is [{shape}], and TOSA has no dimension of 0",
        hint="give it at least one element, or leave the operation to the CPU (Method.leave)",
    )
