"""Why a backend refuses an operator, in the words of upstream's own checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.names.operators import unwrapped
from ethos_hil.lowering.upstream.plain_reasons import without_schemas
from ethos_hil.lowering.user_code.source import Sources

if TYPE_CHECKING:
    import torch


def refusal(program: torch.export.ExportedProgram, partitioner: Any, sources: Sources) -> str | None:
    """The first operator of a program that `partitioner` would leave to the CPU, and why; None if there is none.

    A backend that is given such an operator fails in one of its passes, with a message about what the pass made of it.
    The checks that a partitioner makes before it picks an operator name the operator itself.

    Args:
        program: an edge program that has no delegates yet.
        partitioner: upstream's, for TOSA or an Ethos-U.
        sources: names the operator's line.
    """
    from executorch.backends.arm.operator_support.tosa_supported_operators import tosa_support_factory
    from executorch.exir.backend.utils import WhyNoPartitionReporter

    reasons: dict[Any, str] = {}

    class RefusalReporter(WhyNoPartitionReporter):
        def report_reject(self, node: torch.fx.Node, reason: str) -> None:
            reasons.setdefault(node, reason)

    support = tosa_support_factory(partitioner.tosa_spec, program, RefusalReporter(), partitioner.additional_checks)
    for part in graphs(program.graph_module):
        modules = dict(part.named_modules())
        for node in part.graph.nodes:
            if node.op == "call_function" and not support.is_node_supported(modules, node) and node in reasons:
                operator = unwrapped(node.target)
                line = sources.locate(node.meta.get("stack_trace"))
                reason = without_schemas(reasons[node])
                return f"{operator}{f' ({line})' if line else ''}: {reason}"
    return None
