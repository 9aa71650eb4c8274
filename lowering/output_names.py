"""Names of a program's outputs: those that the model gives them, by the keys of a dictionary, or their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_NUMBERED = re.compile(r"output (\d+)")
_UNUSABLE = re.compile(r"[/\\\x00-\x1f\x7f]")
"""Characters that the name of a member of an archive should not have."""
_LONGEST = 100
"""Characters of a name. A longer one is replaced by a number."""


def numbered(count: int) -> tuple[str, ...]:
    """Return the names of outputs that have none: "output 0", "output 1", ..."""
    return tuple(f"output {index}" for index in range(count))


def fitting(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the names of a number of outputs; numbers, if there are not as many names."""
    return tuple(names) if len(names) == count else numbered(count)


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
    usable = all(0 < len(name) <= _LONGEST for name in names)
    return names if usable and len(names) == count and _distinct(names) else plain


def archive_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of outputs in an archive of arrays: "output 1" is output_1, others keep their name.

    Args:
        names: the outputs' names.
    """
    found = tuple(_NUMBERED.sub(r"output_\1", _UNUSABLE.sub("_", name)) for name in names)
    return found if len(set(found)) == len(found) else tuple(f"output_{index}" for index in range(len(names)))


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
