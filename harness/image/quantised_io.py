"""The inputs and outputs of a program whose real numbers it states, for records and for the checks before a run."""

from __future__ import annotations

from ethos_hil.base.program_info import QuantisedIo
from ethos_hil.lowering.artifact import Artifact


def quantised_io(artifact: Artifact) -> tuple[QuantisedIo, ...]:
    """Return the integer inputs and outputs of the artifact's method that the program states scales of."""
    plan, (inputs, outputs) = artifact.plan, artifact.io_scales
    return tuple(
        QuantisedIo(f"{kind} {number}", str(plan.tensor(index)), scale.scale, scale.zero_point)
        for kind, indices, scales in (("input", plan.inputs, inputs), ("output", plan.outputs, outputs))
        for number, (index, scale) in enumerate(zip(indices, scales, strict=True))
        if scale is not None
    )
