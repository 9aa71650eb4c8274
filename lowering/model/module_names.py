"""The names of a model's modules, as its graph has them: "head", "blocks.3"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ethos_hil.base.errors import UsageError

if TYPE_CHECKING:
    import torch

_MOST = 12
"""How many names an error lists."""


def modules_in(graphs: Iterable[torch.fx.GraphModule]) -> tuple[str, ...]:
    """Return the names of the modules whose calls are in graphs, in the order of their first call."""
    found: dict[str, None] = {}
    for graph in graphs:
        for node in graph.graph.nodes:
            for path, _ in (node.meta.get("nn_module_stack") or {}).values():
                found.setdefault(path, None)
    return tuple(path for path in found if path)


def chosen_modules(wanted: Sequence[str], known: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the modules that the user names, and those below a name that only contains others, as a list does.

    Args:
        wanted: their names, as the user gave them.
        known: the names of the model's modules.
        where: the model, in an error.

    Raises:
        UsageError: one is not; the error lists names that are alike.
    """
    found: dict[str, None] = {}
    for name in wanted:
        below = [path for path in known if path == name or path.startswith(f"{name}.")]
        if below:
            found |= dict.fromkeys([name] if name in known else below)
            continue
        close = difflib.get_close_matches(name, known, n=3)
        listed = f"did you mean {' or '.join(close)}? " if close else ""
        more = ", ..." if len(known) > _MOST else ""
        names = f"its modules: {', '.join(known[:_MOST])}{more}" if known else "it has no modules of its own"
        raise UsageError(f"{where} calls no module {name!r}", hint=f"{listed}{names}")
    return tuple(found)
