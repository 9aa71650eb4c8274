"""torch's composite operators, collected once.

torch 2.13 goes through all registered operators to find the composite ones it may keep
(torch/_export/utils.py, `_collect_all_valid_cia_ops`). It does so whenever torch.export decomposes a program, and
whenever a table of decompositions is read: five times a lowering, with the same 557 operators each time. torch cannot
keep the result, because operators may be registered at any time. Here it is kept as long as the registry says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_known: dict[Any, set[Any]] = {}
"""The operators of the last collection, by what the registry said then."""


def collected_once(collect: Callable[[], set[Any]]) -> Callable[[], set[Any]]:
    """torch's function `collect`, called again only after operators have been registered. Each caller gets a copy."""
    import torch

    def remembered() -> set[Any]:
        registry = (
            tuple(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")),
            len(torch._C._dispatch_get_all_op_names()),
            tuple(torch.ops._dir),
        )
        if registry not in _known:
            found = collect()
            _known.clear()
            _known[registry] = found
        return set(_known[registry])

    return remembered
