"""The check that a compiled program has the outputs of the TOSA program it was compiled from."""

from __future__ import annotations

import math

from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.vela.compiler import VelaOutput

_BYTES = {"BOOL": 1, "INT8": 1, "INT16": 2, "INT32": 4, "INT48": 8}


def missing_outputs(output: VelaOutput) -> str | None:
    """Return what is wrong with the outputs of a compiled program, or None."""
    wanted, made = TosaGraph.parse(output.tosa).outputs, output.parsed.outputs
    if len(wanted) != len(made):
        return f"it has {len(made)} of the {len(wanted)} outputs"
    for number, (tensor, place) in enumerate(zip(wanted, made, strict=True)):
        size = math.prod(tensor.shape) * _BYTES.get(tensor.dtype, 1)
        if place.size != size:
            return f"its output {number} has {place.size} bytes instead of {size}"
    return None


def outputs_are_missing(output: VelaOutput) -> bool:
    """Return whether a compiled program has other outputs than its TOSA program."""
    return missing_outputs(output) is not None
