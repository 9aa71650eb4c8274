"""Which operators of a program its delegates took over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.lowering.upstream.names.operators import is_operator, unwrapped

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
    targets = {unwrapped(node.target) for node in nodes}
    return tuple(sorted(str(target) for target in targets if is_operator(target)))
