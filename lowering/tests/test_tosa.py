"""TOSA programs: where an operator comes from, what a program computes, and what becomes of one that is rewritten."""

from __future__ import annotations

import random
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
from executorch.backends.arm.debug.schema import TorchDebugSchema
from executorch.backends.arm.tosa.specification import Tosa_1_00, TosaSpecification
from executorch.exir.debug_handle_utils import get_greatest_ancestor_node_identifier
from torch.fx import Graph as FxGraph
from torch.fx.traceback import NodeSource

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.formats.tosa import TosaGraph, _root, _Texts, content_digest
from ethos_hil.lowering.formats.tosa_draft import TosaDraft
from ethos_hil.lowering.formats.tosa_spec import TosaProfile, TosaSpec
from ethos_hil.lowering.repairs.rewrites import add_clamp
from ethos_hil.lowering.testing.programs.pieces import layer
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.testing.tosa_program import reference
from ethos_hil.lowering.tests.conftest import refusals


def source(name: str, graph: int, *origins: NodeSource) -> NodeSource:
    node = NodeSource(None)
    node.node_info = NodeSource.NodeInfo(name, f"aten.{name}", graph)
    node.from_node = list(origins)
    return node


def root(*sources: NodeSource) -> str:
    """The end of a trace in upstream's form."""
    ancestor = _root(TorchDebugSchema.serialize_node_trace(list(sources)))
    assert ancestor is not None
    return ancestor.identifier


@pytest.mark.parametrize("graphs", [(4, 3, 2, 1), (4, 3, 4, 1), (4, 4, 4, 4), (2, 1, 2, 1)])
def test_it_is_the_end_of_the_chain_though_ids_of_graphs_occur_twice(graphs: tuple[int, ...]) -> None:
    """An id is an address, which a later graph may have again."""
    first, *others = reversed(graphs)
    chain = source("add", first)
    for number, graph in enumerate(others):
        chain = source(f"add_{number}", graph, chain)
    assert root(chain) == f"add.{first}"


def test_of_several_sources_the_last_is_followed_as_debug_handles_do_and_of_none_there_is_none() -> None:
    a, b = source("a_1", 2, source("a", 1)), source("b_1", 2, source("c", 1), source("b", 1))
    node = FxGraph().placeholder("x")
    for sources in ([a, b], [b, a], [source("both", 3, a, b)], [source("both", 3, b, a)], [source("one", 3, b)]):
        node.meta["from_node"] = sources
        assert root(*sources) == get_greatest_ancestor_node_identifier(node)
    assert _root("No node trace available.") is _root([]) is None


# --- Damage. ---


def program() -> bytes:
    graph = Graph()
    first = graph.rescale(graph.input((1, 5, 6, 8)), 1.0, dtype="int32")
    return graph.output(graph.rescale(first, 0.5)).serialize()


def test_a_damaged_program_is_one_error_or_another_program() -> None:
    data, chance = program(), random.Random(5)
    messages = []
    for _ in range(2000):
        other = bytearray(data)
        at = chance.randrange(len(data) - 4) & ~3
        word = chance.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, chance.randrange(2**32)))
        other[at : at + 4] = word.to_bytes(4, "little")
        if chance.random() < 0.1:
            del other[at:]
        for read in (TosaGraph.parse, TosaGraph.regions):
            try:
                read(bytes(other))
            except UsageError as error:
                messages.append(error.message)
    assert len(messages) > 1000
    assert all(message.startswith("a TOSA program is damaged: ") for message in messages)


def test_texts_that_lie_in_one_another_take_no_memory() -> None:
    """A small program may name one long text many times."""
    text = _Texts(bytes(10))
    for _ in range(8):
        text(b"123456789")
    with pytest.raises(ValueError, match="texts are longer than it is"):
        text(b"1")


# --- The digest of what a TOSA program computes: blind to names, sharp for everything else.


def arithmetic(
    scale: float = 0.5, operator: str = "MUL", size: int = 4, shift: int = 0, *, swapped: bool = False
) -> bytes:
    graph = Graph()
    a, b = (graph.rescale(graph.input((1, size)), factor, dtype="int32") for factor in (1.0, 2.0))
    product = graph.binary(operator, *((b, a) if swapped else (a, b)))
    return graph.output(graph.table(graph.rescale(product, scale), np.arange(-128, 128) + shift)).serialize()


OTHERS: dict[str, dict[str, Any]] = {
    "an attribute or a constant": {"scale": 0.25},
    "one element of a constant": {"shift": -1},
    "an operator": {"operator": "ADD"},
    "a shape": {"size": 8},
    "an order of operands": {"swapped": True},
}


def test_the_digest_is_of_all_but_the_names() -> None:
    tosa = arithmetic()
    named = tosa.replace(b"main", b"mine")
    assert named != tosa
    assert content_digest(named) == content_digest(tosa)
    others = {what: content_digest(arithmetic(**options)) for what, options in OTHERS.items()}
    assert [what for what, digest in others.items() if digest == content_digest(tosa)] == []


