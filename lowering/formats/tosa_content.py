"""What a TOSA program computes, as a digest: without what only people read.

The bytes of a program depend on where it was made: Arm's backend writes Python's stack into it, and its length stays
where `ethos_hil.lowering.formats.tosa.without_locations` blanks it. They also depend on the names of tensors, which
passes choose. So the digest is of operators, attributes, constants, shapes and types, in their order, and a name counts
only as what it connects.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tosa.Attribute import Attribute
from tosa.TosaGraph import TosaGraph as Buffer

from ethos_hil.base.errors import UsageError

_LEFT_OUT = frozenset({"Location", "SoftwareVersion"})
_NO_FIELD = ("AsNumpy", "Length", "IsNone")
_ATTRIBUTES = {number: name for name, number in vars(Attribute).items() if isinstance(number, int)}


def content_digest(tosa: bytes) -> str:
    """Return the SHA-256, hexadecimal, of what a program computes. Raises UsageError if it is damaged."""
    digest = hashlib.sha256()
    names: dict[bytes, int] = {}
    try:
        for part in _parts(Buffer.GetRootAs(tosa, 0), names):
            digest.update(part)
    except Exception as error:  # the generated classes check nothing
        raise UsageError(
            f"a TOSA program is damaged: {type(error).__name__}: {error}", hint="lower the model again"
        ) from error
    return digest.hexdigest()


def _parts(table: Any, names: dict[bytes, int]) -> Iterator[bytes]:
    """Yield all that a table has, field by field."""
    of: Any = type(table)
    yield f"<{of.__name__}>".encode()
    for name, is_vector in _fields(of):
        if name in _LEFT_OUT:
            continue
        yield f"{name}=".encode()
        field: Callable[..., Any] = getattr(table, name)
        whole = getattr(table, f"{name}AsNumpy", None)
        if is_vector and whole is not None:
            # 0 where there is no such vector
            array = whole()
            yield b"-" if isinstance(array, int) else f"{array.dtype.str}{array.size}:".encode() + array.tobytes()
            continue
        values = [field(at) for at in range(getattr(table, f"{name}Length")())] if is_vector else [field()]
        yield f"{len(values)}:".encode()
        for value in values:
            yield from _value(_attribute(table, value) if name == "Attribute" else value, names)


def _value(value: Any, names: dict[bytes, int]) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield f"#{names.setdefault(value, len(names))};".encode()
    elif value is None or isinstance(value, int | float | bool):
        yield f"{value!r};".encode()
    else:
        yield from _parts(value, names)


def _attribute(operator: Any, raw: Any) -> Any:
    """Return the attribute of an operator as a table of its own class, or None."""
    if raw is None or not operator.AttributeType():
        return None
    name = _ATTRIBUTES[operator.AttributeType()]
    found = getattr(importlib.import_module(f"tosa.{name}"), name)()
    found.Init(raw.Bytes, raw.Pos)
    return found


@cache
def _fields(of: type) -> tuple[tuple[str, bool], ...]:
    """Return the names of a generated class's fields, each with whether it is a vector."""
    found = []
    for name, method in inspect.getmembers(of, inspect.isfunction):
        if name[0].isupper() and name != "Init" and not name.endswith(_NO_FIELD):
            found.append((name, "j" in inspect.signature(method).parameters))
    return tuple(found)
