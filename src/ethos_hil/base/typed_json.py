"""Dataclasses from JSON, by the types of their fields.

A field that is not known, as of a later version, is left out, and one that is missing has its default. Nothing is
converted silently: a text is not a number, and JSON's numbers stay as they are written.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, TypeVar

import cattrs
import cattrs.errors

T = TypeVar("T")
NOT_FINITE = ("inf", "-inf", "nan")
"""Numbers that JSON lacks, as the texts that stand for them."""
_LARGEST = 1 << 64
"""No counter counts beyond it, and what is computed with it fits a double."""


def new_converter(*, bounded: bool = False) -> cattrs.Converter:
    """Return a converter for `from_json`, to which a module adds hooks for what only it knows.

    Args:
        bounded: whether numbers of a float are finite and no larger than integers may be.
    """
    converter = cattrs.Converter(detailed_validation=False)
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, _exactly)
    converter.register_structure_hook(float, _bounded_number if bounded else _number)
    converter.register_structure_hook(enum.StrEnum, lambda value, kind: kind(value))  # else taken for a str
    return converter


def from_json(kind: type[T], data: Any, always: Iterable[str] = (), converter: cattrs.Converter | None = None) -> T:
    """Return the value of a type, such as a dataclass or a tuple of them, that JSON stands for.

    Args:
        kind: the type.
        data: what `json.loads` returned.
        always: fields that were always written, though they have a default.
        converter: one with more hooks than `new_converter` has.

    Raises:
        ValueError: a field without a default is missing, or a value has another type; the message says where.
    """
    converter = converter or _PLAIN
    try:
        return converter.structure(require(data, always), kind)
    except (KeyError, TypeError, ValueError, AttributeError, cattrs.errors.CattrsError) as error:
        raise ValueError(_explain(kind, data, converter) or _text(error, None)) from error


def require(data: Any, names: Iterable[str]) -> Any:
    """Return a JSON object that has these fields. Raises KeyError for one that is missing."""
    for name in names:
        data[name]
    return data


def _explain(kind: type[Any], data: Any, converter: cattrs.Converter) -> str:
    """Return what is wrong and where, found more slowly; "" where the types are right."""
    try:
        converter.copy(detailed_validation=True).structure(data, kind)
    except Exception as error:  # groups of exceptions, too
        problem = cattrs.transform_error(error, path="", format_exception=_text)[0]
        what, _, where = problem.rpartition(" @ ")
        return f"{where.lstrip('.')}: {what}" if where else what
    return ""


def _text(error: BaseException, _: type[Any] | None) -> str:
    return f"there is no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)


def _exactly(value: Any, kind: type) -> Any:
    if value.__class__ is not kind or (isinstance(value, int) and abs(value) > _LARGEST):
        raise TypeError(f"{value!r:.50} is not {kind.__name__}")
    return value


def _number(value: Any, kind: type) -> float:
    if isinstance(value, str) and value in NOT_FINITE:
        return float(value)
    if value.__class__ not in (int, float):
        raise TypeError(f"{value!r:.50} is not a number")
    return value


def _bounded_number(value: Any, kind: type) -> float:
    if isinstance(value, str) or not abs(number := _number(value, kind)) <= _LARGEST:  # nor NaN
        raise TypeError(f"{value!r:.50} is not a number")
    return number


_PLAIN = new_converter()
