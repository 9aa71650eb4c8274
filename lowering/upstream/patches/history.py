"""Where a node of a graph comes from, shared by the nodes that come from there.

torch 2.13 notes in each node what it was made from, and what that was made from. For each new node it copies the whole
history (torch/fx/traceback.py, `NodeSource`), which grows with every pass. Nothing changes an entry once it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def shared_history(_: None) -> Callable[[Any, dict[int, Any]], Any]:
    """A `__deepcopy__` for NodeSource, which has none of its own: the copy of an entry is the entry."""

    def itself(entry: Any, memo: dict[int, Any]) -> Any:
        return entry

    return itself
