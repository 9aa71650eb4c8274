"""What a process must do to run a mutant, or to say which lines it reaches. Only of the standard library: every Python
process that a test starts loads it first, as `sitecustomize`.
"""

from __future__ import annotations

import gc
import marshal
import os
import sys
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, FunctionType
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


def import_mutated() -> None:
    """From now on import the source of MUTATED with its change."""
    source, code = os.environ[MUTATED].splitlines()
    get_code = SourceFileLoader.get_code

    def changed(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if os.path.realpath(self.path) == source:
            made: CodeType = marshal.loads(Path(code).read_bytes())
            return made
        return get_code(self, fullname)

    SourceFileLoader.get_code = changed  # type: ignore[method-assign, assignment]


def swap(original: CodeType, mutated: CodeType) -> int:
    """Give every function of a module, wherever it is kept, the code that it has in the mutant. Return how many got it.

    Args:
        original: the module's code.
        mutated: the same with the change.
    """
    new = dict(_differing(original, mutated))
    count = 0
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_name in {code.co_name for code in new}:
            code = function.__code__
            if code in new and os.path.realpath(code.co_filename) == os.path.realpath(original.co_filename):
                function.__code__ = new[code]
                count += 1
    return count


def _differing(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]]:
    """Return the functions in a code that differ in another, at any depth."""
    pairs = []
    theirs = [code for code in new.co_consts if isinstance(code, CodeType)]
    for code in (each for each in old.co_consts if isinstance(each, CodeType)):
        same_name = [
            each
            for each in theirs
            if (each.co_qualname, each.co_firstlineno) == (code.co_qualname, code.co_firstlineno)
        ]
        if code not in same_name and same_name:
            other = next((each for each in same_name if each not in old.co_consts), same_name[0])
            pairs += [(code, other), *_differing(code, other)]
    return pairs


if __name__ == "__main__":
    if os.environ.get(REACHED):
        watch()
    if os.environ.get(MUTATED):
        import_mutated()
