"""Every tensor of a TOSA program: its value in the reference model, and the program of Vela that keeps it."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.oracle.reference import (
    Reference,
    computed_tensors,
    evaluate,
    tensor_values,
    with_outputs,
)
from ethos_hil.lowering.tests.conftest import Lowered


@pytest.mark.slow
def test_outputs_are_what_was_asked_for_and_nothing_else_changes(lowered: Lowered) -> None:
    tosa = lowered("known").delegates[0].tosa or b""
    graph = TosaGraph.parse(tosa)
    names = computed_tensors(graph)
    assert len(names) > 10
    again = TosaGraph.parse(with_outputs(tosa, names[::-1]))
    assert tuple(tensor.name for tensor in again.outputs) == names[::-1]
    assert (again.operators, again.inputs, again.tensors) == (graph.operators, graph.inputs, graph.tensors)


@pytest.mark.slow
def test_values_are_the_programs_own(lowered: Lowered) -> None:
    """Each tensor has its declared shape, the outputs are the reference's, and what moves values moves these."""
    artifact = lowered("known")
    tosa = artifact.delegates[0].tosa or b""
    graph = TosaGraph.parse(tosa)
    run = Reference(artifact).run(artifact.example_inputs)
    (inputs,) = run.delegate_inputs.values()
    (outputs,) = run.delegate_outputs.values()
    values = tensor_values(tosa, inputs, computed_tensors(graph))
    assert {name: array.shape for name, array in values.items()} == {name: graph.tensors[name].shape for name in values}
    for tensor, expected in zip(graph.outputs, outputs, strict=True):
        assert np.array_equal(values[tensor.name].ravel(), expected.ravel())
    moving = [
        operator
        for operator in graph.operators
        if operator.op in ("RESHAPE", "TRANSPOSE") and operator.inputs[0] in values
    ]
    assert moving
    for operator in moving:
        assert np.array_equal(
            np.sort(values[operator.inputs[0]], axis=None), np.sort(values[operator.outputs[0]], axis=None)
        )


@pytest.mark.slow
def test_the_reference_keeps_each_delegates_inputs(lowered: Lowered) -> None:
    """They are copied when the delegate is called, because later instructions reuse the memory."""
    artifact = lowered("two_partitions")
    run = Reference(artifact).run(artifact.example_inputs)
    assert list(run.delegate_inputs) == [delegate.instruction for delegate in artifact.delegates]
    for delegate in artifact.delegates:
        assert delegate.tosa is not None
        (output,) = evaluate(delegate.tosa, run.delegate_inputs[delegate.instruction], "a delegate")
        assert output.tobytes() == run.delegate_outputs[delegate.instruction][0].tobytes()
