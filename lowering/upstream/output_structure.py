"""The names that a model gives its outputs, by the structure of what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ethos_hil.lowering.program.output_names import LONGEST, numbered


def output_names(structure: Any) -> tuple[str, ...]:
    """Return the names of a model's outputs, in the order of the program's.

    An output below a dictionary, or below a tuple with named fields, has the keys on its way, joined by dots
    ("head.boxes", "masks.0"). Every other output has its number among all outputs ("output 1"). If two outputs would
    have the same name, or one would have none or a very long one, all have their numbers.

    Args:
        structure: the structure of what forward returns (torch.utils._pytree.TreeSpec).
    """
    from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

    count = structure.num_leaves
    paths, _ = tree_flatten_with_path(tree_unflatten(range(count), structure))
    names = tuple(_name(path, number) for number, (path, _) in enumerate(paths))
    plain = numbered(count)
    usable = all(0 < len(name) <= LONGEST for name in names)
    return names if usable and len(names) == count and _distinct(names) else plain


def _distinct(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _name(path: Sequence[Any], number: int) -> str:
    from torch.utils._pytree import SequenceKey

    if all(isinstance(key, SequenceKey) for key in path):
        return f"output {number}"
    return ".".join(str(_key(key)) for key in path)


def _key(entry: Any) -> Any:
    """Return the key, index or field of a step in a structure."""
    for attribute in ("key", "name", "idx"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return str(entry).strip(".[]'")
