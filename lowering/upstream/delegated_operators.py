"""The operators that the delegates of a program compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.lowering.upstream.names.operators import is_operator, unwrapped

if TYPE_CHECKING:
    import torch


def delegated(program: torch.export.ExportedProgram) -> tuple[str, ...]:
    """The operators inside the delegates of a lowered program, as the backend received them.

    Returns:
        Aten's names of ExecuTorch's edge operators ("aten.view_copy.default"), each once, sorted. Upstream's lists of
        supported operators use the same names. Branches and bodies of control flow are included.
    """
    import torch
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    lowered = (each for each in program.graph_module.modules() if isinstance(each, LoweredBackendModule))
    graphs = (graph for module in lowered for graph in module.original_module.graph_module.modules())
    nodes = (node for graph in graphs if isinstance(graph, torch.fx.GraphModule) for node in graph.graph.nodes)
    targets = {unwrapped(node.target) for node in nodes}
    return tuple(sorted(str(target) for target in targets if is_operator(target)))
