"""Where a node of a graph comes from, shared by the nodes that come from there.

torch 2.13 notes in each node what it was made from, and what that was made from; for each new node it copies the whole
history (torch/fx/traceback.py, `NodeSource`), which grows with every pass. Nobody changes an entry once it is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ethos_hil.lowering.upstream.patches.replaced import replaced


@contextmanager
def shared_history() -> Iterator[None]:
    """While inside, copies of nodes have the entries of the originals."""
    from torch.fx.traceback import NodeSource

    def itself(entry: NodeSource, memo: dict[int, Any]) -> NodeSource:
        return entry

    with replaced(NodeSource, "__deepcopy__", itself):
        yield
