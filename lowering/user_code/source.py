"""From the stack trace of an operator or an exception to the line of the user's file that it comes from.

torch.export records for every operator the Python stack from the model's forward inwards; passes of the Arm backend
append their own frames. The user's frame is the innermost one outside the frameworks.
"""

from __future__ import annotations

import importlib.util
import re
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FRAMEWORKS = ("torch", "torchao", "executorch")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
# Traces in a .pt2 may come from another machine, with other folders.
_FRAMEWORK_PATH = re.compile(rf"/(?:site|dist)-packages/(?:{'|'.join(_FRAMEWORKS)})/")


@cache
def _framework_folders() -> tuple[str, ...]:
    folders = []
    for name in _FRAMEWORKS:
        spec = importlib.util.find_spec(name)
        folders += [f"{location}/" for location in (spec.submodule_search_locations or [])] if spec else []
    return tuple(folders)


def is_framework_file(path: str) -> bool:
    """Return whether a file belongs to torch, torchao or executorch, or is generated code without a file."""
    return path.startswith(("<", *_framework_folders())) or bool(_FRAMEWORK_PATH.search(path))


@dataclass(frozen=True)
class Sources:
    """Names the lines of source files for the user.

    Attributes:
        root: the folder that names are relative to, usually that of the model's file; for files elsewhere only the last
            component is named. So the names do not change when the folder is moved.
    """

    root: Path | None = None

    def name(self, file: str, line: int | str) -> str:
        """Return the name of a line, for example "net.py:12" or "layers/blocks.py:7"."""
        path = Path(file)
        if self.root is not None and path.is_relative_to(self.root):
            return f"{path.relative_to(self.root).as_posix()}:{line}"
        return f"{path.name}:{line}"

    def locate(self, stack_trace: str | None) -> str | None:
        """Return the innermost line outside the frameworks in a trace (outermost call first), or None."""
        for match in reversed(list(_FRAME.finditer(stack_trace or ""))):
            if not is_framework_file(match["file"]):
                return self.name(match["file"], match["line"])
        return None


_LOWERING = Path(__file__).parents[1]
_OURS = (_LOWERING, *(_LOWERING / name for name in ("model", "upstream", "user_code")))
"""The folders of the modules that call the user's code."""


def summary(error: BaseException) -> str:
    """Return the exception's type and the first line of its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def user_line(error: BaseException) -> str:
    """Return the place in the user's own files that raised the exception, " (net.py:12)", or ""."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}:{error.lineno})"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        name = frame.filename
        if Path(name).parent not in _OURS and not is_framework_file(name) and "importlib" not in name:
            return f" ({Path(name).name}:{frame.lineno})"
    return ""
