"""Where an operator of TOSA comes from: the first of a chain of graphs, whatever ids these have. Damaged programs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.formats.tosa import TosaGraph, _root, _Texts
from ethos_hil.lowering.testing.tosa_graph import Graph


def source(name: str, graph: int, *origins: Any) -> Any:
    from torch.fx.traceback import NodeSource

    node = NodeSource(None)
    node.node_info = NodeSource.NodeInfo(name, f"aten.{name}", graph)
    node.from_node = list(origins)
    return node


def root(*sources: Any) -> str:
    """Return an entry of the trace in upstream's form."""
    from executorch.backends.arm.debug.schema import TorchDebugSchema

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


def test_of_several_sources_the_last_is_followed_as_debug_handles_do() -> None:
    from executorch.exir.debug_handle_utils import get_greatest_ancestor_node_identifier
    from torch.fx import Graph

    a, b = source("a_1", 2, source("a", 1)), source("b_1", 2, source("c", 1), source("b", 1))
    node = Graph().placeholder("x")
    for sources in ([a, b], [b, a], [source("both", 3, a, b)], [source("both", 3, b, a)], [source("one", 3, b)]):
        node.meta["from_node"] = sources
        assert root(*sources) == get_greatest_ancestor_node_identifier(node)


def test_without_a_trace_there_is_none() -> None:
    assert _root("No node trace available.") is None
    assert _root([]) is None


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
        other[at : at + 4] = chance.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, chance.randrange(2**32))).to_bytes(
            4, "little"
        )
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
