"""Whether values that were read from a stranger's JSON have the types that their dataclass declares."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

_LARGEST = 1 << 64


def mistyped(value: object, kind: Any, where: str) -> str | None:
    """Return what is wrong with a value, or None.

    Args:
        value: an instance of a dataclass with everything in it, or a part of one.
        kind: its type, or how a dataclass declares it.
        where: what the answer calls it.
    """
    return next(_wrong(value, kind, where), None)


def _wrong(value: object, kind: Any, where: str) -> Iterator[str]:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        if value not in parts:
            yield _said(value, kind, where)
    elif origin in (typing.Union, types.UnionType):
        if all(mistyped(value, part, where) is not None for part in parts):
            yield _said(value, kind, where)
    elif origin is tuple:
        yield from _wrong_tuple(value, kind, parts, where)
    elif origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            yield _said(value, kind, where)
            return
        for key, item in value.items():
            yield from _wrong(key, parts[0], f"a key of {where}")
            yield from _wrong(item, parts[1], f"{where}[{key!r:.50}]")
    elif kind in (int, float):
        allowed = int if kind is int else int | float
        if isinstance(value, bool) or not isinstance(value, allowed) or not abs(value) <= _LARGEST:
            yield _said(value, kind, where)
    elif not isinstance(value, origin or kind):
        yield _said(value, kind, where)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name, declared in _declared(type(value)).items():
            yield from _wrong(getattr(value, name), declared, f"{where}.{name}")


def _wrong_tuple(value: object, kind: Any, parts: tuple[Any, ...], where: str) -> Iterator[str]:
    if not isinstance(value, tuple):
        yield _said(value, kind, where)
    elif len(parts) == 2 and parts[1] is Ellipsis:
        for index, item in enumerate(value):
            yield from _wrong(item, parts[0], f"{where}[{index}]")
    elif len(parts) != len(value):
        yield f"{where} has {len(value)} parts, not {len(parts)}"
    else:
        for index, (item, part) in enumerate(zip(value, parts, strict=True)):
            yield from _wrong(item, part, f"{where}[{index}]")


@functools.cache
def _declared(cls: type[Any]) -> dict[str, Any]:
    """Return the types of a dataclass's fields, as they are declared."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _said(value: object, kind: Any, where: str) -> str:
    return f"{where} is {value!r:.60}, not {getattr(kind, '__name__', kind)}"
