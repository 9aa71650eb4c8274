"""The parts of a partition that is split, in an order that is the same in every process.

A partition that depends on itself, as in an attention, is split into connected parts by upstream's partitioner
(executorch 1.4.1, backends/arm/tosa/partitioner.py). They are numbered in the order of a set of nodes: by their
addresses in memory. These differ from process to process, and with them the order of delegates, and the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    Nodes = set[torch.fx.Node]


def parts_in_order(upstream: Callable[[Nodes], list[Nodes]]) -> Callable[[Nodes], list[Nodes]]:
    """Return a function that gives the parts of a partition in the order of their first nodes."""

    def components(nodes: Nodes) -> list[Nodes]:
        found = upstream(nodes)
        graph = next(iter(nodes)).graph
        place = {node: number for number, node in enumerate(graph.nodes)}
        return sorted(found, key=lambda part: min(place[node] for node in part))

    return components
