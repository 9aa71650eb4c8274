"""A lowered program, evaluated with bounds: its delegates, and the few operators left to the CPU around them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import DelegateCall, FreeCall, KernelCall, MoveCall, Tensor
from ethos_hil.lowering.oracle.bounds import graph, kernels
from ethos_hil.lowering.oracle.bounds.memory import PlanMemory, arranged, logical
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy
from ethos_hil.lowering.oracle.reference import check_inputs


def bounded(artifact: Artifact, inputs: Sequence[np.ndarray], rounding: RoundingPolicy) -> tuple[Bounded, ...]:
    """Return the program's outputs, in their logical shapes.

    The arguments and errors are those of `bounded_in_turn`, for one execution.
    """
    (outputs,) = bounded_in_turn(artifact, [inputs], rounding)
    return outputs


def bounded_in_turn(
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
        return arranged(memory.get(index), lambda array: array.transpose(order))

    results = graph.evaluate(tosa, [in_memory(index) for index in call.args[:count]], memory.rounding)
    for index, result in zip(call.args[count:], results, strict=True):
        memory.set(index, arranged(result, functools.partial(logical, tensor=memory.tensor(index))))
