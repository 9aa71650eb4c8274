"""What a process must do to run a mutant, or to say which lines it reaches. Only of the standard library: every Python
process that a test starts loads it first, as `sitecustomize`.
"""

from __future__ import annotations

import gc
import marshal
import os
import sys
import threading
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

REACHED = "ETHOS_HIL_REACHED"
"""Environment variable: the file to which lines of FILES are written, each when it is first reached."""
FILES = "ETHOS_HIL_REACHED_FILES"
"""Environment variable: which sources are watched; real paths, one a line."""
MUTATED = "ETHOS_HIL_MUTATED"
"""Environment variable: the real path of a source, a line break, and the file that has its code with the change."""


def watch() -> None:
    """From now on write each line of the sources of FILES to REACHED, when it is first reached."""
    wanted = set(os.environ[FILES].splitlines())
    target = os.environ[REACHED]
    real: dict[str, str] = {}
    seen: set[tuple[str, int]] = set()

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        place = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and place not in seen:
            seen.add(place)
            file = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{real[place[0]]}:{place[1]}\n".encode())
            os.close(file)
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in real:
            path = os.path.realpath(name)
            real[name] = path if path in wanted else ""
        return on_line if real[name] else None

    threading.settrace(on_call)
    sys.settrace(on_call)


class _MutantLoader(Loader):
    """Not a loader of sources: pytest would compile such a one's source itself, for its assertions."""

    def __init__(self, code: str) -> None:
        self._code = code

    def exec_module(self, module: ModuleType) -> None:
        exec(marshal.loads(Path(self._code).read_bytes()), module.__dict__)


def import_mutated() -> None:
    """From now on import the source of MUTATED with its change."""
    source, code = os.environ[MUTATED].splitlines()
    find, name = PathFinder.find_spec, Path(source).name

    def changed(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = find(fullname, path, target)
        if spec and spec.origin and spec.origin.endswith(name) and os.path.realpath(spec.origin) == source:
            spec.loader = _MutantLoader(code)
        return spec

    PathFinder.find_spec = changed  # type: ignore[method-assign]


def swap(original: CodeType, mutated: CodeType) -> int:
    """Give every function of a module, wherever it is kept, the code that it has in the mutant. Return how many got it.

    Args:
        original: the module's code.
        mutated: the same with the change.
    """
    new: dict[tuple[str, int], list[tuple[CodeType, CodeType]]] = {}
    for old, changed in _differing(original, mutated):
        new.setdefault(_place(old), []).append((old, changed))
    count = 0
    gc.unfreeze()  # frozen objects are not listed
    for function in gc.get_objects():
        if type(function) is FunctionType and _place(function.__code__) in new:
            code, pairs = function.__code__, new[_place(function.__code__)]
            if os.path.realpath(code.co_filename) == os.path.realpath(original.co_filename):
                # Not `==`: what Python 3.11 has noted in a code that ran counts there. Two lambdas may share a line.
                fitting = [changed for old, changed in pairs if len(pairs) == 1 or old.co_code == code.co_code]
                function.__code__ = fitting[0] if fitting else code
                count += len(fitting) > 0
    return count


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _differing(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]]:
    """Return the functions in a code that differ in another, at any depth."""
    pairs = []
    theirs = [code for code in new.co_consts if isinstance(code, CodeType)]
    for code in (const for const in old.co_consts if isinstance(const, CodeType)):
        same_name = [candidate for candidate in theirs if _place(candidate) == _place(code)]
        if code not in same_name and same_name:
            other = next((candidate for candidate in same_name if candidate not in old.co_consts), same_name[0])
            pairs += [(code, other), *_differing(code, other)]
    return pairs


if __name__ == "__main__":
    if os.environ.get(REACHED):
        watch()
    if os.environ.get(MUTATED):
        import_mutated()
