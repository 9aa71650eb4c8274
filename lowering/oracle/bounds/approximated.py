"""Operators that upstream approximates by others in float programs. The approximation has an error of its own."""

from __future__ import annotations

from collections.abc import Mapping

from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.oracle.bounds.value import NoBound

APPROXIMATED: Mapping[str, float] = {
    "aten.acos.default": 1.3e-3,  # a rational function, worst at +-0.468
    "aten.asin.default": 1.3e-3,
    "aten.atan.default": 1.3e-4,  # a rational function, worst at +-1
    "aten.expm1.default": 4.7e-5,  # a Taylor polynomial of degree 4 for |x| <= 0.35, worst at 0.35
    "aten.celu.default": 6.3e-5,  # by expm1, worst at -0.35; in proportion to alpha, which may be 1.5
    "aten.elu.default": 6.3e-5,
    "aten.selu.default": 7.4e-5,  # 1.758 times what alpha = 1 makes of it
}
"""The largest distance from the exact function, by ExecuTorch's edge operator (executorch 1.4.1,
backends/arm/_passes/decompose_{asin_and_acos,atan,expm1}_pass.py). Measured, on a grid of 4,000 points, on programs
that were lowered and evaluated in float64."""


def approximation_error(artifact: Artifact) -> float:
    """Return the largest absolute distance between the lowered function and the one in the model.

    Raises:
        NoBound: the approximation is part of something larger, which may amplify its error.
    """
    if artifact.scheme is not None:
        return 0.0  # PyTorch's own function made the table
    found = [name for name in artifact.delegated if name in APPROXIMATED]
    if not found:
        return 0.0
    if len(artifact.delegated) > 1:
        raise NoBound(f"{found[0]} is approximated upstream, and what the rest makes of its error is not known")
    return APPROXIMATED[found[0]]
