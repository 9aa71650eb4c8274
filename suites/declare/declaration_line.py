"""The line in a test file that declares a case. Data has no line of its own, so the source is searched for the name."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path


def line_of(file: Path, *names: str) -> int | None:
    """Return the line of the call whose first argument is the last of `names`, inside the call with the name before it.

    If a name is not written out, as in a loop, it is the line of the last name that is; None if none is.

    Args:
        file: the test file.
        names: the operator's name and the case's.
    """
    line = None
    calls = _calls(file, file.stat().st_mtime_ns)
    for name in names:
        calls = tuple(call for call in calls if call[0] == name)
        if not calls:
            break
        line = calls[0][1]
        calls = tuple(inner for call in calls for inner in call[2])
    return line


_Call = tuple[str, int, tuple["_Call", ...]]
"""A call whose first argument is a text: that text, its line, and the calls of this kind inside it."""


@functools.lru_cache(maxsize=100)
def _calls(file: Path, _modified: int) -> tuple[_Call, ...]:
    return tuple(_inside(ast.parse(file.read_bytes())))


def _inside(node: ast.AST) -> Iterator[_Call]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Call(args=[ast.Constant(value=str(name)), *_]):
                yield name, child.lineno, tuple(_inside(child))
            case _:
                yield from _inside(child)
