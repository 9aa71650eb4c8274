"""What an exception of the user's code says, in a few words."""

from __future__ import annotations

import traceback
from pathlib import Path

from ethos_hil.lowering.user_code.source import is_framework_file

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
