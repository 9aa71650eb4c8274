"""torch's composite operators, collected once.

Whenever torch.export decomposes a program, and whenever a table of decompositions is read, torch 2.13 goes through all
registered operators to find the composite ones it may keep (torch/_export/utils.py, `_collect_all_valid_cia_ops`):
five times a lowering, always with the same 557 operators as the result. torch does not keep the result since operators
may be registered at any time; so here it is kept only as long as the registry says the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ethos_hil.lowering.upstream.patches.replaced import replaced

_known: dict[Any, set[Any]] = {}
"""The operators, by what the registry said when they were collected: the last such collection."""


@contextmanager
def collected_once() -> Iterator[None]:
    """While inside, torch collects its composite operators again only after operators have been registered."""
    import torch
    from torch._export.utils import _collect_all_valid_cia_ops as collect
    from torch.export import decomp_utils, exported_program

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

    name = collect.__name__
    with replaced(decomp_utils, name, remembered), replaced(exported_program, name, remembered):
        yield
