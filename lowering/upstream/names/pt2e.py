"""Models that the user has quantised: the results of PT2E's convert_pt2e, as a module or as an exported program."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

PT2E_OPERATORS = "quantized_decomposed"
"""Namespace of the operators that convert_pt2e puts around each operator (torchao 0.14, quantization/pt2e)."""
_REGISTERS = "torchao.quantization.pt2e.quantize_pt2e"


def is_quantised(module: torch.nn.Module) -> bool:
    """Return whether a module is a graph with PT2E's operators in it."""
    import torch

    return isinstance(module, torch.fx.GraphModule) and any(map(is_conversion, module.graph.nodes))


def is_conversion(node: torch.fx.Node) -> bool:
    """Return whether a node of a graph is one of PT2E's conversions between numbers and integers."""
    return getattr(node.target, "namespace", None) == PT2E_OPERATORS


def register_operators() -> None:
    """Register PT2E's operators with torch, which cannot load a quantised .pt2 without them."""
    importlib.import_module(_REGISTERS)
