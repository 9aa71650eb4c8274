"""Models that the user has quantised: the results of PT2E's convert_pt2e, as a module or as an exported program."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_NAMESPACE = "quantized_decomposed"
"""Namespace of the operators that convert_pt2e puts around each operator (torchao 0.14, quantization/pt2e)."""
_REGISTERS = "torchao.quantization.pt2e.quantize_pt2e"


def is_quantised(module: torch.nn.Module) -> bool:
    """Return whether a module is a graph with PT2E's operators in it."""
    import torch

    return isinstance(module, torch.fx.GraphModule) and any(
        getattr(node.target, "namespace", None) == _NAMESPACE for node in module.graph.nodes
    )


def register_operators() -> None:
    """Register PT2E's operators with torch, which cannot load a quantised .pt2 without them."""
    importlib.import_module(_REGISTERS)
