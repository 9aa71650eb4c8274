"""The standard library's dataclasses, made in a third of the time.

A `run` makes 350 frozen dataclasses before its first line of work, and the standard library compiles seven methods for
each (0.7 ms). Here only `__init__` is compiled, when the first one is made; the other methods are shared, or closures.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, asdict, astuple, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

_FACTORY = type("Factory", (), {"__repr__": lambda self: "<factory>"})()
"""What a signature shows as the default of a field whose value is made."""

__all__ = ["asdict", "astuple", "dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Do what `dataclasses.dataclass` does. Classes that are not frozen, or have slots or an order, are its own."""
        ours = options.get("frozen") and options.keys() <= {"frozen", "eq", "kw_only"}
        make = _frozen if ours else dataclasses.dataclass
        return make(cls, **options) if cls is not None else lambda cls: make(cls, **options)


def _frozen(cls: Any, *, frozen: bool, eq: bool = True, kw_only: bool = False) -> type:
    own = {name for name, value in vars(cls).items() if (name, value) != ("__hash__", None)}  # None: has an `__eq__`
    derived = any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])  # of frozen classes, so it has to be said
    description, cls.__doc__ = cls.__doc__, "-"  # without one, it takes long to write one
    dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only, frozen=derived)
    cls.__doc__ = description
    cls.__dataclass_params__.frozen = frozen
    methods = {"__init__": _Init(cls), "__repr__": _repr, "__setattr__": _refuse, "__delattr__": _refuse}
    if eq:
        compared = _values([part.name for part in fields(cls) if part.compare])
        hashed = _values([part.name for part in fields(cls) if (part.compare if part.hash is None else part.hash)])
        methods["__eq__"] = lambda self, other: (
            compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented
        )
        methods["__hash__"] = lambda self: hash(hashed(self))
    for name in methods.keys() - own:
        setattr(cls, name, methods[name])
    return cls


class _Init:
    """The `__init__` of a class, which is compiled when it is asked for: of two classes in five none is made."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> Any:
        self._cls.__init__ = method = _init(self._cls)
        return method.__get__(instance, owner)


def _init(cls: type) -> Any:
    """Return an `__init__` as the standard library's. (What is set in `__dict__` is read more slowly.)"""
    place: dict[str, Any] = {"__factory": _FACTORY, "__set": object.__setattr__}
    lines = ["pass"]
    parameters: dict[bool, list[str]] = {False: [], True: ["*"]}
    for part in fields(cls):
        name, made = part.name, part.default_factory is not MISSING
        place[f"__default_{name}"] = part.default_factory if made else part.default
        value = name
        if made:
            value = f"__default_{name}() if {name} is __factory else {name}" if part.init else f"__default_{name}()"
        if part.init:
            default = "" if place[f"__default_{name}"] is MISSING else "=__factory" if made else f"=__default_{name}"
            parameters[bool(part.kw_only)].append(name + default)
        if part.init or made:
            lines.append(f"__set(self, {name!r}, {value})")
    lines += ["self.__post_init__()"] * hasattr(cls, "__post_init__")
    by_name = parameters[True] if len(parameters[True]) > 1 else []
    exec(f"def __init__({', '.join(['self', *parameters[False], *by_name])}):\n " + "\n ".join(lines), place)
    method = place["__init__"]
    method.__qualname__, method.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    method.__annotations__ = {part.name: part.type for part in fields(cls) if part.init} | {"return": None}
    return method


def _values(names: list[str]) -> Any:
    return attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)


def _repr(self: Any) -> str:
    shown = (f"{part.name}={getattr(self, part.name)!r}" for part in fields(self) if part.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse(self: object, name: str, *value: object) -> None:
    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")
