"""Partitions, and the parts of one that is split, come in one order, whatever sets of Python make of them."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from ethos_hil.lowering.upstream.patches.in_executorch import parts_in_order
from ethos_hil.lowering.upstream.patches.patch import resolve
from ethos_hil.lowering.upstream.patches.table import PARTS


def chains(count: int) -> list[tuple[Node, Node]]:
    """Pairs of operators of one graph, in its order. Those that come first were made last."""
    graph = Graph()
    source = graph.placeholder("x")
    pairs: list[tuple[Node, Node]] = []
    for _ in range(count):
        with graph.inserting_after(source):
            first = graph.call_function(torch.relu, (source,))
        with graph.inserting_after(first):
            pairs.insert(0, (first, graph.call_function(torch.neg, (first,))))
    return pairs


def test_parts_are_upstreams_in_the_order_of_the_graph() -> None:
    (patch,) = PARTS
    upstream = resolve(patch.target)
    pairs = chains(20)
    nodes = {node for pair in pairs for node in pair}
    wanted = [set(pair) for pair in pairs]
    assert parts_in_order(upstream)(nodes) == wanted
    own = upstream(nodes)
    assert sorted(map(wanted.index, own)) == list(range(20))
    assert own != wanted, "upstream has an order of its own now: the patch can go"
