"""A lowered program, evaluated with bounds: its delegates, and the few operators left to the CPU around them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ethos_hil.base.errors import raise_if_interrupted
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import DelegateCall, FreeCall, KernelCall, MoveCall, Tensor
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.oracle.bounds import graph, kernels
from ethos_hil.lowering.oracle.bounds.kernels import PlanMemory, rearrange
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy
from ethos_hil.lowering.oracle.reference import check_inputs


def bound_outputs(artifact: Artifact, inputs: Sequence[np.ndarray], rounding: RoundingPolicy) -> tuple[Bounded, ...]:
    """Return the program's outputs, in their logical shapes.

    The arguments and errors are those of `bound_in_turn`, for one execution.
    """
    (outputs,) = bound_in_turn(artifact, [inputs], rounding)
    return outputs


def bound_in_turn(
    artifact: Artifact, input_sets: Sequence[Sequence[np.ndarray]], rounding: RoundingPolicy
) -> tuple[tuple[Bounded, ...], ...]:
    """Return the program's outputs of several executions, one after the other, which matters if it keeps state.

    Args:
        artifact: with the TOSA programs of its delegates.
        input_sets: the input set of each execution.
        rounding: how its operators round; `sides` is 1 where PyTorch's answer was computed in float64.

    Raises:
        NoBound: the error of the answer to these inputs cannot be bounded.
        UsageError: inputs of another count, shape or type than the program's.
    """
    memory = PlanMemory(artifact.plan, rounding)
    return tuple(_execution(artifact, inputs, memory) for inputs in input_sets)


def _execution(artifact: Artifact, inputs: Sequence[np.ndarray], memory: PlanMemory) -> tuple[Bounded, ...]:
    plan = artifact.plan
    memory.restart()
    tensors = [index for index in plan.inputs if isinstance(plan.values[index], Tensor)]
    for index, array in zip(tensors, check_inputs([plan.tensor(index) for index in tensors], inputs), strict=True):
        # An 8-bit input is a quantised one; wider integers are indices and the like, which PyTorch does not round.
        memory.set(index, Bounded.exact(array, scaled=array.dtype.kind == "f" or array.dtype.itemsize < 4))
    for at, instruction in enumerate(plan.instructions):
        if isinstance(instruction, KernelCall):
            kernels.run(instruction, memory, quantised=artifact.scheme is not None)
        elif isinstance(instruction, DelegateCall):
            _delegate(artifact.delegate_at(at).tosa, instruction, memory)
        elif isinstance(instruction, MoveCall):
            memory.move(instruction.source, instruction.target)
        elif not isinstance(instruction, FreeCall):
            raise NoBound("a program that branches on the CPU has no error bound")
    return tuple(memory.get(index) for index in plan.outputs)


def _delegate(tosa: bytes | None, call: DelegateCall, memory: PlanMemory) -> None:
    if tosa is None:
        raise NoBound("a delegate that was not lowered here has no TOSA program, so no error bound")
    count = len(graph.TosaGraph.parse(tosa).inputs)

    def in_memory(index: int) -> Bounded:
        order = memory.tensor(index).dim_order
        return rearrange(memory.get(index), lambda array: array.transpose(order))

    results = graph.evaluate(tosa, [in_memory(index) for index in call.args[:count]], memory.rounding)
    for index, result in zip(call.args[count:], results, strict=True):
        memory.set(index, rearrange(result, memory.tensor(index).in_logical_shape))


# How far the program's answer to the example inputs can be from PyTorch's, in the worst case of all roundings.
#
# It is computed once, while the model is lowered, and kept in the artifact, so that a run is held against PyTorch
# without computing it again. After a few layers the worst case is so large that it says nothing; it is never too small.

MOST_ELEMENTS = 1 << 24
"""Elements of all tensors of a method beyond which no bound is computed: it would take long, and much memory.
EfficientNet-Lite0 has twice as many; its bound takes 3 s, and is larger than its outputs."""


def worst_case(artifact: Artifact, unrounded: Sequence[np.ndarray] = ()) -> tuple[np.ndarray, ...]:
    """Return the largest distance of each element of each output from PyTorch's, or nothing where it is not known.

    Args:
        artifact: seen from one of its methods, which was lowered here.
        unrounded: PyTorch's answers without the roundings that the program drops, if it drops any
            (`ethos_hil.lowering.upstream.dropped_roundings`). The program is near these; PyTorch's own are as far away
            from it as from them, in addition.

    Returns:
        float32 arrays, rounded up; inf where nothing is known.
    """
    expected = artifact.pytorch
    if _elements(artifact) > MOST_ELEMENTS:
        return ()
    double = any(array.dtype == np.float64 for array in expected)
    try:
        extra = approximation_error(artifact)
        bounds = bound_outputs(
            artifact, artifact.example_inputs, RoundingPolicy(1 if artifact.quantised or double else 2)
        )
    except Exception as error:  # most models have an operator without a rule, or a branch
        raise_if_interrupted(error)
        return ()
    if [bound.value.shape for bound in bounds] != [array.shape for array in expected]:
        return ()
    dropped = [abs(exact.astype(float) - own) for exact, own in zip(unrounded or expected, expected, strict=True)]
    errors = ((bound.error + extra + more).astype(np.float32) for bound, more in zip(bounds, dropped, strict=True))
    return tuple(np.where(error > 0, np.nextafter(error, np.float32(np.inf)), error) for error in errors)


def _elements(artifact: Artifact) -> int:
    plan = sum(math.prod(value.sizes) for value in artifact.plan.values if isinstance(value, Tensor))
    graphs = [TosaGraph.parse(delegate.tosa) for delegate in artifact.delegates if delegate.tosa is not None]
    return plan + sum(math.prod(tensor.shape) for graph in graphs for tensor in graph.tensors.values())


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
    names = [name for name in artifact.delegated if name in APPROXIMATED]
    if not names:
        return 0.0
    if len(artifact.delegated) > 1:
        raise NoBound(f"{names[0]} is approximated upstream, and what the rest makes of its error is not known")
    return APPROXIMATED[names[0]]
