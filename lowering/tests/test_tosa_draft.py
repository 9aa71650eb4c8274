"""A rewritten TOSA program is a valid one, and all that was not touched is what it was."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.formats.tosa_draft import TosaDraft
from ethos_hil.lowering.repairs.rewrites import add_clamp
from ethos_hil.lowering.testing.programs.pieces import layer
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import reference


@pytest.fixture
def program() -> bytes:
    graph, rng = Graph(), np.random.default_rng(0)
    first = layer(graph, rng, graph.input((1, 5, 6, 4)), 7, 3)
    second = graph.table(graph.transpose(first, (0, 3, 1, 2)), rng.integers(-128, 128, 256))
    return graph.output(first, second).serialize()


def inputs() -> list[np.ndarray]:
    return [np.random.default_rng(1).integers(-128, 128, (1, 5, 6, 4)).astype(np.int8)]


def test_a_program_that_is_not_changed_keeps_its_bytes(program: bytes) -> None:
    draft = TosaDraft(program)
    assert draft.blocks[0].operators
    assert draft.finish() is program


def test_new_operators_do_what_they_say(program: bytes) -> None:
    draft = TosaDraft(program)
    block = draft.blocks[0]
    last = block.operators[-1]
    name = block.outputs[1]
    shape = block.tensors[name].shape
    turned = block.transpose(last, last.inputs[0], (0, 2, 3, 1))
    back = block.transpose(last, turned, (0, 3, 1, 2))
    flat = block.reshape(last, back, (shape[0] * shape[1], *shape[2:]))
    part = block.slice(last, flat, (0, 0, 0), (shape[0] * shape[1], *shape[2:]))
    last.inputs[0] = block.reshape(last, part, shape)
    entries = block.constant(last.inputs[1])
    assert entries is not None
    last.inputs[1] = block.const(last, entries, "INT8")
    writer = block.producer(last.inputs[0])
    assert writer is not None
    add_clamp(block, writer, last.inputs[0])
    rewritten = draft.finish()
    assert rewritten != program
    assert reference(rewritten, inputs()) == reference(program, inputs())
    before, after = TosaGraph.parse(program), TosaGraph.parse(rewritten)
    assert (after.inputs, after.outputs) == (before.inputs, before.outputs)
    assert {operator.op for operator in after.operators} >= {"TRANSPOSE", "SLICE", "RESHAPE", "CLAMP"}
    # A second rewriting of the first: new tables in front of new tables.
    again = TosaDraft(rewritten)
    block = again.blocks[0]
    last = block.operators[-1]
    last.inputs[0] = block.reshape(last, last.inputs[0], shape)
    assert reference(again.finish(), inputs()) == reference(program, inputs())


def test_regions_of_branches_stay(program: bytes) -> None:
    graph = Graph()
    source = graph.input((1, 4, 6, 2))

    def same(value: Value) -> Value:
        return value

    def turned(value: Value) -> Value:
        return graph.clamp(value, -5, 5)

    branches = graph.cond_if(graph.input((1,), "bool"), turned, same, [graph.clamp(source, -100, 100)])
    tosa = graph.output(branches).serialize()
    draft = TosaDraft(tosa)
    assert len(draft.blocks) == 3
    block = draft.blocks[0]
    first = next(operator for operator in block.operators if operator.op == "CLAMP")
    first.inputs[0] = block.reshape(first, block.reshape(first, first.inputs[0], (4, 12)), (1, 4, 6, 2))
    rewritten = draft.finish()
    assert list(TosaGraph.regions(rewritten)) == list(TosaGraph.regions(tosa))
    data = np.random.default_rng(2).integers(-128, 128, (1, 4, 6, 2)).astype(np.int8)
    for choice in (True, False):
        inputs = [data, np.array([choice])]
        assert reference(rewritten, inputs) == reference(tosa, inputs)


def test_names_are_new(program: bytes) -> None:
    block = TosaDraft(program).blocks[0]
    names = {block.tensor("t1", (1,), "INT8") for _ in range(5)}
    assert len(names) == 5
    assert names <= set(block.tensors)
