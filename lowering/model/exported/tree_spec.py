"""The trees of containers that a program takes and returns, as a .pt2 describes them.

torch makes the types that such a tree names, with what the file says about them; for some it imports a module. Only
lists, tuples and dictionaries are accepted.
"""

from __future__ import annotations

import json
from typing import Any

from ethos_hil.lowering.model.exported.refused import RefusedPart, is_name, quoted

_SEQUENCES = ("builtins.tuple", "builtins.list", "torch.fx.immutable_collections.immutable_list")
_MAPPINGS = ("builtins.dict", "collections.OrderedDict", "torch.fx.immutable_collections.immutable_dict")
_VERSION = 1
_MOST_DEPTH = 100


def check_tree(document: Any, where: str, *, names: bool) -> None:
    """Check a tree.

    Args:
        document: the tree.
        where: its place, for errors.
        names: whether the keys of dictionaries have to be names: torch makes source of those of keyword arguments.

    Raises:
        RefusedPart: it has other containers than lists, tuples and dictionaries, or other keys than texts and numbers.
    """
    if not isinstance(document, list) or len(document) != 2 or document[0] != _VERSION:
        raise RefusedPart(where, f"not a tree of containers: {quoted(document)}")
    _check_node(document[1], where, 0, names)


def _check_node(node: Any, where: str, depth: int, names: bool) -> None:
    if not isinstance(node, dict) or set(node) != {"type", "context", "children_spec"} or depth > _MOST_DEPTH:
        raise RefusedPart(where, f"not a container: {quoted(node)}")
    kind, context, children = node["type"], node["context"], node["children_spec"]
    if not isinstance(children, list):
        raise RefusedPart(where, f"not a list of containers: {quoted(children)}")
    if kind is None:
        plain = context is None and not children
    elif kind in _SEQUENCES:
        plain = context == "null"
    else:
        plain = kind in _MAPPINGS and _are_keys(context, len(children), names)
    if not plain:
        raise RefusedPart(where, f"a container of type {quoted(kind)} with {quoted(context)}")
    for child in children:
        _check_node(child, where, depth + 1, names)


def _are_keys(context: Any, count: int, names: bool) -> bool:
    try:
        keys = json.loads(context)
    except (TypeError, ValueError, RecursionError):
        return False
    if not isinstance(keys, list) or len(keys) != count:
        return False
    return all(type(key) is int or (isinstance(key, str) and (not names or is_name(key))) for key in keys)
