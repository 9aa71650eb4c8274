"""Tensors without elements, which TOSA does not have: Vela and tosa_reference_model end their process on some."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from ethos_hil.base.errors import CompileError
from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.names.operators import unwrapped

if TYPE_CHECKING:
    import torch

_CONVERSIONS = "quantize_per"
"""Part of the names of the operators that convert between floats and integers."""
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
                shape = empty_shape(node)
                if shape is not None:
                    raise _refusal(node, shape, locate)


def lowered_parts(program: torch.export.ExportedProgram) -> list[torch.fx.GraphModule]:
    """The graphs of a program that were handed to a backend."""
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    return [
        each.original_module.graph_module
        for each in program.graph_module.modules()
        if isinstance(each, LoweredBackendModule)
    ]


def empty_shape(node: torch.fx.Node) -> tuple[int, ...] | None:
    """The shape of the tensor that a node gives if it has no elements, else None.

    A node with several tensors has none: those that are used have a node of their own behind it. A batch norm gives two
    statistics of shape [0] that nothing uses.
    """
    shape = getattr(node.meta.get("val"), "shape", None)
    return tuple(shape) if shape is not None and 0 in shape else None


def _refusal(node: torch.fx.Node, shape: tuple[int, ...], locate: Locate) -> CompileError:
    node = node.all_input_nodes[0] if node.target is operator.getitem else node
    reader = _computing(node)
    what = "an input" if reader is not node else "the result"
    lines = (locate(each) for each in (reader, *reader.all_input_nodes, *reader.users))
    line = next(filter(None, lines), None)
    place = f" at {line}" if line else ""
    return CompileError(
        f"{what} of {unwrapped(reader.target)}{place} has no elements: its shape is [{', '.join(map(str, shape))}], "
        "and TOSA has no dimension of 0",
        hint="give it at least one element, or leave the operation to the CPU (Method.leave)",
    )


def _computing(node: torch.fx.Node) -> torch.fx.Node:
    """The node, or the first behind it that computes: inputs and conversions have no operation of the model."""
    while (node.op == "placeholder" or _CONVERSIONS in str(node.target)) and node.users:
        node = next(iter(node.users))
    return node
