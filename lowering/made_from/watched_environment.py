"""Reads of environment variables, reported to one listener.

Python has no audit event for them. So the mappings `os.environ` and `os.environb` get a class that reports. They stay
the objects they are, so code that imported them before is watched as well. `posix.environ` and C's `getenv` are not
watched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

Listener = Callable[[str | None, str | None], None]
"""Called with the name and the value of a variable that is read, None as value if it is not set; (None, None) where all
are read.
"""
_heard: list[Listener] = []


class WatchedEnvironment(type(os.environ)):  # type: ignore[misc]
    """An `os._Environ` that reports what is read; its other operations (get, in, pop, copy, ...) use these."""

    def __getitem__(self, key: Any) -> Any:
        """Return a variable's value, and report it."""
        try:
            value = super().__getitem__(key)
        except KeyError:
            _report(key, None)
            raise
        _report(key, value)
        return value

    def __iter__(self) -> Iterator[Any]:
        """Report that all are read."""
        for listener in _heard:
            listener(None, None)
        return super().__iter__()

    def __repr__(self) -> str:
        """Report that all are read."""
        for listener in _heard:
            listener(None, None)
        return super().__repr__()


_PLAIN = type(os.environ)


def watch(listener: Listener) -> None:
    """Report every read to `listener`, until `restore`."""
    if listener not in _heard:
        _heard.append(listener)
    for mapping in _mappings():
        mapping.__class__ = WatchedEnvironment


def restore() -> None:
    """Give the mappings their own class back."""
    _heard.clear()
    for mapping in _mappings():
        mapping.__class__ = _PLAIN


def _mappings() -> Iterator[Any]:
    """Return the mappings; a test or a module may have put something else in their place."""
    for mapping in (os.environ, os.environb):
        if type(mapping) in (_PLAIN, WatchedEnvironment):
            yield mapping


def _report(key: Any, value: Any) -> None:
    name = os.fsdecode(key) if isinstance(key, str | bytes) else None
    if name is not None:
        for listener in _heard:
            listener(name, None if value is None else os.fsdecode(value))
