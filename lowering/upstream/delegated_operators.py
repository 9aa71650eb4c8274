"""Which operators of a program its delegates took over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def delegated(program: torch.export.ExportedProgram) -> tuple[str, ...]:
    """The operators inside the delegates of a lowered program, as the backend was given them.

    Returns:
        ExecuTorch's edge operators by aten's names ("aten.view_copy.default"), each once, sorted: what upstream's lists
        of supported operators are about. Branches and bodies of control flow are included.
    """
    import torch
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    lowered = (each for each in program.graph_module.modules() if isinstance(each, LoweredBackendModule))
    graphs = (graph for module in lowered for graph in module.original_module.graph_module.modules())
    nodes = (node for graph in graphs if isinstance(graph, torch.fx.GraphModule) for node in graph.graph.nodes)
    targets = {getattr(node.target, "_op", node.target) for node in nodes}  # an edge operator wraps aten's
    return tuple(sorted(str(target) for target in targets if isinstance(target, torch._ops.OperatorBase)))
