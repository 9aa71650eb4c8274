"""The check of a case's declaration (where it is computed) against the compiled program and the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ethos_hil.base.judge import Evidence
from ethos_hil.base.record import Decision
from ethos_hil.base.verdict import Verdict
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.suites.declare.case import Case, Defect, Operator

BORDER = ("quantized_decomposed::quantize_per_tensor.out", "quantized_decomposed::dequantize_per_tensor.out")
"""Kernels between the float inputs and outputs of a program and its delegates."""
_QUANTISING = tuple(
    f"quantized_decomposed.{kind}_per_{what}.default"
    for kind in ("quantize", "dequantize")
    for what in ("tensor", "channel")
)
"""Edge operators that say where in a delegate something is quantised, and how."""


_EDGE = {
    **dict.fromkeys(("conv1d.default", "conv2d.default", "conv3d.default"), "convolution.default"),
    **dict.fromkeys(("conv_transpose1d.default", "conv_transpose2d.input"), "convolution.default"),
    "max_pool2d.default": "max_pool2d_with_indices.default",
}
"""Names of the edge operators that are the only ones that an operator of a model becomes; see `_edge_name`."""


def _edge_name(name: str) -> str:
    """Return what an operator is called in the edge dialect, where it becomes one operator: of "conv2d.default", as in
    the table of a run, "convolution.default", and of "permute.default" "permute_copy.default".
    """
    operator, dot, overload = name.partition(".")
    return _EDGE.get(name, f"{operator}_copy{dot}{overload}")


@dataclass(frozen=True)
class Expectation:
    """A case of an operator in a profile, as declared."""

    operator: Operator
    case: Case
    profile: str

    def problem(self, artifact: Artifact) -> str | None:
        """Return what is wrong with the device that the case was compiled for (NPU or CPU), or None."""
        from ethos_hil.lowering.formats.tosa import TosaGraph

        graphs = [TosaGraph.parse(delegate.tosa) for delegate in artifact.delegates if delegate.tosa is not None]
        found = list(dict.fromkeys(operator.op for graph in graphs for operator in graph.operators))
        aten = [name.removeprefix("aten.") for name in artifact.delegated if name not in _QUANTISING]
        reason = self._declared("on_cpu")
        if reason is not None:
            beside: tuple[str, ...] = self._declared("beside") or ()
            if sorted(aten) == sorted(beside):
                return None
            taken = f"{', '.join(aten) or 'nothing'}, and `beside` declares {', '.join(beside) or 'nothing'}"
            return f"declared to be left to the CPU ({reason}), but delegated: {taken}"
        if not found:
            left = ", ".join(artifact.cpu_ops) or "nothing"
            return f"nothing was delegated; on the CPU: {left} (if that is right, say why in `on_cpu`)"
        wanted = self.operator
        absent = [name for name in wanted.tosa_in(self.profile) if name not in found]
        if absent:
            return f"the delegate has no {', '.join(absent)}, it has {', '.join(found)}"
        absent = [name for name in wanted.aten_in(self.profile) if not {name, _edge_name(name)} & {*aten}]
        if absent:
            text = f"the delegate has no {', '.join(absent)}, it has {', '.join(aten)}"
            return f"{text} (`aten` takes these names; the table of a run has those before operators were decomposed)"
        return self._left(artifact)

    def _left(self, artifact: Artifact) -> str | None:
        declared: Mapping[str, str] = self._declared("leaves") or {}
        left = [kernel for kernel in dict.fromkeys(artifact.cpu_ops) if kernel not in BORDER]
        surplus = [kernel for kernel in left if kernel not in declared]
        if surplus:
            return f"left to the CPU, and not declared to be: {', '.join(surplus)}"
        idle = [kernel for kernel in declared if kernel not in left]
        return f"declared to be left to the CPU, and is not: {', '.join(idle)}" if idle else None

    @property
    def defect(self) -> Defect | None:
        """The upstream defect that makes it fail, or None."""
        found: Defect | None = self._declared("defects")
        return found

    def declare(self, evidence: Evidence) -> Evidence:
        """Return the evidence, with the declaration's objections to a verified answer."""
        defect = self.defect
        return dataclasses.replace(
            evidence,
            kernels_declared_missing=self._declared("lacks"),
            defect="" if defect is None else f"{defect.what} ({defect.link})",
        )

    def known(self, decision: Decision) -> bool:
        """Return whether a test that ends so fails as declared."""
        failure, defect = decision.failure, self.defect
        declared = failure is not None and defect is not None and defect.tells(failure)
        return decision.verdict == Verdict.FAILED and declared

    def _declared(self, name: str) -> Any:
        own, of_all = getattr(self.case, name), getattr(self.operator, name)
        return own.get(self.profile, of_all.get(self.profile))
