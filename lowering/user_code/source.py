"""From the stack trace of a traced operator to the line of the user's file that called it.

torch.export records for every operator the Python stack from the model's forward inwards; passes of the Arm backend
append their own frames. The user's frame is the innermost one outside the frameworks.
"""

from __future__ import annotations

import importlib.util
import re
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
