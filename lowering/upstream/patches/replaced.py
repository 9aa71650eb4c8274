"""An attribute of a module or class, replaced for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: object, *, adds: bool = False) -> Iterator[None]:
    """While inside, the attribute is `value`. Afterwards the owner is as it was.

    Args:
        owner: a module or a class.
        name: the attribute, which the owner has itself or inherits.
        value: what it is while inside.
        adds: the owner must not have the attribute: it is added.

    Raises:
        AttributeError: the owner lacks the attribute; with `adds`, it has it.
    """
    if hasattr(owner, name) is adds:
        raise AttributeError(f"{owner!r} has {'already an' if adds else 'no'} attribute {name!r}")
    own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
