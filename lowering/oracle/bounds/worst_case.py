"""How far the program's answer to the example inputs can be from PyTorch's, in the worst case of all roundings.

It is computed once, while the model is lowered, and kept in the artifact, so that a run is held against PyTorch without
computing it again. After a few layers the worst case is so large that it says nothing; it is never too small.
"""

from __future__ import annotations

import math

import numpy as np

from ethos_hil.base.errors import raise_if_interrupted
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.oracle.bounds.approximated import approximation_error
from ethos_hil.lowering.oracle.bounds.program import bounded
from ethos_hil.lowering.oracle.bounds.value import RoundingPolicy

MOST_ELEMENTS = 1 << 24
"""Elements of all tensors of a method beyond which no bound is computed: it would take long, and much memory.
EfficientNet-Lite0 has twice as many; its bound takes 3 s, and is larger than its outputs."""


def worst_case(artifact: Artifact) -> tuple[np.ndarray, ...]:
    """Return the largest distance of each element of each output from PyTorch's, or nothing where it is not known.

    Args:
        artifact: seen from one of its methods, which was lowered here.

    Returns:
        float32 arrays, rounded up; inf where nothing is known.
    """
    expected = artifact.pytorch
    if _elements(artifact) > MOST_ELEMENTS:
        return ()
    double = any(array.dtype == np.float64 for array in expected)
    try:
        extra = approximation_error(artifact)
        found = bounded(artifact, artifact.example_inputs, RoundingPolicy(1 if artifact.quantised or double else 2))
    except Exception as error:  # most models have an operator without a rule, or a branch
        raise_if_interrupted(error)
        return ()
    if [one.value.shape for one in found] != [array.shape for array in expected]:
        return ()
    errors = ((one.error + extra).astype(np.float32) for one in found)
    return tuple(np.where(error > 0, np.nextafter(error, np.float32(np.inf)), error) for error in errors)


def _elements(artifact: Artifact) -> int:
    plan = sum(math.prod(value.sizes) for value in artifact.plan.values if isinstance(value, Tensor))
    graphs = [TosaGraph.parse(delegate.tosa) for delegate in artifact.delegates if delegate.tosa is not None]
    return plan + sum(math.prod(tensor.shape) for graph in graphs for tensor in graph.tensors.values())
