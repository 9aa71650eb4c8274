"""Containers of tensors, taken apart and put together as torch.export does (torch 2.13, torch.utils._pytree)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Path = tuple[Any, ...]
"""The keys on the way to a leaf: of a dictionary, fields, or numbers in a list or tuple."""


def flatten(value: Any) -> tuple[list[Any], list[Path], Any]:
    """Return the leaves of a container, the way to each, and the container's structure. None is a leaf."""
    from torch.utils._pytree import tree_flatten_with_path

    pairs, spec = tree_flatten_with_path(value)
    return [leaf for _, leaf in pairs], [tuple(map(key_of, path)) for path, _ in pairs], spec


def key_of(step: Any) -> Any:
    """Return the key, field or index of a step on the way to a leaf."""
    for attribute in ("key", "name", "idx"):
        if hasattr(step, attribute):
            return getattr(step, attribute)
    return str(step).strip(".[]'")


def unflatten(leaves: Sequence[Any], spec: Any) -> Any:
    """Return the container of a structure with these leaves."""
    from torch.utils._pytree import tree_unflatten

    return tree_unflatten(list(leaves), spec)


def replace_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a container with what a function makes of each leaf in its place."""
    from torch.utils._pytree import tree_map

    return tree_map(function, value)