# --- A rewritten TOSA program is a valid one, and all that was not touched is what it was.


@pytest.fixture
def two_outputs() -> bytes:
    graph, rng = Graph(), np.random.default_rng(0)
    first = layer(graph, rng, graph.input((1, 5, 6, 4)), 7, 3)
    second = graph.table(graph.transpose(first, (0, 3, 1, 2)), rng.integers(-128, 128, 256))
    return graph.output(first, second).serialize()


def inputs() -> list[np.ndarray]:
    return [np.random.default_rng(1).integers(-128, 128, (1, 5, 6, 4)).astype(np.int8)]


def test_new_operators_do_what_they_say(two_outputs: bytes) -> None:
    draft = TosaDraft(two_outputs)
    block = draft.blocks[0]
    assert draft.finish() is two_outputs, "a program that is not changed keeps its bytes"
    last = block.operators[-1]
    shape = block.tensors[block.outputs[1]].shape
    turned = block.transpose(last, last.inputs[0], (0, 2, 3, 1))
    back = block.transpose(last, turned, (0, 3, 1, 2))
    flat = block.reshape(last, back, (shape[0] * shape[1], *shape[2:]))
    part = block.slice(last, flat, (0, 0, 0), (shape[0] * shape[1], *shape[2:]))
    last.inputs[0] = block.reshape(last, part, shape)
    entries, writer = block.constant(last.inputs[1]), block.producer(last.inputs[0])
    assert entries is not None
    assert writer is not None
    last.inputs[1] = block.const(last, entries, "INT8")
    add_clamp(block, writer, last.inputs[0])
    rewritten = draft.finish()
    assert rewritten != two_outputs
    assert reference(rewritten, inputs()) == reference(two_outputs, inputs())
    before, after = TosaGraph.parse(two_outputs), TosaGraph.parse(rewritten)
    assert (after.inputs, after.outputs) == (before.inputs, before.outputs)
    assert {operator.op for operator in after.operators} >= {"TRANSPOSE", "SLICE", "RESHAPE", "CLAMP"}
    # A second rewriting of the first: new tables in front of new tables.
    again = TosaDraft(rewritten)
    block = again.blocks[0]
    last = block.operators[-1]
    last.inputs[0] = block.reshape(last, last.inputs[0], shape)
    assert reference(again.finish(), inputs()) == reference(two_outputs, inputs())


def test_regions_of_branches_stay() -> None:
    graph = Graph()
    clamped = [graph.clamp(graph.input((1, 4, 6, 2)), -100, 100)]
    branches = graph.cond_if(graph.input((1,), "bool"), lambda x: graph.clamp(x, -5, 5), lambda x: x, clamped)
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


def test_names_are_new(two_outputs: bytes) -> None:
    block = TosaDraft(two_outputs).blocks[0]
    names = {block.tensor("t1", (1,), "INT8") for _ in range(5)}
    assert len(names) == 5
    assert names <= set(block.tensors)


# --- The TOSA that a user may request: only what upstream lowers to and Vela reads; each error names a remedy.


def test_a_specification_is_read_and_written(recorded: Recorded) -> None:
    specs = list(map(TosaSpec.parse, ("TOSA-1.0+INT", " tosa-1.0+fp ", "TOSA-1.0+INT+int16+cf", "TOSA-1.0+FP+BF16")))
    recorded.check("\n".join(map(repr, specs)))
    assert [TosaSpec.parse(str(spec)) for spec in specs] == specs


REFUSED = (
    "TOSA-1.1+INT", "TOSA-0.80+BI", "TOSA-2.0+FP", "TOSA-1.0", "TOSA-1.0+BI", "TOSA-1.0+FP+INT", "TOSA-1.0+INT+int61",
    "TOSA-1.0+FP+int16", "1.0+INT", "",
)  # fmt: skip


def test_what_cannot_be_had_is_refused(recorded: Recorded) -> None:
    asks = [partial(TosaSpec.parse, text) for text in REFUSED]
    recorded.check(refusals(*asks, partial(TosaSpec, "1.1", "INT")))


@pytest.mark.slow
def test_the_tables_are_upstreams() -> None:
    # "u55" is not an extension of TOSA but a mark for programs that an Ethos-U55 can run; --npu requests that.
    upstreams = {
        profile: tuple(name for name in names if name != "u55") for profile, names in Tosa_1_00.valid_extensions.items()
    }
    assert upstreams == TosaSpec.EXTENSIONS
    assert set(Tosa_1_00.available_profiles) == set(get_args(TosaProfile)) == set(TosaSpec.EXTENSIONS)
    versions = {str(version) for version in TosaSpecification._SUPPORTED_VERSIONS}
    assert set(TosaSpec.VERSIONS) < versions, "1.1 is left out on purpose: Vela 5.1 does not read it"
    for profile in get_args(TosaProfile):
        for extension in ("", *TosaSpec.EXTENSIONS[profile]):
            text = f"TOSA-1.0+{profile}" + (f"+{extension}" if extension else "")
            assert str(TosaSpecification.create_from_string(text)) == str(TosaSpec.parse(text)) == text
